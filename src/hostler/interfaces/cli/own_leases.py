"""Which lease a command means, and how its holder is proven (LEASE-9).

Decides that a name is a lease's id, the beginning of one, or a resource of which this user has exactly one
lease; first of what this user saved, then of what the head lists. Leases of different holders are never
chosen from. A secret comes from this user's files or from the file that $HOSTLER_LEASE_SECRET_FILE names,
never from an argument.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hostler.client import Client
from hostler.client.address import state_dir
from hostler.client.saved import Drawer, SavedLease, saved_leases
from hostler.domain.errors import InvalidRequest, LeaseNotFound
from hostler.domain.lease import State
from hostler.domain.values import shorten
from hostler.interfaces.cli.daemon import answer, at, pages, person
from hostler.interfaces.cli.lease_env import GENERATION_VAR, LEASE_VAR, SECRET_VAR, forget_secret, read_secret
from hostler.wire.schedule import LeaseList, LeaseView, OneLease

LEASES: Final = "/v1/hostler/leases"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """The lease that a command means. `saved` is this user's own record of it, None where there is none."""

    id: str
    secret: str | None = None
    epoch: str | None = None
    generation: int | None = None
    saved: SavedLease | None = None

    def proof(self, *, generation: int | None = None, because: str = "") -> Mapping[str, object]:
        """What proves that this user may change it; with `because` as an operator."""
        return {
            "secret": self.secret,
            "epoch": self.epoch if generation is None else None,
            "generation": self.generation if generation is None else generation,
            "because": because,
        }


def drawer() -> Drawer[SavedLease]:
    """This user's saved leases."""
    return saved_leases(state_dir(os.environ))


def forget(it: SavedLease) -> None:
    """Delete what was kept for a lease that is over."""
    drawer().forget(it.request_id)
    forget_secret(state_dir(os.environ), it.request_id)


def meant(client: Client, name: str | None) -> Meant:
    """The lease that `name` means; without one that of $HOSTLER_LEASE, or this user's only one.

    Refuses `lease_not_found`, and `invalid_request` for a name that means several.
    """
    # A secret goes to the head that it was made for, and to no other.
    url = client.address.url
    saved = [it for it in drawer().list() if it.lease is not None and it.url == url]
    inherited = _inherited()
    if name is None:
        if inherited is not None:
            return inherited
        return _one("your leases", [_of(it) for it in saved]) or _none_saved()
    if inherited is not None and inherited.id == name:
        return inherited
    return (
        _one(name, [_of(it) for it in saved if it.lease == name])
        or _one(name, [_of(it) for it in saved if (it.lease or "").startswith(name)])
        or _one(name, _still_live(client, [it for it in saved if it.resource == name], inherited))
        or _listed(client, name, saved)
    )


def _inherited() -> Meant | None:
    """The lease under which we were started (JOB-5)."""
    id_, file = os.environ.get(LEASE_VAR), os.environ.get(SECRET_VAR)
    if not id_ or not file:
        return None
    number = os.environ.get(GENERATION_VAR, "")
    return Meant(id=id_, secret=read_secret(file), generation=int(number) if number.isdecimal() else None)


def _of(it: SavedLease) -> Meant:
    return Meant(id=it.lease or "", secret=it.secret, epoch=it.epoch, generation=it.generation, saved=it)


def _still_live(client: Client, saved: Sequence[SavedLease], inherited: Meant | None) -> list[Meant]:
    """Those of the saved that are not over: a resource's name means what there is now.

    Who was started under one of them means that one. Of a turn and a place or booking for later the turn is
    meant. Of several holders whoever goes by the account's own name is; else two who share it do not end
    each other's turn.
    """
    if not saved:
        return []
    live = {it.id: it for it in live_leases(client)}
    found = [_of(it) for it in saved if it.lease in live]
    if inherited is not None and any(it.id == inherited.id for it in found):
        return [inherited]
    if len({live[it.id].holder for it in found}) > 1:
        own = [it for it in found if live[it.id].holder == person(os.environ)]
        found = own or found
        if not own:
            return found
    return [it for it in found if State(live[it.id].state).holds] or found


def _listed(client: Client, name: str, saved: Sequence[SavedLease]) -> Meant:
    """The lease that the head lists under that id, beginning, or resource: somebody else's, or an old one.

    This user's own window as well, which was asked for by its mode and lists under what it leases.
    """
    live = live_leases(client)
    found = [it for it in live if it.id == name] or [it for it in live if it.id.startswith(name)]
    found = found or [it for it in live if it.resource == name and it.generation is not None]
    only = _one(name, [Meant(id=it.id, generation=it.generation) for it in found])
    if only is not None:
        return next((_of(it) for it in saved if it.lease == only.id), only)
    # One that is over is not listed, and can be asked for by its whole id.
    return Meant(id=answer(client.get(at(LEASES, name)), OneLease).lease.id)


def live_leases(client: Client) -> Sequence[LeaseView]:
    """Every lease that is not over."""
    return answer(pages(client, LEASES, "leases"), LeaseList).leases


def _one(name: str, found: Sequence[Meant]) -> Meant | None:
    if len(found) > 1:
        ids = ", ".join(sorted(it.id for it in found))
        raise InvalidRequest(
            what=f"{shorten(name)} means {len(found)} leases: {shorten(ids, 200)}.",
            expected="Give one of these ids.",
        )
    return found[0] if found else None


def _none_saved() -> Meant:
    raise LeaseNotFound(lease="of yours")
