from __future__ import annotations

from encoder_operator import errors, vocabulary


def all_errors(above: type[errors.OperatorError] = errors.OperatorError) -> list[type[errors.OperatorError]]:
    return [above, *(each for below in above.__subclasses__() for each in all_errors(below))]


def test_the_tree_in_the_docstring_has_every_class() -> None:
    for each in all_errors():
        assert each.__name__ in (errors.__doc__ or "")


def test_reasons_are_words_of_the_api() -> None:
    assert {each.reason for each in all_errors()} - {None} <= set(vocabulary.REASONS)


def test_metrics_count_under_a_closed_set_of_labels() -> None:
    assert errors.metric_label(errors.ConflictError(409, "changed")) == "ConflictError"
    assert errors.metric_label(KeyError("a library's own")) == "Unexpected"
