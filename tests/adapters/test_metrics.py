import pytest
from prometheus_client.parser import text_string_to_metric_families

from hostler.adapters.metrics import MOST_LABELS, PrometheusMeters
from hostler.services.picture import Picture
from tests.interfaces.room import Room, room


async def drawn() -> Picture:
    """A picture of a host with engines, memory and no hold."""
    async with room() as it:
        return picture(it)


def picture(it: Room) -> Picture:
    return it.control.status.picture()


def samples(meters: PrometheusMeters, seen: Picture) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text = meters.render(seen).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def row(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


async def test_requests_are_counted_by_route_engine_and_outcome() -> None:
    """METRIC-1: each ended request counts once, under its route, engine and outcome, with its times."""
    meters = PrometheusMeters()
    for outcome, seconds, first in (("ok", 0.03, 0.01), ("ok", 3.0, 0.01), ("client_gone", 0.03, None)):
        meters.request(route="chat", engine="fast", outcome=outcome, seconds=seconds, first_byte_s=first)
    found = samples(meters, await drawn())
    assert found[row("hostler_requests_total", route="chat", engine="fast", outcome="ok")] == 2
    assert found[row("hostler_requests_total", route="chat", engine="fast", outcome="client_gone")] == 1
    where = {"route": "chat", "engine": "fast"}
    assert found[row("hostler_request_seconds_bucket", le="0.02", **where)] == 0
    assert found[row("hostler_request_seconds_bucket", le="0.05", **where)] == 2
    assert found[row("hostler_request_seconds_bucket", le="+Inf", **where)] == 3
    assert found[row("hostler_request_seconds_sum", **where)] == pytest.approx(3.06)
    assert found[row("hostler_first_byte_seconds_count", **where)] == 2


async def test_refusals_and_degraded_answers_are_counted() -> None:
    """METRIC-1: refusals of the gate count by their code, degraded answers by route and code."""
    meters = PrometheusMeters()
    meters.refused(code="box_reserved")
    meters.degraded(route="chat", code="box_reserved")
    found = samples(meters, await drawn())
    assert found[row("hostler_refusals_total", code="box_reserved")] == 1
    assert found[row("hostler_degraded_total", route="chat", code="box_reserved")] == 1


async def test_the_gauges_are_read_off_the_picture() -> None:
    """METRIC-1: engines by state, memory by pool, and whether the box is held, as they are now."""
    async with room() as it:
        free = samples(PrometheusMeters(), picture(it))
        it.held("bench")
        held = samples(PrometheusMeters(), picture(it))
        engines = picture(it).engines
        pools = picture(it).host.memory
    assert free[row("hostler_box_held")] == 0
    assert held[row("hostler_box_held")] == 1
    for engine in engines:
        assert held[row("hostler_engine_state", engine=engine.id, state=engine.state)] == 1
    for name, pool in pools.items():
        assert held[row("hostler_memory_available_bytes", pool=name)] == pool.available


async def test_labels_are_bounded() -> None:
    """METRIC-1: past the bound of names a new one is counted as `other`, so no caller can grow the table."""
    meters = PrometheusMeters()
    for number in range(MOST_LABELS + 20):
        meters.request(route=f"r{number}", engine="-", outcome="ok", seconds=0, first_byte_s=None)
    found = samples(meters, await drawn())
    assert found[row("hostler_requests_total", route="other", engine="-", outcome="ok")] == 21
    assert len(meters.rows) == MOST_LABELS
