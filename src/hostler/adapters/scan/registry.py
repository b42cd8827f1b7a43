"""The registry as it is written down: rows in the config or a file of rows, and Markdown tables (PORT-1).

Decides which rows there are and where each stands. A broken file of rows is an error of the config.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

from pydantic import ValidationError

from hostler.adapters.config.explain import explain
from hostler.adapters.config.find import Untrusted, read_config
from hostler.adapters.config.schema.document import json_schema
from hostler.adapters.config.schema.ports import PortKeys, PortRow
from hostler.adapters.config.tree import Entry, MapNode, Node, keys_at, locate, node_at, plain, written
from hostler.adapters.config.yaml import Unreadable, compose, decode
from hostler.adapters.scan.tables import table_rows
from hostler.adapters.scan.texts import Unread, read_text
from hostler.domain.errors import InvalidConfig
from hostler.domain.fleet import Fleet
from hostler.domain.ports import ANY, Allowed, Places, Row, Status, Trouble
from hostler.services.ports import Registry

Plain = Mapping[str, object]
ROWS: Final = "rows"


def keys_of(fleet: Fleet) -> Plain:
    """`ports` of the config, as plain data."""
    return _mapping(fleet.later.get("ports"))


def registry(fleet: Fleet, config: Path) -> Registry:
    """Every row of the config, its file and its tables. Raises InvalidConfig for a broken file of rows."""
    keys = keys_of(fleet)
    file = rows_file(fleet, config)
    found = list(file_rows(file, in_config=file == config))
    troubles: list[Trouble] = []
    for table in _list(keys.get("tables")):
        given = _mapping(table)
        path = config.parent / str(given["file"])
        try:
            text = read_text(path)
        except Unread as error:
            troubles.append(Trouble(file=str(path), line=1, message=f"cannot be read: {error}"))
            continue
        host = given.get("host")
        for each in table_rows(str(path), text, None if host is None else str(host)):
            if isinstance(each, Trouble):
                troubles.append(each)
            else:
                found.append(each)
    places = places_of(fleet)
    rows = [replace(row, host=places.named(row.host)) for row in found]
    troubles += [
        Trouble(file=row.file, line=row.line, message=f"{row.ports}: there is no host {row.host}")
        for row in rows
        if row.host not in fleet.hosts
    ]
    return Registry(rows=tuple(rows), allowed=tuple(_allowed(keys)), troubles=tuple(troubles))


def rows_file(fleet: Fleet, config: Path) -> Path:
    """Where rows are written: `ports.file`, else the config itself."""
    file = keys_of(fleet).get("file")
    return config if file is None else config.parent / str(file)


def file_rows(path: Path, *, in_config: bool) -> list[Row]:
    """The rows of a file, each with its line; none where there is no file yet. Raises InvalidConfig."""
    if not in_config and not path.exists():
        return []
    try:
        root, found = compose(decode(read_config(path)))
    except Untrusted as error:
        raise _invalid(path, [f"{path}: {error}"]) from error
    except Unreadable as error:
        raise _invalid(path, [f"{path}:{error.finding.mark.line}: {error.finding.message}"]) from error
    if found and not in_config:
        raise _invalid(
            path, [f"{path}:{each.mark.line}:{each.mark.column}: {each.message}" for each in found]
        )
    return rows_in(root, str(path), in_config=in_config)


def rows_in(root: Node, file: str, *, in_config: bool) -> list[Row]:
    """The rows of a tree: below `ports` in a config, else of the list, or below `rows`."""
    at: tuple[str | int, ...] = ("ports", ROWS) if in_config else (ROWS,) if isinstance(root, MapNode) else ()
    if not in_config and isinstance(root, MapNode) and (others := set(keys_at(root, ())) - {ROWS}):
        raise _invalid(Path(file), [f"{file}:1: {other}: no such key (rows)" for other in sorted(others)])
    node = node_at(root, at)
    if node is None:
        return []
    # Read as if it stood in a config: the same keys, the same words for what is wrong.
    under = MapNode(mark=node.mark, entries=(Entry(key=ROWS, mark=node.mark, node=node),))
    whole = MapNode(mark=node.mark, entries=(Entry(key="ports", mark=node.mark, node=under),))
    try:
        keys = PortKeys.model_validate(plain(under))
    except ValidationError as error:
        problems = []
        for each in error.errors(include_url=False):
            each["loc"] = ("ports", *each["loc"])
            told = explain(each, whole, json_schema)
            mark = locate(whole, told.path, at_key=told.at_key)
            hint = f" ({told.hint})" if told.hint else ""
            problems.append(f"{file}:{mark.line}:{mark.column}: {written(told.path)}: {told.message}{hint}")
        raise _invalid(Path(file), problems) from error
    return [_row(row, file, locate(root, (*at, number)).line) for number, row in enumerate(keys.rows)]


def _invalid(path: Path, problems: Sequence[str]) -> InvalidConfig:
    return InvalidConfig(file=str(path), count=len(problems), problems=tuple(problems))


def _row(keys: PortRow, file: str, line: int) -> Row:
    return Row(
        host=keys.host,
        port=keys.port[0],
        last=keys.port[1],
        service=keys.service,
        address=keys.address or ANY,
        protocol=keys.protocol,
        status=Status(keys.status),
        by=keys.by or "",
        needs=keys.needs,
        note=keys.note,
        file=file,
        line=line,
    )


def _allowed(keys: Plain) -> Iterator[Allowed]:
    for each in _list(_mapping(keys.get("scan")).get("allow")):
        given = _mapping(each)
        yield Allowed(
            host=str(given["host"]),
            port=cast("int", given["port"]),
            services=frozenset(str(name) for name in _list(given["services"])),
            why=str(given["why"]),
        )


def places_of(fleet: Fleet | None, default: str | None = None) -> Places:
    """How hosts are told: by addresses of links, of engines and of nodes, then by `scan.hosts`."""
    if fleet is None:
        return Places(default=default or "")
    rules = _mapping(_mapping(keys_of(fleet).get("scan")).get("hosts"))
    only = next(iter(fleet.hosts)) if len(fleet.hosts) == 1 else ""
    return Places(
        hosts=frozenset(str(host) for host in fleet.hosts),
        by_address=dict(_addresses(fleet)),
        rules={host: tuple(str(rule) for rule in _list(given)) for host, given in rules.items()},
        default=default or only,
    )


def _addresses(fleet: Fleet) -> Iterator[tuple[str, str]]:
    """Addresses and names that one host alone has: loopback and wildcards say nothing."""
    for name, host in fleet.hosts.items():
        for link in host.links:
            yield link.address, str(name)
            yield link.peer_address, str(link.peer)
        for text in (host.address, _host_of(host.url)):
            if _is_one_hosts(text):
                yield text, str(name)


def _is_one_hosts(text: str) -> bool:
    """Whether a text names one machine: loopback and wildcards are on every one."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text not in ("", "localhost")
    return not (address.is_loopback or address.is_unspecified)


def _host_of(url: str | None) -> str:
    rest = (url or "").partition("://")[2].partition("/")[0]
    return rest.rpartition(":")[0].strip("[]") if ":" in rest else rest


def _mapping(value: object) -> Plain:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()
