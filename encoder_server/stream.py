"""A stream: an answer whose first part, the promises, is sent before the model runs.

Place: opened by `routes` when the pipeline has the promises; ended with the rows, or by `answering` with the error.
Must never: be opened before the request was validated, or be left without its second part.
"""

from __future__ import annotations

from functools import cached_property

from aiohttp import web

from encoder_server import ids, keys, wire
from encoder_server.lifecycle import State
from encoder_server.multipart import render_end, render_part


class Stream:
    """The two-part answer to one request."""

    def __init__(self, request: web.Request) -> None:
        self._request = request

    # Made when it is asked for: few callers want their answer in two parts.
    @cached_property
    def _boundary(self) -> str:
        return ids.fresh()

    @cached_property
    def response(self) -> web.StreamResponse:
        """The answer as the framework has it."""
        content_type = f'{wire.MULTIPART}; boundary="{self._boundary}"'
        return web.StreamResponse(headers={"Content-Type": content_type})

    @property
    def opened(self) -> bool:
        """Whether the first part is on its way: the answer's status is 200 whatever comes."""
        return "response" in self.__dict__ and self.response.prepared

    async def promise(self, promises: bytes) -> None:
        """Send the first part."""
        self.response.headers[keys.REQUEST_ID_HEADER] = self._request[keys.REQUEST_ID]
        if self._request.app[keys.REPLICA].standing.state is not State.READY:
            self.response.force_close()
        await self.response.prepare(self._request)
        await self.response.write(render_part(self._boundary, wire.JSON, promises))

    async def finish(self, content_type: str, body: bytes, status: int | None = None) -> None:
        """Send the second part; `status` is that of an error."""
        await self.response.write(render_part(self._boundary, content_type, body, status))
        await self.response.write(render_end(self._boundary))


STREAM = web.RequestKey("stream", Stream)
