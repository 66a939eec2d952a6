"""Argument types: what a value on the command line may be.

Place: used by `cli`, which turns what is raised here into one line. Pure. Must never: know of one argument.
"""

from __future__ import annotations

import argparse


def count(text: str) -> int:
    """A whole number of at least 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return value


def names(text: str) -> frozenset[str]:
    """Names of lower-case letters, with commas between them."""
    found = text.split(",")
    if not all(name.isascii() and name.isalpha() and name.islower() for name in found):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names like image,video")
    return frozenset(found)


def byte_count(text: str) -> int:
    """A whole number, or 0 for none."""
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of bytes, without a unit; 0: none")
    return int(text)


def port(text: str) -> int:
    """A port; 0: any that is free."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to 65535)")
    return int(text)


def seconds(text: str) -> float:
    """Seconds, above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def period(text: str) -> float:
    """Seconds from one time to the next, or 0 for never."""
    return 0.0 if text == "0" else seconds(text)
