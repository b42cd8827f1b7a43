"""Which container is an engine's: by the name that the config gives, or by the labels that compose puts on.

Decides only that. Both ways end with one inspect, so that everything after it is the same for both drivers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from hostler.adapters.drivers.container_api import CALL_S, ContainerApi, Declined, Unanswered
from hostler.adapters.drivers.container_seen import Container, container

_LIST: Final = "/containers/json"
_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class ByName:
    """The container of that name."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ByService:
    """The container of a compose service; of several the first, one that runs before one that does not."""

    project: str
    service: str

    @property
    def query(self) -> Mapping[str, str]:
        """All containers of that service, in any project."""
        return {"all": "1", "filters": json.dumps({"label": [f"{_LABEL}.service={self.service}"]})}

    def pick(self, rows: object) -> str | None:
        """The id among the list's rows; None when there is none. Projects are lower case on the label."""
        if not isinstance(rows, list):
            return None
        found = [one for row in rows if (one := self._mine(row)) is not None]
        return min(found)[-1] if found else None

    def _mine(self, row: object) -> tuple[bool, int, str] | None:
        labels = row.get("Labels") if isinstance(row, dict) else None
        if not isinstance(row, dict) or not isinstance(labels, dict):
            return None
        if str(labels.get(f"{_LABEL}.project")).lower() != self.project.lower():
            return None
        if str(labels.get(f"{_LABEL}.oneoff")).lower() == "true":
            return None
        number = str(labels.get(f"{_LABEL}.container-number"))
        return row.get("State") != "running", int(number) if number.isdigit() else 0, str(row["Id"])


_LABEL: Final = "com.docker.compose"
Where = ByName | ByService


async def find(api: ContainerApi, where: Where, *, within_s: float = CALL_S) -> Container | None:
    """The container as it is now, None when there is none. Raises Unanswered; Declined for a defect."""
    if isinstance(where, ByName):
        found = await inspect(api, where.name, within_s=within_s)
        return found if found is not None and found.name == where.name else None
    rows = await api.ask("GET", _LIST, where.query, within_s=within_s)
    id_ = where.pick(rows)
    return None if id_ is None else await inspect(api, id_, within_s=within_s)


async def inspect(api: ContainerApi, id_: str, *, within_s: float = CALL_S) -> Container | None:
    """That container, None when there is none. Raises as `find`."""
    try:
        return _container(await api.ask("GET", _path(id_), within_s=within_s))
    except Declined as no:
        if no.status == _NOT_FOUND:
            return None
        raise


def find_now(api: ContainerApi, where: Where) -> Container | None:
    """`find` without a loop."""
    try:
        if isinstance(where, ByService):
            id_ = where.pick(_value(api.ask_now(_LIST, where.query)))
            return None if id_ is None else _container(_value(api.ask_now(_path(id_))))
        found = _container(_value(api.ask_now(_path(where.name))))
        return found if found.name == where.name else None
    except Declined as no:
        if no.status == _NOT_FOUND:
            return None
        raise


def labelled(api: ContainerApi, label: str) -> Sequence[Mapping[str, object]]:
    """The rows of all containers that run and bear `label`, without a loop. Raises Unanswered, Declined."""
    rows = _value(api.ask_now(_LIST, {"filters": json.dumps({"label": [label]})}))
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _value(answer: bytes) -> object:
    try:
        value: object = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise Unanswered("its answer is no JSON") from error
    return value


def _path(id_: str) -> str:
    return f"/containers/{quote(id_, safe='')}/json"


def _container(value: object) -> Container:
    try:
        return container(value)
    except (ValueError, TypeError, KeyError) as error:
        raise Unanswered(f"its answer is not understood: {error}") from error
