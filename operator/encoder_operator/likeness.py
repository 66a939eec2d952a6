"""Likeness: whether what a replica measured of itself is what is expected of it.

Place: read by judge, learning and cordon; the rule is tests/contract/expected.json's. Must never: know of
policies, or treat a signature that cannot be compared as a difference.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct

from encoder_operator import vocabulary
from encoder_operator.observation import Identity
from encoder_operator.standing import Expected

_LENGTH = 16
_LAYOUT = f"<{_LENGTH}f"


def difference(identity: Identity, expected: Expected, max_distance: int) -> tuple[str, str] | None:
    """The reason and the measure in which an identity differs from the expected one; None where it does not.

    `max_distance` is in per mille of the expected signature's length. What was not measured does not differ.
    """
    if identity.fingerprint is not None and identity.fingerprint != expected.fingerprint:
        return (
            vocabulary.FINGERPRINT_DRIFT,
            f"fingerprint {identity.fingerprint[:12]} measured, {expected.fingerprint[:12]} expected",
        )
    away = distance(identity.signature, expected.signature)
    if away is not None and away > max_distance:
        measured = f"{away:.0f}" if math.isfinite(away) else "infinitely many"
        return (
            vocabulary.SIGNATURE_DRIFT,
            f"signature is {measured} per mille from the expected one, {max_distance} allowed",
        )
    return None


def distance(measured: str | None, expected: str | None) -> float | None:
    """1000 * ||measured - expected|| / ||expected||; None where one of the two is absent or no signature.

    Values that are not finite are infinitely far from everything.
    """
    left, right = _decode(measured), _decode(expected)
    if left is None or right is None:
        return None
    if not all(map(math.isfinite, left + right)):
        return math.inf
    length = math.hypot(*right)
    away = math.dist(left, right)
    if length == 0.0:
        return 0.0 if away == 0.0 else math.inf
    return 1000.0 * away / length


def _decode(signature: str | None) -> tuple[float, ...] | None:
    if signature is None:
        return None
    try:
        return struct.unpack(_LAYOUT, base64.b64decode(signature, validate=True))
    except (binascii.Error, ValueError, struct.error):
        return None
