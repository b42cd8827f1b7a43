"""Metrics for Prometheus, in a registry of their own (METRIC-1).

Decides names, labels and buckets. Labels are bounded: routes and engines of the config, outcomes and codes
of the code; a name from a request never becomes a label.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from hostler.services.picture import Picture

SECONDS: Final = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
MOST_LABELS: Final = 500
"""Routes and engines that get a row of their own; any more are counted as `other`."""


MOST_ROWS: Final = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """The counters of one route, engine and outcome."""

    ended: Counter
    latency: Histogram
    first_byte: Histogram


@dataclass(eq=False, slots=True)
class PrometheusMeters:
    """The need `Meters`."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    known: set[str] = field(default_factory=set)
    rows: dict[tuple[str, str, str], _Row] = field(default_factory=dict)
    requests: Counter = field(init=False)
    latency: Histogram = field(init=False)
    first_byte: Histogram = field(init=False)
    degradings: Counter = field(init=False)
    refusals: Counter = field(init=False)
    gauges: dict[str, Gauge] = field(init=False)

    def __post_init__(self) -> None:
        """Register every metric."""
        where = self.registry
        labels = ("route", "engine")
        self.requests = Counter(
            "hostler_requests", "Inference requests ended.", (*labels, "outcome"), registry=where
        )
        self.latency = Histogram(
            "hostler_request_seconds", "Whole requests.", labels, buckets=SECONDS, registry=where
        )
        self.first_byte = Histogram(
            "hostler_first_byte_seconds", "Until the first byte.", labels, buckets=SECONDS, registry=where
        )
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
        row = self.rows.get((route, engine, outcome))
        if row is None:
            row = self._row(route, engine, outcome)
        row.ended.inc()
        row.latency.observe(seconds)
        if first_byte_s is not None:
            row.first_byte.observe(first_byte_s)

    def _row(self, route: str, engine: str, outcome: str) -> _Row:
        """The counters of one combination of labels; kept, since to find them costs more than to count."""
        names = (self._bounded(route), self._bounded(engine))
        row = _Row(
            ended=self.requests.labels(*names, outcome),
            latency=self.latency.labels(*names),
            first_byte=self.first_byte.labels(*names),
        )
        if len(self.rows) < MOST_ROWS:
            self.rows[route, engine, outcome] = row
        return row

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
