"""Tallies: counters and histograms that cost next to nothing to write, shown by the library like its own.

Place: below `metrics`, for the families that are written several times for each request: the library's own take a lock
for every value and a look-up for every label, which is felt where a request's rows are known. Written on the event loop
alone, so that no lock is needed.
Must never: be written from a thread, or leave a combination absent that was started.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class Counts(Collector):
    """A counter family; `name` is without its `_total`."""

    def __init__(self, name: str, text: str, labels: Sequence[str], registry: CollectorRegistry) -> None:
        self._name = name
        self._text = text
        self._labels = tuple(labels)
        self._values: dict[tuple[str, ...], float] = {}
        registry.register(self)

    def begin(self, *labels: str) -> None:
        """Show a combination from now on, at 0 where it was not counted yet."""
        self._values.setdefault(labels, 0)

    def add(self, labels: tuple[str, ...], count: float = 1) -> None:
        """Count; `labels` are the values of the family's labels, in their order."""
        self._values[labels] = self._values.get(labels, 0) + count

    def collect(self) -> Iterator[Metric]:
        """Give the family to the library."""
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for labels, value in self._values.items():
            family.add_metric(labels, value)
        yield family


class Durations(Collector):
    """A histogram family of seconds, with one label; `buckets` are their upper bounds, rising."""

    def __init__(self, name: str, text: str, label: str, buckets: Sequence[float], registry: CollectorRegistry) -> None:
        self._name = name
        self._text = text
        self._label = label
        self._bounds = tuple(buckets)
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}
        registry.register(self)

    def begin(self, label: str) -> None:
        """Show the histogram of `label` from now on."""
        self._counts[label] = [0] * (len(self._bounds) + 1)
        self._sums[label] = 0.0

    def observe(self, label: str, seconds: float) -> None:
        """Take one duration in, of a label that was begun."""
        self._counts[label][bisect_left(self._bounds, seconds)] += 1
        self._sums[label] += seconds

    def collect(self) -> Iterator[Metric]:
        """Give the family to the library."""
        family = HistogramMetricFamily(self._name, self._text, labels=[self._label])
        for label, counts in self._counts.items():
            buckets: list[tuple[str, float]] = []
            total = 0
            for bound, count in zip((*map(floatToGoString, self._bounds), "+Inf"), counts, strict=True):
                total += count
                buckets.append((bound, total))
            family.add_metric([label], buckets, self._sums[label])
        yield family
