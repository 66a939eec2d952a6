"""Growth: how the server's CPU time for a request grows with items, image area, clients and entries of the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench import bodies
from tests.bench.bodies import FORM
from tests.bench.caller import cost
from tests.bench.kit import Kit
from tests.bench.load import Load
from tests.bench.scenarios import CLIENT, SERVER
from tests.bench.sides import Posted, ours
from tests.bench.statistics import Growth, growth

_CACHE = "--cache-bytes=1073741824"


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """CPU milliseconds of one request over `of`; more than `most` as the fitted exponent is to be explained."""

    name: str
    of: str
    most: float
    points: list[tuple[float, float]]
    fit: Growth

    @property
    def passed(self) -> bool:
        """Whether nothing grows faster than it may."""
        return self.fit.exponent <= self.most


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One quantity that is varied over `values`, on a server with these arguments."""

    of: str
    most: float
    values: Sequence[int]
    arguments: Sequence[str]
    constant: bool
    point: Callable[[Posted, int, int], float]


def _items(server: Posted, value: int, count: int) -> float:
    picture = bodies.noise(56, 56)
    return cost(server, [bodies.form([picture] * value)] * count, clients=4)


def _area(server: Posted, value: int, count: int) -> float:
    side = round(value**0.5)
    return cost(server, [bodies.form([bodies.noise(side, side)])] * count, clients=4)


def _clients(server: Posted, value: int, count: int) -> float:
    return cost(server, [bodies.form([bodies.noise(56, 56)])] * (4 * max(count, 2 * value)), clients=value)


def _entries(server: Posted, value: int, count: int) -> float:
    """Fill the cache with so many entries, then ask for what is in it, spread over all."""
    kept = [bodies.form([bodies.noise(16, 16, seed)]) for seed in range(value)]
    cost(server, kept, clients=16)
    asked = 8 * count
    return cost(server, [kept[number * 7919 % value] for number in range(asked)], clients=4)


# Preprocessing copies and attention is quadratic in a picture's rows, within windows but for a layer in three.
AXES = {
    "items": Axis(
        of="items of a request", most=1.1, values=(1, 2, 4, 8, 16), arguments=(), constant=False, point=_items
    ),
    "area": Axis(
        of="pixels of a picture",
        most=1.3,
        values=(112**2, 224**2, 448**2, 672**2, 896**2),
        arguments=(),
        constant=False,
        point=_area,
    ),
    "clients": Axis(
        of="clients at a time", most=0.1, values=(1, 2, 4, 8, 16, 32), arguments=(), constant=True, point=_clients
    ),
    "entries": Axis(
        of="entries of the cache",
        most=0.1,
        values=(64, 256, 1024, 4096),
        arguments=(_CACHE, "--evidence-seconds=3600"),
        constant=True,
        point=_entries,
    ),
}


def run(kit: Kit, axis_name: str, count: int, values: int | None, folder: Path, say: Callable[[str], None]) -> Curve:
    """Measure one curve with `count` requests for each point, at its first `values` points only where that is said."""
    axis = AXES[axis_name]
    load = Load(body=kit.form(kit.tiny), content_type=FORM, clients=1, cpus=CLIENT)
    side = ours(
        f"growth {axis_name}", kit.checkpoint, load, SERVER, "--engines=1", *axis.arguments, constant=axis.constant
    )
    points = []
    with side.start(folder) as server:
        assert isinstance(server, Posted)
        axis.point(server, axis.values[0], count)
        for value in axis.values[:values]:
            points.append((float(value), axis.point(server, value, count)))
            say(f"{value}: {points[-1][1]:.2f} ms")
    return Curve(name=axis_name, of=axis.of, most=axis.most, points=points, fit=growth(points))
