from datetime import UTC, datetime

import pytest

from hostler.domain.events import TYPES, Event, Recorded


def test_a_cursor_names_a_place_in_one_log() -> None:
    """FEED-2: an event's cursor is the log's epoch and its number there."""
    event = Event(type="engine_ready", at=datetime(2026, 9, 4, tzinfo=UTC))
    assert Recorded(seq=42, epoch="e1", event=event).cursor == "e1:42"


@pytest.mark.parametrize("name", TYPES)
def test_each_type_says_what_happened(name: str) -> None:
    """FEED-1: each type of event has one whole sentence that says what happened."""
    assert name.replace("_", "").isalpha()
    assert TYPES[name][0].isupper()
    assert TYPES[name].endswith(".")
