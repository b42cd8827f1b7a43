"""Shows the effective config, and where two of them differ; secrets are `****` (SEC-1, CONF-2).

Decides the form only. What is shown is what the fleet was made from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Final, cast

from ruamel.yaml import YAML

from hostler.adapters.config.build import at_step, put
from hostler.adapters.config.check_engines import clear_secrets, reads
from hostler.adapters.config.check_modes import OF_A_WINDOW
from hostler.adapters.config.reading import Right
from hostler.adapters.config.tree import Path, written
from hostler.domain.fleet import Secret
from hostler.services.config_parts import Difference

MASK: Final = "****"
FIRST_LINE: Final = "# yaml-language-server: $schema=./hostler.schema.json\n"
"""Tells editors where the JSON Schema is; the first line of every config that we write (CONF-1)."""


def effective(found: Right) -> dict[str, object]:
    """The effective document as JSON data, as a config writes it: `2h30m`, `43 GiB`."""
    document = found.document.model_dump(mode="json", by_alias=True, exclude_none=True)
    here = found.reading.host
    for path, _ in _secrets(found):
        put(document, path, MASK)
    # What hosts.<here>.node comes to stands under `node`.
    document["hosts"][here].pop("node", None)
    return _useful(document)


def _useful(document: dict[str, object]) -> dict[str, object]:
    """The document without defaults of keys that an engine's driver, or the standing mode, may not have."""
    engines = cast("dict[str, dict[str, object]]", document["engines"])
    modes = cast("dict[str, dict[str, object]]", document["modes"])
    return {
        **document,
        "engines": {
            name: {key: value for key, value in engine.items() if reads(str(engine["driver"]), key)}
            for name, engine in engines.items()
        },
        "modes": {
            name: {key: value for key, value in mode.items() if not (mode["standing"] and key in OF_A_WINDOW)}
            for name, mode in modes.items()
        },
    }


def as_yaml(document: Mapping[str, object]) -> str:
    """A document as YAML that reads back as itself."""
    yaml = YAML(pure=True)
    yaml.default_flow_style = False
    yaml.width = 110
    yaml.allow_unicode = True
    stream = StringIO()
    yaml.dump(document, stream)
    return FIRST_LINE + stream.getvalue()


def differences(before: Right, after: Right) -> tuple[Difference, ...]:
    """Every path at which two configs differ, in the order of the keys.

    A secret that changed is a difference, and both its sides are `****`.
    """
    old, new = (_compared(each) for each in (before, after))
    shown = (effective(before), effective(after))
    return tuple(_told(path, change, shown) for path, change in _differ(old, new, ()))


def _compared(found: Right) -> dict[str, object]:
    """The document in seconds and bytes, with its secrets: for comparing, never for telling."""
    document = found.document.model_dump(by_alias=True, exclude_none=True)
    for path, secret in _secrets(found):
        put(document, path, secret)
    document["hosts"][found.reading.host].pop("node", None)
    return _useful(document)


def _told(path: Path, change: str, shown: tuple[object, object]) -> Difference:
    first, second = (_value(each, path) for each in shown)
    match change:
        case "added":
            return Difference(path=written(path), change="added", after=second)
        case "removed":
            return Difference(path=written(path), change="removed", before=first)
        case _:
            return Difference(path=written(path), change="changed", before=first, after=second)


def _differ(old: object, new: object, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*old, *new)):
            here = (*path, str(key))
            if key not in new:
                yield here, "removed"
            elif key not in old:
                yield here, "added"
            else:
                yield from _differ(old[key], new[key], here)
    elif _alike(old, new):
        for index, (first, second) in enumerate(zip(_list(old), _list(new), strict=True)):
            yield from _differ(first, second, (*path, index))
    elif old != new:
        yield path, "changed"


def _alike(old: object, new: object) -> bool:
    """Whether two lists of mappings are of one length: then they are told apart item by item."""
    if not isinstance(old, list) or not isinstance(new, list) or len(old) != len(new):
        return False
    return all(isinstance(each, Mapping) for each in (*old, *new))


def _list(value: object) -> list[object]:
    return cast("list[object]", value)


def _secrets(found: Right) -> Iterator[tuple[Path, Secret]]:
    """Each value from outside with its path; `node` has those of this host's own as well.

    And what stands in clear in an engine's command or environment and reads like a secret.
    """
    for path, secret in found.reading.secrets.items():
        yield path, secret
        if path[:3] == ("hosts", found.reading.host, "node"):
            yield path[2:], secret
    for name, engine in found.document.engines.items():
        for within, value in clear_secrets(engine):
            if (path := ("engines", name, *within)) not in found.reading.secrets:
                yield path, Secret(value)


def _value(document: object, path: Path) -> object:
    for step in path:
        document = at_step(document, step)
    return document
