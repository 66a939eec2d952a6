"""Loops without a server: `loops.py bare|users CHECKPOINT PICTURE BATCH`.

`bare` is the ceiling: decode, the family's processor and its tower, a batch at a time, rows as bytes, and an engine's
settings of the heap. `users` is what is written first: transformers as it comes, one picture after the other, the
processor's PIL backend, the tower with its Conv3d (random weights of the same configuration: speed does not depend on
them).

Reads a number of seconds from each line of its input, and answers it with one of JSON.
"""

import io
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

Step = Callable[[], int]


def bare(checkpoint: Path, content: bytes, batch: int) -> Step:
    """The best loop: a step is one batch."""
    from encoder_server.encoders import Picture, Source
    from encoder_server.encoders.registry import AUTO, find
    from encoder_server.engine import heap

    heap.keep()
    encoder: Any = find(AUTO, checkpoint).load(
        Source(model=checkpoint, processor=checkpoint, device="cpu", dtype="float32")
    )

    def step() -> int:
        pictures = [Picture(pixels=np.array(Image.open(io.BytesIO(content)).convert("RGB"))) for _ in range(batch)]
        for rows in encoder.encode(encoder.preprocess(pictures)):
            rows.numpy().tobytes()
        return batch

    return step


def users(checkpoint: Path, content: bytes, batch: int) -> Step:
    """The loop that users write: a step is one picture, whatever `batch` says."""
    import transformers
    from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLVisionConfig
    from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VisionTransformerPretrainedModel

    config = json.loads((checkpoint / "config.json").read_text())
    model: Any = Qwen2_5_VisionTransformerPretrainedModel(Qwen2_5_VLVisionConfig(**config["vision_config"])).eval()
    processor: Any = transformers.AutoImageProcessor.from_pretrained(checkpoint, backend="pil")

    def step() -> int:
        inputs = processor(images=[Image.open(io.BytesIO(content)).convert("RGB")], return_tensors="pt")
        with torch.no_grad():
            output = model(inputs["pixel_values"], grid_thw=inputs["image_grid_thw"])
        output.pooler_output.numpy().tobytes()
        return 1

    return step


def main() -> None:
    torch.set_num_threads(1)
    kind, checkpoint, picture, batch = sys.argv[1:]
    make = {"bare": bare, "users": users}[kind]
    with torch.inference_mode():
        step = make(Path(checkpoint), Path(picture).read_bytes(), int(batch))
        step()
        print("ready", flush=True)
        for line in sys.stdin:
            end, items = time.perf_counter() + float(line), 0
            begun, begun_cpu = time.perf_counter(), time.process_time()
            while time.perf_counter() < end or not items:
                items += step()
            cpu = time.process_time() - begun_cpu
            print(json.dumps({"items": items, "seconds": time.perf_counter() - begun, "cpu_seconds": cpu}), flush=True)


if __name__ == "__main__":
    main()
