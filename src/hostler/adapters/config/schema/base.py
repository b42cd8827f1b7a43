"""The kinds of values that a config is made of: how each is written, read, and described to editors.

Decides what a duration, a size, a name, an address or a path looks like (CONF-1, TIME-1). Relations
between values are in the `check_*` modules.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
)

from hostler.domain.fleet import Secret
from hostler.domain.values import NAME, parse_duration, parse_size, rfc3339, shorten

_UNITS: Final = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("GB", 10**9), ("MB", 10**6))
_PARTS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))
_RANGE: Final = re.compile(r"([0-9]{1,5})-([0-9]{1,5})")
_PIN: Final = re.compile(r"sha256/([A-Za-z0-9+/]+=*)")
_QUIET: Final = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]")
MAX_TEXT: Final = 8192


class Strict(BaseModel):
    """A mapping of known keys. Nothing is converted: a number is no text, a text is no number."""

    # The whole document is built once, when it is first read: a sixth of the time to load (PERF-11).
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        use_attribute_docstrings=True,
        defer_build=True,
    )


def kind_of(value: object) -> str:
    """`value` for an error message: `the number 90`, `the text 'abc'`, `a list`."""
    match value:
        case None:
            return "nothing"
        case bool():
            return f"the truth value {str(value).lower()}"
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the text '{shorten(value, 60)}'"
        case list() | tuple():
            return "a list"
        case _:
            return "a mapping"


def list_form(value: object) -> str:
    """The tag of a value that may be one, or a list of them."""
    return "=list" if isinstance(value, list) else "=one"


def need_text(value: object, expected: str) -> str:
    """`value` if it is text. Raises ValueError naming what was expected and what was found."""
    if isinstance(value, str):
        return value
    quote = "; quote it" if isinstance(value, bool | int | float) else ""
    raise ValueError(f"expected {expected}, not {kind_of(value)}{quote}")


def duration_text(seconds: float) -> str:
    """Seconds as a config writes them: `1m30s`; the exact inverse of reading, to the millisecond."""
    left, text = round(seconds * 1000), ""
    for unit, size in _PARTS:
        count, left = divmod(left, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def size_text(size: int) -> str:
    """Bytes as a config writes them: the largest unit that says it exactly with one decimal."""
    for unit, factor in _UNITS:
        tenths, rest = divmod(size * 10, factor)
        if not rest and tenths >= 10:
            return f"{tenths // 10}.{tenths % 10} {unit}" if tenths % 10 else f"{tenths // 10} {unit}"
    return f"{size} B"


def _duration(value: object) -> float:
    if value == 0 and not isinstance(value, bool | str):
        return 0.0
    try:
        seconds = parse_duration(need_text(value, "a duration such as 90s, 15m or 2h30m"))
    except ValueError as error:
        raise ValueError(_expected(error, value, "a duration such as 90s, 15m or 2h30m")) from error
    if seconds > 10 * 366 * 86_400:
        raise ValueError(f"expected a duration of at most ten years, not {kind_of(value)}")
    return seconds


def _some_time(value: float) -> float:
    if value <= 0:
        raise ValueError("expected a duration above 0")
    return value


def _size(value: object) -> int:
    wanted = "a size such as 512 MiB, 43 GiB or 157 GB"
    try:
        size = parse_size(need_text(value, wanted))
    except ValueError as error:
        raise ValueError(_expected(error, value, wanted)) from error
    if size >= 1 << 60:
        raise ValueError(f"expected a size below 2^60 bytes, not {kind_of(value)}")
    return size


def _expected(error: ValueError, value: object, wanted: str) -> str:
    text = str(error)
    return text if text.startswith("expected") else f"expected {wanted}, not {kind_of(value)}"


def _name(value: object) -> str:
    text = need_text(value, "a name")
    if not NAME.fullmatch(text):
        raise ValueError(f"expected a name of [a-z0-9] then up to 62 of [a-z0-9._-], not {kind_of(value)}")
    return text


def matching(pattern: str, expected: str) -> Callable[[object], str]:
    """A reader of texts that match `pattern` whole."""
    compiled = re.compile(pattern)

    def read(value: object) -> str:
        if not compiled.fullmatch(need_text(value, expected)):
            raise ValueError(f"expected {expected}, not {kind_of(value)}")
        return str(value)

    return read


def _line(value: object) -> str:
    text = need_text(value, "text")
    if not text or len(text) > MAX_TEXT or any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        raise ValueError("expected one line of text without control characters, not empty")
    return text


def _absolute(value: object) -> str:
    text = need_text(value, "an absolute path")
    if not text.startswith("/") or ".." in text.split("/"):
        raise ValueError(f"expected an absolute path without .., not {kind_of(value)}")
    return _line(text)


def _file_name(value: object) -> str:
    text = _line(need_text(value, "a file name"))
    if ".." in text.split("/") or text.endswith("/"):
        raise ValueError(f"expected a file below models_dir, or an absolute path, not {kind_of(value)}")
    return text


def _port(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 65_535:
        raise ValueError(f"expected a port from 1 to 65535, not {kind_of(value)}")
    return value


def _port_or_auto(value: object) -> int | Literal["auto"]:
    if value == "auto":
        return "auto"
    try:
        return _port(value)
    except ValueError as error:
        raise ValueError(f"expected a port from 1 to 65535, or auto, not {kind_of(value)}") from error


def _port_range(value: object) -> tuple[int, int]:
    match = _RANGE.fullmatch(need_text(value, "a range of ports such as 8100-8199"))
    if match is None or not 1 <= int(match[1]) <= int(match[2]) <= 65_535:
        raise ValueError(f"expected a range of ports such as 8100-8199, not {kind_of(value)}")
    return int(match[1]), int(match[2])


def _ports(value: object) -> tuple[int, int]:
    if isinstance(value, int) and not isinstance(value, bool):
        return _port(value), value
    return _port_range(value)


def _ports_text(ports: tuple[int, int]) -> int | str:
    return ports[0] if ports[0] == ports[1] else f"{ports[0]}-{ports[1]}"


def _ip(value: object) -> str:
    text = need_text(value, "an IP address")
    try:
        return str(ipaddress.ip_address(text))
    except ValueError as error:
        raise ValueError(f"expected an IP address, not {kind_of(value)}") from error


def _listen(value: object) -> str:
    wanted = "an address and a port such as 127.0.0.1:7070 or [::1]:7070"
    host, _, port = need_text(value, wanted).rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        if bare != "localhost" and ipaddress.ip_address(bare).version == 6 and bare == host:
            raise ValueError("an IPv6 address stands in brackets")
        if not port.isascii() or not port.isdigit() or int(port) > 65_535:
            raise ValueError("no port")
    except ValueError as error:
        raise ValueError(f"expected {wanted}, not {kind_of(value)}") from error
    return str(value)


def _pin(value: object) -> str:
    match = _PIN.fullmatch(need_text(value, "a pin"))
    try:
        whole = match is not None and len(base64.b64decode(match[1], validate=True)) == 32
    except binascii.Error:
        whole = False
    if not whole:
        raise ValueError("expected sha256/ and the base64 of the 32 bytes of a public key's SHA-256")
    return str(value)


def _moment(value: object) -> str:
    wanted = "a time with its zone, quoted, such as 2027-06-30T00:00:00Z"
    text = need_text(value, wanted)
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None or "T" not in text:
            raise ValueError("no zone")
        return rfc3339(moment)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"expected {wanted}, not {kind_of(value)}") from error


def _expression(value: object) -> str:
    text = need_text(value, "a regular expression")
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"expected a regular expression: {error}") from error
    return text


def _secret(value: object) -> Secret:
    return Secret(need_text(value, "${env:NAME} or ${file:PATH}"))


def _described(pattern: str, *examples: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": list(examples)})


Duration = Annotated[
    float,
    PlainValidator(_duration),
    PlainSerializer(duration_text, when_used="json"),
    WithJsonSchema(
        {
            "type": ["string", "integer"],
            "pattern": r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$|^0$",
            "maximum": 0,
            "minimum": 0,
            "examples": ["90s", "15m", "2h30m", "7d"],
        }
    ),
]
"""Seconds, written `90s`, `15m`, `2h30m`, `7d`; 0 needs no unit."""

Time = Annotated[Duration, AfterValidator(_some_time)]
"""A duration above 0."""

Size = Annotated[
    int,
    PlainValidator(_size),
    PlainSerializer(size_text, when_used="json"),
    _described(r"^[0-9]+(\.[0-9]+)? ?(B|KiB|MiB|GiB|TiB|KB|MB|GB|TB)$", "512 MiB", "43 GiB", "157 GB"),
]
"""Bytes, written `512 MiB`, `43 GiB` (binary) or `157 GB` (decimal); a bare number is an error."""

Name = Annotated[str, PlainValidator(_name), _described(r"^[a-z0-9][a-z0-9._-]{0,62}$", "fast-4b")]
Line = Annotated[str, PlainValidator(_line), WithJsonSchema({"type": "string", "minLength": 1})]
"""One line of text."""
AbsolutePath = Annotated[str, PlainValidator(_absolute), _described(r"^/", "/srv/models")]
FileName = Annotated[str, PlainValidator(_file_name), _described(r"[^/]$", "qwen3-4b-q4_k_m.gguf")]
Port = Annotated[
    int, PlainValidator(_port), WithJsonSchema({"type": "integer", "minimum": 1, "maximum": 65_535})
]
PortOrAuto = Annotated[
    int | Literal["auto"],
    PlainValidator(_port_or_auto),
    WithJsonSchema({"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1, "maximum": 65_535}]}),
]
PortRange = Annotated[
    tuple[int, int],
    PlainValidator(_port_range),
    PlainSerializer(_ports_text, when_used="json"),
    _described(r"^[0-9]{1,5}-[0-9]{1,5}$", "8100-8199"),
]
Ports = Annotated[
    tuple[int, int],
    PlainValidator(_ports),
    PlainSerializer(_ports_text, when_used="json"),
    WithJsonSchema({"type": ["integer", "string"], "pattern": "^[0-9]{1,5}-[0-9]{1,5}$"}),
]
"""One port, or a range of them."""
IpAddress = Annotated[str, PlainValidator(_ip), WithJsonSchema({"type": "string", "examples": ["10.99.0.1"]})]
Listen = Annotated[str, PlainValidator(_listen), _described(r":[0-9]{1,5}$", "127.0.0.1:7070")]
Pin = Annotated[str, PlainValidator(_pin), _described(r"^sha256/[A-Za-z0-9+/]{43}=$")]
Moment = Annotated[str, PlainValidator(_moment), _described(r"T.*(Z|[+-][0-9:]+)$", "2027-06-30T00:00:00Z")]
Expression = Annotated[
    str, PlainValidator(_expression), WithJsonSchema({"type": "string", "format": "regex"})
]
QuietHours = Annotated[
    str,
    PlainValidator(matching(_QUIET.pattern, "hours such as 02:15-04:15, quoted")),
    _described(r"^[0-9]{2}:[0-9]{2}-[0-9]{2}:[0-9]{2}$", "02:15-04:15"),
]
SecretText = Annotated[
    Secret,
    PlainValidator(_secret),
    PlainSerializer(lambda _: "****"),
    _described(r"^\$\{(env|file):[^}]+\}$", "${file:/etc/hostler/keys/bots}", "${env:CLOUD_KEY}"),
]
"""A secret: `${env:NAME}` or `${file:PATH}`, never in clear (CONF-1)."""
