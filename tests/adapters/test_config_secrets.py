import os
from pathlib import Path

import pytest

from hostler.adapters.config.reading import right
from hostler.adapters.config.secrets import MAX_SECRET_BYTES, NoSecret, read_private
from hostler.adapters.config.show import as_yaml, effective
from tests.fakes.config_files import check_marked, marked, read_config, told, warned, write_secret

UPSTREAM = "version: 1\nupstreams:\n  u: {url: 'https://e.example.net', host: external, key: "
TWO = """\
version: 1
schedule: {owner: crow}
hosts:
  crow: {url: "https://crow.lan", key: "${file:/nowhere/crow}"}
  raven: {url: "https://raven.lan", key: "${file:/nowhere/raven}"}
"""


def test_a_private_file_is_read(tmp_path: Path) -> None:
    """CONF-1: a secret is its file's text less the last line end, with mode 0600 or 0400."""
    path = write_secret(tmp_path, "key", "abc def\r\n")
    assert read_private(str(path)) == "abc def"
    path.chmod(0o400)
    assert read_private(str(path)) == "abc def"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o700, 0o500, 0o604])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    """CONF-1: a secret's file with any other mode is refused, with the command that mends it."""
    path = write_secret(tmp_path, "key")
    path.chmod(mode)
    with pytest.raises(NoSecret, match=f"{mode:04o}") as caught:
        read_private(str(path))
    assert caught.value.hint == f"chmod 600 {path}"


def test_a_file_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CONF-1: a secret's file is ours or root's."""
    path = write_secret(tmp_path, "key")
    stranger = path.stat().st_uid + 4711
    real = os.fstat

    def owned_by_stranger(descriptor: int) -> os.stat_result:
        fields = list(real(descriptor))
        fields[4] = stranger
        return os.stat_result(fields)

    monkeypatch.setattr(os, "fstat", owned_by_stranger)
    with pytest.raises(NoSecret, match=f"belongs to user {stranger}"):
        read_private(str(path))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """CONF-1: a directory, a pipe, a relative path and a path through a file are no secrets; none blocks."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    file = write_secret(tmp_path, "key")
    for path in (str(tmp_path), str(tmp_path / "pipe"), "key", f"{file}/x", "/a\0b"):
        with pytest.raises(NoSecret) as caught:
            read_private(path)
        assert not caught.value.missing
    with pytest.raises(NoSecret) as caught:
        read_private(str(tmp_path / "gone"))
    assert caught.value.missing


@pytest.mark.parametrize("data", [b"", b"\n", b"\xff\n", b"x" * (MAX_SECRET_BYTES + 1)])
def test_what_is_no_text_is_refused(tmp_path: Path, data: bytes) -> None:
    """CONF-1: an empty, binary or huge file is no secret."""
    path = write_secret(tmp_path, "key")
    path.write_bytes(data)
    with pytest.raises(NoSecret):
        read_private(str(path))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("'${env:UNSET}'", "the variable UNSET is not set"),
        ("'${env:}'", "is no name of a variable"),
        ("'${env:A-B}'", "is no name of a variable"),
        ("'${file:key}'", "is no absolute path"),
        ("'${file:/nowhere/key}'", "there is no file /nowhere/key"),
        ("'Bearer ${env:HOME}'", "a reference is a whole value"),
        ("'${env:HOME}x'", "a reference is a whole value"),
        ("sk-plain", "a secret in clear"),
        ("'${HOME}'", "a secret in clear"),
    ],
)
def test_a_reference_that_leads_nowhere_is_an_error(tmp_path: Path, value: str, words: str) -> None:
    """CONF-1: a secret is a whole reference to something that is there; in clear it is refused."""
    check_marked(tmp_path, f"{UPSTREAM}»{value}}}\n", f"upstreams.u.key: {words}")


def test_references_stand_for_any_text(tmp_path: Path) -> None:
    """CONF-1: any text may come from the environment, and is judged like one that stands in the file."""
    text = "version: 1\nnode: {models_dir: '${env:MODELS}', shutdown: '${env:GRACE}'}\n"
    fleet = read_config(tmp_path, text, env={"MODELS": "/srv/models", "GRACE": "2m"}).fleet
    assert fleet is not None
    assert (fleet.node.models_dir, fleet.node.shutdown_s) == ("/srv/models", 120.0)
    bad = read_config(tmp_path, text, env={"MODELS": "models", "GRACE": "2m"})
    assert [problem.path for problem in bad.problems] == ["node.models_dir"]


def test_no_message_holds_a_secret(tmp_path: Path) -> None:
    """SEC-1: a secret that is wrong where it stands is in no message and no hint."""
    secret = "hunter2hunter2"
    text = f"{UPSTREAM}'${{env:S}}', lokal_only: true}}\n"
    text += "node: {on_exit: '${env:S}', models_dir: '${env:S}'}\n"
    reading = read_config(tmp_path, text, env={"S": secret})
    assert len(reading.problems) == 3
    assert secret not in "\n".join(told(reading) + warned(reading))
    assert "****" in "\n".join(told(reading))


def test_a_secret_is_never_shown(tmp_path: Path) -> None:
    """SEC-1: the effective config and every repr have **** where a secret is, and where a reference was."""
    secret = "hunter2hunter2"
    text = f"{UPSTREAM}'${{env:S}}'}}\nnode: {{models_dir: '${{env:DIR}}'}}\n"
    reading = read_config(tmp_path, text, env={"S": secret, "DIR": "/srv/private-models"})
    shown = as_yaml(effective(right(reading)))
    assert "key: '****'" in shown
    assert "models_dir: '****'" in shown
    fleet = reading.fleet
    assert fleet is not None
    assert fleet.upstreams["u"].key is not None
    assert fleet.upstreams["u"].key.value == secret
    assert secret not in shown + repr(fleet) + repr(reading.document)


def test_a_key_of_the_config_is_kept_as_its_hash(tmp_path: Path) -> None:
    """SEC-1: of a key for callers the fleet has the SHA-256 and nothing else."""
    path = write_secret(tmp_path, "key", "abc\n")
    fleet = read_config(
        tmp_path, f"version: 1\nkeys: [{{name: a, key: '${{file:{path}}}', scope: [infer]}}]\n"
    ).fleet
    assert fleet is not None
    assert fleet.keys[0].digest.hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_a_tls_key_is_a_private_file(tmp_path: Path) -> None:
    """CONF-1: the TLS key's file is checked like any secret, and the listener gets its path."""
    key = write_secret(tmp_path, "node.key")
    text = f"version: 1\nnode: {{tls: {{cert: /c.pem, key: »'${{file:{key}}}'}}}}\n"
    clean, _ = marked(text)
    fleet = read_config(tmp_path, clean).fleet
    assert fleet is not None
    assert fleet.node.tls is not None
    assert fleet.node.tls.key == str(key)
    key.chmod(0o644)
    check_marked(tmp_path, text, "node.tls.key: has mode 0644")
    check_marked(tmp_path, text.replace(f"file:{key}", "env:HOME"), "node.tls.key: a TLS key is a file")


def test_secrets_of_other_hosts_may_be_elsewhere(tmp_path: Path) -> None:
    """CONF-6: of one file for a whole fleet, another host's secret that is missing here is a warning."""
    reading = read_config(tmp_path, TWO, machine="crow")
    assert [problem.path for problem in reading.problems] == ["hosts.crow.key"]
    assert "hosts.raven.key: there is no file /nowhere/raven" in warned(reading)[0]
    broken = write_secret(tmp_path, "raven")
    broken.chmod(0o644)
    text = TWO.replace("/nowhere/crow", str(write_secret(tmp_path, "crow"))).replace(
        "/nowhere/raven", str(broken)
    )
    assert "has mode 0644" in told(read_config(tmp_path, text, machine="crow"))[0]
