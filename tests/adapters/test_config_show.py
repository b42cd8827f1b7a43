from pathlib import Path

import pytest

from hostler.adapters.config.offline import OfflineConfig
from hostler.adapters.config.reading import examine, right
from hostler.adapters.config.show import FIRST_LINE, as_yaml, effective
from hostler.domain.errors import InvalidConfig, NoConfig
from hostler.services.config_parts import Difference
from tests.fakes.config_files import read_config, write_config, write_secret

TEXT = """\
version: 1
node: {hold_mode: "0640", shutdown: 90s, log: {size: 1536 KiB}}
hosts: {local: {memory: {total: 64 GiB, on_floor: {stop: [a]}}, node: {on_exit: stop}}}
engines:
  a: {argv: [s, --port, "{port}", "yes", "012", "1e3", "null", "# x", "é", ""], memory: 4.5 GiB}
  x: {driver: external, url: "http://127.0.0.1:9"}
routes:
  "vendor/m:7b": {profiles: {p: [a, x]}, strategy: {spill: 2}, patches: {a: {k: null, t: "1"}}}
  voice: {profiles: {p: {fast: a, large: x}}, escalate: {token: "!"}}
ports: {rows: [{host: local, port: 8000-8001, service: s}, {host: local, port: 9, service: t}]}
"""


def offline(folder: Path) -> OfflineConfig:
    """The commands' config on a machine of its own, at home in `folder`."""
    env = {"HOME": str(folder), "HOSTLER_BOX_RESERVATION_PATH": "/run/hold.json"}
    return OfflineConfig(env=env, here=folder, system=folder / "etc", machine="box")


def test_what_is_shown_reads_back(tmp_path: Path) -> None:
    """CONF-2: the effective config is a config, and comes to the same fleet."""
    found = right(read_config(tmp_path, TEXT))
    shown = as_yaml(effective(found))
    assert shown.startswith(FIRST_LINE)
    again = right(
        examine(write_config(tmp_path, shown, "again.yaml"), {"HOME": str(tmp_path)}, machine="box")
    )
    assert again.fleet == found.fleet
    assert as_yaml(effective(again)) == shown


def test_defaults_are_shown(tmp_path: Path) -> None:
    """CONF-2: the effective config has the defaults that follow from other keys, as a config writes them."""
    shown = offline(tmp_path).show(str(write_config(tmp_path, TEXT)), None)
    assert (shown.host, shown.file) == ("local", str(tmp_path / "hostler.yaml"))
    for line in (
        "  on_exit: stop",
        "  shutdown: 1m30s",
        "    size: 1.5 MiB",
        "  owner: local",
        "    host: local",
        "    model: a",
        "    port: auto",
        "    memory: 4.5 GiB",
        "    active: p",
        "    class: chat",
        "  interactive:",
    ):
        assert f"\n{line}\n" in shown.text


def test_a_config_with_errors_is_not_shown(tmp_path: Path) -> None:
    """CONF-2: what is not right has no effective form: all its errors are raised instead."""
    with pytest.raises(InvalidConfig):
        offline(tmp_path).show(str(write_config(tmp_path, "version: 1\nnod: {}\n", "bad.yaml")), None)
    with pytest.raises(NoConfig):
        offline(tmp_path).show(None, None)


def test_differences_are_by_key(tmp_path: Path) -> None:
    """CONF-2: two configs differ at keys, whatever their order, comments and spellings of one value."""
    after = TEXT.replace("90s", "1m30s").replace("4.5 GiB", "5 GiB").replace("port: 9,", "port: 10,")
    after = after.replace('  voice: {profiles: {p: {fast: a, large: x}}, escalate: {token: "!"}}\n', "")
    after += "fleet: {timezone: Europe/Berlin} # new\n"
    names = (write_config(tmp_path, TEXT, "a.yaml"), write_config(tmp_path, after, "b.yaml"))
    found = {each.path: each for each in offline(tmp_path).diff(str(names[0]), str(names[1]), None)}
    assert list(found) == ["fleet.timezone", "engines.a.memory", "routes.voice", "ports.rows[1].port"]
    assert found["engines.a.memory"] == Difference(
        path="engines.a.memory", change="changed", before="4.5 GiB", after="5 GiB"
    )
    assert found["fleet.timezone"].change == "added"
    assert found["routes.voice"].change == "removed"
    assert found["ports.rows[1].port"].after == 10


def test_a_changed_secret_is_a_difference_that_shows_nothing(tmp_path: Path) -> None:
    """SEC-1: two configs with two secrets differ there, and both sides are ****."""
    texts = []
    for name in ("one", "two"):
        secret = write_secret(tmp_path, name, f"secret-{name}")
        texts.append(
            "version: 1\nupstreams:\n"
            f"  u: {{url: 'https://e.example.net', host: external, key: '${{file:{secret}}}'}}\n"
        )
    files = [str(write_config(tmp_path, text, f"{index}.yaml")) for index, text in enumerate(texts)]
    found = offline(tmp_path).diff(files[0], files[1], None)
    assert found == (Difference(path="upstreams.u.key", change="changed", before="****", after="****"),)
    assert offline(tmp_path).diff(files[0], files[0], None) == ()


def test_a_check_counts_what_there_is(tmp_path: Path) -> None:
    """CONF-2: a check that finds nothing wrong says how much it looked at."""
    report = offline(tmp_path).check(str(write_config(tmp_path, TEXT)), None)
    assert (report.problems, report.host) == ((), "local")
    assert report.counts == {
        "hosts": 1,
        "engines": 2,
        "routes": 2,
        "upstreams": 0,
        "resources": 0,
        "modes": 0,
        "keys": 0,
    }
