"""The schedule, joined: on the head all of it, elsewhere only its refusal (R2)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from hostler.domain.job import Job
from hostler.domain.lease import Lease, LeaseId, State, UndoBegun
from hostler.domain.moment import Moment
from hostler.domain.values import escape_controls
from hostler.services.beats import Beats
from hostler.services.deadman_reports import DeadmanReports
from hostler.services.fences import Fences
from hostler.services.fleet_look import FleetLook
from hostler.services.going_back import GoingBack
from hostler.services.holdings import Holders
from hostler.services.jobs import Jobs
from hostler.services.keeper import Keeper
from hostler.services.lease_requests import LeaseRequests
from hostler.services.modes import Modes
from hostler.services.needs import Clock, Events, Ids
from hostler.services.present import Present
from hostler.services.promotion import Promotion
from hostler.services.reserving import Reserving
from hostler.services.returning import Returning
from hostler.services.runner import Runner
from hostler.services.schedule import Schedule
from hostler.services.schedule_needs import Node, ScheduleStore, Tx
from hostler.services.snapshot import Snapshot
from hostler.services.store_care import KeptStore, StoreCare
from hostler.services.waiting import Waiters
from hostler.services.windows import Windows
from hostler.services.workshop import Workshop


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """The services of a head."""

    schedule: Schedule
    windows: Windows
    modes: Modes
    jobs: Jobs
    keeper: Keeper
    snapshot: Snapshot
    waiters: Waiters
    care: Callable[[KeptStore], StoreCare]
    returning: Returning


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a schedule is built on. `nodes` by host, `here` those of this daemon; `bug` logs an exception.

    `wrong` tells what of an active lease is not as it should be now.
    """

    config: Present
    store: ScheduleStore
    nodes: Mapping[str, Node]
    clock: Clock
    ids: Ids
    events: Events
    redact: Callable[[str], str]
    bug: Callable[[BaseException], str]
    note_process: Callable[[str | None, str, int, int], Awaitable[None]]
    warn: Callable[[tuple[str, ...]], None]
    here: frozenset[str] = frozenset()
    wrong: Callable[[Lease], tuple[str, ...]] = lambda _: ()


def scheduling(means: Means) -> Scheduling:
    """The schedule of a head."""
    clean = cleaning(means.redact)
    config, store, clock = means.config, means.store, means.clock
    waiters = Waiters(clock=clock)
    back = GoingBack(store=store, nodes=means.nodes, clock=clock, ids=means.ids, here=means.here)
    promotion = Promotion(config=config, store=store, nodes=means.nodes, clock=clock, blocked=back.blocks)
    requests = LeaseRequests(config=config, promotion=promotion, clock=clock, clean=clean)
    holders = Holders(store=store, nodes=means.nodes, clock=clock, longest=_longest(config))
    jobs = _jobs(means, requests)
    fences = Fences(store=store, nodes=means.nodes, clock=clock, clean=clean, excuse=jobs.excuse)
    workshop = _workshop(means, promotion, holders, waiters)
    schedule = _schedule(means, promotion, requests, fences, workshop, waiters)
    windows = _windows(means, schedule, requests)
    keeper = Keeper(
        config=config,
        store=store,
        holders=holders,
        back=back,
        promotion=promotion,
        requests=requests,
        fences=fences,
        workshop=workshop,
        waiters=waiters,
        clock=clock,
        events=means.events,
        jobs=jobs,
        reports=DeadmanReports(
            store=store,
            nodes=means.nodes,
            workshop=workshop,
            strike=windows.strike_elsewhere,
            blocked=back.blocks,
        ),
        bug=means.bug,
        warn=means.warn,
    )
    store.listen(keeper.hear)
    return Scheduling(
        schedule=schedule,
        windows=windows,
        modes=Modes(
            config=config,
            store=store,
            look=FleetLook(nodes=means.nodes, clock=clock),
            promotion=promotion,
            clock=clock,
            zone=windows.zone,
        ),
        jobs=jobs,
        keeper=keeper,
        snapshot=Snapshot(config=config, store=store, clock=clock, wrong=means.wrong),
        waiters=waiters,
        care=lambda kept: StoreCare(
            store=kept, back=keeper.back, holders=holders, fences=fences, clock=clock
        ),
        returning=_returning(means, keeper),
    )


def _longest(config: Present) -> Callable[[str], float | None]:
    """The most seconds that a resource is given for; None when the config has it no more."""

    def longest(resource: str) -> float | None:
        found = config.fleet.resources.get(resource)
        return None if found is None else found.max_s

    return longest


def _returning(means: Means, keeper: Keeper) -> Returning:
    """What takes up a node that is back, on the keeper's own parts."""
    return Returning(
        store=means.store,
        nodes=means.nodes,
        back=keeper.back,
        holders=keeper.holders,
        fences=keeper.fences,
        requests=keeper.requests,
        workshop=keeper.workshop,
        clock=means.clock,
    )


def _schedule(
    means: Means,
    promotion: Promotion,
    requests: LeaseRequests,
    fences: Fences,
    workshop: Workshop,
    waiters: Waiters,
) -> Schedule:
    """What the API calls."""
    return Schedule(
        config=means.config,
        store=means.store,
        promotion=promotion,
        reserving=_reserving(means, promotion),
        requests=requests,
        fences=fences,
        workshop=workshop,
        waiters=waiters,
        clock=means.clock,
        note_process=means.note_process,
        wrong=means.wrong,
    )


def _windows(means: Means, schedule: Schedule, requests: LeaseRequests) -> Windows:
    return Windows(
        config=means.config,
        store=means.store,
        promotion=schedule.promotion,
        reserving=schedule.reserving,
        requests=requests,
        schedule=schedule,
        nodes=means.nodes,
        look=FleetLook(nodes=means.nodes, clock=means.clock),
        clock=means.clock,
        zone=schedule.reserving.zone,
    )


def cleaning(redact: Callable[[str], str]) -> Callable[[str], str]:
    """What takes secrets and control characters out of what a caller wrote (SEC-1, BG-22)."""

    def clean(text: str) -> str:
        return escape_controls(redact(text)).strip()

    return clean


def _jobs(means: Means, requests: LeaseRequests) -> Jobs:
    return Jobs(
        store=means.store,
        clock=means.clock,
        ids=means.ids,
        redact=means.redact,
        extend=Beats(config=means.config).extend,
        release=given_back(requests),
        resources=lambda: means.config.fleet.resources,
    )


def _workshop(means: Means, promotion: Promotion, holders: Holders, waiters: Waiters) -> Workshop:
    return Workshop(
        runner=Runner(
            store=means.store,
            nodes=means.nodes,
            clock=means.clock,
            activated=promotion.activate,
            bug=means.bug,
        ),
        holders=holders,
        store=means.store,
        clock=means.clock,
        changed=waiters.wake,
        bug=means.bug,
    )


def _reserving(means: Means, promotion: Promotion) -> Reserving:
    return Reserving(
        config=means.config,
        store=means.store,
        promotion=promotion,
        clock=means.clock,
        ids=means.ids,
        zone=zone_of(means.config.fleet.timezone),
        clean=cleaning(means.redact),
    )


def given_back(requests: LeaseRequests) -> Callable[[Tx, Job, str, Moment], None]:
    """What the end of a job with `release` does to its lease (JOB-4)."""

    def release(tx: Tx, job: Job, actor: str, now: Moment) -> None:
        lease = None if job.lease is None else tx.lease(LeaseId(job.lease))
        if lease is not None and lease.state is State.ACTIVE:
            event = UndoBegun(ending=State.RELEASED, why=f"job {job.id} is over", actor=actor)
            requests.happen(tx, lease, event, now)

    return release


def zone_of(name: str | None) -> tzinfo:
    """The zone of that name; without one this machine's own (TIME-1)."""
    if name is not None:
        return ZoneInfo(name)
    local = Path("/etc/localtime").resolve()
    _, found, key = str(local).partition("/zoneinfo/")
    return ZoneInfo(key) if found else UTC
