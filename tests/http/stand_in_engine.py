"""An engine program without a model: it speaks as `engine.messages` does, and does what its checkpoint's script says.

The checkpoint is a directory with `script.json`:

    weights     what it says its weights' digest is
    signature   16 numbers
    refuse      a sentence: Refused instead of Hello
    progress    stages that it tells of before (each with 1 of 4 done)
    start       hang and hang-once (leave a mark file) or exit, instead of Hello; gate, before it
    declared    the modalities that it has (default image)
    max_seconds how long media may be, by modality (default: no limit)
    golden      result of the golden probe (default ok)
    sizes       {"WIDTHxHEIGHT": action} for pictures of that size, "any" for all others
    hello       more fields of its Hello

What the file `later.json` says, if there is one, is true for probes after the start: `golden` and `signature` of the
engine with this `pid`, or of all. It writes its pid as a line of the file `pids`, the sizes of each batch that it is
given as one of `batches`, and those of it that it encodes (nobody had them cancelled by then) as one of `encoded`.

Actions: short, surplus (rows), wide, half (dtype), nan, layout, no-memory, stray, missing; before the promise
bad, early-layout, unpromised, die, hang, die-once and hang-once (leave a mark file), and gate (opens the pipe `gate` to
read, so that a test decides when to go on); after it crash-late, hang-late and gate-late.

It is started once or more by most tests, so it writes its messages itself, with the standard library alone:
importing `engine.messages` takes longer than most of them. The server validates whatever it says.
"""

import array
import base64
import io
import json
import mmap
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

WIDTH = 64
INLINE_BYTES = 96 * 1024  # As `engine.packets` has it.
LATE = {
    "layout": ("layout", "position ids do not match"),
    "no-memory": ("out_of_memory", "out of memory in the model"),
}
Fields = dict[str, Any]
"""A message, or a part of one, by the names of `engine.messages`."""


def main() -> None:
    arguments = sys.argv[1:]
    descriptor = int(arguments[arguments.index("--fd") + 1])
    model = next(each.removeprefix("--model=") for each in arguments if each.startswith("--model="))
    with socket.socket(fileno=descriptor) as sock:
        Engine(sock, Path(model)).run()


def send(sock: socket.socket, kind: str, fields: Fields, blobs: Sequence[bytes] = ()) -> None:
    head = json.dumps({"kind": kind, **fields}).encode()
    lengths = array.array("Q", [1 + len(blobs), len(head), *map(len, blobs)])
    data = b"".join((lengths.tobytes(), head, *blobs))
    try:
        if len(data) <= INLINE_BYTES:
            sock.send(data)
            return
        memory = os.memfd_create("stand-in")
        with open(memory, "wb") as file:
            file.write(data)
            file.flush()
            socket.send_fds(sock, [b"memory"], [memory])
    except (BrokenPipeError, ConnectionResetError):
        sys.exit(0)


def receive(sock: socket.socket) -> tuple[Fields, list[bytes]]:
    """The next message and its blobs; leaves when the server is gone."""
    try:
        data, descriptors, _, _ = socket.recv_fds(sock, INLINE_BYTES, 1)
    except ConnectionResetError:
        sys.exit(0)
    if not data:
        sys.exit(0)
    for descriptor in descriptors:
        with open(descriptor, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
            data = bytes(memory)
    (count,) = struct.unpack_from("<Q", data)
    start = 8 + 8 * count
    parts = []
    for length in struct.unpack_from(f"<{count}Q", data, 8):
        parts.append(data[start : start + length])
        start += length
    return json.loads(parts[0]), parts[1:]


def size_of(picture: bytes) -> tuple[int, int]:
    if picture.startswith(b"\x89PNG\r\n\x1a\n"):
        width, height = struct.unpack_from(">2I", picture, 16)
        return width, height
    from PIL import Image  # For the other formats alone: it is the most expensive import here.

    with Image.open(io.BytesIO(picture)) as image:
        return image.size


def promise(index: int, width: int, height: int) -> Fields:
    rows, columns = (max(2, 2 * round(side / 28)) for side in (height, width))
    return {"index": index, "modality": "image", "tokens": rows * columns // 4, "grid": (1, rows, columns)}


class Engine:
    def __init__(self, sock: socket.socket, model: Path) -> None:
        self.sock = sock
        self.model = model
        self.script = json.loads((model / "script.json").read_text())
        self.pending: list[tuple[Fields, list[bytes]]] = []

    def run(self) -> None:
        with open(self.model / "pids", "a") as log:
            log.write(f"{os.getpid()}\n")
        for stage in self.script.get("progress", []):
            send(self.sock, "progress", {"stage": stage, "done": 1, "total": 4})
        start = self.script.get("start")
        if start == "gate":
            self.wait_at_gate()
        if start in ("hang", "hang-once") and (self.marks_once() or start == "hang"):
            time.sleep(3600)
        if start == "exit":
            os._exit(5)
        if "refuse" in self.script:
            send(self.sock, "refused", {"detail": self.script["refuse"]})
            return
        send(self.sock, "hello", {"measured": self.measured(), **self.script.get("hello", {})})
        self.serve()

    def serve(self) -> None:
        while True:
            message, blobs = self.pending.pop(0) if self.pending else receive(self.sock)
            match message["kind"]:
                case "stop":
                    return
                case "probe":
                    self.grow_older()
                    items = [*self.golden(), *(self.probe(i + 1, s) for i, s in enumerate(message["sizes"]))]
                    probed = {"batch": message["batch"], "items": items, "signature": self.signature()}
                    send(self.sock, "probed", probed)
                case "encode":
                    self.encode(message["batch"], message["items"], blobs)

    def grow_older(self) -> None:
        file = self.model / "later.json"
        later = json.loads(file.read_text()) if file.exists() else {}
        if later.get("pid", os.getpid()) == os.getpid():
            self.script |= later

    def signature(self) -> str:
        numbers = self.script.get("signature", list(range(1, 17)))
        return base64.b64encode(struct.pack("<16f", *numbers)).decode()

    def measured(self) -> Fields:
        longest = self.script.get("max_seconds", {})
        return {
            "weights": self.script.get("weights", "b3" * 32),
            "processor": "77" * 32,
            "config": "c0" * 32,
            "classes": {"encoder": "StandIn"},
            "declared": {
                modality: {"width": WIDTH, "dtype": "float32", "check": "promise", "max_seconds": longest.get(modality)}
                for modality in self.script.get("declared", ["image"])
            },
            "probe": self.golden(),
            "signature": self.signature(),
            "advisory": {"device": "cpu", "dtype": "float32"},
        }

    def golden(self) -> list[Fields]:
        return [self.probe_item(0, 56, 56, self.script.get("golden", "ok"))]

    def probe(self, index: int, size: Fields) -> Fields:
        width, height = size["width"], size["height"]
        action = self.script.get("sizes", {}).get(f"{width}x{height}")
        if action == "die":
            os._exit(9)
        result = {"short": "count", "surplus": "count", "wide": "width", "layout": "layout"}.get(action, "ok")
        return self.probe_item(index, width, height, result)

    def probe_item(self, index: int, width: int, height: int, result: str) -> Fields:
        promised = promise(index, width, height)
        produced = promised["tokens"] - 1 if result == "count" else promised["tokens"]
        return {
            "index": index,
            "modality": "image",
            "width": width,
            "height": height,
            "grid": promised["grid"],
            "promised": promised["tokens"],
            "produced": None if result == "layout" else produced,
            "result": result,
        }

    def encode(self, batch: int, items: list[Fields], blobs: list[bytes]) -> None:
        sizes = [size_of(blobs[item["blob"]]) for item in items]
        self.note("batches", [f"{width}x{height}" for width, height in sizes])
        actions: dict[int, str] = {}
        promises: list[Fields] = []
        early: list[Fields] = []
        for item, (width, height) in zip(items, sizes, strict=True):
            actions[item["index"]] = action = self.action(width, height)
            promised = promise(item["index"], width, height)
            self.before_promise(action)
            expected = item.get("expected_tokens")
            if action == "bad":
                early.append(failure(item, "bad_media", "the picture is cut off"))
            elif action == "early-layout":
                early.append(failure(item, "layout", "shapes do not fit in the processor"))
            elif action == "unpromised":
                continue
            elif expected not in (None, promised["tokens"]):
                text = f"{expected} tokens were expected by the caller, {promised['tokens']} are promised"
                early.append(failure(item, "promise_mismatch", text, promised))
            else:
                promises.append(promised)
        send(self.sock, "promised", {"batch": batch, "promises": promises, "failures": early})
        self.run_model(batch, items, promises, actions, sizes)

    def run_model(
        self,
        batch: int,
        items: list[Fields],
        promises: list[Fields],
        actions: dict[int, str],
        sizes: list[tuple[int, int]],
    ) -> None:
        outputs: list[Fields] = []
        rows: list[bytes] = []
        late: list[Fields] = []
        done: list[str] = []
        for promised in self.wanted(batch, promises):
            action = actions[promised["index"]]
            done.append("x".join(map(str, sizes[promised["index"]])))
            self.after_promise(action)
            if action in LATE:
                item = next(item for item in items if item["index"] == promised["index"])
                late.append(failure(item, *LATE[action], promised))
            elif action != "missing":
                output, data = encoded(promised, action, len(rows))
                outputs.append(output)
                rows.append(data)
                if action == "stray":
                    outputs.append(output | {"index": 99})
        self.note("encoded", done)
        send(self.sock, "encoded", {"batch": batch, "outputs": outputs, "failures": late}, rows)

    def wanted(self, batch: int, promises: list[Fields]) -> Iterator[Fields]:
        """Each in its turn, but for what of this batch is cancelled by then."""
        for promised in promises:
            while select.select([self.sock], [], [], 0)[0]:
                self.pending.append(receive(self.sock))
            told = [message for message, _ in self.pending if message["kind"] == "cancel" and message["batch"] == batch]
            if not told or promised["index"] not in told[-1]["items"]:
                yield promised

    def note(self, name: str, sizes: list[str]) -> None:
        with open(self.model / name, "a") as log:
            log.write(" ".join(sizes) + "\n")

    def action(self, width: int, height: int) -> str:
        actions: dict[str, str] = self.script.get("sizes", {})
        return actions.get(f"{width}x{height}", actions.get("any", "good"))

    def marks_once(self) -> bool:
        mark = self.model / "marked"
        first = not mark.exists()
        mark.touch()
        return first

    def before_promise(self, action: str) -> None:
        once = action.endswith("-once") and self.marks_once()
        if action == "die" or (once and action == "die-once"):
            os._exit(9)
        if action == "hang" or (once and action == "hang-once"):
            time.sleep(3600)
        if action == "gate":
            self.wait_at_gate()

    def after_promise(self, action: str) -> None:
        if action == "crash-late":
            os._exit(7)
        if action == "hang-late":
            time.sleep(3600)
        if action == "gate-late":
            self.wait_at_gate()

    def wait_at_gate(self) -> None:
        (self.model / "at-gate").touch()
        with open(self.model / "gate", "rb"):
            pass


def failure(item: Fields, code: str, detail: str, promised: Fields | None = None) -> Fields:
    return {
        "index": item["index"],
        "modality": item["modality"],
        "code": code,
        "detail": detail,
        "promised": None if promised is None else promised["tokens"],
        "grid": None if promised is None else promised["grid"],
    }


def encoded(promised: Fields, action: str, blob: int) -> tuple[Fields, bytes]:
    tokens = promised["tokens"] + {"short": -1, "surplus": 3}.get(action, 0)
    width = WIDTH + 1 if action == "wide" else WIDTH
    dtype = "float16" if action == "half" else "float32"
    values = struct.pack(f"<{tokens * width}{'e' if dtype == 'float16' else 'f'}", *range(tokens * width))
    output = {
        "index": promised["index"],
        "modality": "image",
        "shape": (tokens, width),
        "dtype": dtype,
        "finite": action != "nan",
        "blob": blob,
    }
    return output, values


if __name__ == "__main__":
    main()
