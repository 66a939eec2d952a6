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
from encoder_server.multipart import ManyPartsError
from encoder_server.settings import Limits

_FEW_PARTS = 16


class Intake:
    """Takes the media of every request; `fetcher` None: none is fetched."""

    def __init__(self, limits: Limits, fetcher: Fetcher | None) -> None:
        self._limits = limits
        self._last: tuple[Mapping[str, Declared], Limits] | None = None
        self._fetcher = fetcher
        self._headers = Headers()

    def at_once(self, body: Body, declared: Mapping[str, Declared]) -> Sequence[Medium] | None:
        """Return the media in `body`, as `take` does, where that needs no thread; None where `take` must be waited for.

        Raises what `media.take` raises.
        """
        may_fetch = self._fetcher is not None and not multipart.is_form(body.content_type)
        if may_fetch or len(body.data) > aside.SMALL_BYTES:
            return None
        limits = self._within(declared)
        try:
            return media.take(body, limits.modalities or (), limits, self._headers.known, _FEW_PARTS)
        except (UnknownHeaderError, ManyPartsError):
            return None

    async def take(self, body: Body, declared: Mapping[str, Declared], permit: Permit) -> Sequence[Medium]:
        """Return the media in `body`, each one that an encoder which has `declared` takes.

        Raises what `media.take` and `Fetcher.fill` raise.
        """
        limits = self._within(declared)
        modalities = limits.modalities or ()
        if self._fetcher is not None:
            items = await asyncio.to_thread(media.read, body, limits)
            items = await self._fetcher.fill(items, len(body.data), permit)
            return await asyncio.to_thread(media.open_all, items, modalities, limits, self._headers.read)
        return await asyncio.to_thread(media.take, body, modalities, limits, self._headers.read)

    def _within(self, declared: Mapping[str, Declared]) -> Limits:
        """Return the limits within what the encoder takes; what was asked last is known, for it is always the same."""
        if self._last is None or self._last[0] is not declared:
            self._last = declared, self._limits.within(declared)
        return self._last[1]
