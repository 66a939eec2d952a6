"""Asking: whom to ask for an opinion now, about which replica.

Place: cordon asks it once verdicts stand. Must never: ask two at once in one pool, or a replica that a person wants
left alone; asking is no act against anyone, so that no budget stands in its way.

One question at a time keeps a pool's probes few. The worst replica is first, as in the budget; but who was asked
about once is asked about to the end, or two that are worst in turn would undo each other's questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from encoder_operator.actions import Action, AskPeer
from encoder_operator.budget import badness
from encoder_operator.observation import Observation, Replica
from encoder_operator.opinion import failed_sizes, may_be_asked, subject_of
from encoder_operator.orders import question
from encoder_operator.verdict import Judgement, Verdict

# A probe of a few pictures takes about as long.
_SOON_SECONDS = 1.0


def ask(
    observation: Observation, suspects: Sequence[Replica], verdicts: Mapping[str, Verdict], peers: Sequence[Replica]
) -> tuple[AskPeer, ...]:
    """The next question, if any: `suspects` are those to be cordoned but for an opinion, `peers` may be asked."""
    waiting = [(each, awaited) for each in suspects if (awaited := verdicts[each.name].awaits) is not None]
    if any(awaited.open for _, awaited in waiting):
        return ()
    able = {each.name: each for each in peers if may_be_asked(each)}
    for suspect, awaited in sorted(waiting, key=lambda each: (not each[1].begun, badness(each[0]))):
        found = next((able[name] for name in awaited.peers if name in able), None)
        subject = subject_of(suspect)
        if found is None or found.identity is None or subject is None:
            continue
        asked = question(subject, found.identity.boot_id, failed_sizes(suspect.identity), observation.at)
        return (AskPeer(replica=found, question=asked, suspect=suspect.name, reason=awaited.reason),)
    return ()


def next_look_at(observation: Observation, judgement: Judgement, actions: Sequence[Action]) -> float | None:
    """When an answer may be there (Unix seconds); None where nobody is asked."""
    opened = any(each.awaits is not None and each.awaits.open for each in judgement.replicas)
    asks = any(isinstance(each, AskPeer) for each in actions)
    return observation.at + _SOON_SECONDS if opened or asks else None
