from hostler.domain.mode import Difference, Present, QuietHours, difference, nearest, standing
from hostler.domain.values import EngineId, HostName, RouteName
from tests.fakes.modes import HEAVY, STANDARD, moded

CROW = HostName("crow")
MODES = moded().modes


def seen(*up: str, chat: str | None = "local") -> Present:
    """Crow with these engines up, and where `chat` leads."""
    return Present(up={CROW: {EngineId(it) for it in up}}, routes={RouteName("chat"): chat})


def test_what_is_down_up_beside_it_or_led_elsewhere_differs() -> None:
    """MODE-2: each part is a phrase that says what and where."""
    found = difference(HEAVY, seen("embed", "bots", "bench"))
    assert found == Difference(
        mode="heavy",
        missing=("glm on crow",),
        extra=("bench on crow", "bots on crow"),
        routes=("chat on local, not away",),
    )
    assert found.size == 4
    assert difference(HEAVY, seen("embed", "glm", chat="away")).size == 0
    assert difference(HEAVY, seen("embed", "glm", chat=None)).routes == ("chat on no profile, not away",)


def test_what_is_on_demand_comes_and_goes_in_the_standing_mode() -> None:
    """MODE-1: there only what is to be kept up counts."""
    assert difference(STANDARD, seen("embed", "bots", "voice", "bench")).size == 0
    assert difference(STANDARD, Present(up={}, routes={})).missing == (
        "embed on crow",
        "bots on crow",
        "voice on crow",
    )


def test_what_cannot_have_come_by_itself_is_beside_the_standing_mode() -> None:
    """MODE-2, WIN-8: what a window left up does not belong there, and the fleet is in no mode."""
    present = seen("embed", "bots", "voice", "bench", "glm")
    strange = frozenset({EngineId("glm"), EngineId("bots")})
    assert difference(STANDARD, present, strange).extra == ("glm on crow",)
    near = nearest(MODES, present, strange)
    assert near is not None
    assert (near.mode, near.size) == ("standard", 1)


def test_the_nearest_mode_differs_least() -> None:
    """MODE-2: among equals it is the standing one; without modes there is none."""
    near = nearest(MODES, seen("embed", "glm", "bench", chat="away"))
    assert near is not None
    assert near.mode == "heavy"
    even = nearest(MODES, seen("bots", "embed", "glm", chat="away"))
    assert even is not None
    assert (even.mode, even.size) == ("standard", 1)
    assert nearest({}, seen()) is None


def test_one_mode_is_the_standing_one() -> None:
    """MODE-1: it is found by its mark; without modes there is none."""
    assert standing(MODES) == STANDARD
    assert standing({}) is None


def test_quiet_hours_read_as_they_are_written() -> None:
    """WIN-8: minutes since midnight, shown as in the config."""
    assert str(QuietHours(start=135, end=255)) == "02:15-04:15"
