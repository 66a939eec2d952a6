"""Events: what a pool's user reads in `kubectl describe`.

Place: reconcile posts them after status. Must never: post one thing twice: names are digests of what an event is
about, so that the API server itself refuses a repetition after a restart of the operator.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from encoder_operator import vocabulary
from encoder_operator.announcements import Announcement
from encoder_operator.cluster import Cluster
from encoder_operator.spec import EncoderPool
from encoder_operator.timestamps import to_text

JsonObject = dict[str, Any]

_REMEMBERED = 4096
_LONGEST_MESSAGE = 1000


def body_of(pool: EncoderPool, told: Announcement, now: float) -> JsonObject:
    """An announcement as an Event of the pool."""
    content = "\n".join((pool.uid, told.reason, told.subject, told.key))
    name = f"{pool.name}.{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": pool.namespace},
        "involvedObject": {
            "apiVersion": vocabulary.API_VERSION,
            "kind": vocabulary.KIND,
            "name": pool.name,
            "namespace": pool.namespace,
            "uid": pool.uid,
        },
        "reason": told.reason,
        "message": f"{told.subject}: {told.message}"[:_LONGEST_MESSAGE],
        "type": "Warning" if told.warning else "Normal",
        "source": {"component": vocabulary.FIELD_MANAGER},
        "firstTimestamp": to_text(now),
        "lastTimestamp": to_text(now),
        "count": 1,
    }


class Recorder:
    """Posts announcements, each once; a bounded memory of names spares the API server the asking."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._posted: OrderedDict[str, None] = OrderedDict()

    async def post(self, pool: EncoderPool, told: Sequence[Announcement], now: float) -> None:
        """Post those that were not posted yet."""
        for announcement in told:
            body = body_of(pool, announcement, now)
            name = body["metadata"]["name"]
            if name in self._posted:
                continue
            await self._cluster.create_event(pool.namespace, body)
            self._posted[name] = None
            if len(self._posted) > _REMEMBERED:
                self._posted.popitem(last=False)
