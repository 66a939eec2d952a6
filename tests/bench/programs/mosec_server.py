"""A peer: mosec with one process for the model, batches of eight, raw bytes in and out.

`mosec_server.py --port PORT`, with the checkpoint in $CHECKPOINT: its command line is its own.
"""

import os

from mosec import Server, Worker

from tests.bench.programs.tower import Tower


class Encode(Worker):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.tower = Tower(os.environ["CHECKPOINT"])

    def deserialize(self, data: bytes) -> bytes:
        return data

    def serialize(self, data: bytes) -> bytes:
        return data

    def forward(self, data: list[bytes]) -> list[bytes]:
        return self.tower.rows(data)


if __name__ == "__main__":
    server = Server()
    server.append_worker(Encode, num=int(os.environ.get("WORKERS", "1")), max_batch_size=8, max_wait_time=2)
    server.run()
