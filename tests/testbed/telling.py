"""What tests of the test bed ask of a head, and wait for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

import httpx2

from tests.fakes.fake_engine import eventually
from tests.story.house import House
from tests.story.lease_house import LEASES, Holder
from tests.testbed.box import Box


def holder(box: Box, client: httpx2.AsyncClient, name: str) -> Holder:
    """A holder that speaks to that box."""
    return Holder(it=cast("House", box), client=client, name=name)


def code(got: httpx2.Response) -> tuple[int, str]:
    """A refusal's status and code."""
    return got.status_code, str(got.json()["error"]["code"])


async def lease_is(box: Box, id_: str, *states: str, patience_s: float = 30.0) -> Mapping[str, object]:
    """The lease once it is in one of these states."""
    found: list[dict[str, object]] = []

    async def true() -> bool:
        row = (await box.get(f"{LEASES}/{id_}"))["lease"]
        assert isinstance(row, dict)
        found[:] = [row]
        return row["state"] in states

    try:
        await eventually(true, "", patience_s=patience_s)
    except AssertionError:
        raise AssertionError(f"{id_} is not {states}: {found}\n{box.words()}") from None
    return found[0]


async def told_why(box: Box, id_: str, word: str) -> bool:
    """Whether the lease says why it waits, with that word."""
    row = (await box.get(f"{LEASES}/{id_}"))["lease"]
    assert isinstance(row, dict)
    return word in row["why"]


async def taken(box: Box, resource: str, *more: str) -> str:
    """The id of a lease that is active, taken by the command line."""
    told = json.loads(await box.told("reserve", resource, *(more or ("--for", "10m")), "--json"))
    lease = told.get("lease", told)
    assert lease["state"] == "active", told
    return str(lease["id"])
