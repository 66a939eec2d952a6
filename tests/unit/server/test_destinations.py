"""Which URLs and which addresses are fetched from."""

import pytest

from encoder_server.destinations import check_addresses, destination
from encoder_server.errors import BadMediaError
from encoder_server.settings import FetchSettings

PUBLIC = FetchSettings(hosts=frozenset(), seconds=1)
LISTED = FetchSettings(hosts=frozenset({"store.local", "10.0.0.7:9000", "[fd00::7]"}), seconds=1)


def refusal(url: str, settings: FetchSettings = PUBLIC) -> str:
    with pytest.raises(BadMediaError) as refused:
        destination(url, "items[0].url", settings)
    assert refused.value.message.startswith("items[0].url: ")
    return refused.value.message


@pytest.mark.parametrize(
    "url",
    [
        "http://pictures.example/a.png",
        "HTTPS://Pictures.Example/a.png?signature=a%2Fb%3D",
        "https://pictures.example:443/",
        "http://8.8.8.8/a.png",
        "http://[2600::1]/a.png",
    ],
)
def test_an_ordinary_url_is_asked_for_as_it_was_written(url: str) -> None:
    path = url.partition("//")[2].partition("/")[2]
    assert str(destination(url, "items[0].url", PUBLIC)).endswith(path)


@pytest.mark.parametrize("url", ["ftp://a.example/b", "file:///etc/passwd", "gopher://a.example:70/", "/a", "a.png"])
def test_only_http_and_https_are_fetched(url: str) -> None:
    assert "only data:, http: and https: URLs" in refusal(url)


@pytest.mark.parametrize("url", ["http://me@a.example/", "http://me:secret@a.example/", "http://@a.example/"])
def test_a_url_that_names_a_user_is_refused(url: str) -> None:
    assert "user or a password" in refusal(url)


@pytest.mark.parametrize(
    "host",
    [
        *("2130706433", "0177.0.0.1", "0x7f.0.0.1", "127.1", "0x7f000001", "0", "8.8.8.8.", "8.8.2056"),
        *("a..b", ".a", "a.example.", "exa%6dple.com", "[fe80::1%25eth0]", "", "-a.example", "a" * 64 + ".example"),
    ],
)
def test_a_host_that_a_resolver_might_read_otherwise_is_refused(host: str) -> None:
    refusal(f"http://{host}/")


@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://a.example\\@127.0.0.1/",
            "http://a.example/\r\nHost: b",
            "http://a.example/ b",
            "http://bücher.example/",
        ),
        *("http://a.example/\x00", "http://[::1/", "http://a.example:99999/", "http:a.example", "http:///a"),
    ],
)
def test_what_two_parsers_might_read_in_two_ways_is_refused(url: str) -> None:
    refusal(url)


@pytest.mark.parametrize("url", ["http://a.example:22/", "https://a.example:8443/", "http://a.example:0/"])
def test_of_the_public_internet_only_the_ports_of_the_web_are_fetched_from(url: str) -> None:
    assert "only ports 80 and 443" in refusal(url)


def test_a_long_url_is_refused_with_the_limit() -> None:
    assert "2048" in refusal("http://a.example/" + "a" * 2048)


NOT_PUBLIC = """
    0.0.0.0 0.1.2.3 10.1.2.3 100.64.0.1 100.100.100.200 127.0.0.1 127.9.9.9 169.254.169.254 172.16.0.1 172.31.255.255
    192.0.0.192 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1
    255.255.255.255 168.63.129.16
    :: ::1 ::7f00:1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::ffff:0:8.8.8.8 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe
    64:ff9b:1::808:808 100::1 2001::1 2001:db8::1 2002:7f00:1:: 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1
    fe80::1%eth0 fec0::1 ff02::1 store.local
"""


@pytest.mark.parametrize("address", NOT_PUBLIC.split())
def test_no_address_that_is_not_public_is_connected_to(address: str) -> None:
    with pytest.raises(BadMediaError) as refused:
        check_addresses(["8.8.8.8", address], "items[0].url", PUBLIC)
    assert address not in refused.value.message


@pytest.mark.parametrize("address", ["8.8.8.8", "2600::1", "64:ff9b::808:808"])
def test_public_addresses_are_connected_to(address: str) -> None:
    check_addresses([address], "items[0].url", PUBLIC)


def test_a_name_without_an_address_is_not_connected_to() -> None:
    with pytest.raises(BadMediaError):
        check_addresses([], "items[0].url", PUBLIC)


@pytest.mark.parametrize("host", ["127.0.0.1", "169.254.169.254", "[::1]", "[::ffff:10.0.0.1]", "10.0.0.7"])
def test_an_address_in_the_url_is_checked_like_a_resolved_one(host: str) -> None:
    assert "not fetched from" in refusal(f"http://{host}/")


@pytest.mark.parametrize("url", ["http://store.local/a", "https://store.local/a", "http://10.0.0.7:9000/a"])
def test_a_listed_host_is_fetched_from_at_its_port(url: str) -> None:
    destination(url, "items[0].url", LISTED)
    destination("https://[fd00::7]/a", "items[0].url", LISTED)


@pytest.mark.parametrize(
    "url",
    [
        *("http://store.local:9000/", "http://10.0.0.7/", "http://a.store.local/", "http://8.8.8.8/"),
        *("http://store.local:443/", "http://[fd00::7]:9000/", "http://store.locals/"),
    ],
)
def test_where_hosts_are_listed_no_other_host_or_port_is_fetched_from(url: str) -> None:
    assert "not among those" in refusal(url, LISTED)


@pytest.mark.parametrize("address", ["10.0.0.7", "127.0.0.1", "192.168.1.1", "100.64.0.1", "fd00::7", "::1", "8.8.8.8"])
def test_a_listed_host_may_have_a_private_address(address: str) -> None:
    check_addresses([address], "items[0].url", LISTED)


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "fd00:ec2::254", "0.0.0.0", "::", "224.0.0.1", "fe80::1", "::ffff:10.0.0.7", "2002::1"],
)
def test_a_listed_host_never_leads_to_link_local_or_reserved_addresses(address: str) -> None:
    with pytest.raises(BadMediaError):
        check_addresses([address], "items[0].url", LISTED)
