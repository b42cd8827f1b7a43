from pathlib import Path

import pytest

from hostler.domain.plan import activation, text
from hostler.domain.resource import Action, Resource
from hostler.domain.values import HostName
from tests.adapters.test_config_plans import HOSTS, TWO
from tests.fakes.config_files import check_marked, read_config, told

CROW = HostName("crow")
CODER_LAST = ("start coder", "route chat to coder on crow")
ONE = """\
version: 1
engines:
  big: {argv: [s, --port, "{port}"], memory: 10 GiB, group: main}
  coder: {argv: [s, --port, "{port}"], memory: 10 GiB, group: main}
  small: {argv: [s, --port, "{port}"], memory: 1 GiB}
  far: {driver: external, url: "http://127.0.0.1:9"}
hosts: {crow: {memory: {total: 100 GiB}, groups: {main: {}}}}
upstreams: {cloud: {url: "https://llm.example.net/v1", host: external}}
routes:
  chat: {aliases: [gpt], profiles: {local: big, away: {upstream: cloud}, coder: coder}, active: local}
  only: {profiles: {local: big, other: coder}, active: local}
  spread: {profiles: {all: [small, {upstream: cloud}], two: {fast: small, large: big}}, active: all}
  main: {profiles: {local: big}}
  cloudy: {profiles: {away: {upstream: cloud}}}
reservations:
  resources:
"""


def resource(folder: Path, text: str, name: str = "r") -> Resource:
    """The resource of that name on the one host of `ONE`."""
    fleet = read_config(folder, ONE + text, machine="crow").fleet
    assert fleet is not None, told(read_config(folder, ONE + text, machine="crow"))
    return fleet.resources[name]


def test_a_resource_of_every_key(tmp_path: Path) -> None:
    """LEASE-1, LEASE-2: a resource is in the fleet with all that its config says, in seconds."""
    made = resource(
        tmp_path,
        """\
    r:
      title: the box
      ttl: {default: 2h, max: 4h, warn: [5m, 15m]}
      indefinite: true
      drain: 1m
      queue: {max: 3, place: 30s, claim: 1m}
      actions:
        - {hold: crow, allow: [small]}
        - {route: chat, to: away}
        - {suspend: big, memory_back: true}
        - {start: coder}
        - {exec: [fans, full], undo: [fans, auto], check: [fans, is-full], timeout: 5s}
        - {webhook: "https://board.example.net/taken", undo: "https://board.example.net/free", timeout: 2s}
""",
    )
    assert made == Resource(
        name="r",
        title="the box",
        hosts=(CROW,),
        covers=("r",),
        actions=(
            Action(verb="hold", target="crow", host=CROW, allow=("small",)),
            Action(verb="route", target="chat", host=CROW, to="away"),
            Action(verb="suspend", target="big", host=CROW, memory_back=True),
            Action(verb="start", target="coder", host=CROW),
            Action(
                verb="exec",
                host=CROW,
                argv=("fans", "full"),
                undo=("fans", "auto"),
                check=("fans", "is-full"),
                timeout_s=5.0,
                definition="r/5",
            ),
            Action(
                verb="webhook",
                target="https://board.example.net/taken",
                host=CROW,
                undo_url="https://board.example.net/free",
                timeout_s=2.0,
                definition="r/6",
            ),
        ),
        ttl_s=7200.0,
        max_s=14400.0,
        warn=(900.0, 300.0),
        indefinite=True,
        drain_s=60.0,
        queue_max=3,
        place_s=30.0,
        claim_s=60.0,
    )


def test_a_resource_without_actions_is_a_lock(tmp_path: Path) -> None:
    """LEASE-1, R9: a resource without actions covers itself, on the only host, and does nothing."""
    made = resource(tmp_path, "    r: {}\n")
    assert made == Resource(name="r", hosts=(CROW,), covers=("r",))


def test_how_long_ended_leases_are_kept(tmp_path: Path) -> None:
    """HIST-3: ended leases are kept as long as fleet.retention.ended says."""
    reading = read_config(tmp_path, "version: 1\nfleet: {retention: {ended: 7d}}\n")
    assert reading.fleet is not None
    assert reading.fleet.ended_kept_s == 7 * 86_400.0


def test_an_outer_resource_covers_all_that_is_inside(tmp_path: Path) -> None:
    """LEASE-3: an outer resource covers itself and its inner ones, through others too, each once."""
    text = "    r: {contains: [b, c]}\n    b: {contains: [d]}\n    c: {contains: [d]}\n    d: {}\n"
    assert resource(tmp_path, text).covers == ("r", "b", "c", "d")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("r: {contains: [b], actions: [{stop: big}]}\n    b: {actions: [{start: coder}]}", ["big"]),
        (
            "r: {contains: [b, c]}\n    b: {actions: [{stop: big}]}\n    c: {actions: [{stop: coder}]}",
            ["big", "coder"],
        ),
        (
            (
                "r: {contains: [c, b]}\n    b: {contains: [c], actions: [{stop: big}]}\n"
                "    c: {actions: [{stop: coder}]}"
            ),
            ["big"],
        ),
        (
            (
                "r: {contains: [b, c]}\n    b: {contains: [d]}\n    c: {contains: [d]}\n"
                "    d: {actions: [{stop: big}]}"
            ),
            ["big"],
        ),
    ],
)
def test_whose_actions_are_run(tmp_path: Path, text: str, expected: list[str]) -> None:
    """LEASE-3: with actions of its own an outer resource runs those, without, those of the inner in order."""
    assert [action.target for action in resource(tmp_path, f"    {text}\n").actions] == expected


@pytest.mark.parametrize("name", ["main", "big"])
def test_an_engine_may_be_named_by_its_route(tmp_path: Path, name: str) -> None:
    """LEASE-3, R7: a route that leads to one engine names that engine in an action."""
    made = resource(tmp_path, f"    r: {{actions: [{{suspend: {name}}}]}}\n")
    assert [(action.verb, action.target) for action in made.actions] == [("suspend", "big")]


def test_a_distributed_engine_is_told_at_its_answering_host(tmp_path: Path) -> None:
    """LEASE-2: the node of an action on a distributed engine is the host of the member that answers."""
    text = "reservations:\n  resources:\n    r: {hosts: [crow, raven], actions: [{stop: pair}]}\n"
    fleet = read_config(tmp_path, TWO + HOSTS + text, machine="crow").fleet
    assert fleet is not None
    assert [(it.target, it.host) for it in fleet.resources["r"].actions] == [("pair", "raven")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{actions: [{suspend: »chat}]}", "actions[0].suspend: chat is a route that leads to big, coder"),
        ("{actions: [{stop: »cloudy}]}", "actions[0].stop: leads to no engine"),
        ("{actions: [{start: »far}]}", "actions[0].start: is external"),
        ("{actions: [{stop: big}, »{suspend: main}]}", "actions[1]: engine big is acted on twice"),
        ("{actions: [{hold: crow}, »{hold: crow}]}", "actions[1]: hold of host crow is acted on twice"),
        (
            "{actions: [{route: chat, to: away}, »{route: chat, to: local}]}",
            "actions[1]: route chat is acted on twice",
        ),
        (
            "{actions: [{route: chat, to: »coder}, {stop: coder}]}",
            "actions[0].to: route chat would lead to coder, which r stops",
        ),
        (
            "{actions: [{route: only, to: »other}, {stop: big}, {start: coder}]}",
            "actions[0].to: route only has no profile to be on until other is started",
        ),
    ],
)
def test_what_a_resource_may_not_do(tmp_path: Path, text: str, expected: str) -> None:
    """LEASE-3, LEASE-4, R8: a resource acts once on each thing, by a name that means one engine, and moves
    routes only to what serves.
    """
    check_marked(tmp_path, f"{ONE}    r: {text}\n", f"reservations.resources.r.{expected}", machine="crow")


def test_inherited_actions_that_do_not_fit_together(tmp_path: Path) -> None:
    """LEASE-3, LEASE-4: inner resources whose actions lead a route to what another one stops are an error."""
    text = """\
    r: {contains: »[b, c]}
    b: {actions: [{route: chat, to: coder}]}
    c: {actions: [{stop: coder}]}
"""
    expected = "reservations.resources.r.contains: route chat would lead to coder, which r stops"
    check_marked(tmp_path, ONE + text, expected, machine="crow")


@pytest.mark.parametrize("second", ["suspend: main", "stop: big"])
def test_two_resources_may_not_share_an_engine_by_its_route(tmp_path: Path, second: str) -> None:
    """LEASE-3, R5, R7: two resources that reach one engine, one of them by its route, are a config error."""
    text = f"    r: {{actions: [{{suspend: main}}]}}\n    »s: {{actions: [{{{second}}}]}}\n"
    expected = "reservations.resources.s: both control engine big"
    check_marked(tmp_path, ONE + text, expected, machine="crow")


@pytest.mark.parametrize(
    ("actions", "steps"),
    [
        (
            "[{start: coder}, {stop: big}, {route: chat, to: coder}, {hold: crow}]",
            ["hold crow", "route chat to away on crow", "drain big", "stop big", *CODER_LAST],
        ),
        (
            "[{route: chat, to: coder}, {start: coder}]",
            [*CODER_LAST],
        ),
        (
            "[{route: chat, to: coder}, {route: chat, to: away}, {stop: big}, {start: coder}]",
            ["route chat to away on crow", "drain big", "stop big", *CODER_LAST],
        ),
        (
            '[{webhook: "https://h.example.net/t?k=1"}, {exec: [/bin/fans, full]}, {suspend: big}]',
            ["drain big", "suspend big", "run /bin/fans on crow", "call https://h.example.net"],
        ),
    ],
)
def test_the_plan_of_a_config(tmp_path: Path, actions: str, steps: list[str]) -> None:
    """LEASE-4, R11: the order of the steps is fixed, whatever the order of the actions in the config."""
    fleet = read_config(tmp_path, f"{ONE}    r: {{actions: {actions}}}\n", machine="crow").fleet
    assert fleet is not None
    assert [text(step) for step in activation(fleet, fleet.resources["r"])] == steps
