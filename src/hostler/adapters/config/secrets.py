"""Values from the environment and from private files (CONF-1).

Decides what `${env:NAME}` and `${file:PATH}` stand for, and which file may hold a secret. A reference is
a whole value. Which keys must be one is in `check_access`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hostler.adapters.config.tree import Entry, Leaf, ListNode, MapNode, Node, Path
from hostler.adapters.config.yaml import Finding
from hostler.domain.fleet import Secret, frozen

_WHOLE: Final = re.compile(r"\$\{(env|file):([^{}]*)\}")
_ANY: Final = re.compile(r"\$\{(env|file):")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MAX_SECRET_BYTES: Final = 64 << 10
PRIVATE_MODES: Final = (0o600, 0o400)


class NoSecret(Exception):
    """A reference that leads to nothing usable. `missing`: there is no such variable or file."""

    def __init__(self, why: str, *, missing: bool = False, hint: str = "") -> None:
        super().__init__(why)
        self.missing = missing
        self.hint = hint


def refers(text: str) -> bool:
    """Whether a value is, or was meant as, a reference to a variable or a file."""
    return _ANY.search(text) is not None


def read_private(path: str) -> str:
    """The text of a secret's file, less its last line end.

    Raises NoSecret unless it is a regular file of ours or root's with mode 0600 or 0400, of at most
    64 KiB of UTF-8 text and not empty.
    """
    if not path.startswith("/"):
        raise NoSecret(f"{path!r} is no absolute path")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise NoSecret(f"there is no file {path}", missing=True) from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no path"
        raise NoSecret(f"{path} cannot be read: {why}") from error
    try:
        _check_private(path, os.fstat(descriptor))
        data = os.read(descriptor, MAX_SECRET_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > MAX_SECRET_BYTES:
        raise NoSecret(f"{path} is larger than {MAX_SECRET_BYTES >> 10} KiB")
    try:
        text = data.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise NoSecret(f"{path} is not UTF-8 text") from error
    if not text:
        raise NoSecret(f"{path} is empty")
    return text


def _check_private(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise NoSecret(f"{path} is no regular file")
    if status.st_uid not in (os.geteuid(), 0):
        raise NoSecret(f"{path} belongs to user {status.st_uid}, neither to us nor to root")
    mode = stat.S_IMODE(status.st_mode)
    if mode not in PRIVATE_MODES:
        raise NoSecret(f"{path} has mode {mode:04o}, not 0600 or 0400", hint=f"chmod 600 {path}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The tree with every reference replaced; `secrets` has each by its path, `values` all their texts.

    A reference that may be missing is left out of the tree and is a warning.
    """

    tree: Node
    secrets: Mapping[Path, Secret]
    values: frozenset[str]
    errors: tuple[Finding, ...]
    warnings: tuple[Finding, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every reference that led nowhere."""
        return (*self.errors, *self.warnings)


def resolve(root: Node, env: Mapping[str, str], may_miss: Callable[[Path], bool]) -> Resolved:
    """Replace each reference. `may_miss` says where one that another host needs may be missing here."""
    resolver = _Resolver(env=env, may_miss=may_miss)
    tree = resolver.walk(root, ())
    return Resolved(
        tree=MapNode(mark=root.mark, entries=()) if tree is None else tree,
        secrets=frozen(resolver.secrets),
        values=frozenset(resolver.values),
        errors=tuple(resolver.errors),
        warnings=tuple(resolver.warnings),
    )


@dataclass(slots=True, kw_only=True)
class _Resolver:
    env: Mapping[str, str]
    may_miss: Callable[[Path], bool]
    secrets: dict[Path, Secret] = field(default_factory=dict)
    values: set[str] = field(default_factory=set)
    errors: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)

    def walk(self, node: Node, path: Path) -> Node | None:
        """The node with references replaced; None for one that is left out."""
        match node:
            case MapNode():
                inner = [(entry, self.walk(entry.node, (*path, entry.key))) for entry in node.entries]
                kept = [Entry(key=old.key, mark=old.mark, node=new) for old, new in inner if new is not None]
                return MapNode(mark=node.mark, entries=tuple(kept))
            case ListNode():
                items = [self.walk(item, (*path, index)) for index, item in enumerate(node.items)]
                empty = Leaf(mark=node.mark, value="")
                return ListNode(
                    mark=node.mark, items=tuple(empty if item is None else item for item in items)
                )
            case Leaf():
                return self._leaf(node, path)

    def _leaf(self, leaf: Leaf, path: Path) -> Leaf | None:
        if not isinstance(leaf.value, str) or not refers(leaf.value):
            return leaf
        whole = _WHOLE.fullmatch(leaf.value)
        if whole is None:
            self.errors.append(
                Finding(
                    mark=leaf.mark,
                    path=path,
                    message="a reference is a whole value: ${env:NAME} or ${file:/PATH}",
                    hint="put the whole text into the variable or file",
                )
            )
            return None
        self.secrets[path] = Secret("")
        try:
            text = self._value(whole[1], whole[2], path)
        except NoSecret as error:
            lenient = error.missing and self.may_miss(path)
            finding = Finding(mark=leaf.mark, path=path, message=str(error), hint=error.hint)
            (self.warnings if lenient else self.errors).append(finding)
            return None
        self.secrets[path] = Secret(text)
        return Leaf(mark=leaf.mark, value=text)

    def _value(self, kind: str, name: str, path: Path) -> str:
        if kind == "file":
            text = read_private(name)
            self.values.add(text)
            # The TLS library opens the key by its path: the path is the value, the content is checked.
            return name if path[-2:] == ("tls", "key") else text
        if not _NAME.fullmatch(name):
            raise NoSecret(f"{name!r} is no name of a variable")
        if path[-2:] == ("tls", "key"):
            raise NoSecret("a TLS key is a file", hint="${file:/etc/hostler/tls/node.key}")
        if not self.env.get(name):
            raise NoSecret(f"the variable {name} is not set", missing=True)
        self.values.add(self.env[name])
        return self.env[name]
