"""Encode one picture with the client."""

from pathlib import Path

from encoder_server.client import Client, EncoderPoolError, Image, Promises


def allocate(promises: Promises) -> None:
    """Make room for the tokens: this is called before the model runs."""
    print("promised:", [item.tokens for item in promises.items])


with Client("http://127.0.0.1:8000", deadline_seconds=30) as client:
    try:
        result = client.encode([Image(Path("picture.png").read_bytes())], on_promise=allocate)
    except EncoderPoolError as error:
        raise SystemExit(f"{error}: items {[item.index for item in error.items]}") from error
    for item in result.items:
        print(f"item {item.index}: {item.rows.shape[0]} rows of {item.rows.shape[1]}, {item.dtype}")
