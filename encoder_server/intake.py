"""Intake: from a request's body to its media, off the event loop but where all is known already.

Place: the pipeline's stage `media`; the parsing is `media`'s, the fetching `fetch`'s. Must never: open a medium on the
event loop: how long a header takes to read is for its sender to say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from encoder_server import aside, media, multipart
from encoder_server.admission import Permit
from encoder_server.engine.messages import Declared
from encoder_server.fetch import Fetcher
from encoder_server.headers import Headers, UnknownHeaderError
from encoder_server.media import Body, Medium
from encoder_server.settings import Limits

_FEW_PARTS = 16


class Intake:
    """Takes the media of every request; `fetcher` None: none is fetched."""

    def __init__(self, limits: Limits, fetcher: Fetcher | None) -> None:
        self._all = self._limits = limits
        self._declared: Mapping[str, Declared] | None = None
        self._fetcher = fetcher
        self._headers = Headers()

    async def take(self, body: Body, declared: Mapping[str, Declared], permit: Permit) -> Sequence[Medium]:
        """Return the media in `body`, each one that an encoder which has `declared` takes.

        Raises what `media.take` and `Fetcher.fill` raise.
        """
        if declared is not self._declared:
            self._declared, self._limits = declared, self._all.within(declared)
        modalities = self._limits.modalities or ()
        if self._fetcher is not None:
            items = await asyncio.to_thread(media.read, body, self._limits)
            items = await self._fetcher.fill(items, len(body.data), permit)
            return await asyncio.to_thread(media.open_all, items, modalities, self._limits, self._headers.read)
        if len(body.data) <= aside.SMALL_BYTES and self._has_few_parts(body):
            try:
                return media.take(body, modalities, self._limits, self._headers.known)
            except UnknownHeaderError:
                pass
        return await asyncio.to_thread(media.take, body, modalities, self._limits, self._headers.read)

    def _has_few_parts(self, body: Body) -> bool:
        """Say whether reading `body` takes no longer than its bytes do: no more parts are read than items are allowed,
        and to count them takes as long as to find them."""
        return self._limits.max_items <= _FEW_PARTS or multipart.has_at_most(_FEW_PARTS, body.data)
