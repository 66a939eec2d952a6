"""The replica: the facts about this server, its state, and what /v1/identity says of it.

Place: told by engines, orders and signals; asked by admission, probes and the operator. It holds the facts
and leaves every decision to `lifecycle` and `identity`. Must never: do I/O, or decide by itself.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Collection, Sequence
from typing import Any

from encoder_server import identity, repair
from encoder_server.engine.asides import Progress
from encoder_server.engine.messages import Measured, Probed, ProbeItem
from encoder_server.errors import UnavailableError
from encoder_server.evidence import Evidence
from encoder_server.lifecycle import Facts, Fault, Standing, State, refusal, stand
from encoder_server.metrics import Metrics
from encoder_server.order_report import OrderReport
from encoder_server.probe_report import ProbeReport, are_good, render
from encoder_server.settings import Settings
from encoder_server.start_report import StartReport

_LOG = logging.getLogger(__name__)


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
        self._start = StartReport(now)
        self._since = now()
        self._cordoned = False
        self._reference: identity.Reference | None = None
        self._showings = repair.Showings()
        self._probe: ProbeReport | None = None
        self._orders = OrderReport()
        self.boot_id = uuid.uuid4().hex
        self.leaving = asyncio.Event()
        self.strayed = asyncio.Event()
        self.measured: Measured | None = None
        self.fingerprint: str | None = None
        self.standing = self._stand()
        self._show()

    def refusal(self) -> UnavailableError | None:
        """Return why a request is not admitted now, or None."""
        return refusal(self.standing)

    def greet(self, engine: int, measured: Measured) -> str | None:
        """Take an engine in; the first one's identity is the server's. Returns why another is refused."""
        self._evidence.probe(measured.probe)
        if self.measured is not None:
            difference = identity.difference(self.measured, measured)
            if difference is None:
                self._take_in(engine, measured)
            return difference and f"an engine that was started again measured {difference}"
        if (lacking := self._settings.limits.lacking(measured.declared)) is not None:
            return lacking
        self.measured = measured
        self.fingerprint = identity.fingerprint(measured)
        told = (self.fingerprint, self._settings.revision, self._settings.pod_uid, self.boot_id)
        self._metrics.identity_info.labels(*told).set(1)
        self._take_in(engine, measured)
        return None

    def _take_in(self, engine: int, measured: Measured) -> None:
        self._showings.begin(engine, measured)
        if self._probe is None or self._probe.order_id is None:  # Who ordered one may not have read it yet.
            self._report(None, measured.probe)

    def examine(self, engine: int, probed: Probed) -> str | None:
        """Hear what an engine's probe showed; says why it is to be ended, or None. What it encoded is suspect then."""
        self._showings.add(engine, probed)
        if self.measured is not None and (wrong := repair.strayed(self.measured, probed)) is not None:
            self.strayed.set()
            return wrong
        return None

    def engines_changed(self, *, ready: Collection[int], fault: Fault | None) -> None:
        """Hear which engines serve, and, where none does, why."""
        self._engine_ready, self._fault = bool(ready), fault
        self._showings.keep(ready)
        self._refresh()

    def engine_progresses(self, progress: Progress | None) -> None:
        """Hear how the start of the engine goes that has come farthest; None: none is being started."""
        self._start.hear(progress)
        self._refresh()

    def engine_restarts(self) -> None:
        """Count one restart of an engine."""
        self._metrics.engine_restarts.inc()

    def compare_with(self, reference: identity.Reference) -> None:
        """Take what the expected-identity file says now. What was said once stays until something usable is said
        instead: a file that vanishes or breaks must not take a serving pool down."""
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
        self._orders.show("probe", order_id, "running")
        self._probe = ProbeReport(result="running", order_id=order_id, at=self._now())

    def end_probe(self, order_id: str, probes: Sequence[Probed], *, whole: bool) -> None:
        """Show how an ordered probe ended on each engine; not `whole`: one did not live to tell, which is a failure.

        The golden items alone decide whether the replica is admitted. What sizes that somebody names mean is
        the operator's to judge: were they to hold a replica, one bad size would take a whole pool down.
        """
        result = self._report(order_id, self._take(probes), whole=whole).result
        self._orders.show("probe", order_id, result)
        self._refresh()

    def end_timed_probe(self, probes: Sequence[Probed]) -> None:
        """Take in the golden probe that was due; one that no engine lived to answer tells nothing. An ordered probe
        that this one agrees with stays shown: who ordered it may not have read it yet."""
        items, shown = self._take(probes), self._probe
        if items and not (are_good(items) and shown is not None and shown.order_id is not None):
            self._report(None, items)
        self._refresh()

    def accept_restart(self, order_id: str) -> None:
        """Obey an order to restart."""
        self._orders.show("restart", order_id, "accepted")
        self.drain("a restart was ordered")

    def begin_flush(self, order_id: str) -> None:
        """Show that entries are being flushed: this replica's own are gone, what it shares may not be yet."""
        self._orders.show("flush", order_id, "running")

    def end_flush(self, order_id: str) -> None:
        """Show that an ordered flush is done, unless another one was ordered since."""
        self._orders.end("flush", order_id, "done")

    def _take(self, probes: Sequence[Probed]) -> tuple[ProbeItem, ...]:
        """Return a probe's items, each as it fared worst; none where no engine lived to answer."""
        for probed in probes:
            self._evidence.probe(probed.items)
        if self.measured is None or not any(probed.items for probed in probes):
            return ()
        return identity.gather(self.measured, probes)[0]

    def _report(self, order_id: str | None, items: Sequence[ProbeItem], *, whole: bool = True) -> ProbeReport:
        result = "passed" if items and whole and are_good(items) else "failed"
        self._probe = ProbeReport(result=result, order_id=order_id, at=self._now(), items=tuple(items))
        _LOG.info("probe_ended", extra={"result": result, "order_id": order_id})
        return self._probe

    def _stand(self) -> Standing:
        verdict, golden = None, self._showings.golden(self.measured)
        if self.measured is not None and golden is not None and self._reference is not None:
            verdict = identity.judge(self.measured, golden, self._reference)
        return stand(
            Facts(
                draining=self._draining,
                engine_ready=self._engine_ready,
                stage=None if self._start.progress is None else self._start.progress.stage,
                fault=self._fault,
                cordoned=self._cordoned,
                verdict=verdict,
            )
        )

    def _refresh(self) -> None:
        before, self.standing = self.standing, self._stand()
        if (before.state, before.reason) != (self.standing.state, self.standing.reason):
            self._since = self._now()
        if before != self.standing:
            self._show()

    def _show(self) -> None:
        standing = self.standing
        self._metrics.show_ready(standing.reason, ready=standing.state is State.READY)
        extra = {"state": standing.state.value, "reason": standing.reason, "detail": standing.message}
        _LOG.info("state", extra=extra)

    @property
    def progress(self) -> dict[str, Any] | None:
        """How the start of an engine goes, for people; None where one serves, or none is being started."""
        return None if self._engine_ready else self._start.render()

    def readiness(self) -> dict[str, Any]:
        """Return what GET /readyz answers: the state, since when, and how a start goes."""
        standing = self.standing
        return {
            "state": standing.state.value,
            "reason": standing.reason,
            "message": standing.message,
            "since": self._since,
            "progress": self.progress,
        }

    def report(self) -> dict[str, Any]:
        """Return what GET /v1/identity answers, shaped as `tests/contract/identity.json`."""
        measured, standing, golden = self.measured, self.standing, self._showings.golden(self.measured)
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
            "progress": self.progress,
            "fingerprint": self.fingerprint,
            "signature": None if golden is None else golden.signature,
            "exact": None if measured is None else identity.exact(measured),
            "advisory": None if measured is None else dict(measured.advisory),
            "check": {modality: entry.check for modality, entry in declared.items()},
            "probe": render(self._probe),
            "expected": None if expected is None else {"policy": expected.policy, "fingerprint": expected.fingerprint},
            "orders": self._orders.render(),
            "recentViolations": self._evidence.recent,
        }
