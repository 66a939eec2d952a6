"""A peer: LitServe, batches of eight, base64 in JSON as its documents have it. `litserve_server.py PORT CHECKPOINT`."""

import base64
import sys
from typing import Any

import litserve

from tests.bench.programs.tower import Tower


class Api(litserve.LitAPI):  # type: ignore[misc]
    def setup(self, device: str) -> None:
        self.tower = Tower(sys.argv[2])

    def decode_request(self, request: dict[str, Any]) -> bytes:
        return base64.b64decode(request["data"])

    def batch(self, inputs: list[bytes]) -> list[bytes]:
        return inputs

    def unbatch(self, output: list[bytes]) -> list[bytes]:
        return output

    def predict(self, inputs: list[bytes]) -> list[bytes]:
        return self.tower.rows(inputs)

    def encode_response(self, output: bytes) -> dict[str, str]:
        return {"data": base64.b64encode(output).decode()}


if __name__ == "__main__":
    server = litserve.LitServer(Api(max_batch_size=8, batch_timeout=0.002), accelerator="cpu", workers_per_device=1)
    server.run(port=int(sys.argv[1]), host="127.0.0.1", log_level="warning", generate_client_file=False)
