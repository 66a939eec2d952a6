"""What the sweep encodes of audio, as data.

Place: beside `cases`, which has the pictures'; `sweep` runs both. An encoder that fills every sound up to half a
minute pays for half a minute each time, so few lengths of each kind are asked for where a sweep is to be quick. Pure.

Must never: compute a token count, or depend on one family's settings.
"""

from __future__ import annotations

from dataclasses import replace

from encoder_server.conformance.cases import Case, Specimen, batch
from encoder_server.conformance.geometry import Axis

_SHORT, _FEW_SHORT = range(1, 19), (1, 2, 3, 8)  # steps
_SECONDS, _FEW_SECONDS = range(1, 36), (1, 3, 8, 30, 31)
_BEYOND = (61, 121, 299)
_RATES, _FEW_RATES = (8000, 11_025, 22_050, 24_000, 44_100, 48_000, 96_000), (8000, 44_100, 48_000)
_PARTS, _PART_SECONDS = 6, 2  # towers with windows of some seconds tell these apart


def sound_cases(steps: Axis, *, quick: bool) -> tuple[Case, ...]:
    """Give the cases for sounds; `steps.base` is the encoder's own rate, `steps.factor` the samples of a step. `quick`
    thins the lengths, and leaves out those beyond what encoders commonly take."""
    rate, step = steps.base, steps.factor or steps.base // 100
    seconds, edges = (_FEW_SECONDS, steps.edges[:2]) if quick else (_SECONDS, steps.edges)
    lengths = {
        "short sounds": [at * step + by for at in (_FEW_SHORT if quick else _SHORT) for by in (-1, 0, 1)],
        "within a step": [rate + by for by in _residues(step, quick=quick)],
        "edges": [edge + by for edge in edges for by in (-1, 0, 1)],
        "whole seconds": [at * rate + by for at in seconds for by in _around(step, quick)],
    }
    if not quick:
        lengths["long sounds"] = [seconds * rate for seconds in _BEYOND]
    cases = [
        Case(group=group, runs=((_sound(samples, rate),),))
        for group, of in lengths.items()
        for samples in dict.fromkeys(of)
        if samples > 0
    ]
    others = [other for other in (_FEW_RATES if quick else _RATES) if other != rate]
    cases += [
        Case(group="other rates", runs=((_sound(samples, other),),))
        for other in others
        for samples in (other, other * 17 // 10 + 1)
    ]
    return (*cases, *_repeats(rate), *_orders(rate), *_batches(rate, step, quick=quick))


def _sound(samples: int, rate: int, seed: int = 0) -> Specimen:
    return Specimen(modality="audio", samples=samples, rate=rate, seed=seed)


def _residues(step: int, *, quick: bool) -> list[int]:
    if quick:
        return sorted({1, step // 2 - 1, step // 2, step - 1})
    return [at * step // min(step, 32) for at in range(min(step, 32))]


def _around(step: int, quick: bool) -> tuple[int, ...]:
    return (-1, 0, 1) if quick else (-step, -1, 0, 1, step)


def _repeats(rate: int) -> list[Case]:
    """The same sound again, at once and after others: longer, shorter, and of the same length."""
    first, second = _sound(rate, rate, 1), _sound(rate, rate, 2)
    long, short = _sound(5 * rate, rate, 3), _sound(rate // 10, rate, 4)
    runs = ((first,), (first,), (second,), (first,), (long,), (short,), (first,), (second,))
    return [Case(group="a sound again", runs=runs, seeded=seeded) for seeded in (False, True)]


def _orders(rate: int) -> list[Case]:
    """Where each part of a sound comes out."""
    part = _PART_SECONDS * rate
    plain = _sound(_PARTS * part, rate, 5)
    parts = [replace(plain, repainted=(at * part, (at + 1) * part)) for at in range(_PARTS)]
    return [Case(group="order in a sound", runs=((plain,), *((part,) for part in parts)), times=True)]


def _batches(rate: int, step: int, *, quick: bool) -> list[Case]:
    mixed = [_sound(samples, rate, 10) for samples in (rate, 2 * rate + 1, rate // 4, 3 * rate - step, rate // 2 + 7)]
    equal = [_sound(rate // 2, rate, 20 + seed) for seed in range(4)]
    long = [_sound(20 * rate, rate, 30), _sound(5 * step, rate, 31), _sound(rate, rate, 32)]
    many = [_sound(rate // 2 + step * (seed % 5), rate, 40 + seed) for seed in range(16)]
    other = [_sound(48_000, 48_000, 60), _sound(rate, rate, 61), _sound(8000, 8000, 62)]
    cases = [
        batch("a batch of sounds", mixed, mixed[::-1], mixed[2:] + mixed[:2], mixed[:2]),
        batch("sounds of equal length", equal, equal[::-1], [equal[at] for at in (1, 3, 0, 2)], equal[:2]),
        batch("the same sound twice", [equal[0], equal[0]], [mixed[1], equal[1], mixed[1]]),
        batch("short beside long", long, long[::-1]),
        batch("rates in a batch of sounds", other, other[::-1]),
    ]
    return cases if quick else [*cases, batch("sixteen sounds", many)]
