"""Intake: from a request's body to its media, off the event loop but where all is known already.

Place: the pipeline's stage `media`; the parsing is `media`'s, the fetching `fetch`'s. Must never: open a medium on the
event loop: how long a header takes to read is for its sender to say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from encoder_server import aside, media, multipart
from encoder_server.admission import Permit
from encoder_server.fetch import Fetcher
from encoder_server.headers import Headers, UnknownHeaderError
from encoder_server.media import Body, Medium
from encoder_server.settings import Limits

_FEW_PARTS = 16


class Intake:
    """Takes the media of every request; `fetcher` None: none is fetched."""

    def __init__(self, limits: Limits, fetcher: Fetcher | None) -> None:
        self._limits = limits
        self._fetcher = fetcher
        self._headers = Headers()

    def at_once(self, body: Body, modalities: Sequence[str]) -> Sequence[Medium] | None:
        """Return the media in `body` where that needs no thread; None where `take` must be waited for.

        Raises what `media.take` raises.
        """
        may_fetch = self._fetcher is not None and not multipart.is_form(body.content_type)
        if may_fetch or len(body.data) > aside.SMALL_BYTES or not self._has_few_parts(body):
            return None
        try:
            return media.take(body, modalities, self._limits, self._headers.known)
        except UnknownHeaderError:
            return None

    async def take(self, body: Body, modalities: Sequence[str], permit: Permit) -> Sequence[Medium]:
        """Return the media in `body`; raises what `media.take` and `Fetcher.fill` raise."""
        if self._fetcher is not None:
            items = await asyncio.to_thread(media.read, body, self._limits)
            items = await self._fetcher.fill(items, len(body.data), permit)
            return await asyncio.to_thread(media.open_all, items, modalities, self._limits, self._headers.read)
        return await asyncio.to_thread(media.take, body, modalities, self._limits, self._headers.read)

    def _has_few_parts(self, body: Body) -> bool:
        """Say whether reading `body` takes no longer than its bytes do: no more parts are read than items are allowed,
        and to count them takes as long as to find them."""
        return self._limits.max_items <= _FEW_PARTS or multipart.has_at_most(_FEW_PARTS, body.content_type, body.data)
