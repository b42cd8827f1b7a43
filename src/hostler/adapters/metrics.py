"""Metrics for Prometheus, in a registry of their own (METRIC-1).

Decides names, labels and buckets. Labels are bounded: routes and engines of the config, outcomes and codes
of the code; a name from a request never becomes a label.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from hostler.services.picture import Picture

SECONDS: Final = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
MOST_LABELS: Final = 500
"""Routes and engines that get a row of their own; any more are counted as `other`."""


@dataclass(eq=False, slots=True)
class _Times:
    """How many requests took how long: a count for each bucket, the last for what is longer, and the sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))
    total: float = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Upper bounds with how many took at most as long."""
        sums = itertools.accumulate(self.counts)
        return list(zip((*map(floatToGoString, SECONDS), "+Inf"), map(float, sums), strict=True))


@dataclass(eq=False, slots=True)
class _Where:
    """What is counted of one route and engine."""

    latency: _Times = field(default_factory=_Times)
    first_byte: _Times = field(default_factory=_Times)
    ended: dict[str, int] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class PrometheusMeters:
    """The need `Meters`. Requests are counted here: the library's locks cost too much for each."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    known: set[str] = field(default_factory=set)
    rows: dict[tuple[str, str], _Where] = field(default_factory=dict)
    degradings: Counter = field(init=False)
    refusals: Counter = field(init=False)
    gauges: dict[str, Gauge] = field(init=False)

    def __post_init__(self) -> None:
        """Register every metric."""
        where = self.registry
        where.register(self)
        self.degradings = Counter(
            "hostler_degraded", "Answers that were degraded.", ("route", "code"), registry=where
        )
        self.refusals = Counter("hostler_refusals", "Starts refused by the gate.", ("code",), registry=where)
        self.gauges = {
            "state": Gauge("hostler_engine_state", "1 for its state.", ("engine", "state"), registry=where),
            "in_flight": Gauge("hostler_in_flight", "Requests under way.", registry=where),
            "total": Gauge("hostler_memory_total_bytes", "A pool's size.", ("pool",), registry=where),
            "available": Gauge("hostler_memory_available_bytes", "Of it free.", ("pool",), registry=where),
            "held": Gauge("hostler_box_held", "1 while the box is held.", registry=where),
            "lag": Gauge("hostler_loop_lag_seconds", "How late the loop wakes.", registry=where),
            "dropped": Gauge("hostler_events_dropped", "Events lost to a full queue.", registry=where),
        }

    def request(
        self, *, route: str, engine: str, outcome: str, seconds: float, first_byte_s: float | None
    ) -> None:
        row = self.rows.get((route, engine))
        if row is None:
            row = self.rows.setdefault((self._bounded(route), self._bounded(engine)), _Where())
        row.ended[outcome] = row.ended.get(outcome, 0) + 1
        row.latency.observe(seconds)
        if first_byte_s is not None:
            row.first_byte.observe(first_byte_s)

    def collect(self) -> Iterable[Metric]:
        """The requests, in the form that the registry asks for."""
        labels = ("route", "engine")
        ended = CounterMetricFamily(
            "hostler_requests", "Inference requests ended.", labels=(*labels, "outcome")
        )
        latency = HistogramMetricFamily("hostler_request_seconds", "Whole requests.", labels=labels)
        first = HistogramMetricFamily("hostler_first_byte_seconds", "Until the first byte.", labels=labels)
        for names, row in self.rows.items():
            for outcome, count in row.ended.items():
                ended.add_metric((*names, outcome), count)
            latency.add_metric(names, row.latency.buckets(), row.latency.total)
            first.add_metric(names, row.first_byte.buckets(), row.first_byte.total)
        return (ended, latency, first)

    def degraded(self, *, route: str, code: str) -> None:
        self.degradings.labels(self._bounded(route), code).inc()

    def refused(self, *, code: str) -> None:
        self.refusals.labels(code).inc()

    def render(self, picture: Picture) -> bytes:
        state = self.gauges["state"]
        state.clear()
        for engine in picture.engines:
            state.labels(engine.id, engine.state).set(1)
        self.gauges["in_flight"].set(picture.in_flight)
        for name, pool in picture.host.memory.items():
            self.gauges["total"].labels(name).set(pool.total)
            self.gauges["available"].labels(name).set(pool.available)
        self.gauges["held"].set(1 if picture.hold.held else 0)
        self.gauges["lag"].set(picture.health.loop_lag_s)
        self.gauges["dropped"].set(picture.daemon.events_dropped)
        return generate_latest(self.registry)

    def _bounded(self, name: str) -> str:
        if name not in self.known:
            if len(self.known) >= MOST_LABELS:
                return "other"
            self.known.add(name)
        return name
