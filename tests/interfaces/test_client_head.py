import subprocess
import sys
from pathlib import Path

import pytest

import hostler as package
from hostler.client import find_head
from hostler.client.facade import Hostler, seconds
from hostler.domain.errors import DaemonUnreachable, InvalidRequest, Refusal
from tests.docs.tree import ROOT
from tests.fakes.head import Head, listening
from tests.interfaces.holders import KEY, hostler

HEAD_KEY = "hk_" + "h" * 43
LOCAL_KEY = "hk_" + "l" * 43


@pytest.fixture
def state(head: Head, tmp_path: Path) -> Path:
    """A state directory with a local daemon's address and key; the daemon is the fake head."""
    (tmp_path / "daemon.json").write_text(f'{{"url": "{head.url}"}}')
    key = tmp_path / "local.key"
    key.write_text(LOCAL_KEY)
    key.chmod(0o600)
    return tmp_path


def sent(head: Head, state: Path, **env: str) -> dict[str, str]:
    """The headers of a call that a client with this environment makes."""
    with Hostler(env=env, state=state) as client:
        client.run(client.leases.ask(client.leases.prepare("pair")))
    return head.heard[-1].headers


def test_without_a_head_the_local_daemon_is_asked(head: Head, state: Path) -> None:
    """R91: without HOSTLER_HEAD_URL the local daemon and the local key are used."""
    assert sent(head, state)["authorization"] == f"Bearer {LOCAL_KEY}"
    assert sent(head, state, HOSTLER_HEAD_API_KEY=HEAD_KEY)["authorization"] == f"Bearer {LOCAL_KEY}"
    assert sent(head, state, HOSTLER_API_KEY=KEY)["authorization"] == f"Bearer {KEY}"


def test_a_named_head_gets_its_own_key_only(head: Head, state: Path) -> None:
    """R89: with HOSTLER_HEAD_URL calls go there with HOSTLER_HEAD_API_KEY, whatever other keys there are."""
    named = {"HOSTLER_HEAD_URL": f"{head.url}/", "HOSTLER_HEAD_API_KEY": HEAD_KEY}
    assert sent(head, state, HOSTLER_API_KEY=KEY, **named)["authorization"] == f"Bearer {HEAD_KEY}"


@pytest.mark.parametrize("more", [{}, {"HOSTLER_API_KEY": KEY}, {"HOSTLER_HEAD_API_KEY": ""}])
def test_no_other_key_is_sent_to_a_named_head(head: Head, state: Path, more: dict[str, str]) -> None:
    """R90: a head without a key of its own gets none: neither the local one nor HOSTLER_API_KEY."""
    assert "authorization" not in sent(head, state, HOSTLER_HEAD_URL=head.url, **more)


def test_no_key_goes_across_a_redirect(head: Head, tmp_path: Path) -> None:
    """R90: a head that redirects elsewhere is unreachable, and nothing is sent to where it points."""
    with listening() as other, hostler(head, tmp_path) as client:
        head.redirect_to = other.url
        with pytest.raises(DaemonUnreachable, match="redirect"):
            client.run(client.leases.ask(client.leases.prepare("pair")))
        assert (len(head.heard), other.heard) == (1, [])


@pytest.mark.parametrize("url", ["ftp://crow.lan", "crow.lan:7070", "file:///etc/passwd"])
def test_a_head_is_reached_by_http_only(tmp_path: Path, url: str) -> None:
    """R89: HOSTLER_HEAD_URL is http or https, or the call ends before anything is sent."""
    with pytest.raises(DaemonUnreachable, match="HOSTLER_HEAD_URL"):
        find_head({"HOSTLER_HEAD_URL": url}, tmp_path)


def test_a_refusal_is_one_bounded_line_without_the_key(head: Head, tmp_path: Path) -> None:
    """R97: what a head echoes is told in one line of bounded length, the key gone in each encoding."""
    head.echo = True
    with hostler(head, tmp_path) as client, pytest.raises(Refusal) as refused:
        client.client.post("/v1/hostler/leases", {"secret": "a-secret-of-a-lease"})
    for text in (str(refused.value), refused.value.advice()):
        assert len(text) <= 500
        assert text.isprintable()
        assert text.count("****") >= 6
        for form in (KEY, KEY.encode().hex(), "%68%6b", "%2F", "aGtf", KEY[5:]):
            assert form not in text


def test_a_url_with_credentials_is_not_told() -> None:
    """R97, SEC-1: the password of a head's URL is in no refusal."""
    env = {"HOSTLER_HEAD_URL": "http://ada:hunter2@127.0.0.1:1"}
    with Hostler(env=env, state=Path("/nowhere")) as client, pytest.raises(DaemonUnreachable) as refused:
        client.client.get("/v1/hostler/leases")
    assert "hunter2" not in f"{refused.value} {refused.value.facts()} {refused.value.advice()}"


def test_the_package_offers_the_client() -> None:
    """CLIENT-1: the three names come from the package itself, and no others do."""
    assert (package.Hostler, package.LeaseLost.code) == (Hostler, "lease_lost")
    assert package.AsyncHostler.__name__ == "AsyncHostler"
    with pytest.raises(AttributeError, match="Hostle"):
        _ = package.Hostle  # type: ignore[attr-defined]  # that it is not there is the test


def test_the_package_is_typed() -> None:
    """CLIENT-1: the package says that it has types."""
    assert (ROOT / "src" / "hostler" / "py.typed").is_file()


PROGRAM = """
import sys
import hostler
before = set(sys.modules)
assert not any(name.startswith("hostler.") for name in before), before
from hostler import AsyncHostler, Hostler, LeaseLost
for part in ("daemon", "services", "adapters", "gateway", "interfaces", "bootstrap"):
    assert not [name for name in sys.modules if name.startswith("hostler." + part)], part
for name in ("starlette", "uvicorn", "pydantic", "sqlite3", "rich", "cyclopts"):
    assert name not in sys.modules, name
"""


def test_importing_is_cheap() -> None:
    """CLIENT-1, PERF-11: importing the package loads no part of it, the client none of the daemon."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("value", "expected"), [(None, None), (90, 90.0), (1.5, 1.5), ("2h30m", 9000.0)])
def test_a_duration_is_seconds_or_text(value: float | str | None, expected: float | None) -> None:
    """CLIENT-1, TIME-1: a duration is a number of seconds, or text as the config has it."""
    assert seconds(value, "ttl") == expected


@pytest.mark.parametrize("value", ["2 hours", "", -1, float("nan")])
def test_what_is_no_duration_is_refused(value: float | str) -> None:
    """CLIENT-1: what is no duration is refused by the argument's name, and nothing is sent."""
    with pytest.raises(InvalidRequest) as refused:
        seconds(value, "ttl")
    assert refused.value.where == "ttl"
