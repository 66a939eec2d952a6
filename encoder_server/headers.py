"""Headers: what the headers of media said, by content, so that a medium that comes again is not opened again.

Place: beside `media`, which opens what is not known. Limits are a server's own and its encoder's, so what was within
them stays so.
Must never: keep content, or the name that a caller gives to it.
"""

from __future__ import annotations

from collections import OrderedDict

from encoder_server import media
from encoder_server.multipart import Content
from encoder_server.settings import Limits
from encoder_server.size import Size

_MOST = 16384


class UnknownHeaderError(Exception):
    """A medium must be opened first."""


class Headers:
    """The sizes and costs of media that were opened, the least recently asked for leave first."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], tuple[Size, int]] = OrderedDict()

    def known(self, modality: str, content: Content, digest: str, place: str, limits: Limits) -> tuple[Size, int]:
        """Return what is known; raises UnknownHeaderError where nothing is. Quick: it opens nothing."""
        found = self._known.get((modality, digest))
        if found is None:
            raise UnknownHeaderError
        return found

    def read(self, modality: str, content: Content, digest: str, place: str, limits: Limits) -> tuple[Size, int]:
        """Return what is known or, else, what the header says; raises as `media.measure` does. For any thread."""
        key = (modality, digest)
        found = self._known.pop(key, None) or media.measure(modality, content, digest, place, limits)
        self._known[key] = found
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
        return found
