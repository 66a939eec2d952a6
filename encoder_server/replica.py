"""The replica: the facts about this server, its state, and what /v1/identity says of it.

Place: told by engines, orders and signals; asked by admission, probes and the operator. It holds the facts
and leaves every decision to `lifecycle` and `identity`. Must never: do I/O, or decide by itself.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from encoder_server import identity
from encoder_server.engine.messages import Measured, ProbeItem
from encoder_server.errors import UnavailableError
from encoder_server.evidence import Evidence
from encoder_server.lifecycle import Facts, Fault, Standing, State, refusal, stand
from encoder_server.metrics import Metrics
from encoder_server.settings import Settings

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """A probe: result running, passed or failed; `order_id` None for the golden probe at start."""

    result: str
    order_id: str | None
    at: str
    items: tuple[ProbeItem, ...] = field(default=())


class Replica:
    """This server, as it stands. `now` returns the time as it is written in /v1/identity."""

    def __init__(self, settings: Settings, metrics: Metrics, evidence: Evidence, now: Callable[[], str]) -> None:
        self._settings = settings
        self._metrics = metrics
        self._evidence = evidence
        self._now = now
        self._started_at = now()
        self._draining: str | None = None
        self._engine_ready = False
        self._fault: Fault | None = None
        self._cordoned = False
        self._reference: identity.Reference | None = None
        self._golden: tuple[ProbeItem, ...] = ()
        self._probe: ProbeReport | None = None
        self._orders: dict[str, dict[str, str] | None] = {"probe": None, "restart": None, "flush": None}
        self.boot_id = uuid.uuid4().hex
        self.leaving = asyncio.Event()
        self.measured: Measured | None = None
        self.fingerprint: str | None = None
        self.standing = self._stand()
        self._show()

    def refusal(self) -> UnavailableError | None:
        """Return why a request is not admitted now, or None."""
        return refusal(self.standing)

    def greet(self, measured: Measured) -> str | None:
        """Take an engine in; the first one's identity is the server's. Returns why another is refused."""
        if self.measured is not None:
            self._evidence.probe(measured.probe)
            return identity.difference(self.measured, measured)
        self.measured = measured
        self.fingerprint = identity.fingerprint(measured)
        self._metrics.identity_info.labels(
            self.fingerprint, self._settings.revision, self._settings.pod_uid, self.boot_id
        ).set(1)
        self._golden = measured.probe
        self._conclude(None, measured.probe)
        return None

    def engines_changed(self, *, ready: bool, fault: Fault | None) -> None:
        """Hear whether any engine serves, and, where none does, why."""
        self._engine_ready, self._fault = ready, fault
        self._refresh()

    def engine_restarts(self) -> None:
        """Count one restart of an engine."""
        self._metrics.engine_restarts.inc()

    def compare_with(self, reference: identity.Reference) -> None:
        """Take what the expected-identity file says now.

        What was said once stays until something usable is said instead: a file that vanishes or breaks must
        not take a serving pool down.
        """
        known = self._reference
        if known is not None and known.expected is not None and reference.expected is None:
            _LOG.warning("expected_identity_lost", extra={"fault": reference.fault or "the file is gone"})
            return
        self._reference = reference
        self._refresh()

    def cordon(self, *, cordoned: bool) -> None:
        """Hear what the pod's label says."""
        self._cordoned = cordoned
        self._refresh()

    def drain(self, why: str) -> None:
        """Accept nothing more from now on; the server leaves when what it accepted is done."""
        if self._draining is None:
            self._draining = why
            self._refresh()
            self.leaving.set()

    def begin_probe(self, order_id: str) -> None:
        """Show that an ordered probe runs."""
        self._orders["probe"] = {"id": order_id, "result": "running"}
        self._probe = ProbeReport(result="running", order_id=order_id, at=self._now())

    def end_probe(self, order_id: str, items: Sequence[ProbeItem]) -> None:
        """Show how an ordered probe ended; no items: no engine lived to tell, which is a failure.

        The golden items alone decide whether the replica is admitted. What sizes that somebody names mean is
        the operator's to judge: were they to hold a replica, one bad size would take a whole pool down.
        """
        golden = len(self.measured.probe) if self.measured is not None else 0
        if items:
            self._golden = tuple(items[:golden])
        report = self._conclude(order_id, items)
        self._orders["probe"] = {"id": order_id, "result": report.result}
        self._refresh()

    def accept_restart(self, order_id: str) -> None:
        """Obey an order to restart."""
        self._orders["restart"] = {"id": order_id, "result": "accepted"}
        self.drain("a restart was ordered")

    def begin_flush(self, order_id: str) -> None:
        """Show that entries are being flushed: this replica's own are gone, what it shares may not be yet."""
        self._orders["flush"] = {"id": order_id, "result": "running"}

    def end_flush(self, order_id: str) -> None:
        """Show that an ordered flush is done, unless another one was ordered since."""
        if self._orders["flush"] == {"id": order_id, "result": "running"}:
            self._orders["flush"] = {"id": order_id, "result": "done"}

    def _conclude(self, order_id: str | None, items: Sequence[ProbeItem]) -> ProbeReport:
        good = bool(items) and all(item.result == "ok" for item in items)
        self._evidence.probe(items)
        self._probe = ProbeReport(
            result="passed" if good else "failed", order_id=order_id, at=self._now(), items=tuple(items)
        )
        _LOG.info("probe_ended", extra={"result": self._probe.result, "order_id": order_id})
        return self._probe

    def _stand(self) -> Standing:
        verdict = None
        if self.measured is not None and self._reference is not None:
            verdict = identity.judge(self.measured, self._golden, self._reference)
        return stand(
            Facts(
                draining=self._draining,
                engine_ready=self._engine_ready,
                fault=self._fault,
                cordoned=self._cordoned,
                verdict=verdict,
            )
        )

    def _refresh(self) -> None:
        before, self.standing = self.standing, self._stand()
        if before != self.standing:
            self._show()

    def _show(self) -> None:
        standing = self.standing
        self._metrics.show_ready(standing.reason, ready=standing.state is State.READY)
        extra = {"state": standing.state.value, "reason": standing.reason, "detail": standing.message}
        _LOG.info("state", extra=extra)

    def report(self) -> dict[str, Any]:
        """Return what GET /v1/identity answers, shaped as `tests/contract/identity.json`."""
        measured, standing = self.measured, self.standing
        expected = None if self._reference is None else self._reference.expected
        declared = {} if measured is None else measured.declared
        return {
            "podName": self._settings.pod_name,
            "podUid": self._settings.pod_uid,
            "bootId": self.boot_id,
            "startedAt": self._started_at,
            "revision": self._settings.revision,
            "state": standing.state.value,
            "reason": standing.reason,
            "message": standing.message,
            "fingerprint": self.fingerprint,
            "signature": None if measured is None else measured.signature,
            "exact": None if measured is None else identity.exact(measured),
            "advisory": None if measured is None else dict(measured.advisory),
            "check": {modality: entry.check for modality, entry in declared.items()},
            "probe": _render_probe(self._probe),
            "expected": None if expected is None else {"policy": expected.policy, "fingerprint": expected.fingerprint},
            "orders": dict(self._orders),
            "recentViolations": self._evidence.recent,
        }


def _render_probe(report: ProbeReport | None) -> dict[str, Any] | None:
    if report is None:
        return None
    names = ("index", "modality", "width", "height", "grid", "promised", "produced", "result")
    return {
        "result": report.result,
        "orderId": report.order_id,
        "at": report.at,
        "items": [{name: getattr(item, name) for name in names} for item in report.items],
    }
