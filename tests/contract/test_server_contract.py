"""The server's side of the contract: arguments, metric names, errors, states, words."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from encoder_server import cli, downward, errors
from encoder_server.lifecycle import State
from encoder_server.metrics import CODES, Metrics
from encoder_server.settings import FetchSettings

HERE = Path(__file__).parent
WIRE, METRICS, POD, WORDS, ORDERS = (
    json.loads((HERE / f"{name}.json").read_text()) for name in ("wire", "metrics", "pod", "vocabulary", "orders")
)


def tree(
    kind: type[errors.EncoderServerError] = errors.EncoderServerError,
) -> Iterator[type[errors.EncoderServerError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from tree(child)


def test_every_error_has_the_contracts_status_and_headers() -> None:
    table = {kind.code: kind for kind in tree() if "code" in vars(kind)}
    assert {code: kind.status for code, kind in table.items()} == WIRE["statusByCode"]
    assert {code for code, kind in table.items() if kind.closes} == set(WIRE["closesConnection"])
    assert {code for code, kind in table.items() if kind.retry_after is not None} == set(WIRE["retryAfter"])


def test_every_error_is_drawn_in_the_tree() -> None:
    for kind in tree():
        assert kind.__name__ in (errors.__doc__ or "")


def test_the_metric_families_are_the_contracts() -> None:
    families = {family.name: family for family in Metrics().registry.collect()}
    wanted = METRICS["server"]
    names = {name.removesuffix("_total") if entry["type"] == "counter" else name for name, entry in wanted.items()}
    assert set(families) == names
    for name, entry in wanted.items():
        family = families[name.removesuffix("_total") if entry["type"] == "counter" else name]
        assert family.type == entry["type"]


def test_every_closed_label_set_is_there_from_the_start() -> None:
    registry = Metrics().registry
    for family in registry.collect():
        entry = METRICS["server"].get(family.name) or METRICS["server"][f"{family.name}_total"]
        for label, values in entry["labels"].items():
            if values is not None:
                assert {sample.labels[label] for sample in family.samples} == set(values)
    count = sum(sample.name == "encoder_token_checks_total" for f in registry.collect() for sample in f.samples)
    assert count == 3 * 3 * 6
    assert set(CODES) == set(METRICS["server"]["encoder_requests_total"]["labels"]["code"])


def test_the_operators_arguments_are_understood(tmp_path: Path) -> None:
    place = {"/model": "model", "/processor": "processor", "/etc/encoderpool/pod": "pod"}
    for name in place.values():
        (tmp_path / name).mkdir()
    arguments = []
    for argument in [*POD["args"], *POD["optionalArgs"], *POD["mediaArgs"], POD["cudaArg"]]:
        name, equals, value = argument.rpartition("=")
        arguments.append(name + equals + str(tmp_path / place[value]) if value in place else argument)
    settings = cli.read_settings(arguments, {"POD_NAME": "vision-1", "POD_UID": "0b6b"})
    assert (settings.host, settings.port, settings.revision) == ("0.0.0.0", 8000, POD["revision"])
    assert str(settings.expected_identity) == f"/etc/encoderpool/expected/{POD['revision']}.json"
    assert settings.probe_period_seconds == 60
    limits = settings.limits
    assert (limits.max_in_flight, limits.deadline_seconds) == (64, 60)
    assert limits.modalities == frozenset({"audio", "image", "video"})
    assert (limits.max_frames, limits.max_video_seconds, limits.max_audio_seconds) == (768, 60, 30)
    assert f"--processor={tmp_path / 'processor'}" in settings.engines.arguments
    assert (settings.pod_name, settings.pod_uid) == ("vision-1", "0b6b")
    shutil.rmtree(tmp_path / "pod")


def test_from_where_media_are_fetched_is_understood(tmp_path: Path) -> None:
    def fetched(argument: str) -> FetchSettings | None:
        return cli.read_settings(["serve", str(tmp_path), argument], {}).fetch

    hosts = frozenset({"[fd00::7]", "media.storage.svc:9000"})
    assert fetched(POD["fetchArgs"]["Public"]) == FetchSettings(hosts=frozenset(), seconds=10)
    assert fetched(POD["fetchArgs"]["Listed"]) == FetchSettings(hosts=hosts, seconds=10)


def test_a_shared_cache_is_found_where_the_operator_says(tmp_path: Path) -> None:
    arguments = ["serve", str(tmp_path), *POD["redisArgs"]]
    by_name = cli.read_settings(arguments, {POD["redisVariable"]: "redis://r"}).redis
    by_file = cli.read_settings([*arguments, POD["redisSecretArg"]], {}).redis
    assert by_name is not None
    assert by_file is not None
    assert (by_name.url, by_name.scope) == ("redis://r", "models/vision")
    assert str(by_file.url_file) == f"{POD['redisVolume']['mountPath']}/{POD['redisVolume']['file']}"
    assert POD["redisVolume"]["mountPath"] == WORDS["mounts"]["redis"]


def test_an_order_as_the_operator_gives_it_is_heard() -> None:
    value = ORDERS["flush"]["value"]
    heard = downward.read_pod("", f"{downward.ORDER_FLUSH}={json.dumps(json.dumps(value))}")
    assert heard.unreadable == ()
    assert heard.flush is not None
    assert (heard.flush.id, heard.flush.boot_id) == (value["id"], value["bootId"])
    assert list(heard.flush.producers) == value["producers"]


def test_the_directory_alone_is_enough(tmp_path: Path) -> None:
    settings = cli.read_settings(["serve", str(tmp_path)], {})
    assert settings.fetch is None
    assert (settings.expected_identity, settings.pod_directory, settings.host) == (None, None, "127.0.0.1")
    assert settings.engines.count >= 1
    assert settings.probe_period_seconds == POD["probePeriodSeconds"]


def test_states_and_words_are_the_contracts() -> None:
    assert [state.value for state in State] == WORDS["states"]
    assert WORDS["labels"]["serving"] == downward.SERVING
    assert downward.ORDER_PROBE == WORDS["annotations"]["orderProbe"] == ORDERS["probe"]["annotation"]
    assert downward.ORDER_FLUSH == WORDS["annotations"]["orderFlush"] == ORDERS["flush"]["annotation"]
    assert downward.ORDER_RESTART == WORDS["annotations"]["orderRestart"] == ORDERS["restart"]["annotation"]
