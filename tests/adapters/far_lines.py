"""A node of another host over its node API, and the lease that tells it what to do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hostler.domain.holding import Holding
from hostler.domain.resource import Action
from hostler.domain.step import PointRoute
from tests.fakes.far_host import FarHost, far_host
from tests.services.node_conformance import HOOK, HOST, LEASE, POWER, RemoteRig, Teller, local_rig

AWAY = PointRoute(host=HOST, route="chat", profile="away")


@asynccontextmanager
async def far(*actions: Action, api: int = 1, head_api: int = 1) -> AsyncIterator[tuple[FarHost, Teller]]:
    """A far host, and a lease that tells it what to do."""
    async with local_rig() as local:
        it = far_host(local.parts, *(actions or (POWER, HOOK)), api=api, head_api=head_api)
        yield it, Teller(RemoteRig(it))


def bodies(it: FarHost, ending: str = "/ops") -> list[dict[str, object]]:
    """What was sent to that path."""
    return [json.loads(each.content) for each in it.cable.seen if each.url.path.endswith(ending)]


def held() -> dict[str, Holding]:
    """What a lease holds there."""
    return {"route chat": Holding(lease=LEASE, resource="box", holder="ann")}
