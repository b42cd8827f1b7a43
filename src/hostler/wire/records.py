"""Leases, jobs, journal entries and the fence as texts in the store: JSON with every field of the value.

Decides how they are written and read back, each to the microsecond. A later version may add fields: what is
missing has its default, what is unknown is ignored. Which queries there are is the store's affair.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields, replace
from typing import Any, Final, TypeVar, cast

import msgspec

from hostler.domain.fence import Fence
from hostler.domain.fleet import frozen
from hostler.domain.job import Job, Point
from hostler.domain.lease import Lease
from hostler.domain.step import Found, Step
from hostler.wire.steps import found_from_json, plain, step_from_json
from hostler.wire.values import dump

_T = TypeVar("_T")


def lease_to_text(lease: Lease) -> str:
    """A lease as one line. Raises ValueError for a number that JSON has no form of."""
    return lease_and_text(lease)[1]


def lease_and_text(lease: Lease) -> tuple[Lease, str]:
    """A lease as one line, and before it the lease that this line is read as. Raises as `lease_to_text`.

    That is the lease itself, unless a text of it has half a character: the line shows that by its number.
    """
    _finite("ttl_s", (lease.ttl_s,))
    _finite("detached_s", (lease.detached_s,))
    _finite("warned", lease.warned)
    text, whole = _text(lease)
    return (lease if whole else lease_from_text(text)), text


def lease_from_text(text: str) -> Lease:
    """The lease of such a line. Raises ValueError."""
    body = _read(text, _LeaseBody)
    # msgspec knows no union of dataclasses: the steps are told apart by their `kind` here.
    plan = tuple(step_from_json(each) for each in body.plan)
    return Lease(**{name: getattr(body, name) for name in _LEASE_FIELDS}, plan=plan)


def job_to_text(job: Job) -> str:
    """A job as one line. Raises ValueError for a number that JSON has no form of."""
    return job_and_text(job)[1]


def job_and_text(job: Job) -> tuple[Job, str]:
    """A job as one line, and before it the job that this line is read as; as with leases."""
    _finite("metrics", job.metrics.values())
    if job.progress is not None:
        _finite("progress", (job.progress.value, job.progress.n, job.progress.total))
    text, whole = _text(job)
    return (job if whole else job_from_text(text)), text


def job_from_text(text: str) -> Job:
    """The job of such a line. Raises ValueError."""
    job = _read(text, Job)
    return replace(job, metrics=frozen(job.metrics))


def checked_point(point: Point) -> Point:
    """The measured value as it is. Raises ValueError for one that JSON has no form of."""
    _finite(point.name, (point.elapsed_s, point.value))
    return point


def fence_to_text(fence: Fence) -> str:
    """A fence as one line."""
    return _text(fence)[0]


def fence_from_text(text: str) -> Fence:
    """The fence of such a line. Raises ValueError."""
    return _read(text, Fence)


def step_to_text(step: Step) -> str:
    """A step as one line."""
    return dump(plain(step)).decode()


def step_from_text(text: str) -> Step:
    """The step of such a line. Raises ValueError."""
    return step_from_json(_read(text, object))


def found_to_text(found: Found) -> str:
    """What a step found, as one line."""
    return dump(plain(found)).decode()


def found_from_text(text: str) -> Found:
    """What a step found, of such a line. Raises ValueError."""
    return found_from_json(_read(text, object))


# ---------------------------------------------------------------- how


def _finite(name: str, numbers: Iterable[float | None]) -> None:
    """JSON would make `null` of them, and `null` is "without an end" in some of these fields."""
    for number in numbers:
        if number is not None and not math.isfinite(number):
            raise ValueError(f"{name}: {number} has no place in JSON")


def _text(value: object) -> tuple[str, bool]:
    """The line, and whether all of it was whole characters."""
    try:
        return msgspec.json.encode(value, enc_hook=_mapping).decode(), True
    except UnicodeEncodeError:
        return dump(msgspec.to_builtins(value, enc_hook=_mapping)).decode(), False


def _mapping(value: object) -> dict[object, object]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no form in the store")


def _read(text: str, wanted: type[_T]) -> _T:
    try:
        return msgspec.json.decode(text, type=wanted)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def _member(field: Field[Any], hint: object) -> tuple[str, Any, Any]:
    """One field of a struct like the dataclass's own."""
    if field.default_factory is not MISSING:
        return field.name, hint, msgspec.field(default_factory=field.default_factory)
    return field.name, hint, msgspec.NODEFAULT if field.default is MISSING else field.default


_LEASE_FIELDS: Final = tuple(field.name for field in fields(Lease) if field.name != "plan")
_HINTS: Final = typing.get_type_hints(Lease)
_LeaseBody: Final = cast(
    "type[Any]",
    msgspec.defstruct(
        "_LeaseBody",
        [
            *(_member(field, _HINTS[field.name]) for field in fields(Lease) if field.name != "plan"),
            ("plan", list[Any], msgspec.field(default_factory=list)),
        ],
        kw_only=True,
        frozen=True,
    ),
)
"""A lease whose plan is not read yet; made from `Lease`, so that a field that comes there is here too."""
