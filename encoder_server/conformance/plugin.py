"""The sweep as a pytest plugin: one test for each rule, in a user's own test suite.

Place: registered under `pytest11`; loaded in every pytest run of an environment that has this package.

Must never: import torch or numpy when it is loaded, or do anything in a suite that does not ask for it.

A test module gives its encoder and asks for the rules:

    import pytest
    from encoder_server.conformance.plugin import Audited

    @pytest.fixture(scope="session")
    def audited_encoder():
        return Audited(model=Path("checkpoint"), encoder="my_encoder")  # or an encoder that is loaded

    def test_my_encoder_conforms(conformance_rule):
        conformance_rule.check()
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from encoder_server.conformance.findings import Rule
from encoder_server.conformance.options import MAX_PIXELS, SECONDS

if TYPE_CHECKING:
    from encoder_server.conformance.audit import Audit
    from encoder_server.conformance.watch import Watching
    from encoder_server.encoders import Encoder


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """The encoder to audit, as the arguments of `encoder-server check` name it; or `loaded`, one that is there.

    `tolerance` is a distance of rows as a share of their length; None: by the declared dtype.
    """

    model: Path | None = None
    processor: Path | None = None
    encoder: str = "Auto"
    loaded: Encoder[Any] | None = None
    device: str = "cpu"
    dtype: str = "auto"
    max_pixels: int = MAX_PIXELS
    quick: bool = True
    seconds: float = SECONDS
    tolerance: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleUnderTest:
    """One rule, and what the sweep has to say of it."""

    rule: Rule
    audit: Audit

    def check(self) -> None:
        """Fail the test with the rule's findings, unless it was tested and held."""
        __tracebackhide__ = True
        from encoder_server.conformance.audit import State
        from encoder_server.conformance.report import tell

        (verdict,) = (each for each in self.audit.verdicts if each.rule is self.rule)
        if verdict.state is not State.GOOD:
            pytest.fail(tell(verdict), pytrace=False)
        if self.audit.left:
            pytest.fail(f"not run: {', '.join(self.audit.left)}", pytrace=False)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test of each rule out of a test that asks for one."""
    if "conformance_rule" in metafunc.fixturenames:
        metafunc.parametrize("conformance_rule_name", [str(rule) for rule in Rule], scope="session")


@pytest.fixture(scope="session")
def conformance_audit(audited_encoder: Audited | Encoder[Any]) -> Audit:
    """The audit of the suite's `audited_encoder` (a session's fixture), run once."""
    return _sweep(audited_encoder)


@pytest.fixture
def conformance_rule(conformance_rule_name: str, conformance_audit: Audit) -> RuleUnderTest:
    """One rule after another; `check` it."""
    return RuleUnderTest(rule=Rule(conformance_rule_name), audit=conformance_audit)


def _sweep(audited: Audited | Encoder[Any]) -> Audit:
    # Imported here: torch takes seconds, and only a suite that asks for an audit shall pay for them.
    import torch

    from encoder_server.conformance.sweep import Extent, Sweep

    chosen = audited if isinstance(audited, Audited) else Audited(loaded=audited)
    threads = torch.get_num_threads()
    # As an engine has it; more threads sum in another order.
    torch.set_num_threads(1)
    try:
        pipeline = _load(chosen)
        extent = Extent(
            max_pixels=chosen.max_pixels, quick=chosen.quick, seconds=chosen.seconds, tolerance=chosen.tolerance
        )
        return Sweep(pipeline, extent, lambda text: None).run()
    finally:
        torch.set_num_threads(threads)


def _load(chosen: Audited) -> Watching:
    from encoder_server.conformance.watch import Watching
    from encoder_server.engine.bounds import Bounds

    if chosen.loaded is not None:
        return Watching(chosen.loaded, bounds=Bounds(max_pixels=chosen.max_pixels))
    if chosen.model is None:
        raise pytest.UsageError("audited_encoder names neither a checkpoint (model) nor an encoder that is loaded")
    return Watching.load(
        chosen.model,
        processor=chosen.processor,
        encoder=chosen.encoder,
        device=chosen.device,
        dtype=chosen.dtype,
        bounds=Bounds(max_pixels=chosen.max_pixels),
    )
