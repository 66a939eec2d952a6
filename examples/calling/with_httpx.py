"""Encode one picture with httpx alone."""

from pathlib import Path

import httpx
import safetensors.numpy

picture = ("item", ("picture.png", Path("picture.png").read_bytes(), "image/png"))
answer = httpx.post("http://127.0.0.1:8000/v1/encode", files=[picture], timeout=60)
if answer.is_error:
    error = answer.json()["error"]
    raise SystemExit(f"{error['code']}: {error['message']} (request {error['request_id']})")
rows = safetensors.numpy.load(answer.content)["item.0"]
print(f"{rows.shape[0]} rows of {rows.shape[1]}")
