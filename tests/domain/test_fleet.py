import pytest

from hostler.domain.fleet import Engine, Fleet, Group, Host, Node, Secret, frozen
from hostler.domain.values import EngineId, HostName

CROW, RAVEN = HostName("crow"), HostName("raven")


def engine(name: str, host: HostName, group: str | None = None, *, essential: bool = False) -> Engine:
    return Engine(id=EngineId(name), host=host, group=group, essential=essential)


ENGINES = (
    engine("big", CROW, "main"),
    engine("embed", CROW, essential=True),
    engine("next", RAVEN, "main", essential=True),
    engine("odd", RAVEN, "extra"),
)
FLEET = Fleet(
    here=CROW,
    head=(CROW,),
    node=Node(),
    hosts={
        CROW: Host(name=CROW, groups={"main": Group(name="main", host=CROW, evicts=("extra",))}),
        RAVEN: Host(name=RAVEN, groups={"main": Group(name="main", host=RAVEN)}),
    },
    engines={it.id: it for it in ENGINES},
)


def test_a_group_belongs_to_its_host() -> None:
    """EVICT-1: a group is looked up on the engine's own host; one name on two hosts makes two groups."""
    big, embed, near, odd = (FLEET.group_of(it) for it in ENGINES)
    assert big is not None
    assert near is not None
    assert (big.host, big.evicts) == (CROW, ("extra",))
    assert (near.host, near.evicts) == (RAVEN, ())
    assert embed is odd is None


def test_the_engines_of_this_host() -> None:
    """HOLD-5: the essential engines are this host's own, and so are its engines, in the config's order."""
    assert [it.id for it in FLEET.local_engines()] == ["big", "embed"]
    assert FLEET.essentials() == {"embed"}
    assert FLEET.host.name == CROW


def test_a_secret_is_never_printed() -> None:
    """SEC-1: a secret shows no part of itself, whichever way it is printed."""
    secret = Secret("hunter2")
    assert [str(secret), repr(secret), f"{secret}", f"{[secret]}"] == ["****", "****", "****", "[****]"]
    assert secret.value == "hunter2"


def test_what_is_frozen_cannot_change() -> None:
    """CONF-2: a mapping of the config cannot be changed, and does not follow what it was made from."""
    origin = {"a": 1}
    made = frozen(origin)
    origin["a"] = 2
    assert made == {"a": 1}
    with pytest.raises(TypeError):
        made["a"] = 3  # type: ignore[index]  # that it is refused is the point
