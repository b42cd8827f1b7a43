from textwrap import dedent

import pytest

from hostler.adapters.scan.lexer import tokens
from hostler.adapters.scan.shell import shell
from hostler.domain.ports import Certainty, Finding, Role


def seen(text: str) -> list[Finding]:
    return shell("/srv/up.sh", dedent(text), "up.sh")


def listens(text: str) -> list[str]:
    """Each that listens, as `host address:port/protocol`, the host only where it is another."""
    return [
        f"{it.host} {it.address}:{it.port}/{it.protocol}".strip()
        for it in seen(text)
        if it.role is Role.LISTENS
    ]


def assigned(text: str) -> list[int | None]:
    return [it.port for it in seen(text) if it.role is Role.ASSIGNED]


def used(text: str) -> list[str]:
    return [f"{it.host} {it.address}:{it.port}".strip() for it in seen(text) if it.role is Role.USED]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("serve --port 8080", "program default:8080/tcp"),
        ("serve --port=8080", "program default:8080/tcp"),
        ("serve -p 8080 --host 0.0.0.0", "0.0.0.0:8080/tcp"),
        ("serve --host=127.0.0.1 --port 08080", "127.0.0.1:8080/tcp"),
        ("serve -H 10.99.0.1 -p 8080", "10.99.0.1:8080/tcp"),
        ("serve --host localhost --port 8080", "127.0.0.1:8080/tcp"),
        ("serve --host crow.lan --port 8080", "program default:8080/tcp"),
        ("serve --http-port 8080", "unknown:8080/tcp"),
        ("serve --server-port 8080", "unknown:8080/tcp"),
        ("serve --listen 127.0.0.1:8080", "127.0.0.1:8080/tcp"),
        ("serve --listen-address=:8080", "any:8080/tcp"),
        ("serve -b '[::]:8080'", ":::8080/tcp"),
        ("serve --bind crow.lan:8080", "unknown:8080/tcp"),
        ("manage runserver 0.0.0.0:8080", "0.0.0.0:8080/tcp"),
        ("sudo -E nohup timeout 5m env A=B serve --port 8080 &", "program default:8080/tcp"),
        ("if true; then serve --port 8080; fi", "program default:8080/tcp"),
        ("while serve --port 8080; do :; done", "program default:8080/tcp"),
        ("x=$(serve --port 8080)", "program default:8080/tcp"),
        ("x=`serve --port 8080`", "program default:8080/tcp"),
        ("diff <(serve --port 8080) x", "program default:8080/tcp"),
        ("bash -c 'serve --port 8080'", "program default:8080/tcp"),
        ("bash <<E\nserve --port 8080\nE", "program default:8080/tcp"),
        ("serve \\\n  --port 8080", "program default:8080/tcp"),
        ("python3 -m http.server 8080", "any:8080/tcp"),
        ("python3 -m http.server --bind 127.0.0.1", "127.0.0.1:8000/tcp"),
        ("ssh -L 8080:h:1 user@far.example", "127.0.0.1:8080/tcp"),
        ("ssh -L '*:8080:h:1' far.example", "any:8080/tcp"),
        ("ssh -fNL8080:h:1 far.example", "127.0.0.1:8080/tcp"),
        ("ssh -D 8080 far.example", "127.0.0.1:8080/tcp"),
        ("ssh -R 8080:h:1 user@far.example", "far.example 127.0.0.1:8080/tcp"),
        ("ssh far.example serve --port 8080", "far.example program default:8080/tcp"),
        ("nc -lk 8080", "any:8080/tcp"),
        ("nc -lu -w 5 127.0.0.1 8080", "127.0.0.1:8080/udp"),
        ("socat UDP4-LISTEN:8080,bind=127.0.0.1 -", "127.0.0.1:8080/udp"),
        ("docker run -d -p 8080:80 img", "any:8080/tcp"),
        ("podman run --publish=127.0.0.1:8080:80/udp img", "127.0.0.1:8080/udp"),
        ("docker run -p8080:80 img", "any:8080/tcp"),
        ("docker run --network host img serve --port 8080", "any:8080/tcp"),
        ("docker run -itP img", "any:None/tcp"),
        ("PORT=8080 ./up", "unknown:8080/tcp"),
        ("serve --port $((8000 + 8 * 10))", "program default:8080/tcp"),
        ("serve --port $(echo 8080)", "program default:8080/tcp"),
        ('P=8080; serve --port "$P"', "program default:8080/tcp"),
        ("serve --port ${1:-8080}", "program default:8080/tcp"),
    ],
)
def test_forms(text: str, found: str) -> None:
    """PORT-2: every form of a listening command is read with its address, its protocol and its host."""
    assert listens(text) == [found]


@pytest.mark.parametrize(
    "text",
    [
        "# serve --port 8080",
        "true # serve --port 8080",
        "echo --port 8080",
        "printf 'PORT=8080'",
        "mkdir -p 8080",
        "cat > f <<E\nserve --port 8080\nE",
        "cat <<-E\n\tserve --port 8080\n\tE",
        "bash script.sh <<E\nserve --port 8080\nE",
        "ssh -p 8080 far.example",
        "serve --port 99999",
        "serve --port eighty",
        "log 'serve --port 8080'",
        "docker ps -p 8080",
        "docker run img -p 8080:80",
        "socat - UNIX-LISTEN:/run/x",
        "ssh -L 8080 far.example",
        "ssh -L x:h:1 far.example",
        "serve --remote-port 8080",
        "echo a > 8080",
        "chown 1000:8080 f",
        "at 12:30",
        "docker pull redis:7",
    ],
)
def test_what_is_no_port(text: str) -> None:
    """PORT-2: comments, texts, folders, files that are written, clients and mere numbers listen nowhere."""
    assert listens(text) == []
    assert assigned(text) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("PORT=8080", [8080]),
        ('export WEB_PORT="8080"', [8080]),
        ("readonly A_PORT=8080 B_PORT=8081", [8080, 8081]),
        ("PORT=8080; OTHER=8081  # 8082", [8080]),
        ("PORT=8080 # PORT=8081\nport_b=8082", [8080, 8082]),
        ("PORTS='8080, 8081'", [8080, 8081]),
        ("REPORT=8080 SUPPORT=8081", []),
        ("PORT=8080; serve --port $PORT", []),
        ("PORT=${X:-8080}", [8080]),
        ("PORT=$X", []),
    ],
)
def test_assignments(text: str, found: list[int]) -> None:
    """PORT-2: several assignments on a line are read, once for a port that is then listened on."""
    assert assigned(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("curl http://127.0.0.1:8080/x", ["127.0.0.1:8080"]),
        ("curl -s https://crow.lan:8080", ["crow.lan unknown:8080"]),
        ("PORT=8080\ncurl localhost:$PORT", ["127.0.0.1:8080"]),
        ("llama --rpc 10.99.0.2:50052", ["10.99.0.2:50052"]),
        ("nc crow.lan 8080", ["crow.lan unknown:8080"]),
        ("nc 127.0.0.1 8080", ["127.0.0.1:8080"]),
        ("socat - TCP:crow.lan:8080", ["crow.lan unknown:8080"]),
        ("ssh -p 2222 far.example", ["far.example unknown:2222"]),
        ("serve --upstream-url http://crow.lan:8080", ["crow.lan unknown:8080"]),
        ("serve --bind http://crow.lan:8080", ["crow.lan unknown:8080"]),
    ],
)
def test_targets(text: str, found: list[str]) -> None:
    """PORT-2: what a command connects to is a use, on the host that it names, and no listener."""
    assert used(text) == found
    assert listens(text) == []


def test_loops_and_branches() -> None:
    """PORT-2: a loop gives each of its values, both branches of an `if` are possible."""
    loop = "for p in 8080 $(seq 8081 8082) $(seq 1 0); do serve --port $p; done"
    assert [it.port for it in seen(loop)] == [8080, 8081, 8082]
    branch = """\
        if test x; then P=8080; else P=8081; fi
        [ -n "$X" ] && P=8082
        serve --port $P
        """
    assert [(it.port, it.branch) for it in seen(branch)] == [(8080, True), (8081, True), (8082, True)]
    again = "P=8080; P=8081; serve --port $P"
    assert [(it.port, it.branch) for it in seen(again)] == [(8081, False)]
    case = "case $1 in a) P=8080;; b) P=8081;; esac\nserve --port $P"
    assert [it.port for it in seen(case)] == [8080, 8081]


@pytest.mark.parametrize(
    ("text", "certainty"),
    [
        ("serve --port 8080", Certainty.LITERAL),
        ("P=8080; serve --port $P", Certainty.LITERAL),
        ("serve --port ${P:-8080}", Certainty.DEFAULT),
        ("P=${Q:-8080}; serve --port $P", Certainty.DEFAULT),
        ("serve --port ${P:+8080}", Certainty.VARIABLE),
        ("serve --port $((X + 8080))", Certainty.VARIABLE),
    ],
)
def test_certainty(text: str, certainty: Certainty) -> None:
    """PORT-2: a port is as sure as the words that it is made of."""
    assert {it.certainty for it in seen(text)} == {certainty}
    assert 8080 in {it.port for it in seen(text)}


@pytest.mark.parametrize(
    "value", ["$P", "${P#x}", "$(cat f)", "$((1 / 0))", "$((2 ** 40))", "$((a b))", "$(("]
)
def test_a_port_that_only_a_run_tells(value: str) -> None:
    """PORT-2: a port that the text does not tell is a finding without a number, of a variable."""
    (found,) = seen(f"serve --port {value}")
    assert (found.port, found.certainty) == (None, Certainty.VARIABLE)


def test_where_it_stands() -> None:
    """PORT-2: each finding has the line of its command, also behind here-documents and broken lines."""
    text = """\
        cat <<A <<'B'
        one
        A
        two
        B
        serve \\
          --port 8080
        x="a
        b" serve --port 8081
        y=$(
          serve --port 8082)
        """
    assert [(it.port, it.line) for it in seen(text)] == [(8080, 6), (8081, 9), (8082, 11)]


def test_one_script_is_one_thing() -> None:
    """PORT-3: what one script does is one thing, so it does not collide with itself."""
    (one, two) = seen("serve --port 8080\nother --port 8080")
    assert one.thing == two.thing == "script /srv/up.sh"
    assert one.owner == "up.sh"


def test_words() -> None:
    """PORT-2: quotes, escapes, redirections and operators part words as a shell does."""
    text = "a'b c'\"d $e\"\\ f 2>x <<<here >&2 g|h&&i # j\nk\\\nl"
    assert [it.plain if it.is_word else it.text for it in tokens(text)] == [
        "ab cd  f",
        "g",
        "|",
        "h",
        "&&",
        "i",
        "\n",
        "kl",
    ]


def test_a_deep_script_ends() -> None:
    """PORT-4: scripts inside scripts are followed to a bound, and no further."""
    text = "serve --port 8080"
    for _ in range(40):
        text = f"x=$({text})"
    assert seen(text) == []
