"""Identities: ask each replica what it is, and believe only what it says twice.

Place: called by observe. Must never: wait long for one replica, read an unbounded answer, follow a redirect, or
take another pod's answer (an address is used again) for this one's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import aiohttp

from encoder_operator import vocabulary
from encoder_operator.answers import TooLargeError, read_bounded, replica_url
from encoder_operator.identity_document import parse_identity
from encoder_operator.observation import Identity, Replica

_AT_ONCE = 32
_LARGEST_ANSWER = 256 * 1024
_TIMEOUT = aiohttp.ClientTimeout(total=3.0, connect=1.5)


class Identities(Protocol):
    """Where replicas' identities are read from."""

    async def read(self, replicas: Sequence[Replica]) -> tuple[Replica, ...]:
        """These replicas, with their identities where they could be read and confirmed."""


class HttpIdentities:
    """Reads GET /v1/identity from each replica's address, some of them at once."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def read(self, replicas: Sequence[Replica]) -> tuple[Replica, ...]:
        """These replicas, with their identities where they could be read and confirmed."""
        permits = asyncio.Semaphore(_AT_ONCE)

        async def one(replica: Replica) -> Replica:
            async with permits:
                return replace(replica, identity=await self._confirmed(replica))

        return tuple(await asyncio.gather(*map(one, replicas)))

    async def _confirmed(self, replica: Replica) -> Identity | None:
        if replica.address is None:
            return None
        first = await self._ask(replica.address)
        if first is None or first.pod_uid != replica.uid:
            return None
        return confirmed(first, await self._ask(replica.address))

    async def _ask(self, address: str) -> Identity | None:
        url = replica_url(address, vocabulary.PATH_IDENTITY)
        try:
            async with self._session.get(url, timeout=_TIMEOUT, allow_redirects=False) as answer:
                if answer.status != 200:
                    return None
                body = await read_bounded(answer.content, _LARGEST_ANSWER)
        except (aiohttp.ClientError, TimeoutError, OSError, TooLargeError):
            return None
        return parse_identity(body)


def confirmed(first: Identity, second: Identity | None) -> Identity | None:
    """The later of two readings, where both are of one boot of one pod in one state; None where they differ."""
    if second is None:
        return None
    mine = (first.pod_uid, first.boot_id, first.fingerprint, first.state)
    return second if mine == (second.pod_uid, second.boot_id, second.fingerprint, second.state) else None
