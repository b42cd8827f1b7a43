import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.adapters.config.offline import OfflineConfig
from hostler.adapters.scan.offline import OfflinePorts
from hostler.domain.errors import (
    DaemonUnreachable,
    EngineNotFound,
    InvalidConfig,
    InvalidRequest,
    LimitReached,
    NoConfig,
    NotFound,
    Refusal,
)
from hostler.domain.port_verdicts import Kind
from hostler.domain.ports import NO_HOST, Status
from hostler.services.ports import PortReport, Wish
from hostler.services.ports_live import Listening
from tests.fakes.config_files import write_config
from tests.fakes.listeners import FakeListeners

TWO = """\
version: 1
schedule: {owner: crow}
hosts:
  crow:
    url: https://crow.lan:7070
    memory: {total: 124 GiB, reserve: 8 GiB}
    links: {raven: {interface: t0, address: 10.99.0.1, peer: 10.99.0.2}}
    groups: {main: {}}
    ports: {range: 8100-8109}
  raven:
    url: https://raven.lan:7071
    key: "${env:RAVEN_KEY}"
    memory: {total: 124 GiB, reserve: 8 GiB}
    links: {crow: {interface: t0, address: 10.99.0.2, peer: 10.99.0.1}}
engines:
  a: {host: crow, argv: [s, "{port}"], port: 8003, memory: 60 GiB, group: main}
  b: {host: crow, argv: [s, "{port}"], port: 8003, memory: 60 GiB, group: main}
  auto: {host: crow, argv: [s, "{port}"], port: auto, memory: 1 GiB}
  far: {host: raven, argv: [s, "{port}"], port: auto}
ports:
"""
ROWS = """\
  rows:
    - {host: crow, port: 8080, service: web}   # the panel
    - {host: raven, port: 8030, service: flash, needs: 100 GiB}
    # the next one is a script's
    - {host: raven, port: 8036, service: stack, needs: 100 GiB}
"""
COMPOSE = 'services: {web: {ports: ["8080:80"]}}\n'


class Box:
    """A machine with a config, files and listeners."""

    def __init__(self, folder: Path, text: str, machine: str = "crow") -> None:
        self.folder = folder
        self.file = write_config(folder, text)
        self.listeners = FakeListeners()
        env = {"HOME": str(folder), "RAVEN_KEY": "k" * 20}
        self.config = OfflineConfig(env=env, here=folder, system=folder / "etc", machine=machine)
        self.parts = OfflinePorts(config=self.config, listeners=self.listeners)

    def put(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)
        return path

    def check(self, *dirs: Path, host: str | None = None) -> PortReport:
        return self.parts.check([str(it) for it in dirs], host=host, env={}, config=None)

    def wish(self, low: int, high: int, host: str = "crow", service: str = "new") -> Wish:
        return Wish(host=host, low=low, high=high, service=service)


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path, TWO + ROWS)


def kinds(report: PortReport) -> dict[Kind, list[int | None]]:
    found: dict[Kind, list[int | None]] = {}
    for it in report.verdicts:
        found.setdefault(it.kind, []).append(it.port)
    return found


def test_registry_and_files_are_compared(box: Box) -> None:
    """PORT-3: rows, engines, files and memory are judged together; engines that take turns are said so."""
    box.put("bundles/compose.yaml", COMPOSE)
    box.put("bundles/up.sh", "serve --host 10.99.0.2 --port 9000\n")
    report = box.check(box.folder / "bundles", host="crow")
    assert kinds(report) == {
        Kind.UNDOCUMENTED: [9000],
        Kind.MEMORY: [8030],
        Kind.EXCLUSIVE: [8003],
    }
    assert not report.clean
    assert [it.host for it in report.findings if it.port == 9000] == ["raven"]
    assert [(it.host, it.rows, it.files, it.blind) for it in report.coverage] == [
        ("crow", 1, 2, False),
        ("raven", 2, 0, True),
    ]
    (crowd,) = [it for it in report.verdicts if it.kind is Kind.MEMORY]
    assert crowd.where == (f"{box.file}:23", f"{box.file}:25")


def test_hosts_are_told_by_rules(tmp_path: Path) -> None:
    """PORT-2: a file is on the hosts of its path rules, else on the one that is named, else on none."""
    box = Box(tmp_path, TWO + '  scan: {hosts: {raven: ["raven-*"], crow: ["both/*"]}}\n')
    box.put("both/raven-up.sh", "serve --port 9000\n")
    box.put("else/up.sh", "serve --port 9001\n")

    def placed(host: str | None) -> set[tuple[str, int | None]]:
        dirs = (box.folder / "both", box.folder / "else")
        return {(it.host, it.port) for it in box.check(*dirs, host=host).findings if (it.port or 0) >= 9000}

    assert placed(None) == {("raven", 9000), ("crow", 9000), (NO_HOST, 9001)}
    assert placed("raven") == {("raven", 9000), ("crow", 9000), ("raven", 9001)}
    with pytest.raises(NotFound, match="There is no host 'dawn' here"):
        box.check(host="dawn")


def test_dirs_of_the_config(tmp_path: Path) -> None:
    """PORT-2, PORT-4: without folders those of the config are scanned; one that is not here is told."""
    box = Box(tmp_path, f"version: 1\nports: {{scan: {{dirs: [{tmp_path}/in, {tmp_path}/out]}}}}\n")
    box.put("in/compose.yaml", COMPOSE)
    report = box.check()
    assert 8080 in {it.port for it in report.findings}
    assert [(it.what, it.why) for it in report.skipped] == [(f"{tmp_path}/out", "not on this machine")]
    assert {it.host for it in report.findings} == {"local"}
    with pytest.raises(NotFound):
        box.check(tmp_path / "out")


def test_without_a_config(tmp_path: Path) -> None:
    """PORT-2: folders can be scanned without any config; without folders there is nothing to do."""
    box = Box(tmp_path, "version: 1\n")
    box.file.unlink()
    path = box.put("in/compose.yaml", COMPOSE)
    report = box.check(path.parent, host="anywhere")
    assert [(it.host, it.port) for it in report.findings] == [("anywhere", 8080)]
    assert report.clean
    assert kinds(box.check(path.parent)) == {Kind.NO_HOST: [8080]}
    with pytest.raises(NoConfig):
        box.check()


def test_ports_of_our_own_config(box: Box) -> None:
    """PORT-5: engines and listeners of the config are found; a kept port is known, another's is its range."""
    state = box.put(".local/state/hostler/ports.json", json.dumps({"auto": 8104, "gone": 8105}))

    def ours() -> dict[str, tuple[int | None, tuple[int, int] | None]]:
        found = box.check().findings
        return {it.owner: (it.port, it.among) for it in found if it.form.startswith("hostler")}

    known = ours()
    assert known["auto"] == (8104, None)
    assert known["far"] == (None, (8100, 8199))
    assert known["a"] == (8003, None)
    assert "gone" not in known
    lines = {it.owner: it.line for it in box.check().findings}
    assert (lines["a"], lines["auto"]) == (16, 18)
    assert {it.host for it in box.check().findings if it.owner == "the daemon"} == {"crow", "raven"}
    state.write_text("broken")
    assert ours()["auto"] == (None, (8100, 8109))


def test_an_engine_that_a_compose_file_starts(tmp_path: Path) -> None:
    """PORT-3: what a compose file or a unit has for an engine of ours is that engine's."""
    folder = tmp_path / "in"
    box = Box(
        tmp_path,
        f"""\
        version: 1
        engines:
          web:
            driver: compose
            compose: {{file: {folder}/compose.yaml, project: p, service: app}}
            port: 8080
          box: {{driver: container, container: {{name: crow-box}}, port: 8081}}
          unit: {{driver: systemd, unit: serve.service, port: 8082}}
        """,
    )
    box.put(
        "in/compose.yaml",
        "services:\n  app: {ports: ['8080:80']}\n  x: {container_name: crow-box, ports: ['8081:80']}\n",
    )
    box.put("in/serve.service", "[Service]\nExecStart=serve --port 8082\n")
    report = box.check(folder)
    assert {it.port: it.owner for it in report.findings if it.port != 7070} == {
        8080: "web",
        8081: "box",
        8082: "unit",
    }
    assert kinds(report) == {}


def test_rows_of_a_file_and_tables(tmp_path: Path) -> None:
    """PORT-1: rows come from a file of their own and from Markdown tables, by the config's folder."""
    box = Box(
        tmp_path, TWO + "  file: ports.yaml\n  tables: [{file: docs/p.md, host: crow}, {file: none.md}]\n"
    )
    assert box.check().rows == ()
    box.put("ports.yaml", "rows:\n  - {host: crow, port: 8031-8033, service: m, status: reserved}\n")
    box.put("docs/p.md", "| P | S |\n|---|---|\n| 8080 | web |\n| raven.lan:8030 | x |\n| dawn:1 | y |\n")
    report = box.check()
    assert [(it.host, it.ports, it.status) for it in report.rows] == [
        ("crow", "8031-8033", Status.RESERVED),
        ("crow", "8080", Status.PRODUCTION),
        ("raven", "8030", Status.PRODUCTION),
        ("dawn", "1", Status.PRODUCTION),
    ]
    told = [it.text for it in report.verdicts if it.kind is Kind.TROUBLE]
    assert [it.partition(": ")[2] for it in told] == [
        "cannot be read: No such file or directory",
        "1: there is no host dawn",
    ]
    box.put("ports.yaml", "- {host: crow, port: 9000, service: as a list}\n")
    assert [it.port for it in box.check().rows][:1] == [9000]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("rows:\n  - {host: crow, prt: 1, service: x}\n", "ports.yaml:2:18: ports.rows[0].prt: no such key"),
        (
            "rows:\n  - {host: crow, port: 99999, service: x}\n",
            "ports.yaml:2:24: ports.rows[0].port: expected a port",
        ),
        ("rowz: []\n", "ports.yaml:1: rowz: no such key (rows)"),
        ("rows: [\n", "no YAML"),
        ("a: &b 1\nrows: !x []\n", "the tag !x is not read"),
    ],
)
def test_a_broken_file_of_rows(tmp_path: Path, text: str, problem: str) -> None:
    """PORT-1, CONF-2: what is wrong in a file of rows is an error of the config with its place."""
    box = Box(tmp_path, TWO + "  file: ports.yaml\n")
    box.put("ports.yaml", text)
    with pytest.raises(InvalidConfig) as refused:
        box.check()
    assert any(problem in it for it in refused.value.problems), refused.value.problems


def test_a_free_port(box: Box) -> None:
    """PORT-5: what is proposed is free in rows, files, engines and listeners, and says what that is worth."""
    box.listeners.found = [
        Listening(address="127.0.0.1", port=8081, protocol="tcp", uid=0),
        Listening(address="127.0.0.1", port=8082, protocol="udp", uid=0),
    ]
    proposal = box.parts.free(box.wish(8080, 8099), config=None)
    assert (proposal.port, proposal.missed) == (8082, ())
    assert proposal.looked == ("3 rows", "1 files", "1 listeners")
    assert "necessary, never sufficient" in proposal.note
    assert box.parts.free(box.wish(8100, 8109), config=None).port is None
    assert box.parts.free(box.wish(8003, 8003), config=None).port is None
    far = box.parts.free(box.wish(8030, 8040, "raven"), config=None)
    assert far.port == 8031
    assert far.missed[0].startswith("The listeners of raven were not looked at: this machine is crow, and")
    box.listeners.broken = OSError(13, "Permission denied")
    assert "Permission denied" in box.parts.free(box.wish(8080, 8099), config=None).missed[0]
    with pytest.raises(NotFound):
        box.parts.free(box.wish(1, 2, "dawn"), config=None)
    with pytest.raises(InvalidRequest):
        box.parts.free(box.wish(2, 1), config=None)


class FakeFar:
    """The need `FarListeners`: what it says, or refuses."""

    def __init__(self, *found: Listening, refusal: Refusal | None = None) -> None:
        self.found, self.refusal = found, refusal

    def listening_on(self, host: str) -> tuple[Listening, ...]:
        assert host == "raven"
        if self.refusal is not None:
            raise self.refusal
        return self.found


def test_a_free_port_of_another_host(box: Box) -> None:
    """PORT-5: its listeners are asked of the daemon; one that cannot tell is named."""
    there = Listening(address="*", port=8031, protocol="tcp", uid=0)
    parts = replace(box.parts, far=FakeFar(there, replace(there, port=8032, protocol="udp")))
    found = parts.free(box.wish(8030, 8040, "raven"), config=None)
    assert (found.port, found.missed, found.unknown) == (8032, (), False)
    assert found.looked[-1] == "1 listeners"
    assert parts.allocate(box.wish(8030, 8040, "raven"), config=None).row.port == 8032
    away = replace(box.parts, far=FakeFar(refusal=DaemonUnreachable(url="http://x", why="it is down")))
    found = away.free(box.wish(8030, 8040, "raven"), config=None)
    assert (found.port, found.unknown) == (8031, True)
    assert "its daemon cannot tell: " in found.missed[0]
    assert "it is down" in found.missed[0]


def test_a_machine_that_is_no_host(tmp_path: Path) -> None:
    """PORT-5: another machine proposes too, and says that it could not see who listens."""
    box = Box(tmp_path, TWO + ROWS, machine="elsewhere")
    proposal = box.parts.free(box.wish(8080, 8099), config=None)
    assert proposal.port == 8081
    assert "this machine is no host of the config" in proposal.missed[0]
    assert proposal.unknown


def test_a_row_is_written(box: Box) -> None:
    """PORT-5: exactly one row is written, comments and all else stay, and it is read back."""
    before = box.file.read_text()
    made = box.parts.allocate(box.wish(8080, 8099, service="R26: stack"), config=None)
    after = box.file.read_text()
    row = '    - {host: crow, port: 8081, service: "R26: stack", status: reserved}\n'
    assert after == before + row
    assert (made.row.port, made.row.line) == (8081, 26)
    assert "necessary, never sufficient" in made.proposal.note
    assert box.file.stat().st_mode & 0o777 == 0o600
    again = box.parts.allocate(box.wish(8080, 8099), config=None)
    assert again.row.port == 8082
    assert sorted(it.name for it in box.folder.iterdir()) == ["hostler.yaml"]
    with pytest.raises(LimitReached, match="ports in 8080-8082 of crow"):
        box.parts.allocate(box.wish(8080, 8082), config=None)


def test_allocations_at_one_time(box: Box) -> None:
    """PORT-5: who allocates while another does gets another port; no port is given twice."""

    def take(_: int) -> int:
        return box.parts.allocate(box.wish(8080, 8099), config=None).row.port

    with ThreadPoolExecutor(4) as pool:
        given = list(pool.map(take, range(8)))
    assert sorted(given) == list(range(8081, 8089))


def test_sums_of_engines(box: Box) -> None:
    """MEM-6: a set is summed with what the config and measurements say, excluding ones are named."""
    report = box.parts.fits(["a", "b", "a"], on="crow", config=None)
    assert report.fits is False
    assert report.sums[0].arithmetic == "a 60 + b 60 + reserve 8 = 128 GiB of crow's 124"
    assert report.remarks == ("a and b exclude each other (main): they never run at once",)
    assert box.parts.fits(["a", "auto"], on=None, config=None).fits is True
    unknown = box.parts.fits(["a", "far"], on="raven", config=None)
    assert (unknown.fits, unknown.remarks) == (None, ("a is an engine of crow",))
    measured = {"peak": {"host": 90 << 30}, "steady": {}}
    box.put(".local/state/hostler/engines/a/measured.json", json.dumps(measured))
    assert "a 90 " in box.parts.fits(["a"], on="crow", config=None).sums[0].arithmetic
    with pytest.raises(EngineNotFound, match="There is no engine 'atuo' here"):
        box.parts.fits(["atuo"], on="crow", config=None)
    with pytest.raises(NotFound):
        box.parts.fits(["a"], on="dawn", config=None)


def test_a_distributed_engine_needs_its_members(tmp_path: Path) -> None:
    """MEM-6: of an engine on several hosts the members on this host count."""
    members = """\
          w: {host: crow, argv: [s, "{port}"], port: 1, memory: 80 GiB}
          m: {host: raven, argv: [s, "{port}"], port: 1, memory: 70 GiB}
          both: {driver: distributed, members: [w, m]}
        """
    box = Box(
        tmp_path,
        TWO.replace("engines:\n", "engines:\n" + members.replace("          ", "  ").rstrip() + "\n")[
            : -len("ports:\n")
        ],
    )
    for host, size in (("crow", "w 80"), ("raven", "m 70")):
        report = box.parts.fits(["both"], on=host, config=None)
        assert report.sums[0].arithmetic.startswith(f"{size} + reserve 8")
