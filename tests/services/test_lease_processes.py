import json
from collections.abc import AsyncIterator

import pytest

from hostler.domain.errors import InvalidRequest, LimitReached, StoreFull
from hostler.services.node_needs import Member
from tests.fakes.node_parts import Parts
from tests.services.node_conformance import LEASE, LocalRig, local_rig


@pytest.fixture
async def rig() -> AsyncIterator[LocalRig]:
    """A host with its node."""
    async with local_rig() as found:
        yield found


@pytest.fixture
def it(rig: LocalRig) -> Parts:
    return rig.parts


def works(it: Parts, pid: int, *more: int) -> None:
    """A process leads a group, with these others in it."""
    members = [Member(pid=each, start_ticks=each * 10, comm="train") for each in (pid, *more)]
    it.processes.groups[pid, pid * 10] = members


async def test_what_was_registered_ends_with_its_lease(rig: LocalRig, it: Parts) -> None:
    """JOB-5, F03: a registered group gets SIGTERM, 10 s, and SIGKILL for what is left of it then."""
    works(it, 100, 101)
    works(it, 200)
    await it.node.register(LEASE, 100, 1000)
    it.processes.deaf.add(101)
    begun = it.world.clock.elapsed()
    assert await rig.wait(it.node.end_processes(LEASE)) == []
    assert it.processes.heard == [(100, False), (101, False), (101, True)]
    assert it.world.clock.elapsed() - begun >= 10
    assert it.processes.groups[200, 2000] != []


async def test_a_group_that_ends_is_not_waited_for(rig: LocalRig, it: Parts) -> None:
    """JOB-5: processes that end at SIGTERM get nothing more, and their record is gone."""
    works(it, 100, 101)
    await it.node.register(LEASE, 100, 1000)
    await it.node.end_processes(LEASE)
    assert it.processes.heard == [(100, False), (101, False)]
    assert it.groups.texts == {}
    assert await it.node.end_processes(LEASE) == []


async def test_what_does_not_end_is_named(rig: LocalRig, it: Parts) -> None:
    """JOB-5: a process that survives SIGKILL, or outlived its leader, is named, and asked about again."""
    works(it, 100)
    await it.node.register(LEASE, 100, 1000)
    it.processes.immortal.add(100)
    it.processes.left.append(Member(pid=105, start_ticks=1050, comm="forked"))
    expected = [
        "process 100 (train) does not end",
        "process 105 (forked) of the ended group 100 still runs",
    ]
    assert await rig.wait(it.node.end_processes(LEASE)) == expected
    assert await rig.wait(it.node.end_processes(LEASE)) == expected


async def test_another_process_with_that_pid_is_left(rig: LocalRig, it: Parts) -> None:
    """JOB-5: when the pid is another process's by now, nothing is signalled."""
    works(it, 100)
    await it.node.register(LEASE, 100, 1000)
    it.processes.groups = {(100, 9999): [Member(pid=100, start_ticks=9999)]}
    assert await it.node.end_processes(LEASE) == []
    assert it.processes.heard == []


async def test_registrations_survive_a_restart(rig: LocalRig, it: Parts) -> None:
    """JOB-5: what was registered is ended by the daemon that comes after, once though it was told twice."""
    works(it, 100)
    await it.node.register(LEASE, 100, 1000)
    await it.node.register(LEASE, 100, 1000)
    assert json.loads(it.groups.texts[LEASE]) == {"groups": [{"pid": 100, "start_ticks": 1000}]}
    await it.again().node.end_processes(LEASE)
    assert it.processes.heard == [(100, False)]


async def test_only_a_group_of_its_own_is_registered(it: Parts) -> None:
    """JOB-5: what is not there, leads no group, or is an engine is refused: nobody ends others by a lease."""
    with pytest.raises(InvalidRequest, match="Process 100 is not there"):
        await it.node.register(LEASE, 100, 1000)
    run = it.world.lane("big").run
    assert run is not None
    for pid in (run.pid, run.supervisor_pid):
        works(it, pid)
        with pytest.raises(InvalidRequest, match="is an engine's"):
            await it.node.register(LEASE, pid, pid * 10)


async def test_how_many_a_lease_may_have(it: Parts) -> None:
    """JOB-5: 256 groups of a lease are registered, not one more; a full disk registers none."""
    for pid in range(100, 356):
        works(it, pid)
        await it.node.register(LEASE, pid, pid * 10)
    works(it, 400)
    with pytest.raises(LimitReached, match="256"):
        await it.node.register(LEASE, 400, 4000)
    it.groups.full = True
    with pytest.raises(StoreFull, match="leases/lease_2"):
        await it.node.register("lease_2", 400, 4000)


async def test_a_damaged_record_is_told(it: Parts) -> None:
    """JOB-5: a record that cannot be read is told as a sentence, so that the lease ends stuck."""
    it.groups.texts[LEASE] = "{torn"
    (line,) = await it.node.end_processes(LEASE)
    assert line.startswith("what works under lease_1 cannot be told: ")
