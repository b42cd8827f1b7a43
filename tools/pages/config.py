"""The page of config keys: each key with its form, its default and its sentence.

Made from the JSON Schema that the config's own models give, so that it lists what the reader of the config
accepts and nothing else.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from hostler.adapters.config.schema.base import duration_text, size_text
from hostler.adapters.config.schema.document import json_schema
from hostler.bootstrap.engines import BUILT
from tools.pages.text import table

Schema = Mapping[str, object]

WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "fast-4b": "name",
        "90s": "duration",
        "512 MiB": "size",
        "/srv/models": "absolute path",
        "127.0.0.1:7070": "address and port",
        "${file:/etc/hostler/keys/bots}": "secret",
        "10.99.0.1": "IP address",
    }
)
"""The first example of a kind of value, and the word for that kind."""

TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {"object": "mapping", "string": "text", "boolean": "`true`, `false`"}
)

FURTHER_GPU: Final = re.compile(r"\.gpu[1-9]\b")

INTRODUCTION: Final = """# Config

Every key of `hostler.yaml`. `<name>` is a name that you give, `[]` an item of a list. A key without a default
is not set. A duration is written `90s`, `15m`, `2h30m` or `7d`; a size `512 MiB`, `43 GiB` (binary) or
`157 GB` (decimal); a secret `${{env:NAME}}` or `${{file:PATH}}`, where the file is private.
`gpu1` to `gpu7` are written as `gpu0` is, and not listed again.

Keys of parts that are not built yet are checked and have no effect; they come last:
{later}.
Every driver is built: {drivers}.
"""

LATER: Final = ("notices",)
"""Keys at the top of the file that have no effect: their part is not built yet."""

NOT_BUILT: Final = "*Not built yet: these keys are checked and have no effect.*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key: `path` from the top of the file, `<name>` where the config's author gives the name."""

    path: str
    form: str
    default: str
    sentence: str


def mapping(value: object) -> Schema:
    """A part of a JSON Schema that is an object; empty when it is something else."""
    return value if isinstance(value, dict) else {}


def resolved(schema: Schema, definitions: Schema) -> Schema:
    """The schema behind a reference, with what stands beside the reference."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    return {**mapping(definitions[reference.rsplit("/", 1)[1]]), **beside}


def choices(schema: Schema, definitions: Schema) -> list[Schema]:
    """The alternatives of a schema; itself when there is one."""
    found = schema.get("anyOf", schema.get("oneOf"))
    if not isinstance(found, list):
        return [resolved(schema, definitions)]
    return [choice for part in found for choice in choices(mapping(part), definitions)]


def form_of(schema: Schema, definitions: Schema) -> str:
    """How a value is written, in a few words."""
    forms = (_form(choice, definitions) for choice in choices(schema, definitions))
    return " or ".join(dict.fromkeys(forms))


def _form(schema: Schema, definitions: Schema) -> str:
    kind, examples, values = schema.get("type"), schema.get("examples"), schema.get("enum")
    if "const" in schema:
        return f"`{_written(schema['const'])}`"
    if isinstance(values, list):
        return ", ".join(f"`{_written(value)}`" for value in values)
    if isinstance(examples, list) and examples:
        return WORDS.get(str(examples[0])) or f"such as `{examples[0]}`"
    if kind == "array":
        items = form_of(mapping(schema.get("items")), definitions)
        return f"list of {items}" if items else "list"
    if kind in ("integer", "number"):
        return _number(schema)
    return TYPES.get(str(kind), "")


def _number(schema: Schema) -> str:
    words = (("from", "minimum"), ("above", "exclusiveMinimum"), ("to", "maximum"))
    return " ".join(["number", *(f"{word} {schema[key]}" for word, key in words if key in schema)])


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def default_of(schema: Schema, form: str, *, required: bool) -> str:
    """The default as it would be written, `required` when there is none, empty when it is not set.

    A mapping's is that of its keys, each on its own row.
    """
    default = schema.get("default")
    if required:
        return "required"
    if default is None or default == "" or isinstance(default, dict | list):
        return ""
    if isinstance(default, int | float) and form in ("duration", "size"):
        default = duration_text(default) if form == "duration" else size_text(int(default))
    return f"`{_written(default)}`"


def below(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """What the values of a mapping with free names, or the items of a list, look like, and their path."""
    yield from ((".<name>", mapping(each)) for each in mapping(schema.get("patternProperties")).values())
    if mapping(schema.get("additionalProperties")):
        yield ".<name>", mapping(schema["additionalProperties"])
    if mapping(schema.get("items")):
        yield "[]", mapping(schema["items"])


def keys_of(schema: Schema, definitions: Schema, path: str) -> Iterator[Key]:
    """Every key below a schema, in the order of the models; what several alternatives share comes once."""
    seen: set[Key] = set()
    for key in _keys_of(schema, definitions, path):
        if key not in seen and not FURTHER_GPU.search(key.path):
            seen.add(key)
            yield key


def _keys_of(schema: Schema, definitions: Schema, path: str) -> Iterator[Key]:
    for choice in choices(schema, definitions):
        required = choice.get("required")
        for name, raw in mapping(choice.get("properties")).items():
            found = resolved(mapping(raw), definitions)
            needed = isinstance(required, list) and name in required
            yield key_of(found, definitions, f"{path}.{name}", required=needed)
            yield from _keys_of(found, definitions, f"{path}.{name}")
        for step, found in below(choice):
            yield from _keys_of(found, definitions, f"{path}{step}")


def key_of(schema: Schema, definitions: Schema, path: str, *, required: bool) -> Key:
    """One key with its words."""
    form = form_of(schema, definitions)
    return Key(
        path=path,
        form=form,
        default=default_of(schema, form, required=required),
        sentence=str(schema.get("description", "")),
    )


def section(name: str, schema: Schema, definitions: Schema, *, required: bool) -> str:
    """One key at the top of the file, and all below it."""
    own = key_of(schema, definitions, name, required=required)
    default = own.default if required or not own.default else f"default {own.default}"
    rows = [
        (f"`{key.path}`", key.form, key.default, key.sentence) for key in keys_of(schema, definitions, name)
    ]
    note = f"{NOT_BUILT}\n\n" if name in LATER else ""
    return f"\n## {name}\n\n{note}{own.sentence} ({', '.join(filter(None, [own.form, default]))})\n" + (
        f"\n{table(('key', 'form', 'default', 'what it does'), rows)}" if rows else ""
    )


def render() -> str:
    """The page as Markdown: one section for each key at the top of the file, those without effect last."""
    schema = json_schema()
    definitions, required = mapping(schema.get("$defs")), schema.get("required")
    parts = mapping(schema.get("properties"))
    introduction = INTRODUCTION.format(
        later=", ".join(f"`{name}`" for name in LATER), drivers=", ".join(f"`{driver}`" for driver in BUILT)
    )
    return introduction + "".join(
        section(
            name,
            resolved(mapping(parts[name]), definitions),
            definitions,
            required=isinstance(required, list) and name in required,
        )
        for name in (*(each for each in parts if each not in LATER), *LATER)
    )
