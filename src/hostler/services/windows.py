"""Windows: a lease whose plan enters a mode (MODE-2, MODE-3, WIN-2 to WIN-10). The use cases of its callers.

Decides what must be right before a window opens, and what closing, aborting and striking one mean. Steps,
journal and undo are those of every lease: there is no second mechanism.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo

from hostler.domain.errors import InvalidRequest, LeaseNotFound, NotFound, Refusal
from hostler.domain.fleet import frozen
from hostler.domain.lease import CancelAsked, Decision, Lease, LeaseId, State, Struck, UndoBegun
from hostler.domain.lease_news import ABORTED
from hostler.domain.moment import shown
from hostler.domain.resource import Resource
from hostler.domain.step import VerifyRestore
from hostler.domain.values import Requester, rfc3339, shorten
from hostler.domain.window import Answer, Back, Terms, Wish, answer, mode_of, terms
from hostler.domain.window_plan import window_plan, window_resource
from hostler.services.fleet_look import FleetLook
from hostler.services.keys import Principal
from hostler.services.lease_changes import known
from hostler.services.lease_requests import LeaseRequests, operator
from hostler.services.leftovers import left_up, not_led_to
from hostler.services.needs import Clock
from hostler.services.present import Present
from hostler.services.promotion import Promotion
from hostler.services.proof import authorise
from hostler.services.reserving import Request, Reserving, digest_of
from hostler.services.schedule import Schedule
from hostler.services.schedule_needs import Node, ScheduleStore, Tx
from hostler.services.schedule_views import lease_view, steps_of
from hostler.services.window_look import WindowLook, WindowSeen
from hostler.wire.schedule import LeaseList, LeaseView, OneLease, ReleaseBody, ReserveBody, StepView
from hostler.wire.windows import AbortBody, BackView, CloseBody, OpenBody, WindowReport, WindowsQuery

ENDED_SHOWN = 100
"""How many windows that are over are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """The need `WindowsApi`, on the head. `zone`: what quiet hours are in (TIME-1)."""

    config: Present
    store: ScheduleStore
    promotion: Promotion
    reserving: Reserving
    requests: LeaseRequests
    schedule: Schedule
    nodes: Mapping[str, Node]
    look: FleetLook
    clock: Clock
    zone: tzinfo

    # ------------------------------------------------------------ opening

    async def open(self, body: OpenBody, request_id: str, who: Principal, by: Requester) -> OneLease:
        """Open a window, for operators: all that can be wrong is asked before the first change (WIN-8).

        The same `request_id` with the same body is the same window (LEASE-9). Refuses `wrong_scope`,
        `not_found`, `serving_class_refused`, `ttl_refused`, `invalid_request`, `held`, `fenced`,
        `slot_taken`, and what any step's node refuses.
        """
        operator(who)
        fleet = self.config.fleet
        asked = ReserveBody(
            resource=body.mode,
            holder=body.holder,
            secret_hash=body.secret_hash,
            reason=body.reason,
            ttl_s=body.cap_s,
            now=True,
        )
        again = await self.reserving.again(request_id, digest_of(asked, body.mode), self.schedule.told)
        if again is not None:
            return await self.schedule.answer(*again, body.wait_s)
        mode = mode_of(fleet, body.mode)
        wish = Wish(mode=body.mode, cap_s=body.cap_s, override=body.override, force=body.force)
        given = terms(fleet, wish, self.clock.now(), self.zone)
        resource = bounded(window_resource(fleet, mode), given)
        request = Request(body=asked, id=request_id, resource=resource, who=who, by=by, window=given)
        await self.reserving.to_be_had(request)  # What an open window has up is not left up.
        left = await left_up(self.look, fleet, mode)
        plan = window_plan(fleet, mode, given.cap_s, resource.drain_s, left)
        await not_led_to(self.look, fleet, plan, left)
        look = await self.promotion.look_at(plan, resource)
        made, told = await self.reserving.take(request, look, self.schedule.told)
        self.schedule.act(made)
        return await self.schedule.answer(made, told, body.wait_s)

    # ------------------------------------------------------------ ending

    async def close(self, id_: str, body: CloseBody, who: Principal, by: Requester) -> OneLease:
        """Put everything back, and answer when that is verified (WIN-4). Refuses as a release does."""
        await self.store.read(lambda tx: window(tx, id_))
        release = ReleaseBody(
            secret=body.secret,
            epoch=body.epoch,
            generation=body.generation,
            because=body.because,
            wait_s=body.wait_s,
        )
        return await self.schedule.release(id_, release, who, by)

    async def abort(self, id_: str, body: AbortBody, who: Principal, by: Requester) -> OneLease:
        """End it at once, open or opening: what works under it is ended, everything is put back (WIN-10)."""
        made, told = await self.store.write(
            lambda tx: self.schedule.told(tx, self._abort(tx, id_, body, who, by))
        )
        self.schedule.act(made)
        return await self.schedule.answer(made, told, body.wait_s)

    def _abort(self, tx: Tx, id_: str, body: AbortBody, who: Principal, by: Requester) -> Decision:
        now, lease = self.clock.moment(), window(tx, id_)
        actor = authorise(lease, body, who, by, now)
        why = body.why or body.because
        return self._aborted(tx, lease, self.requests.clean(why) or f"by {actor}", actor)

    def _aborted(self, tx: Tx, lease: Lease, why: str, actor: str) -> Decision:
        """The window is on its way back, and says why; one that is so already is left as it is."""
        now, cause = self.clock.moment(), f"{ABORTED}: {shorten(why, 300)}"
        if lease.state is State.ACTIVATING:
            return self.requests.happen(tx, lease, CancelAsked(why=cause, actor=actor), now)
        if lease.state is not State.ACTIVE:
            return Decision(lease=lease)
        return self.requests.happen(tx, lease, UndoBegun(ending=State.CANCELLED, why=cause, actor=actor), now)

    # ------------------------------------------------------------ the guard's word

    async def strike(self, id_: str, note: str) -> Answer | None:
        """An engine came up against the window: what is to be done with it (WIN-6).

        The second time the window is aborted. None when the window is not open: nobody fights a restore.
        """
        made, said = await self.store.write(lambda tx: self._struck(tx, id_, note))
        if said is Answer.ABORT:
            self.schedule.act(made)
        return said

    async def strike_elsewhere(self, id_: str, note: str) -> Answer | None:
        """The same, told by another host again and again: a note says when it was, and is counted once."""
        seen = await self.store.read(lambda tx: note in known(tx, id_).strikes)
        return None if seen else await self.strike(id_, note)

    def _struck(self, tx: Tx, id_: str, note: str) -> tuple[Decision, Answer | None]:
        lease = tx.lease(LeaseId(id_))
        if lease is None or lease.state is not State.ACTIVE:
            return Decision(lease=known(tx, id_)), None
        said = answer(len(lease.strikes))
        made = self.requests.happen(tx, lease, Struck(note=note, actor="guard"), self.clock.moment())
        if said is Answer.ABORT:
            made = self._aborted(tx, made.lease, note, "guard")
        return made, said

    # ------------------------------------------------------------ looking

    async def windows(self, query: WindowsQuery) -> LeaseList:
        """The windows that there are, oldest first; with `ended` those that are over, newest first."""
        found, told = await self.store.read(lambda tx: self._windows(tx, query))
        looks = await asyncio.gather(*map(self._look.seen, found))
        return replace(told, leases=tuple(map(_with, told.leases, looks)))

    def _windows(self, tx: Tx, query: WindowsQuery) -> tuple[Sequence[Lease], LeaseList]:
        scene = self.schedule.scene(tx)
        found = [it for it in scene.live if it.mode]
        if query.ended:
            found += [it for it in tx.ended(after=0, limit=1000) if it.mode][:ENDED_SHOWN]
        views = tuple(lease_view(it, scene, journal=tx.journal(it.id)) for it in found)
        return found, LeaseList(at=rfc3339(scene.now.at), leases=views, next=None)

    async def status(self, id_: str) -> OneLease:
        """One window, with its steps. Refuses `lease_not_found`."""
        found = await self.store.read(lambda tx: window(tx, id_))
        told, seen = await self.schedule.lease(id_), await self._look.seen(found)
        return replace(told, lease=_with(told.lease, seen))

    @property
    def _look(self) -> WindowLook:
        return WindowLook(config=self.config, look=self.look)

    async def report(self, id_: str) -> WindowReport:
        """How it ended, and what came back: each engine, up, verified, its memory and seconds (WIN-4)."""
        lease, steps = await self.store.read(lambda tx: _with_steps(tx, id_))
        now = self.clock.moment()
        engines, wrong = await self._reports(lease)
        return WindowReport(
            at=rfc3339(now.at),
            lease=lease.id,
            mode=lease.mode,
            state=lease.state,
            cause=lease.cause,
            opened_at=None if lease.activated is None else rfc3339(shown(lease.activated, now)),
            ended_at=None if lease.ended is None else rfc3339(shown(lease.ended, now)),
            strikes=lease.strikes,
            engines=tuple(_shown(it) for it in engines),
            wrong=wrong,
            steps=steps,
        )

    async def _reports(self, lease: Lease) -> tuple[tuple[Back, ...], tuple[str, ...]]:
        """What each host of it wrote down; one that does not answer is wrong until it does."""
        engines: list[Back] = []
        wrong: list[str] = []
        for host in dict.fromkeys(it.host for it in lease.plan if isinstance(it, VerifyRestore)):
            node = self.nodes.get(host)
            if node is None:
                wrong.append(f"{host}: it is in the config no more, and so is its report")
                continue
            try:
                found = await node.report(lease.id)
            except NotFound:
                continue  # It was called off before it came to this host.
            except Refusal as refusal:
                wrong.append(f"{host}: its report is not to be had: {str(refusal).removesuffix('.')}")
                continue
            engines += found.engines
            wrong += [f"{host}: {it}" for it in found.wrong]
        return tuple(engines), tuple(wrong)


def bounded(resource: Resource, given: Terms) -> Resource:
    """The resource as a window takes it: for its cap and no other time, whatever its leases may have."""
    return replace(resource, ttl_s=given.cap_s, max_s=given.cap_s)


def window(tx: Tx, id_: str) -> Lease:
    """The window of that id. Refuses `lease_not_found`, and `invalid_request` for a lease that is none."""
    lease = tx.lease(LeaseId(id_))
    if lease is None:
        raise LeaseNotFound(lease=id_)
    if not lease.mode:
        raise InvalidRequest(
            what=f"{id_} is a lease on {lease.resource}, and no window.",
            expected="`hostler window status` lists the windows.",
            where="window",
        )
    return lease


def _with_steps(tx: Tx, id_: str) -> tuple[Lease, tuple[StepView, ...]]:
    lease = window(tx, id_)
    return lease, steps_of(lease, tx.journal(lease.id))


def _with(view: LeaseView, seen: WindowSeen) -> LeaseView:
    """With what is seen of it: a record that went has no end any more, whatever the plan says."""
    part = view.window
    if part is None:
        return view
    stands = {host: end for host, end in part.hold_until.items() if host in seen.held}
    return replace(view, window=replace(part, wrong=seen.wrong, hold_until=frozen(stands)))


def _shown(it: Back) -> BackView:
    return BackView(
        engine=it.engine,
        host=it.host,
        up=it.up,
        verified=it.verified,
        why=it.why,
        memory=it.memory,
        seconds=it.seconds,
    )
