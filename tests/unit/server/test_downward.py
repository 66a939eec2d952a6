"""The kubelet's files and the orders in them."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from encoder_server.downward import parse_pairs, read_pod
from tests.support.media import limits

ORDERS = json.loads((Path(__file__).parents[2] / "contract" / "orders.json").read_text())


def annotation(kind: str) -> str:
    return f"{ORDERS[kind]['annotation']}={json.dumps(json.dumps(ORDERS[kind]['value']))}\n"


def test_values_are_unescaped_as_go_escapes_them() -> None:
    text = 'a="1"\nb="say \\"hi\\"\\n\\ttab \\\\ \\u00e9 \\U0001f600 \\x7f \\xff"\nempty=""\nodd\nc=unquoted\n'
    assert parse_pairs(text) == {"a": "1", "b": 'say "hi"\n\ttab \\ é 😀 \x7f \N{REPLACEMENT CHARACTER}', "empty": ""}


def test_only_false_cordons() -> None:
    assert read_pod('encoderpool.io/serving="false"', "").cordoned
    for labels in ('encoderpool.io/serving="true"', 'encoderpool.io/serving=""', ""):
        assert not read_pod(labels, "").cordoned


def test_the_contracts_orders_are_understood() -> None:
    pod = read_pod("", annotation("probe") + annotation("restart") + annotation("cordon"))
    assert pod.probe is not None
    assert pod.restart is not None
    assert (pod.probe.id, pod.restart.id) == ("probe-2-1", "restart-2-1")
    sizes = pod.probe.sizes_for(("image", "video", "audio"), limits())
    assert [{"modality": size.modality, **size.measures} for size in sizes] == ORDERS["probe"]["value"]["sizes"]


def test_sizes_beyond_what_a_caller_may_send_are_left_out() -> None:
    pod = read_pod("", annotation("probe"))
    assert pod.probe is not None
    assert pod.probe.sizes_for(("image",), limits(max_pixels=1000)) == ()
    assert pod.probe.sizes_for(("video",), limits(max_frames=6)) == ()
    assert [size.frames for size in pod.probe.sizes_for(("video",), limits(max_video_seconds=7))] == [7]
    assert pod.probe.sizes_for(("audio",), limits(max_audio_seconds=1.4)) == ()
    assert pod.probe.sizes_for(("smell",), limits()) == ()


def test_a_size_without_the_measures_of_its_modality_is_left_out() -> None:
    for size in ({"width": 5}, {"samples": 5, "rate": 8000}, {"width": 5, "height": 5, "frames": 2}, {}):
        order = {"id": "1", "bootId": "b", "sizes": [{"modality": "image", **size}]}
        pod = read_pod("", f"{ORDERS['probe']['annotation']}={json.dumps(json.dumps(order))}\n")
        assert pod.probe is not None
        assert pod.probe.sizes_for(None, limits()) == ()


def test_sizes_are_kept_while_nobody_knows_yet_which_modalities_there_are() -> None:
    pod = read_pod("", annotation("probe"))
    assert pod.probe is not None
    assert pod.probe.sizes_for(None, limits()) == pod.probe.sizes_for(("image", "video", "audio"), limits()) != ()


@given(st.text())
def test_whatever_an_annotation_holds_it_never_fails(value: str) -> None:
    pod = read_pod(value, f"{ORDERS['probe']['annotation']}={json.dumps(value)}")
    assert pod.probe is None
