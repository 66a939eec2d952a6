"""The check, item by item and in total."""

from collections.abc import Sequence

from encoder_server.check import Batch, Passed, Result, Violation, check_batch, describe_probe_item
from encoder_server.engine.messages import Declared, Failure, Output, ProbeItem, Promise

DECLARED = {"image": Declared(width=2, dtype="float32", check="promise")}


def promise(index: int = 0, tokens: int = 3) -> Promise:
    return Promise(index=index, modality="image", tokens=tokens, grid=(1, 2, 6))


def output(
    index: int = 0,
    shape: tuple[int, ...] = (3, 2),
    dtype: str = "float32",
    *,
    finite: bool = True,
    blob: int = 0,
) -> Output:
    return Output(index=index, modality="image", shape=shape, dtype=dtype, finite=finite, blob=blob)


def check(
    promises: Sequence[Promise],
    outputs: Sequence[Output],
    failures: Sequence[Failure] = (),
    asked: Sequence[int] = (0,),
    size: int = 24,
) -> tuple[Passed, tuple[Violation, ...]]:
    batch = Batch(
        asked=dict.fromkeys(asked, "image"),
        promises=promises,
        outputs=outputs,
        blobs=[memoryview(bytes(size))] * len(outputs),
        failures=failures,
    )
    return check_batch(batch, DECLARED)


def results(violations: Sequence[Violation]) -> list[tuple[int, Result]]:
    return [(violation.index, violation.result) for violation in violations]


def test_rows_as_promised_and_declared_pass() -> None:
    passed, violations = check([promise()], [output()])
    assert violations == ()
    assert [(rows.promise.index, rows.shape, rows.data.nbytes) for rows in passed.rows] == [(0, (3, 2), 24)]


def test_a_differing_count_is_told_in_the_known_words() -> None:
    _, (violation,) = check([promise()], [output(shape=(2, 2))], size=16)
    assert (violation.promised, violation.produced, violation.result) == (3, 2, Result.COUNT)
    assert violation.message == ("Encoder produced 2 tokens, but preprocessor metadata expected 3 (item 0, image)")


def test_each_kind_of_difference_has_its_result() -> None:
    for odd, result in [
        (output(shape=(3, 4)), Result.WIDTH),
        (output(dtype="float16"), Result.DTYPE),
        (output(finite=False), Result.NONFINITE),
        (output(shape=(3, 2, 1)), Result.LAYOUT),
        (output(blob=7), Result.LAYOUT),
    ]:
        assert results(check([promise()], [odd])[1]) == [(0, result)]


def test_bytes_that_do_not_fill_the_shape_are_a_layout_failure() -> None:
    assert results(check([promise()], [output()], size=20)[1]) == [(0, Result.LAYOUT)]


def test_two_errors_that_cancel_out_in_the_total_are_both_found() -> None:
    promises, outputs = [promise(0, 3), promise(1, 3)], [output(0, (2, 2)), output(1, (4, 2))]
    _, violations = check(promises, outputs, asked=(0, 1))
    assert results(violations) == [(0, Result.COUNT), (1, Result.COUNT)]


def test_an_item_without_promise_or_rows_or_with_two_of_them_is_a_layout_failure() -> None:
    for promises, outputs in [([], [output()]), ([promise()], []), ([promise()], [output(), output()])]:
        assert results(check(promises, outputs)[1]) == [(0, Result.LAYOUT)]


def test_rows_of_no_item_fail_every_item() -> None:
    passed, violations = check([promise()], [output(), output(index=9)])
    assert (passed.rows, results(violations)) == ((), [(0, Result.LAYOUT)])


def test_one_culprit_leaves_the_others_alone() -> None:
    promises, outputs = [promise(0), promise(1)], [output(0), output(1, finite=False)]
    passed, violations = check(promises, outputs, asked=(0, 1))
    assert ([rows.promise.index for rows in passed.rows], results(violations)) == ([0], [(1, Result.NONFINITE)])


def test_the_engines_layout_failures_are_violations_and_the_callers_are_not() -> None:
    failures = [
        Failure(index=0, modality="image", code="layout", detail="position ids", promised=3, grid=(1, 2, 6)),
        Failure(index=1, modality="image", code="bad_media", detail="cut off"),
    ]
    passed, violations = check([promise()], [], failures, asked=(0, 1))
    assert (passed.rows, results(violations)) == ((), [(0, Result.LAYOUT)])
    assert (violations[0].promised, violations[0].produced) == (3, None)


def test_a_probes_item_is_described_with_its_size() -> None:
    item = ProbeItem(
        index=0, modality="image", width=112, height=112, grid=(1, 16, 16), promised=16, produced=64, result="count"
    )
    assert describe_probe_item(item) == (
        "Encoder produced 64 tokens, but preprocessor metadata expected 16 (image 112x112, item 0)"
    )
