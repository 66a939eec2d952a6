"""Attribution: whose fault it is, before anything is done about it.

Place: judge asks it for each revision, after each replica was judged by itself. Must never: blame one replica
for what its peers do too, or for what no peer shows to be otherwise.

The order is part of the rule: probes, then identities, then traffic. Cordoned replicas are nobody's peers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from encoder_operator import vocabulary
from encoder_operator.learning import lesson
from encoder_operator.observation import CordonState, Replica
from encoder_operator.opinion import Bench, Outcome, opinion
from encoder_operator.spec import EncoderPool, IdentityPolicy, Management, Mode
from encoder_operator.standing import Expected
from encoder_operator.traffic import Mismatch, has_evidence, mismatch, vouches
from encoder_operator.verdict import Result, Scope, Verdict

_DIFFERENCES = (vocabulary.FINGERPRINT_DRIFT, vocabulary.SIGNATURE_DRIFT)
_IN_TRAFFIC = (vocabulary.TOKEN_MISMATCH, vocabulary.LAYOUT_ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One revision of a pool, what is expected of it, and its replicas at a time (Unix seconds)."""

    pool: EncoderPool
    revision: str
    expected: Expected | None
    replicas: tuple[Replica, ...]
    at: float

    @property
    def learns(self) -> bool:
        """Whether its identity is learned from its own replicas."""
        return self.pool.spec.model.identity.policy is IdentityPolicy.LEARN

    @property
    def peers(self) -> tuple[Replica, ...]:
        """The replicas that are compared with each other."""
        return tuple(each for each in self.replicas if each.serving)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """The revision's own verdict (None: it is as its worst replica), and the replicas' verdicts that change."""

    revision: Verdict | None
    replicas: Mapping[str, Verdict] = field(hash=False)


Attributor = Callable[[Case, Mapping[str, Verdict]], Attribution | None]


def attribute(case: Case, own: Mapping[str, Verdict]) -> Attribution:
    """The first attribution that applies; none where each replica stands for itself."""
    for attributor in ATTRIBUTORS:
        found = attributor(case, own)
        if found is not None:
            return found
    return Attribution(revision=None, replicas={})


def _all_probes_fail(case: Case, own: Mapping[str, Verdict]) -> Attribution | None:
    heard = _heard(case)
    failed = [each for each in heard if own[each.name].reason == vocabulary.PROBE_FAILED]
    if not failed or len(failed) < len(heard):
        return None
    message = f"all {len(failed)} golden probes fail; {_told(own, failed[0])}"
    return _blame(case, own, failed, Scope.REVISION, vocabulary.REVISION_FAULT, message)


def _the_reference(case: Case, own: Mapping[str, Verdict]) -> Attribution | None:
    """Half or more differ from what was learned: more likely it was learned from the wrong one."""
    heard = _heard(case)
    differing = [each for each in heard if own[each.name].reason in _DIFFERENCES]
    if not case.learns or not differing or 2 * len(differing) < len(heard):
        return None
    message = (
        f"{len(differing)} of {len(heard)} replicas differ from the learned identity, "
        f"nothing is touched; {_told(own, differing[0])}"
    )
    return _blame(case, own, differing, Scope.REFERENCE, vocabulary.REFERENCE_SUSPECT, message)


def _the_teachers(case: Case, own: Mapping[str, Verdict]) -> Attribution | None:
    if not case.learns or case.expected is not None:
        return None
    found = lesson(case.replicas, case.pool.spec.model.identity.max_signature_distance)
    if found.disagreement is None:
        return None
    message = f"nothing is learned: {found.disagreement}"
    learning = [each for each in case.peers if own[each.name].reason == vocabulary.LEARNING and _is_measured(each)]
    return _blame(case, own, learning, Scope.REFERENCE, vocabulary.REFERENCE_SUSPECT, message)


def _all_differ_from_pinned(case: Case, own: Mapping[str, Verdict]) -> Attribution | None:
    heard = _heard(case)
    differing = [each for each in heard if own[each.name].reason in _DIFFERENCES]
    if case.learns or not differing or len(differing) < len(heard):
        return None
    message = f"all {len(heard)} replicas differ from the pinned identity; {_told(own, differing[0])}"
    return _blame(case, own, differing, Scope.REVISION, vocabulary.REVISION_FAULT, message)


def _in_traffic(case: Case, own: Mapping[str, Verdict]) -> Attribution | None:
    """Blame a replica only next to a peer that vouches and, asked, passes the sizes that failed; all together mean
    the revision or a caller."""
    limits = case.pool.spec.integrity
    found = {
        each.name: seen
        for each in case.peers
        if own[each.name].reason in _IN_TRAFFIC and (seen := mismatch(each, limits)) is not None
    }
    if not found:
        return None
    comparable = [each for each in case.peers if own[each.name].reason in (*_IN_TRAFFIC, vocabulary.AS_EXPECTED)]
    starting = [each for each in case.peers if own[each.name].result is Result.UNKNOWN]
    judged = [each for each in comparable if has_evidence(each.counts, limits)]
    alone = len(comparable) + len(starting) == 1
    if len(found) == len(judged) and (len(judged) > 1 or alone):
        return _all_mismatch(case, own, found)
    changed = {each.name: _next_to_peers(case, own, found, each) for each in case.peers if each.name in found}
    alike = sorted(name for name, verdict in changed.items() if verdict.scope is Scope.REVISION)
    if not alike:
        return Attribution(revision=None, replicas=changed)
    return Attribution(revision=replace(changed[alike[0]], subject=case.revision), replicas=changed)


def _fails_as_one_unrepaired(case: Case, replica: Replica) -> bool:
    """Whether it fails at a size that a cordoned replica's new boot, of this same identity, failed at too: where no
    peer tells how that size fares there, they would be cordoned one after the other."""
    unrepaired = {
        size
        for each in case.replicas
        if not each.serving and (record := each.cordon) is not None and record.state is CordonState.CORDONED
        if record.attempt > 1 or record.next_attempt_at is not None
        for size in record.sizes
    }
    violations = () if replica.identity is None else replica.identity.recent_violations
    return any(each.size in unrepaired for each in violations)


def _all_mismatch(case: Case, own: Mapping[str, Verdict], found: Mapping[str, Mismatch]) -> Attribution:
    least = case.pool.spec.integrity.min_distinct_media
    media = max(seen.distinct_media for seen in found.values())
    replicas = [each for each in case.peers if each.name in found]
    told = _told(own, replicas[0])
    if media >= least:
        message = f"all {len(found)} replicas with enough checks mismatch, on {media} distinct media; {told}"
        return _blame(case, own, replicas, Scope.REVISION, vocabulary.REVISION_FAULT, message)
    if max(seen.bad for seen in found.values()) < least:
        why = "too few failures to tell a revision's fault from a caller's"
        changed = {name: _unknown(own[name], f"{own[name].message}; {why}") for name in found}
        return Attribution(revision=None, replicas=changed)
    message = f"all {len(found)} replicas with enough checks mismatch, on no more than {media} distinct media; {told}"
    return _blame(case, own, replicas, Scope.CALLER, vocabulary.CALLER_FAULT, message)


def _next_to_peers(case: Case, own: Mapping[str, Verdict], found: Mapping[str, Mismatch], replica: Replica) -> Verdict:
    limits, verdict, seen = case.pool.spec.integrity, own[replica.name], found[replica.name]
    as_expected = [each for each in case.peers if own[each.name].reason == vocabulary.AS_EXPECTED]
    good = [each for each in as_expected if vouches(each, seen.onset, limits)]
    bench = Bench(
        pool=case.pool,
        peers=case.peers,
        own=own,
        suspects=frozenset(found),
        good=frozenset(each.name for each in as_expected),
        at=case.at,
    )
    heard = opinion(bench, replica, good)
    if heard.outcome is Outcome.FAILED:
        return _of_revision(verdict, heard.message)
    if not good:
        return _unknown(verdict, f"{verdict.message}; no peer has enough checks since then to compare with")
    if seen.distinct_media < limits.min_distinct_media:
        told = f"on {seen.distinct_media} distinct media, {limits.min_distinct_media} are needed to blame a replica"
        return _unknown(verdict, f"{verdict.message}; {told}")
    if heard.outcome is Outcome.IN_VAIN and _fails_as_one_unrepaired(case, replica):
        return _of_revision(verdict, "a size that fails on a cordoned replica, restarted or not, fails on another too")
    peers = "1 peer is good" if len(good) == 1 else f"{len(good)} peers are good"
    told = f"{verdict.message}; {peers}{heard.message and '; '}{heard.message}"
    awaited = heard.awaited if _asks_about(case, replica) else None
    return replace(_unknown(verdict, told) if awaited else verdict, message=told, awaits=awaited)


def _asks_about(case: Case, replica: Replica) -> bool:
    """Whether an opinion on this replica is asked for at all; where it is not, what is known so far is told."""
    spec = case.pool.spec
    acts = spec.management is Management.ACTIVE and spec.quarantine.mode is not Mode.OBSERVE
    return acts and replica.skip is None


def _of_revision(verdict: Verdict, why: str) -> Verdict:
    message = f"{why}; {verdict.subject}: {verdict.message}"
    return replace(verdict, scope=Scope.REVISION, reason=vocabulary.REVISION_FAULT, message=message)


def _heard(case: Case) -> tuple[Replica, ...]:
    """The peers that have measured themselves, or are Ready and so were admitted (one that is not read this time
    must not turn a minority into half). None while a single one of several has, since one is not all."""
    heard = tuple(each for each in case.peers if each.ready or _is_measured(each))
    return heard if len(heard) > 1 or len(heard) == len(case.peers) else ()


def _is_measured(replica: Replica) -> bool:
    return replica.identity is not None and replica.identity.is_measured


def _told(own: Mapping[str, Verdict], replica: Replica) -> str:
    return f"{replica.name}: {own[replica.name].message}"


def _blame(
    case: Case, own: Mapping[str, Verdict], replicas: list[Replica], scope: Scope, reason: str, message: str
) -> Attribution:
    first = own[replicas[0].name] if replicas else next(iter(own.values()))
    blamed = Verdict(
        subject=case.revision,
        matter=first.matter,
        scope=scope,
        result=Result.BAD,
        reason=reason,
        message=message,
    )
    changed = {each.name: replace(own[each.name], scope=scope, result=Result.BAD, reason=reason) for each in replicas}
    return Attribution(revision=blamed, replicas=changed)


def _unknown(verdict: Verdict, message: str) -> Verdict:
    return replace(verdict, result=Result.UNKNOWN, reason=vocabulary.NO_EVIDENCE, message=message)


ATTRIBUTORS: tuple[Attributor, ...] = (
    _all_probes_fail,
    _the_reference,
    _the_teachers,
    _all_differ_from_pinned,
    _in_traffic,
)
