"""An engine program without a model: it speaks `engine.messages` and does what its checkpoint's script says.

The checkpoint is a directory with `script.json`:

    weights     what it says its weights' digest is
    signature   16 numbers
    refuse      a sentence: Refused instead of Hello
    golden      result of the golden probe (default ok)
    sizes       {"WIDTHxHEIGHT": action} for pictures of that size

Actions: short, surplus (rows), wide, half (dtype), nan, layout, bad, mismatch, stray, missing, die, hang,
die-once (leaves a mark file), crash-late (after the promise), and gate (opens the pipe `gate` to read, so that
a test decides when to go on).
"""

import argparse
import base64
import io
import json
import os
import socket
import struct
import sys
import time
from pathlib import Path

from PIL import Image

from encoder_server.engine import messages as m

WIDTH = 64


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int)
    parser.add_argument("--model", type=Path)
    for name in ("--encoder", "--processor", "--threads", "--device", "--dtype", "--max-pixels"):
        parser.add_argument(name)
    options = parser.parse_args()
    with socket.socket(fileno=options.fd) as sock:
        try:
            Engine(sock, options.model).run()
        except m.ConnectionLostError:
            sys.exit(0)


def promise(index: int, width: int, height: int) -> m.Promise:
    rows, columns = (max(2, 2 * round(side / 28)) for side in (height, width))
    return m.Promise(index=index, modality="image", tokens=rows * columns // 4, grid=(1, rows, columns))


class Engine:
    def __init__(self, sock: socket.socket, model: Path) -> None:
        self.sock = sock
        self.model = model
        self.script = json.loads((model / "script.json").read_text())

    def run(self) -> None:
        if "refuse" in self.script:
            m.send(self.sock, m.Refused(detail=self.script["refuse"]))
            return
        m.send(self.sock, m.Hello(measured=self.measured()))
        while True:
            received = m.receive(self.sock)
            match received.message:
                case m.Stop():
                    return
                case m.Probe(batch=batch, sizes=sizes):
                    items = (*self.golden(), *(self.probe(i + 1, s) for i, s in enumerate(sizes)))
                    m.send(self.sock, m.Probed(batch=batch, items=items))
                case m.Encode(batch=batch, items=items):
                    self.encode(batch, items, received.blobs)

    def measured(self) -> m.Measured:
        numbers = self.script.get("signature", list(range(1, 17)))
        return m.Measured(
            weights=self.script.get("weights", "b3" * 32),
            processor="77" * 32,
            classes={"encoder": "StandIn"},
            declared={"image": m.Declared(width=WIDTH, dtype="float32", check="promise")},
            probe=self.golden(),
            signature=base64.b64encode(struct.pack("<16f", *numbers)).decode(),
            advisory={"device": "cpu", "dtype": "float32"},
        )

    def golden(self) -> tuple[m.ProbeItem, ...]:
        return (self.probe_item(0, 56, 56, self.script.get("golden", "ok")),)

    def probe(self, index: int, size: m.Size) -> m.ProbeItem:
        action = self.script.get("sizes", {}).get(f"{size.width}x{size.height}")
        if action == "die":
            os._exit(9)
        result = {"short": "count", "surplus": "count", "wide": "width", "layout": "layout"}.get(action, "ok")
        return self.probe_item(index, size.width, size.height, result)

    def probe_item(self, index: int, width: int, height: int, result: str) -> m.ProbeItem:
        promised = promise(index, width, height)
        produced = promised.tokens - 1 if result == "count" else promised.tokens
        return m.ProbeItem(
            index=index,
            modality="image",
            width=width,
            height=height,
            grid=promised.grid,
            promised=promised.tokens,
            produced=None if result == "layout" else produced,
            result=result,
        )

    def encode(self, batch: int, items: tuple[m.Item, ...], blobs: tuple[memoryview, ...]) -> None:
        actions, promises, early = {}, [], []
        for item in items:
            with Image.open(io.BytesIO(blobs[item.blob])) as image:
                width, height = image.size
            actions[item.index] = action = self.script.get("sizes", {}).get(f"{width}x{height}", "good")
            promised = promise(item.index, width, height)
            self.before_promise(action)
            if action == "bad":
                early.append(failure(item, "bad_media", "the picture is cut off"))
            elif item.expected_tokens not in (None, promised.tokens):
                text = f"{item.expected_tokens} tokens were expected by the caller, {promised.tokens} are promised"
                early.append(failure(item, "promise_mismatch", text, promised))
            else:
                promises.append(promised)
        m.send(self.sock, m.Promised(batch=batch, promises=tuple(promises), failures=tuple(early)))
        outputs, rows, late = [], [], []
        for promised in promises:
            action = actions[promised.index]
            if action == "crash-late":
                os._exit(7)
            if action == "layout":
                item = next(item for item in items if item.index == promised.index)
                late.append(failure(item, "layout", "position ids do not match", promised))
            elif action != "missing":
                output, data = encoded(promised, action, len(rows))
                outputs.append(output)
                rows.append(data)
                if action == "stray":
                    outputs.append(m.Output(**{**vars(output), "index": 99}))
        m.send(self.sock, m.Encoded(batch=batch, outputs=tuple(outputs), failures=tuple(late)), rows)

    def before_promise(self, action: str) -> None:
        mark = self.model / "died"
        if action == "die" or (action == "die-once" and not mark.exists()):
            mark.touch()
            os._exit(9)
        if action == "hang":
            time.sleep(3600)
        if action == "gate":
            with open(self.model / "gate", "rb"):
                pass


def failure(item: m.Item, code: str, detail: str, promised: m.Promise | None = None) -> m.Failure:
    return m.Failure(
        index=item.index,
        modality=item.modality,
        code=code,
        detail=detail,
        promised=None if promised is None else promised.tokens,
        grid=None if promised is None else promised.grid,
    )


def encoded(promised: m.Promise, action: str, blob: int) -> tuple[m.Output, bytes]:
    tokens = promised.tokens + {"short": -1, "surplus": 3}.get(action, 0)
    width = WIDTH + 1 if action == "wide" else WIDTH
    dtype = "float16" if action == "half" else "float32"
    values = struct.pack(f"<{tokens * width}{'e' if dtype == 'float16' else 'f'}", *range(tokens * width))
    output = m.Output(
        index=promised.index,
        modality="image",
        shape=(tokens, width),
        dtype=dtype,
        finite=action != "nan",
        blob=blob,
    )
    return output, values


if __name__ == "__main__":
    main()
