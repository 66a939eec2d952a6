"""Fingerprint, signature distance, and who is admitted."""

import base64
import dataclasses
import json
import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from encoder_server.engine.messages import Declared, Measured, Probed, ProbeItem
from encoder_server.identity import (
    Golden,
    Reference,
    begin,
    difference,
    distance_per_mille,
    fingerprint,
    gather,
    judge,
    read_reference,
)

REVISION = "5d41402abc"
EXPECTED = json.loads((Path(__file__).parents[2] / "contract" / "expected.json").read_text())
GOLDEN = ProbeItem(index=0, modality="image", width=56, height=56, grid=(1, 4, 4), promised=4, produced=4, result="ok")


def sign(*numbers: float) -> str:
    return base64.b64encode(struct.pack("<16f", *numbers)).decode()


MEASURED = Measured(
    weights="b3",
    processor="77",
    config="c0",
    classes={"encoder": "A", "model": "B"},
    declared={"image": Declared(width=64, dtype="float32", check="promise")},
    probe=(GOLDEN,),
    signature=sign(*range(1, 17)),
    advisory={"torch": "2"},
)


def changed(**changes: Any) -> Measured:
    return dataclasses.replace(MEASURED, **changes)


def expect(kind: str = "learned", **changes: str | None) -> Reference:
    text = json.dumps(EXPECTED[kind] | {"fingerprint": fingerprint(MEASURED)} | changes)
    return read_reference(text.encode(), REVISION)


def verdict(
    reference: Reference, measured: Measured = MEASURED, golden: Sequence[ProbeItem] = (GOLDEN,)
) -> tuple[bool, str]:
    found = judge(measured, Golden(items=tuple(golden), signature=measured.signature), reference)
    return found.admitted, found.reason


def test_the_fingerprint_is_64_hex_digits_and_ignores_the_order_of_keys() -> None:
    assert len(fingerprint(MEASURED)) == 64
    assert fingerprint(changed(classes={"model": "B", "encoder": "A"})) == fingerprint(MEASURED)


@pytest.mark.parametrize(
    "changes",
    [
        {"weights": "b4"},
        {"processor": "78"},
        {"config": "c1"},
        {"classes": {"encoder": "A"}},
        {"declared": {"image": Declared(width=65, dtype="float32", check="promise")}},
        {"probe": (dataclasses.replace(GOLDEN, promised=5),)},
        {"probe": (dataclasses.replace(GOLDEN, grid=(1, 2, 8)),)},
    ],
)
def test_the_fingerprint_differs_with_every_exact_part(changes: dict[str, Any]) -> None:
    assert fingerprint(changed(**changes)) != fingerprint(MEASURED)
    assert difference(MEASURED, changed(**changes)) is not None


def test_the_fingerprint_ignores_what_is_advisory_or_numeric() -> None:
    same = changed(advisory={}, signature=None, probe=(dataclasses.replace(GOLDEN, produced=3, result="count"),))
    assert fingerprint(same) == fingerprint(MEASURED)


def test_the_distance_is_relative_and_per_mille() -> None:
    assert distance_per_mille(sign(*[1.01] * 16), sign(*[1.0] * 16)) == pytest.approx(10, rel=1e-4)
    assert distance_per_mille(sign(*[0.0] * 16), sign(*[0.0] * 16)) == 0
    assert distance_per_mille(sign(*[math.nan] * 16), sign(*[1.0] * 16)) == math.inf


def test_outside_a_pool_a_passing_probe_admits() -> None:
    assert verdict(Reference(named=False)) == (True, "AsExpected")


def test_the_expected_identity_admits_and_any_other_is_held() -> None:
    assert verdict(expect(signature=None)) == (True, "AsExpected")
    assert verdict(expect(signature=None, fingerprint="0" * 64)) == (False, "FingerprintDrift")
    assert verdict(expect("pinned")) == (True, "AsExpected")


def test_the_signature_is_compared_with_its_tolerance() -> None:
    near, far = sign(*[n * 1.005 for n in range(1, 17)]), sign(*[n * 1.02 for n in range(1, 17)])
    assert verdict(expect(signature=near)) == (True, "AsExpected")
    assert verdict(expect(signature=far)) == (False, "SignatureDrift")
    assert verdict(expect(signature=near), changed(signature=None)) == (False, "SignatureDrift")


def test_nothing_to_compare_with_means_learning() -> None:
    assert verdict(Reference(named=True)) == (False, "Learning")
    assert verdict(expect("learning", fingerprint=None)) == (False, "Learning")


NO_SIGNATURE = json.dumps(EXPECTED["learned"] | {"signature": "x"}).encode()


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff", b'{"policy": "Maybe"}', NO_SIGNATURE])
def test_a_file_that_makes_no_sense_holds_and_never_raises(text: bytes) -> None:
    reference = read_reference(text, REVISION)
    found = judge(MEASURED, begin(MEASURED), reference)
    assert (found.admitted, found.reason) == (False, "Learning")
    assert "cannot be used" in found.message


def test_a_file_for_another_revision_holds() -> None:
    text = json.dumps(EXPECTED["off"] | {"revision": "other"}).encode()
    assert verdict(read_reference(text, REVISION)) == (False, "Learning")


def test_pinned_without_a_fingerprint_holds() -> None:
    assert verdict(expect("pinned", fingerprint=None)) == (False, "Learning")


def test_policy_off_asks_for_a_passing_probe_alone() -> None:
    off = read_reference(json.dumps(EXPECTED["off"]).encode(), REVISION)
    assert verdict(off) == (True, "AsExpected")
    assert verdict(off, golden=(dataclasses.replace(GOLDEN, result="layout", produced=None),)) == (False, "ProbeFailed")


def test_a_failed_probe_comes_before_every_comparison() -> None:
    failed = (dataclasses.replace(GOLDEN, produced=3, result="count"),)
    assert verdict(expect(fingerprint="0" * 64), golden=failed) == (False, "ProbeFailed")
    assert verdict(Reference(named=False), golden=()) == (False, "ProbeFailed")


def test_an_engine_that_is_the_same_differs_in_nothing() -> None:
    assert difference(MEASURED, changed(advisory={})) is None
    assert "signature" in (difference(MEASURED, changed(signature=sign(*range(2, 18)))) or "")
    assert "probe" in (difference(MEASURED, changed(probe=(dataclasses.replace(GOLDEN, result="nonfinite"),))) or "")


FAR = sign(*[n * 1.02 for n in range(1, 17)])
NEAR = sign(*[n * 1.005 for n in range(1, 17)])
OFF = read_reference(json.dumps(EXPECTED["off"]).encode(), REVISION)
ALONE = Reference(named=False)


@pytest.mark.parametrize("reference", [ALONE, OFF, expect(), expect(signature=None), expect(signature=FAR)])
def test_a_running_engine_whose_signature_moved_is_held_whatever_is_expected(reference: Reference) -> None:
    found = judge(MEASURED, Golden(items=(GOLDEN,), signature=FAR), reference)
    assert (found.admitted, found.reason) == (False, "SignatureDrift")
    assert "at the start of this replica" in found.message
    assert not judge(MEASURED, Golden(items=(GOLDEN,), signature=None), reference).admitted


@pytest.mark.parametrize("changes", [{"promised": 5, "produced": 5}, {"grid": (1, 2, 8)}, {"width": 57}])
def test_a_running_engine_that_promises_otherwise_than_at_its_start_is_held(changes: dict[str, Any]) -> None:
    golden = Golden(items=(dataclasses.replace(GOLDEN, **changes),), signature=MEASURED.signature)
    found = judge(MEASURED, golden, ALONE)
    assert (found.admitted, found.reason) == (False, "FingerprintDrift")


def test_a_running_engine_is_compared_with_what_is_expected_as_it_is_now() -> None:
    edge = sign(*[n * 1.008 for n in range(1, 17)])
    assert verdict(expect(signature=edge)) == (True, "AsExpected")
    moved = Golden(items=(GOLDEN,), signature=sign(*[n * 0.995 for n in range(1, 17)]))
    assert judge(MEASURED, moved, expect(signature=MEASURED.signature)).admitted
    assert judge(MEASURED, moved, expect(signature=edge)).reason == "SignatureDrift"


def test_a_replica_whose_probe_failed_at_its_start_is_let_in_by_one_that_passes() -> None:
    failed = changed(probe=(dataclasses.replace(GOLDEN, produced=3, result="count"),), signature=None)
    assert judge(failed, begin(failed), ALONE).reason == "ProbeFailed"
    assert judge(failed, begin(MEASURED), ALONE).admitted


def probed(*items: ProbeItem, signature: str | None = MEASURED.signature) -> Probed:
    return Probed(batch=1, items=items, signature=signature)


def test_of_several_engines_the_worst_item_and_the_farthest_signature_count() -> None:
    bad = dataclasses.replace(GOLDEN, produced=3, result="count")
    more = dataclasses.replace(GOLDEN, index=1, width=640)
    items, golden = gather(MEASURED, [probed(GOLDEN, more), probed(bad, signature=None), probed(GOLDEN)])
    assert (items, golden) == ((bad, more), Golden(items=(bad,), signature=None))
    _, golden = gather(MEASURED, [probed(GOLDEN), probed(GOLDEN, signature=FAR), probed(GOLDEN, signature=NEAR)])
    assert golden == Golden(items=(GOLDEN,), signature=FAR)
