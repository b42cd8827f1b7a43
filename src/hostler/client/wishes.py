"""What a holder asks for: a resource, or a window that enters a mode, as it is sent and kept on the disk.

Decides which call a request is: a window's body names its mode. Asks nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypedDict

from hostler.client.machine import Machine
from hostler.client.saved import Drawer, SavedLease

LEASES: Final = "/v1/hostler/leases"
WINDOWS: Final = "/v1/hostler/windows"


class Wish(TypedDict, total=False):
    """What may be asked of a resource: as in `ReserveBody`, all optional. Times in seconds."""

    holder: str
    reason: str
    ttl_s: float | None
    indefinite: bool
    now: bool
    detached_s: float | None
    start: str | None
    priority: int
    dry_run: bool


class WindowWish(TypedDict, total=False):
    """What may be asked of a window: as in `OpenBody`, all optional. Times in seconds."""

    holder: str
    reason: str
    cap_s: float | None
    override: str | None
    force: bool


def asked_at(saved: SavedLease) -> str:
    """Where that request is sent."""
    return WINDOWS if "mode" in saved.body else LEASES


def kept(
    files: Drawer[SavedLease],
    machine: Machine,
    url: str,
    *,
    secret: str,
    resource: str,
    body: Mapping[str, object],
    ttl_s: float | None,
) -> SavedLease:
    """A request on the disk, before anything is sent (LEASE-9). Raises `state_unusable`."""
    saved = SavedLease(
        request_id=machine.request_id(),
        secret=secret,
        url=url,
        resource=resource,
        body=body,
        ttl_s=ttl_s,
        attempt=machine.elapsed(),
        boot=machine.boot(),
    )
    files.save(saved)
    return saved
