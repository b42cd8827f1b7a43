"""Endpoints of the node API, and the list of nodes for people: each call in the form of the wire (NODE-1).

Decides nothing. What is done for whom is `services.node_door`'s.
"""

from __future__ import annotations

from starlette.responses import Response

from hostler.interfaces.api.answers import json_answer
from hostler.interfaces.api.endpoint import Call
from hostler.wire.nodes import EndCall, FenceCall, HeldCall, OperationCall, ProcessCall


async def now(call: Call) -> Response:
    """This node as it is."""
    return json_answer(await call.control.node.now())


async def operate(call: Call) -> Response:
    """One operation: what it would meet, what it finds, that it is done, that it holds."""
    return json_answer(await call.control.node.operate(call.body(OperationCall)))


async def receipt(call: Call) -> Response:
    """What became of an operation."""
    return json_answer(await call.control.node.receipt(call.path["operation"]))


async def held(call: Call) -> Response:
    """What leases hold here from now on."""
    return json_answer(await call.control.node.held(call.body(HeldCall)))


async def fence(call: Call) -> Response:
    """The deployment fence as it stands now."""
    return json_answer(await call.control.node.fence(call.body(FenceCall)))


async def register(call: Call) -> Response:
    """A process group works under a lease from now on."""
    return json_answer(await call.control.node.register(call.body(ProcessCall)))


async def end_processes(call: Call) -> Response:
    """What works under a lease here is ended."""
    return json_answer(await call.control.node.end_processes(call.body(EndCall)))


async def memory(call: Call) -> Response:
    """What this node knows of the schedule."""
    return json_answer(await call.control.node.memory())


async def report(call: Call) -> Response:
    """What this host wrote down of a window's restore."""
    return json_answer(await call.control.node.report(call.path["window"]))


async def nodes(call: Call) -> Response:
    """Every node of the fleet as this daemon knows it."""
    return json_answer(await call.control.nodes.nodes())
