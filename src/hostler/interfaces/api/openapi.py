"""The description of the control API, OpenAPI 3.1, made from the endpoint table (API-1).

Decides nothing of its own: what an endpoint takes and gives is its row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from hostler import __version__
from hostler.domain.errors import (
    IdempotencyConflict,
    Internal,
    InvalidRequest,
    NoKey,
    NotYours,
    Refusal,
    TooLarge,
    WrongScope,
)
from hostler.domain.fleet import frozen
from hostler.interfaces.api.endpoint import Empty, Endpoint
from hostler.interfaces.api.forms import MAX_BODY
from hostler.interfaces.api.idempotency import HEADER, LONGEST
from hostler.interfaces.api.shapes import ErrorAnswer, FlatError
from hostler.wire.refusals import BY_CODE, FACES

REF: Final = "#/components/schemas/{name}"
Doc = dict[str, object]

_KEY_HEADER: Final[Mapping[str, object]] = frozen(
    {
        "name": HEADER,
        "in": "header",
        "required": False,
        "description": "A repeated call with the same key and body acts once.",
        "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST},
    }
)


def describe(endpoints: Sequence[Endpoint]) -> Doc:
    """The whole document."""
    schemas = _schemas(endpoints)
    paths: defaultdict[str, Doc] = defaultdict(dict)
    for endpoint in endpoints:
        path = endpoint.path.replace(":path", "")
        paths[path][endpoint.method.lower()] = _operation(endpoint, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Hostler control API",
            "version": __version__,
            "description": "Engines, routes, requests and the hold of one host; leases, jobs and the feed.",
        },
        "paths": dict(paths),
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _schemas(endpoints: Sequence[Endpoint]) -> dict[str, Doc]:
    """Every shape by its name; what is sent may have no other keys."""
    sent = {it for endpoint in endpoints for it in (endpoint.body, endpoint.query)} - {Empty}
    given = [endpoint.answer for endpoint in endpoints if endpoint.answer is not None]
    types = [*sorted(sent, key=lambda it: it.__name__), *given, ErrorAnswer, FlatError]
    _, schemas = msgspec.json.schema_components(types, schema_hook=_anything, ref_template=REF)
    for model in sent:
        schemas[model.__name__]["additionalProperties"] = False
    return schemas


def _anything(type_: type) -> Doc:
    """Facts and records are any JSON value."""
    if type_ is not object:
        raise TypeError(f"{type_!r} has no form on the wire")
    return {"description": "Any JSON value."}


def _operation(endpoint: Endpoint, schemas: Mapping[str, Doc]) -> Doc:
    found: Doc = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "security": [] if endpoint.scope is None else [{"key": []}, {}],
        "parameters": [*_path_parameters(endpoint), *_query_parameters(endpoint, schemas)],
        "responses": _responses(endpoint),
    }
    if endpoint.scope is not None:
        found["description"] = f"Needs the scope `{endpoint.scope}`."
    if endpoint.body is not Empty:
        found["requestBody"] = {
            "required": False,
            "description": f"At most {MAX_BODY} bytes.",
            "content": {"application/json": {"schema": _ref(endpoint.body)}},
        }
    return found


def _path_parameters(endpoint: Endpoint) -> Iterable[Doc]:
    for part in endpoint.path.split("/"):
        if part.startswith("{"):
            name = part.strip("{}").partition(":")[0]
            yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
    if endpoint.changes:
        yield {**_KEY_HEADER, "required": endpoint.own_repeats}


def _query_parameters(endpoint: Endpoint, schemas: Mapping[str, Doc]) -> Iterable[Doc]:
    properties = schemas[endpoint.query.__name__]["properties"] if endpoint.query is not Empty else {}
    if isinstance(properties, dict):
        for name, schema in properties.items():
            yield {"name": name, "in": "query", "required": False, "schema": schema}


def _responses(endpoint: Endpoint) -> Doc:
    schema = {} if endpoint.answer is None else {"schema": _ref(endpoint.answer)}
    told: Doc = {"200": {"description": "Done.", "content": {endpoint.media: schema}}}
    for status, text in endpoint.also.items():
        told[str(status)] = {"description": text, "content": {endpoint.media: schema}}
    error = {"application/json": {"schema": _ref(FlatError if endpoint.flat else ErrorAnswer)}}
    for status, codes in sorted(_refusals(endpoint).items()):
        told[str(status)] = {"description": ", ".join(f"`{it}`" for it in codes), "content": error}
    return told


def _refusals(endpoint: Endpoint) -> Mapping[int, Sequence[str]]:
    """The codes that an endpoint may answer with, by status; those of every endpoint among them."""
    every: list[type[Refusal]] = [InvalidRequest, NotYours, Internal]
    if endpoint.scope is not None:
        every += [NoKey, WrongScope]
    if endpoint.changes:
        every += [TooLarge, IdempotencyConflict]
    by_status: defaultdict[int, list[str]] = defaultdict(list)
    for refusal in dict.fromkeys([*every, *endpoint.refusals]):
        by_status[BY_CODE.get(refusal.code, FACES[refusal.kind].control)].append(refusal.code)
    return by_status


def _ref(shape: object) -> Doc:
    return {"$ref": REF.format(name=getattr(shape, "__name__", str(shape)))}
