"""Flushing: what a replica at fault has put into the pool's cache is nobody's hit any more.

Place: cordon asks for it, last. Must never: flush for what is not evidence against a replica, order what a boot was
ordered already, or remember anything that is not on a pod.

At fault are the boots for whose traffic the operator cordoned, as the records say, and those that served and are then
held because their own golden probe failed, or whose numbers differ under an equal fingerprint: their entries have the
key of everybody's. Others that are held have another fingerprint, and so other keys, or never served.

A shared cache hands entries on, so all replicas of the revision are told, each boot once: the first that can bans the
producers in the Redis for all. Where nothing is shared, a boot at fault has its entries to itself, and is told alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from encoder_operator import vocabulary
from encoder_operator.actions import Cordon, OrderFlush
from encoder_operator.observation import CordonRecord, FlushOrder, Identity, Observation, Replica
from encoder_operator.spec import EncoderPool

MOST_PRODUCERS = 32
_LONGEST_PRODUCER = 256
# Entries live in a Redis for a day, and a ban as long again: what is older is nowhere.
_FORGOTTEN_SECONDS = 2 * 86400.0
_HEARING = (vocabulary.STATE_READY, vocabulary.STATE_HELD, vocabulary.STATE_CORDONED)


def flushes(
    pool: EncoderPool, observation: Observation, cordoned: Sequence[Cordon], replicas: Sequence[Replica]
) -> tuple[OrderFlush, ...]:
    """The orders that `replicas` still lack; `cordoned` are the cordons that are decided in this pass."""
    cache = pool.spec.cache
    if cache.redis is None and not cache.memory_bytes:
        return ()
    records = {each.replica.name: each.record for each in cordoned}
    found = sorted(_at_fault(observation, records), reverse=True)[:MOST_PRODUCERS]
    orders = []
    for replica in replicas:
        identity = replica.identity
        if identity is None or identity.state not in _HEARING:
            continue
        own = _producer(replica, identity.boot_id)
        named = tuple(
            sorted(
                producer
                for _, revision, producer in found
                if revision == replica.revision and (cache.redis is not None or producer == own)
            )
        )
        if not set(named) <= set(_ordered(replica, identity)):
            orders.append(OrderFlush(replica=replica, order=_order(identity, named)))
    return tuple(orders)


def _at_fault(observation: Observation, records: dict[str, CordonRecord]) -> Iterator[tuple[float, str, str]]:
    """Since when it is known of whom, of which revision: newest sort last."""
    for replica in observation.replicas:
        record = records.get(replica.name, replica.cordon)
        if record is not None and record.by == vocabulary.FIELD_MANAGER and record.boot_id is not None:
            yield from _named(replica, record.boot_id, record.since, observation.at)
        identity = replica.identity
        if identity is not None and _turned_out_bad(identity):
            yield from _named(replica, identity.boot_id, observation.at, observation.at)


def _named(replica: Replica, boot_id: str, since: float, now: float) -> Iterator[tuple[float, str, str]]:
    producer = _producer(replica, boot_id)
    if now - since < _FORGOTTEN_SECONDS and len(producer) <= _LONGEST_PRODUCER:
        yield since, replica.revision, producer


def _turned_out_bad(identity: Identity) -> bool:
    if identity.state != vocabulary.STATE_HELD:
        return False
    ordered = identity.probe is not None and identity.probe.order_id is not None
    return identity.reason == vocabulary.SIGNATURE_DRIFT or (identity.reason == vocabulary.PROBE_FAILED and ordered)


def _producer(replica: Replica, boot_id: str) -> str:
    """As a server names itself in what it makes."""
    return f"{replica.uid}/{boot_id}"


def _ordered(replica: Replica, identity: Identity) -> tuple[str, ...]:
    order = replica.flush_order
    return order.producers if order is not None and order.boot_id == identity.boot_id else ()


def _order(identity: Identity, producers: tuple[str, ...]) -> FlushOrder:
    """One order whoever gives it again: its name is of those that it names."""
    digest = hashlib.sha256("\n".join(producers).encode()).hexdigest()
    return FlushOrder(id=f"flush-{digest[:16]}", boot_id=identity.boot_id, producers=producers)
