"""Metrics: what the operator says of itself at /metrics.

Place: reconcile and handlers count here; health serves it. Must never: carry a pod's name as a label, or keep a
deleted pool's series.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from encoder_operator import vocabulary

_CORDONABLE = (vocabulary.TOKEN_MISMATCH, vocabulary.LAYOUT_ERROR)


class Metrics:
    """The operator's metrics, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reconcile_seconds = Histogram(
            "encoderpool_reconcile_seconds", "How long a reconcile of one pool took.", registry=self.registry
        )
        self.reconcile_errors = Counter(
            "encoderpool_reconcile_errors_total", "Reconciles that failed.", ["error"], registry=self.registry
        )
        self.evidence_problems = Counter(
            "encoderpool_evidence_problems_total",
            "Evaluations of a pool for which no counters could be read.",
            registry=self.registry,
        )
        self.cordons = Counter("encoderpool_cordons_total", "Replicas cordoned.", ["reason"], registry=self.registry)
        self.releases = Counter("encoderpool_releases_total", "Replicas released.", ["reason"], registry=self.registry)
        self.evictions = Counter(
            "encoderpool_evictions_total", "Replicas evicted that restarts did not cure.", registry=self.registry
        )
        self.cordoned = Gauge(
            "encoderpool_cordoned_replicas",
            "Replicas that are cordoned now.",
            ["namespace", "pool"],
            registry=self.registry,
        )
        for reason in _CORDONABLE:
            self.cordons.labels(reason)
            self.releases.labels(reason)

    def forget(self, namespace: str, pool: str) -> None:
        """Drop a deleted pool's series."""
        self.cordoned.remove(namespace, pool)
