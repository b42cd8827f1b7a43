"""Refusals of what was asked: bad input, no right to ask, nothing of that name."""

from __future__ import annotations

from dataclasses import dataclass

from hostler.domain.errors.base import Kind, Refusal


@dataclass(eq=False, kw_only=True)
class InvalidRequest(Refusal):
    """Bad input: says what, where, and what was expected."""

    kind = Kind.INVALID
    code = "invalid_request"
    message = "{what}"
    hint = "{expected}"

    what: str
    expected: str = ""
    where: str = ""


@dataclass(eq=False, kw_only=True)
class TooLarge(Refusal):
    """A body over its limit (413)."""

    kind = Kind.INVALID
    code = "too_large"
    message = "The {what} is larger than {limit} bytes."
    hint = "Send less, or raise {setting} in the config."

    what: str
    limit: int
    setting: str = "gateway.max_body"

    def advice(self) -> str:
        """Which setting moves the bound; none does when `setting` is empty."""
        return self.hint.format(setting=self.setting) if self.setting else "Send less: this bound is fixed."


@dataclass(eq=False, kw_only=True)
class MethodNotAllowed(Refusal):
    """The path is known, the method is not one of its own (405)."""

    kind = Kind.INVALID
    code = "method_not_allowed"
    message = "{method} is not allowed on {path}."
    hint = "Use {allowed}."

    method: str
    path: str
    allowed: str


@dataclass(eq=False, kw_only=True)
class InvalidConfig(Refusal):
    """The config has errors. All of them are in `problems`, each `file:line:column: path: message`."""

    kind = Kind.CONFIG
    code = "invalid_config"
    message = "{file} has {count} error(s)."
    hint = "Run `hostler config check` to see each with its line."

    file: str
    count: int
    problems: tuple[str, ...]


@dataclass(eq=False, kw_only=True)
class InvalidCatalog(Refusal):
    """The catalog has errors, so nothing is read of it (CAT-11)."""

    kind = Kind.INVALID
    code = "invalid_catalog"
    message = "The catalog has {count} error(s), the first one: {first}."
    hint = "`hostler catalog check` shows each with its line."

    count: int
    first: str


@dataclass(eq=False, kw_only=True)
class DownloadFailed(Refusal):
    """A file could not be fetched, or not to its end (CAT-12)."""

    kind = Kind.UNREACHABLE
    code = "download_failed"
    message = "{file} was not fetched: {why}."
    hint = "{way}"

    file: str
    why: str
    way: str = "Run the same command again: it goes on where it ended."


@dataclass(eq=False, kw_only=True)
class NotTheFile(Refusal):
    """What was downloaded, or lies there already, is not the catalog's file (CAT-12)."""

    kind = Kind.FAILED
    code = "not_the_file"
    message = "{file} is not the file of {model}: {why}."
    hint = "{way}"

    file: str
    model: str
    why: str
    way: str


@dataclass(eq=False, kw_only=True)
class NoConfig(Refusal):
    """There is no config where one is looked for (CONF-5). `looked` are those places, in order."""

    kind = Kind.CONFIG
    code = "no_config"
    message = "There is no hostler.yaml."
    hint = "`hostler init` writes one from what is on this box; or name it: --config FILE, $HOSTLER_CONFIG."

    looked: tuple[str, ...] = ()


@dataclass(eq=False, kw_only=True)
class HoldPathDiffers(Refusal):
    """The command and the daemon would use two hold files: a hold that no gate reads is none (HOLD-1)."""

    kind = Kind.CONFIG
    code = "hold_path_differs"
    message = "This command would use {ours}, the daemon reads {theirs}."
    hint = "Set $HOSTLER_BOX_RESERVATION_PATH to the daemon's path, or node.hold_path in the config."

    ours: str
    theirs: str


@dataclass(eq=False, kw_only=True)
class HoldPathUnusable(Refusal):
    """The hold file cannot lie where it should: a hold that no gate reads is none (HOLD-1)."""

    kind = Kind.CONFIG
    code = "hold_path_unusable"
    message = "The hold file {path} cannot be used: {why}."
    hint = "Name another in $HOSTLER_BOX_RESERVATION_PATH or node.hold_path; `hostler box path` shows it."

    path: str
    why: str


@dataclass(eq=False, kw_only=True)
class NoKey(Refusal):
    """No key, or one that nobody gave out."""

    kind = Kind.UNAUTHORIZED
    code = "no_key"
    message = "A valid key is needed for this."
    hint = "Send `Authorization: Bearer KEY`; the key of this machine's user is in local.key."


@dataclass(eq=False, kw_only=True)
class WrongScope(Refusal):
    """The key is known but may not do this."""

    kind = Kind.FORBIDDEN
    code = "wrong_scope"
    message = "The key {key} lacks the scope {scope}."
    hint = "Use a key with that scope."

    key: str
    scope: str


@dataclass(eq=False, kw_only=True)
class NotYours(Refusal):
    """A browser, a foreign Host or a holder that is not the one named."""

    kind = Kind.FORBIDDEN
    code = "not_yours"
    message = "{what}"
    hint = "{expected}"

    what: str
    expected: str = ""


@dataclass(eq=False, kw_only=True)
class ModelNotFound(Refusal):
    """No route, alias or engine of that name (GW-2)."""

    kind = Kind.NOT_FOUND
    code = "model_not_found"
    message = "There is no model {model!r} here."
    hint = "{nearest}"
    param = "model"

    model: str
    nearest: str = ""


_OF_ANOTHER = "It is an engine of "


@dataclass(eq=False, kw_only=True)
class EngineNotFound(Refusal):
    """No engine of that id."""

    kind = Kind.NOT_FOUND
    code = "engine_not_found"
    message = "There is no engine {engine!r} here."
    hint = "{nearest}"

    engine: str
    nearest: str = ""

    @property
    def elsewhere(self) -> bool:
        """Whether it is an engine of another host, which the hint names."""
        return self.nearest.startswith(_OF_ANOTHER)

    @staticmethod
    def way_to(host: str, url: str | None) -> str:
        """The hint for an engine of another host: which one, and how its daemon is asked (INTERFACE-3)."""
        address = f"HOSTLER_URL={url}" if url else f"HOSTLER_URL set to the URL of {host}"
        return f"{_OF_ANOTHER}{host}: ask its daemon, with {address} and its key in HOSTLER_API_KEY."


@dataclass(eq=False, kw_only=True)
class NotFound(Refusal):
    """A path, request id, or profile that is not there."""

    kind = Kind.NOT_FOUND
    code = "not_found"
    message = "There is no {what} {name!r} here."
    hint = "{nearest}"

    what: str
    name: str
    nearest: str = ""


@dataclass(eq=False, kw_only=True)
class CursorReset(Refusal):
    """The cursor is too old, of another store, or of the future (FEED-2)."""

    kind = Kind.GONE
    code = "cursor_reset"
    message = "The cursor {cursor!r} cannot be continued from."
    hint = "Read the snapshot at {snapshot} and go on from its cursor."

    cursor: str
    reset: bool = True
    snapshot: str = "/gateway/schedule"
