"""Learning: the identity that a revision's first good replicas teach.

Place: read by judge (to tell a disagreement) and by standing's next value (to record a lesson). Must never:
learn from a replica whose golden probe has not passed, or count one for two.

One passing replica is enough. Where several disagree before one was recorded, a strict majority teaches;
without one nothing is learned, and the disagreement is told. Who is read first must not matter in the end: until the
revision has served in full, a strict majority of all that the spec asks for overrules what was learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from encoder_operator.likeness import difference
from encoder_operator.observation import ProbeResult, Replica
from encoder_operator.standing import Expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What was learned (None: nothing yet), and in words how the teachers disagree where none prevails."""

    expected: Expected | None
    disagreement: str | None


def lesson(replicas: Sequence[Replica], max_distance: int) -> Lesson:
    """What these replicas of one revision teach of its identity."""
    groups = _alike(replicas, max_distance)
    if not groups:
        return Lesson(expected=None, disagreement=None)
    if 2 * len(groups[0]) > sum(map(len, groups)):
        return Lesson(expected=groups[0][0][1], disagreement=None)
    told = "; ".join(f"{group[0][0]} measured {group[0][1].fingerprint[:12]}" for group in groups[:3])
    return Lesson(
        expected=None,
        disagreement=f"{len(groups)} identities among {sum(map(len, groups))} replicas and no majority: {told}",
    )


def overruling(replicas: Sequence[Replica], learned: Expected, max_distance: int, asked: int) -> Expected | None:
    """What more than half of the `asked` replicas of a revision teach alike, and of those that there are where fewer
    were asked for since; each differs from what was learned. None where what was learned stands."""
    groups = _alike(differing(replicas, learned, max_distance), max_distance)
    return groups[0][0][1] if groups and 2 * len(groups[0]) > max(asked, len(replicas)) else None


def is_undecided(replicas: Sequence[Replica], learned: Expected, max_distance: int, asked: int) -> bool:
    """Whether those that differ from what was learned are of one mind, and more of the `asked` replicas are yet to
    come: they tell who is right."""
    dissenters = differing(replicas, learned, max_distance)
    return len(_alike(dissenters, max_distance)) == 1 and len(replicas) < asked


def differing(replicas: Sequence[Replica], learned: Expected, max_distance: int) -> list[Replica]:
    """Those that measured another identity than what was learned."""
    return [
        each
        for each in replicas
        if each.identity is not None and difference(each.identity, learned, max_distance) is not None
    ]


def confirmed(replicas: Sequence[Replica], pin: Expected, max_distance: int) -> Expected | None:
    """What a pin, now taken back, is kept as: itself, where a replica that may teach measured what it said, with the
    signature that those teach where it had none. None: a pin that none confirms was wrong; were it kept as if learned,
    every replica would be held until a person found out."""
    teachers = [
        each
        for each in replicas
        if each.identity is not None and teaches(each) and difference(each.identity, pin, max_distance) is None
    ]
    if not teachers:
        return None
    return pin if pin.signature is not None else lesson(teachers, max_distance).expected or pin


def _alike(replicas: Sequence[Replica], max_distance: int) -> list[list[tuple[str, Expected]]]:
    """The teachers by what they teach, those of one mind together, the most of one mind first."""
    groups: list[list[tuple[str, Expected]]] = []
    for replica in sorted((each for each in replicas if teaches(each)), key=lambda each: each.name):
        identity = replica.identity
        if identity is None or identity.fingerprint is None:
            continue
        taught = Expected(fingerprint=identity.fingerprint, signature=identity.signature)
        for group in groups:
            if difference(identity, group[0][1], max_distance) is None:
                group.append((replica.name, taught))
                break
        else:
            groups.append([(replica.name, taught)])
    return sorted(groups, key=len, reverse=True)


def teaches(replica: Replica) -> bool:
    """Whether it serves, and has a fingerprint and a passing probe."""
    identity = replica.identity
    return (
        replica.serving
        and identity is not None
        and identity.fingerprint is not None
        and identity.probe is not None
        and identity.probe.result is ProbeResult.PASSED
    )
