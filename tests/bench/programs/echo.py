"""A ceiling: an aiohttp handler that only reads the body and replies with so many bytes. `echo.py PORT BYTES`."""

import sys

from aiohttp import web


def main() -> None:
    port, size = int(sys.argv[1]), int(sys.argv[2])
    reply = b"a" * size

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=reply, content_type="application/octet-stream")

    async def ready(request: web.Request) -> web.Response:
        return web.Response()

    app = web.Application(client_max_size=2**26)
    app.router.add_post("/", answer)
    app.router.add_get("/readyz", ready)
    web.run_app(app, host="127.0.0.1", port=port, access_log=None, print=None)


if __name__ == "__main__":
    main()
