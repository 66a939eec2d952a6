"""Observation: one frozen snapshot of a pool's world.

Place: made by observe, read by judge, cordon and status. Must never: hold a client, a clock or a decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A medium's size, as named in violations and in probe orders: pixels of a picture or of each frame; frames, and
    how many of them in a second; samples, and how many of them in a second. What a modality has not is 0."""

    modality: str
    width: int = 0
    height: int = 0
    frames: int = 0
    fps: float = 0.0
    samples: int = 0
    rate: int = 0

    @property
    def is_known(self) -> bool:
        """Whether a medium of this size can be asked for: of one that could not be opened, nothing is known."""
        return bool((self.width and self.height) or (self.samples and self.rate))


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemReport:
    """One item of a probe or a recent violation: what was promised, what was produced (None: nothing)."""

    index: int
    size: Size
    grid: tuple[int, ...] | None
    promised: int | None
    produced: int | None
    result: str


class ProbeResult(Enum):
    """How the last probe of a replica ended."""

    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """A replica's last probe; `order_id` is None for the one at start."""

    result: ProbeResult
    order_id: str | None
    items: tuple[ItemReport, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneOrder:
    """The last probe order that this boot of a replica took up, and how it ended."""

    id: str
    result: ProbeResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a replica said of itself at GET /v1/identity, twice the same (see `observe`). `sharing_lost_since`: it has
    been unable to read the pool's Redis, since then (Unix seconds); None where it can, or there is none."""

    pod_uid: str
    boot_id: str
    revision: str
    state: str
    reason: str
    message: str
    fingerprint: str | None
    signature: str | None
    probe: ProbeReport | None
    probe_done: DoneOrder | None
    recent_violations: tuple[ItemReport, ...]
    sharing_lost_since: float | None = None

    @property
    def is_measured(self) -> bool:
        """Whether its golden probe has ended: while one that was ordered runs, what is known of it stands."""
        probe = self.probe
        return probe is not None and (probe.result is not ProbeResult.RUNNING or probe.order_id is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Good and bad checks from the window's start up to one sample's time."""

    at: float
    good: int
    bad: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What the counters of a replica say of a window that starts at the later of container start and last
    release. Fewer than four samples, NaN or no data: there are no Counts (unknown, neither good nor bad).

    `bad` is by result. `distinct_media` is since container start or release, whatever the window: a medium is
    counted once, when it first fails. `points` tell when checks fell, so that peers are compared over one time.
    """

    samples: int
    seconds: float
    good: int
    bad: Mapping[str, int] = field(hash=False)
    distinct_media: int
    points: tuple[Point, ...]


class CordonState(Enum):
    """Whether the record speaks of a cordon in force or of one lifted."""

    CORDONED = "Cordoned"
    RELEASED = "Released"


@dataclass(frozen=True, slots=True, kw_only=True)
class CordonRecord:
    """The operator's own record on the pod (tests/contract/orders.json, `cordon`). Times are Unix seconds.
    `times` counts all cordons, and names orders; `in_a_row` counts those that were not long ago. `ordered_at` is when
    the replica was last ordered to do anything. `boot_id` is the boot whose traffic was evidence, None where none
    was."""

    by: str
    state: CordonState
    reason: str
    message: str
    since: float
    released_at: float | None
    times: int
    in_a_row: int
    attempt: int
    attempt_boot_id: str | None
    next_attempt_at: float | None
    eviction_blocked: str | None
    sizes: tuple[Size, ...]
    ordered_at: float | None = None
    boot_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An order as it stands in the pod's annotation."""

    id: str
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A probe order that asks a replica about another one: to probe sizes at which that one fails. `about` names
    the other's boot and how often it was cordoned before, `asked_at` is in Unix seconds."""

    id: str
    boot_id: str
    about: str
    asked_at: float
    sizes: tuple[Size, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushOrder:
    """An order to take nothing for a hit that `producers` made (each a pod's uid, a slash, and a boot id)."""

    id: str
    boot_id: str
    producers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """What keeps a replica's container from running; `lasting` where it will not go by itself."""

    message: str
    lasting: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One pod of the pool that is not terminating. `identity` is None when it could not be read or was not
    confirmed; `counts` is None when unknown. `address` is the pod's IP, None until it has one. `ready_since` is
    when it last became Ready, None while it is not. `unschedulable` is what the scheduler says of a pod that it
    cannot place, None where it could. `question` is the probe order where that asks about another replica.
    `expected_digest` is the annotation that makes the kubelet refresh the mounted expectation. `hand_cordon`,
    `hand_release` and `skip` are a person's annotations, each with why; None where there is none."""

    name: str
    uid: str
    revision: str
    address: str | None
    serving: bool
    ready_since: float | None
    created_at: float
    container_started_at: float | None
    restarts: int
    obstacle: Obstacle | None
    unschedulable: str | None
    cordon: CordonRecord | None
    probe_order: Order | None
    question: Question | None
    restart_order: Order | None
    flush_order: FlushOrder | None = None
    expected_digest: str | None
    hand_cordon: str | None
    hand_release: str | None
    skip: str | None
    identity: Identity | None
    counts: Counts | None

    @property
    def ready(self) -> bool:
        """Whether it is Ready."""
        return self.ready_since is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A revision's Deployment: replicas wanted, created and Ready; `message` says why it cannot progress."""

    revision: str
    desired: int
    created: int
    ready: int
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Everything that judge, cordon and status may know, at one time (`at`, Unix seconds). `leaving` are the
    revisions of which a pod is still ending, `evidence_problem` says why no counters could be read at all, None
    where they could."""

    at: float
    workloads: tuple[Workload, ...]
    replicas: tuple[Replica, ...]
    leaving: frozenset[str]
    evidence_problem: str | None
