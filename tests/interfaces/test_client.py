import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hostler.client import Address, AsyncClient, Client, Sent, find_daemon, find_head
from hostler.client.call import MAX_LINE, Lines, SentEvents
from hostler.domain.errors import BoxReserved, DaemonUnreachable, EngineNotFound, NoKey
from hostler.domain.fleet import Secret
from hostler.wire.refusals import control_answer

KEY = Secret("hk_" + "x" * 43)


@dataclass(eq=False, kw_only=True)
class Daemon:
    """Something that answers as a daemon would, and remembers what it was sent."""

    url: str
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"{}"
    got: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)

    def refuses(self, refusal: Exception) -> None:
        assert isinstance(refusal, BoxReserved | EngineNotFound)
        self.status, _, self.body = control_answer(refusal)


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            made.got.append((self.command, self.path, headers, body))
            self.send_response(made.status)
            for name, value in made.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(made.body)

        do_GET = do_POST = answer  # noqa: N815 - the base class's names

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Daemon(url=f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


Ask = Callable[[Address, str, str, object], object]


def ask_sync(address: Address, method: str, path: str, body: object = None) -> object:
    with Client(address) as client:
        return client.get(path) if method == "GET" else client.post(path, body, idempotency_key="once")


def ask_async(address: Address, method: str, path: str, body: object = None) -> object:
    async def call() -> object:
        async with AsyncClient(address) as client:
            if method == "GET":
                return await client.get(path)
            return await client.post(path, body, idempotency_key="once")

    return asyncio.run(call())


def events_sync(address: Address, path: str, after: str | None) -> list[Sent]:
    with Client(address) as client:
        return list(client.events(path, after=after))


def events_async(address: Address, path: str, after: str | None) -> list[Sent]:
    async def call() -> list[Sent]:
        async with AsyncClient(address) as client:
            return [event async for event in client.events(path, after=after)]

    return asyncio.run(call())


both = pytest.mark.parametrize("ask", [ask_sync, ask_async])
both_streams = pytest.mark.parametrize("listen", [events_sync, events_async])


@both
def test_an_answer_is_its_value(daemon: Daemon, ask: Ask) -> None:
    """INTERFACE-3: a call sends the key and gets the JSON value of the answer."""
    daemon.body = b'{"engines": []}'
    assert ask(Address(url=daemon.url, key=KEY), "GET", "/v1/hostler/engines", None) == {"engines": []}
    ((method, path, headers, _),) = daemon.got
    assert (method, path) == ("GET", "/v1/hostler/engines")
    assert headers["authorization"] == f"Bearer {KEY.value}"


@both
def test_a_change_is_sent_as_json(daemon: Daemon, ask: Ask) -> None:
    """API-2: a change goes out as a JSON object, empty without a body, with its Idempotency-Key."""
    ask(Address(url=daemon.url), "POST", "/v1/hostler/engines/a/start", {"override": "windowed"})
    ask(Address(url=daemon.url), "POST", "/v1/hostler/engines/a/start", None)
    assert [json.loads(body) for *_, body in daemon.got] == [{"override": "windowed"}, {}]
    headers = daemon.got[0][2]
    assert (headers["idempotency-key"], headers["content-type"]) == ("once", "application/json")
    assert "authorization" not in headers


@both
def test_a_refusal_is_raised_as_its_class(daemon: Daemon, ask: Ask) -> None:
    """INTERFACE-3: a refusal of the daemon is raised as the class that the daemon raised, with its facts."""
    daemon.refuses(BoxReserved(host="crow", engine="large", owner="bench", until="21:15", retry_after=77))
    with pytest.raises(BoxReserved) as refused:
        ask(Address(url=daemon.url), "POST", "/x", None)
    assert (refused.value.owner, refused.value.retry_after) == ("bench", 77)
    daemon.refuses(EngineNotFound(engine="larg", nearest="Did you mean large?"))
    with pytest.raises(EngineNotFound, match="larg"):
        ask(Address(url=daemon.url), "GET", "/x", None)


@both
def test_a_flat_refusal_is_understood(daemon: Daemon, ask: Ask) -> None:
    """INTERFACE-3: the flat form of `/llm/acquire` is a refusal with its code, too."""
    daemon.status, daemon.body = (
        409,
        b'{"ok": false, "error": "box_reserved", "owner": "bench", "expires_at": null}',
    )
    with pytest.raises(Exception, match="box_reserved") as refused:
        ask(Address(url=daemon.url), "POST", "/llm/acquire", {"model": "large"})
    assert getattr(refused.value, "code", None) == "box_reserved"


@both
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_redirect_is_followed(daemon: Daemon, ask: Ask, status: int) -> None:
    """INTERFACE-3: the key is never sent across a redirect: a redirect ends the call."""
    daemon.status, daemon.headers = status, {"location": f"{daemon.url}/elsewhere"}
    with pytest.raises(DaemonUnreachable, match="redirect"):
        ask(Address(url=daemon.url, key=KEY), "POST", "/x", None)
    assert [path for _, path, *_ in daemon.got] == ["/x"]


@both
def test_what_is_no_daemon_is_told(daemon: Daemon, ask: Ask) -> None:
    """INTERFACE-3: a page of something else on that port is no answer, whatever its status."""
    daemon.body = b"<html>hello</html>"
    for daemon.status in (200, 404):
        with pytest.raises(DaemonUnreachable, match="no Hostler daemon"):
            ask(Address(url=daemon.url), "GET", "/x", None)


@both
def test_nobody_there_is_one_refusal(ask: Ask) -> None:
    """INTERFACE-3: where nobody listens the caller is told the address and what helps."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(DaemonUnreachable, match=url) as refused:
            ask(Address(url=url), "GET", "/x", None)
    assert "hostler serve" in refused.value.advice()


def test_a_silent_daemon_is_given_up() -> None:
    """INTERFACE-3: a daemon that says nothing is unreachable after the call's own deadline."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Client(Address(url=url)) as client, pytest.raises(DaemonUnreachable, match=r"within 0\.01 s"):
            client.get("/x", timeout_s=0.01)


@both
def test_loopback_needs_no_proxy(daemon: Daemon, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """INTERFACE-3: a proxy of the environment is not used for this machine: the key would go through it."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert ask(Address(url=daemon.url, key=KEY), "GET", "/x", None) == {}


def test_a_query_is_written_out(daemon: Daemon) -> None:
    """API-1: query values are text, lists repeat their name, None is left out."""
    with Client(Address(url=daemon.url)) as client:
        client.get("/x", {"since": "ep_a:7", "wait": 25, "type": ["a", "b"], "none": None, "json": True})
    assert daemon.got[0][1] == "/x?since=ep_a%3A7&wait=25&type=a&type=b&json=true"


# ---------------------------------------------------------------- streams


@both_streams
def test_events_come_as_they_are_sent(
    daemon: Daemon, listen: Callable[[Address, str, str | None], list[Sent]]
) -> None:
    """FEED-1: a stream's events come with type, data and cursor, and heartbeats without data."""
    data = json.dumps({"text": "a\u2028b"}, ensure_ascii=False)
    daemon.body = (
        "id: e:1\n: heartbeat e:1\n\n"
        f"id: e:2\nevent: engine_ready\ndata: {data}\n\n"
        "event: reset\r\ndata: one\r\ndata:two\r\n\r\ndata: torn"
    ).encode()
    assert listen(Address(url=daemon.url), "/gateway/events", "e:0") == [
        Sent(type="message", data="", id="e:1"),
        Sent(type="engine_ready", data=data, id="e:2"),
        Sent(type="reset", data="one\ntwo", id="e:2"),
    ]
    assert daemon.got[0][2]["last-event-id"] == "e:0"


@both_streams
def test_a_refused_stream_is_a_refusal(
    daemon: Daemon, listen: Callable[[Address, str, str | None], list[Sent]]
) -> None:
    """INTERFACE-3: a stream that is refused before it begins raises the refusal."""
    daemon.refuses(EngineNotFound(engine="larg"))
    with pytest.raises(EngineNotFound):
        listen(Address(url=daemon.url), "/gateway/events", None)


def test_lines_are_whole_however_they_are_cut() -> None:
    """INTERFACE-3: a stream's lines are the same wherever its bytes were cut, within a character too."""
    data = 'first\r\n{"a": "ü\u2028\x0b"}\n\nlast'.encode()
    wanted = ["first", '{"a": "ü\u2028\x0b"}', "", "last"]
    for cut in range(len(data) + 1):
        lines = Lines()
        assert lines.feed(data[:cut]) + lines.feed(data[cut:]) + lines.end() == wanted
    one_by_one = Lines()
    got = [line for byte in data for line in one_by_one.feed(bytes([byte]))]
    assert got + one_by_one.end() == wanted


def test_a_line_without_end_is_not_kept() -> None:
    """INTERFACE-3: a line of more than 1 MiB ends the stream instead of filling the memory."""
    lines = Lines()
    lines.feed(b"x" * MAX_LINE)
    with pytest.raises(ValueError, match="longer than"):
        lines.feed(b"x")


def test_comments_are_no_events() -> None:
    """FEED-1: empty lines, comments and unknown fields alone make no event."""
    parsed = SentEvents()
    assert [event for line in ("", ": hello", "", "retry: 5", "") for event in parsed.feed(line)] == []


# ---------------------------------------------------------------- where and with which key


def running(state: Path, **facts: object) -> None:
    """What a daemon writes when it begins to listen; this process stands for it."""
    ticks = int(Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[19])
    found = {"url": "http://127.0.0.1:7171", "pid": os.getpid(), "start_ticks": ticks, **facts}
    (state / "daemon.json").write_text(json.dumps(found))


def test_the_daemon_of_this_user_is_found(tmp_path: Path) -> None:
    """INTERFACE-3: the address comes from daemon.json and the key from local.key of the state directory."""
    running(tmp_path)
    (tmp_path / "local.key").write_text(f"{KEY.value}\n")
    env = {"HOSTLER_STATE_DIR": str(tmp_path)}
    assert find_daemon(env) == Address(url="http://127.0.0.1:7171", key=KEY)
    assert find_daemon({"HOSTLER_STATE_DIR": "/nowhere"}, tmp_path) == find_daemon(env)
    assert KEY.value not in repr(find_daemon(env))


def test_the_environment_comes_first(tmp_path: Path) -> None:
    """INTERFACE-3: $HOSTLER_URL and $HOSTLER_API_KEY come before the files."""
    running(tmp_path)
    (tmp_path / "local.key").write_text(KEY.value)
    env = {"HOSTLER_URL": "http://localhost:1/", "HOSTLER_API_KEY": "mine"}
    assert find_daemon(env, tmp_path) == Address(url="http://localhost:1", key=Secret("mine"))


def test_the_local_key_stays_on_this_machine(tmp_path: Path) -> None:
    """INTERFACE-3: the key of local.key is not sent to another machine, only one that was named for it is."""
    (tmp_path / "local.key").write_text(KEY.value)
    for url in ("http://crow.lan:7070", "https://10.99.0.1", "http://127.0.0.1.example.net"):
        assert find_daemon({"HOSTLER_URL": url}, tmp_path).key is None
    assert find_daemon({"HOSTLER_URL": "http://[::1]:7070"}, tmp_path).key == KEY
    remote = {"HOSTLER_URL": "https://crow.lan:7070", "HOSTLER_API_KEY": "theirs"}
    assert find_daemon(remote, tmp_path).key == Secret("theirs")


@pytest.mark.parametrize(
    ("env", "local", "parts"),
    [
        ({"HOSTLER_URL": "{url}"}, False, ("{url} (of HOSTLER_URL)", "without a key", "HOSTLER_API_KEY")),
        (
            {"HOSTLER_URL": "{url}", "HOSTLER_API_KEY": "hk_other"},
            False,
            ("with the key of HOSTLER_API_KEY",),
        ),
        ({"HOSTLER_URL": "{url}"}, True, ("the key of {state}/local.key", "set HOSTLER_API_KEY to another")),
        (
            {"HOSTLER_HEAD_URL": "{url}", "HOSTLER_API_KEY": "hk_other"},
            True,
            ("{url} (of HOSTLER_HEAD_URL)", "without a key", "HOSTLER_HEAD_API_KEY"),
        ),
        (
            {"HOSTLER_HEAD_URL": "{url}", "HOSTLER_HEAD_API_KEY": "hk_head"},
            False,
            ("with the key of HOSTLER_HEAD_API_KEY",),
        ),
    ],
)
def test_a_wrong_key_is_told_with_who_was_asked(
    daemon: Daemon, tmp_path: Path, env: dict[str, str], *, local: bool, parts: tuple[str, ...]
) -> None:
    """INTERFACE-2, INTERFACE-3: `no_key` has a note: the URL, the key, and what names each; never the key."""
    if local:
        (tmp_path / "local.key").write_text(KEY.value)
    daemon.status, _, daemon.body = control_answer(NoKey())
    address = find_head({name: it.format(url=daemon.url) for name, it in env.items()}, tmp_path)
    with pytest.raises(NoKey) as refused:
        ask_sync(address, "GET", "/x")
    note = refused.value.known_here
    assert [it for it in parts if it.format(url=daemon.url, state=tmp_path) not in note] == []
    assert KEY.value not in note


@pytest.mark.parametrize("var", ["HOSTLER_URL", "HOSTLER_HEAD_URL"])
def test_a_silent_address_is_told_with_what_names_it(tmp_path: Path, var: str) -> None:
    """INTERFACE-3: where nothing answers at a named address, the variable and that of its key are told."""
    with pytest.raises(DaemonUnreachable) as refused:
        ask_sync(find_head({var: "http://127.0.0.1:9"}, tmp_path), "GET", "/x")
    assert str(refused.value).startswith("No daemon answers at http://127.0.0.1:9: ")
    note = refused.value.known_here
    assert note.startswith(f"{var} names it.")
    assert var.replace("URL", "API_KEY") in note
    with pytest.raises(DaemonUnreachable) as named:
        ask_sync(Address(url="http://127.0.0.1:9"), "GET", "/x")
    assert named.value.known_here == ""


def test_a_daemon_that_is_gone_is_not_asked(tmp_path: Path) -> None:
    """INTERFACE-3: when the process that wrote daemon.json is gone, who listens there gets no key."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    for facts in ({"pid": child.pid}, {"start_ticks": 5}):
        running(tmp_path, **facts)
        with pytest.raises(DaemonUnreachable, match="is gone"):
            find_daemon({}, tmp_path)


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}", '{"url": 5}', '"text"', "[" * 20_000])
def test_no_address_is_one_refusal(tmp_path: Path, text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """INTERFACE-3: without a readable daemon.json there is no daemon, and no other file is tried."""
    monkeypatch.chdir(tmp_path)
    state = tmp_path / "state"
    state.mkdir()
    running(tmp_path)
    if text is not None:
        (state / "daemon.json").write_text(text)
    with pytest.raises(DaemonUnreachable, match=r"daemon\.json"):
        find_daemon({}, state)


@pytest.mark.parametrize("status", [200, 409])
def test_an_answer_that_is_nested_too_deep_is_one_refusal(daemon: Daemon, status: int) -> None:
    """INTERFACE-3: whoever gives it is no daemon of ours."""
    daemon.status, daemon.body = status, b'{"error": ' + b"[" * 490 + b"]" * 490 + b"}"
    with pytest.raises(DaemonUnreachable, match="nested too deep"):
        ask_sync(Address(url=daemon.url), "GET", "/x")


def test_only_http_is_spoken(tmp_path: Path) -> None:
    """INTERFACE-3: an address of another kind is refused before anything is sent."""
    with pytest.raises(DaemonUnreachable, match="neither http"):
        find_daemon({"HOSTLER_URL": "file:///etc/passwd"}, tmp_path)


def test_the_client_brings_no_daemon() -> None:
    """INTERFACE-3: importing the client imports no adapters, services, server or store."""
    script = "import sys, hostler.client; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "hostler.client.senders" in loaded
    banned = (
        "hostler.adapters",
        "hostler.services",
        "hostler.gateway",
        "hostler.interfaces",
        "hostler.daemon",
    )
    others = ("uvicorn", "starlette", "sqlite3", "pydantic", "structlog", "prometheus_client", "ruamel")
    assert [name for name in loaded if name.startswith((*banned, *others))] == []
