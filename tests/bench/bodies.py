"""Bodies: pictures of a given size in bytes or pixels, and the requests that hold them."""

from __future__ import annotations

import base64
import io
import json
import random
from collections.abc import Sequence

from PIL import Image

BOUNDARY = "4bd7a3a1c5e94f0f9c1d20c54e6f7a88"  # As long as those that clients make: a short one takes longer to find.
FORM = f"multipart/form-data; boundary={BOUNDARY}"


def noise(width: int, height: int, seed: int = 0, quality: int = 75) -> bytes:
    """A JPEG of noise: its bytes are as many as a photograph's, or more."""
    pixels = random.Random(seed).randbytes(width * height // 16 * 3)
    picture = Image.frombytes("RGB", (width // 4, height // 4), pixels).resize(
        (width, height), Image.Resampling.BICUBIC
    )
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=quality)
    return file.getvalue()


def of_bytes(width: int, height: int, size: int) -> bytes:
    """A JPEG of these pixels whose file is of about `size` bytes: the best quality that is not more."""
    return next(found for quality in range(95, 0, -3) if len(found := noise(width, height, quality=quality)) <= size)


def form(pictures: Sequence[bytes]) -> bytes:
    """The body of a form with these pictures."""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="item"\r\nContent-Type: image/jpeg\r\n\r\n'.encode()
    return b"".join(head + picture + b"\r\n" for picture in pictures) + f"--{BOUNDARY}--\r\n".encode()


def document(pictures: Sequence[bytes]) -> bytes:
    """The same as JSON with base64."""
    data = [base64.b64encode(picture).decode() for picture in pictures]
    return json.dumps({"items": [{"modality": "image", "data": each} for each in data]}).encode()
