from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from hostler.adapters.scan.compose import compose
from hostler.adapters.scan.seen import Seen
from hostler.adapters.scan.tree import Broken, Keys, Text, read_tree
from hostler.adapters.scan.variables import Filled, env_file, fill
from hostler.domain.ports import ANY, Certainty, Role


def seen(folder: Path, text: str, env: Mapping[str, str] | None = None, **others: str) -> Seen:
    """What a project of that main file shows; `others` are files beside it, `_` for their dots."""
    for name, each in others.items():
        (folder / name.replace("__", "/").replace("_", ".")).write_text(dedent(each))
    main = folder / "compose.yaml"
    main.write_text(dedent(text))
    return compose(main, env or {})


def ports(found: Seen) -> list[str]:
    """Each as `service address:port/protocol`."""
    return [f"{it.owner} {it.address}:{it.port}/{it.protocol}" for it in found.findings]


def one(folder: Path, entry: str, env: Mapping[str, str] | None = None) -> Seen:
    return seen(folder, f"services:\n  web:\n    image: app\n    ports:\n      - {entry}\n", env)


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ('"8080:80"', "any:8080/tcp"),
        ("8080:80", "any:8080/tcp"),
        ('"127.0.0.1:8080:80"', "127.0.0.1:8080/tcp"),
        ('"[::1]:8080:80/udp"', "::1:8080/udp"),
        ('"8080:80/UDP"', "any:8080/udp"),
        ('"80"', "any:None/tcp"),
        ('"127.0.0.1::80"', "127.0.0.1:None/tcp"),
        ('"0:80"', "any:None/tcp"),
        ("{target: 80, published: 8080, host_ip: '[::1]', protocol: udp}", "::1:8080/udp"),
        ("{target: 80}", "any:None/tcp"),
        ('"${P:-8080}:80"', "any:8080/tcp"),
        ('"${P-8080}:80"', "any:8080/tcp"),
        ('"${A:-${B:-8080}}:80"', "any:8080/tcp"),
        ('"$GIVEN:80"', "any:9999/tcp"),
        ('"${GIVEN:+8080}:80"', "any:8080/tcp"),
        ('"${EMPTY-8080}:80"', "any:None/tcp"),
        ('"${EMPTY:-8080}:80"', "any:8080/tcp"),
    ],
)
def test_one_entry(tmp_path: Path, entry: str, found: str) -> None:
    """PORT-2: short and long syntax, addresses, protocols and variables with defaults come to one port."""
    assert ports(one(tmp_path, entry, {"GIVEN": "9999", "EMPTY": ""})) == [f"web {found}"]


@pytest.mark.parametrize(
    ("entry", "certainty"),
    [
        ('"8080:80"', Certainty.LITERAL),
        ('"${P:-8080}:80"', Certainty.DEFAULT),
        ('"$GIVEN:80"', Certainty.VARIABLE),
        ('"${GIVEN:-1}:80"', Certainty.VARIABLE),
        ('"${ADDRESS:-127.0.0.1}:8080:80"', Certainty.DEFAULT),
        ('"$$8080:80"', None),
    ],
)
def test_certainty(tmp_path: Path, entry: str, certainty: Certainty | None) -> None:
    """PORT-2: a port is literal, from a default, or of a variable, whichever of its parts is least sure."""
    found = one(tmp_path, entry, {"GIVEN": "9999"})
    assert [it.certainty for it in found.findings] == ([certainty] if certainty else [])


def test_ranges(tmp_path: Path) -> None:
    """PORT-2: a range for a range is each of its ports, a range for one port is one of them."""
    assert ports(one(tmp_path, '"8080-8082:80-82"')) == [f"web any:{port}/tcp" for port in (8080, 8081, 8082)]
    (chosen,) = one(tmp_path, '"8080-8082:80"').findings
    assert (chosen.port, chosen.among) == (None, (8080, 8082))


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ('"70000:80"', "the published port 70000 is out of range"),
        ('"8083-8082:80"', "8083-8082 is reversed"),
        ('"0-5:80"', "begins below 1"),
        ('"8080-8081:80-82"', "are not of one length"),
        ('""', "an empty port"),
        ('"1:2:3:4"', "more than address:port:port"),
        ('"[::1:80"', "an address in brackets"),
        ('"host:8080:80"', "host is no IP address"),
        ('"8080:80/quic"', "quic is no protocol"),
        ('"8080:http"', "the container's port is http"),
        ('"${MUST:?set it}:80"', "MUST is not set and must be"),
        ("{published: 8080}", "target is missing"),
        ("{target: [80]}", "a port whose key is a list"),
        ("[80]", "a port that is a list"),
    ],
)
def test_what_compose_would_refuse(tmp_path: Path, entry: str, words: str) -> None:
    """PORT-4: an entry that compose would refuse is a finding with its line, and no port."""
    found = one(tmp_path, entry)
    assert found.findings == ()
    (trouble,) = found.troubles
    assert words in trouble.message
    assert (trouble.line, trouble.counts) == (5, True)


def test_base_sixty(tmp_path: Path) -> None:
    """PORT-2: what YAML 1.1 takes for a number of base 60 stays the ports, with advice to quote it."""
    found = one(tmp_path, "2222:22")
    assert ports(found) == ["web any:2222/tcp"]
    (advice,) = found.troubles
    assert (advice.counts, advice.message.partition(": ")[2]) == (
        False,
        "quote this: a YAML 1.1 reader takes 2222:22 for 133342",
    )
    assert one(tmp_path, '"2222:22"').troubles == ()
    assert one(tmp_path, "8080:80").troubles == ()


@pytest.mark.parametrize(
    ("entry", "flagged"),
    [
        ('"${BIND}:8080:80"', True),
        ('"$BIND:8080:80"', True),
        ('"${BIND:-}:8080:80"', False),
        ('{target: 80, published: 8080, host_ip: "${BIND}"}', True),
    ],
)
def test_a_blank_address(tmp_path: Path, entry: str, flagged: bool) -> None:
    """PORT-2: an address that is blank as its variable is unset opens every interface, and counts."""
    found = one(tmp_path, entry)
    assert ports(found) == ["web any:8080/tcp"]
    assert [it.message for it in found.troubles if "blank address from unset BIND" in it.message] == (
        [it.message for it in found.troubles] if flagged else []
    )
    assert bool(found.troubles) is flagged


def test_anchors_and_merges(tmp_path: Path) -> None:
    """PORT-2: aliases and merges are written out: a local key wins, then the first."""
    found = seen(
        tmp_path,
        """\
        x-a: &a {ports: ["8080:80"]}
        x-b: &b {ports: ["9090:80"]}
        services:
          one: {<<: *a}
          two: {<<: *a, ports: ["8081:80"]}
          three: {<<: [*b, *a]}
        """,
    )
    assert ports(found) == ["one any:8080/tcp", "two any:8081/tcp", "three any:9090/tcp"]


def test_override_files(tmp_path: Path) -> None:
    """PORT-2: the file that compose loads beside is merged: lists added to, replaced, or emptied by tags."""
    found = seen(
        tmp_path,
        """\
        services:
          added: {ports: ["8080:80"]}
          replaced: {ports: ["8081:80"]}
          emptied: {ports: ["8082:80"]}
        """,
        compose_override_yaml="""\
        services:
          added: {ports: ["8080:80", "8090:90"]}
          replaced: {ports: !override ["8091:80"]}
          emptied: {ports: !reset null}
        """,
    )
    assert ports(found) == ["added any:8080/tcp", "added any:8090/tcp", "replaced any:8091/tcp"]
    assert [Path(it.file).name for it in found.findings][1:] == ["compose.override.yaml"] * 2


def test_extends_and_include(tmp_path: Path) -> None:
    """PORT-2: a service has the ports of what it extends, a project those of what it includes."""
    (tmp_path / "sub").mkdir()
    found = seen(
        tmp_path,
        """\
        include: [{path: sub/other.yaml}, "oci://registry/app"]
        services:
          base: {profiles: [debug], ports: ["8080:80"]}
          here: {extends: base, ports: ["8081:80"]}
          there: {extends: {file: shared.yaml, service: base}}
          lost: {extends: {file: shared.yaml, service: nobody}}
        """,
        shared_yaml='services: {base: {ports: ["8082:80"]}}\n',
        sub__other_yaml='services: {included: {ports: ["${P}:80"]}}\n',
        sub___env="P=8083\n",
    )
    assert sorted(ports(found)) == [
        "base any:8080/tcp",
        "here any:8080/tcp",
        "here any:8081/tcp",
        "included any:8083/tcp",
        "there any:8082/tcp",
    ]
    assert {it.profiles for it in found.findings if it.owner in ("base", "here")} == {("debug",)}
    told = [it.message for it in found.troubles]
    assert told[0] == "include oci://registry/app is not read"
    assert told[1].startswith("lost extends nobody of ")
    assert {Path(it).name for it in found.files} == {"compose.yaml", "shared.yaml", "other.yaml", ".env"}


def test_circles_end(tmp_path: Path) -> None:
    """PORT-4: files that include or extend each other in a circle end with a trouble."""
    found = seen(
        tmp_path,
        """\
        include: [compose.yaml]
        services:
          a: {extends: b, ports: ["8080:80"]}
          b: {extends: a}
        """,
    )
    assert "a any:8080/tcp" in ports(found)
    assert any("which is not there" in it.message for it in found.troubles)


def test_variables_beside_and_given(tmp_path: Path) -> None:
    """PORT-2: variables come from `.env` beside the file, and what was given wins over it."""
    text = 'services: {web: {ports: ["${A}:80", "${B}:81"]}}\n'
    (tmp_path / ".env").write_text("export A='8080' # one\nB=8081 # two\n#C=1\nnonsense\n")
    assert ports(seen(tmp_path, text)) == ["web any:8080/tcp", "web any:8081/tcp"]
    assert ports(seen(tmp_path, text, {"B": "9091"})) == ["web any:8080/tcp", "web any:9091/tcp"]


@pytest.mark.parametrize(
    ("service", "found"),
    [
        ('{command: [serve, --port, "8075"], ports: ["8076:80"]}', ["any:8075"]),
        ("{command: serve --host 127.0.0.1 --port=8075}", ["127.0.0.1:8075"]),
        ('{entrypoint: [sh, -c], command: ["serve --port 8075 && sleep 1"]}', ["program default:8075"]),
        ("{command: serve, environment: {WEB_PORT: 8075, OTHER: 1}}", ["unknown:8075"]),
        ("{environment: ['PORT=${P:-8075}', 'LISTEN=x']}", ["unknown:8075"]),
        ("{image: 'docker.io/library/redis:7'}", ["any:6379"]),
        ("{image: app, expose: ['8075', '8076/udp', 'x']}", ["any:8075", "any:8076"]),
        ("{image: app, command: serve -c /etc/x}", ["any:None"]),
    ],
)
def test_host_network(tmp_path: Path, service: str, found: list[str]) -> None:
    """PORT-2: in the host's network publishing is discarded; command, environment or image tell the ports."""
    text = f"services:\n  web: {service[:-1]}, network_mode: host}}\n"
    assert [f"{it.address}:{it.port}" for it in seen(tmp_path, text).findings] == found


def test_anothers_network_and_comments(tmp_path: Path) -> None:
    """PORT-2: another service's network, exposed ports, labels and comments are no ports of a host."""
    found = seen(
        tmp_path,
        """\
        services:
          a: {network_mode: "service:b", ports: ["8080:80"]}
          b:
            expose: ["8081"]
            labels: ["port=8082"]
            ports:
              - "8083:80"   # was 8084:80
              # - "8085:80"
        """,
    )
    assert ports(found) == ["b any:8083/tcp"]


def test_names_and_places(tmp_path: Path) -> None:
    """PORT-2: a finding has its service, its container's name, its file and its line."""
    text = "services:\n  web:\n    container_name: crow-web\n    ports:\n      - '8080:80'\n"
    (found,) = seen(tmp_path, text).findings
    assert (found.owner, found.names, found.line, found.role) == ("web", ("crow-web",), 5, Role.LISTENS)
    assert found.file == str(tmp_path / "compose.yaml")
    assert found.thing == f"compose {tmp_path} web"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: [1\n", 2, "no YAML"),
        ("a: 1\na: 2\n", 2, "given twice"),
        ("- a\n", 1, "a compose file is a mapping"),
        ("a: 1\n---\nb: 2\n", 2, "a second document"),
        ("a: {<<: text}\n", 1, "<< needs a mapping"),
        ("[a]: 1\n", 1, "a key that is a list"),
        ("a: *b\n", 1, "no anchor"),
        ("services: [a]\n", 1, "services is no mapping"),
        ("services: {a: [b]}\n", 1, "the service a is no mapping"),
        ("[" * 60 + "]" * 60, 1, "nested more than"),
    ],
)
def test_an_unparsable_file(tmp_path: Path, text: str, line: int, words: str) -> None:
    """PORT-4: a file that cannot be parsed is a finding with its line and why."""
    (trouble,) = seen(tmp_path, text).troubles
    assert words in trouble.message
    assert (trouble.line, trouble.counts) == (line, True)


def test_laughing_aliases(tmp_path: Path) -> None:
    """PORT-4: aliases that would multiply without end are bounded."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (trouble,) = seen(tmp_path, "\n".join(lines)).troubles
    assert "those of aliases counted" in trouble.message


def test_files_that_are_no_text(tmp_path: Path) -> None:
    """PORT-4: a file that is no text, too large or not there cannot be read, which is told."""
    main = tmp_path / "compose.yaml"
    for data, words in ((b"a\0b", "no text"), (b"\xff\xfe", "not UTF-8"), (b"#" * (2 << 20), "larger than")):
        main.write_bytes(data)
        (trouble,) = compose(main, {}).troubles
        assert words in trouble.message
    main.unlink()
    main.mkdir()
    (folder,) = compose(main, {}).troubles
    assert "no regular file" in folder.message


def test_null_is_nothing() -> None:
    """PORT-2: an empty value is no value; a quoted one is a text, and an empty file an empty mapping."""
    tree = read_tree("a:\nb: ~\nc: '~'\n")
    assert isinstance(tree, Keys)
    assert (tree.get("a"), tree.get("b"), tree.get("none")) == (None, None, None)
    assert tree.get("c") == Text(value="~", line=3)
    assert read_tree("") == Keys(entries={}, line=1)
    with pytest.raises(Broken):
        read_tree("%YAML 9\n---\n{")


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("no variable", Filled(text="no variable")),
        ("$$5 costs $", Filled(text="$5 costs $")),
        ("${1} ${", Filled(text="${1} ${")),
        ("${A", Filled(text="${A")),
    ],
)
def test_what_is_no_variable(text: str, filled: Filled) -> None:
    """PORT-2: a dollar that begins no variable stays, two are one."""
    assert fill(text, {}) == filled


def test_env_files() -> None:
    """PORT-2: of a `.env` file each assignment counts, quotes and comments taken off."""
    assert env_file("A=1\n B = two words # c\nC='x # y'\nD=\"open\n# E=5\n") == {
        "A": "1",
        "B": "two words",
        "C": "x # y",
        "D": "open",
    }
    assert ANY == "any"
