"""The client: media in, embeddings out, as numpy arrays; sync (`Client`) and async (`AsyncClient`).

    with Client("http://vision.default") as client:
        result = client.encode([Image(Path("a.png").read_bytes())])
    result.items[0].rows  # (tokens, width)

Place: in a caller's program (`pip install encoderpool[client]`): it knows the wire alone. What it receives is checked
before it is handed over. Must never: import torch or what serves, or hand over rows that are not what was promised.
"""

from encoder_server.answers import Culprit, Identity, Limits, PromisedItem, Promises, Readiness
from encoder_server.client.asynchronous import AsyncClient
from encoder_server.client.failures import (
    CallerError,
    CheckFailedError,
    ConnectionFailedError,
    DeadlineError,
    EncoderPoolError,
    InvalidAnswerError,
    OverloadedError,
    PromiseMismatchError,
    ServerFaultError,
    UnavailableError,
)
from encoder_server.client.media import Audio, Frames, Image, Medium, Video
from encoder_server.client.results import Embedding, Embeddings
from encoder_server.client.retries import Retries
from encoder_server.client.synchronous import Client

__all__ = [
    "AsyncClient",
    "Audio",
    "CallerError",
    "CheckFailedError",
    "Client",
    "ConnectionFailedError",
    "Culprit",
    "DeadlineError",
    "Embedding",
    "Embeddings",
    "EncoderPoolError",
    "Frames",
    "Identity",
    "Image",
    "InvalidAnswerError",
    "Limits",
    "Medium",
    "OverloadedError",
    "PromiseMismatchError",
    "PromisedItem",
    "Promises",
    "Readiness",
    "Retries",
    "ServerFaultError",
    "UnavailableError",
    "Video",
]
