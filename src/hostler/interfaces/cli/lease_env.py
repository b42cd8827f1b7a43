"""What a command that runs under a lease sees of it in its environment (JOB-5): never the secret itself.

Decides the variables, and where the file with the secret lies: `<state>/client/secrets/<request_id>`, 0600.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final

from hostler.client.room import unusable
from hostler.client.saved import REQUEST_ID, SavedLease, make_private, read_private, write_private
from hostler.client.trust import trusted
from hostler.domain.values import rfc3339
from hostler.interfaces.cli.output import parse_moment
from hostler.wire.schedule import OneLease

LEASE_VAR: Final = "HOSTLER_LEASE"
GENERATION_VAR: Final = "HOSTLER_GENERATION"
SECRET_VAR: Final = "HOSTLER_LEASE_SECRET_FILE"  # noqa: S105 - a variable's name, which holds a file's name
TRUSTED_VAR: Final = "HOSTLER_TRUSTED_UNTIL"
JOB_VAR: Final = "HOSTLER_JOB"


def environment(one: OneLease, secret_file: Path) -> Mapping[str, str]:
    """The variables. The time until which the lease is trusted is that of now: renewals move it on."""
    left = trusted(one, 0.0)
    until = "" if left is None else rfc3339(parse_moment(one.at) + timedelta(seconds=left))
    return {
        LEASE_VAR: one.lease.id,
        GENERATION_VAR: str(one.lease.generation or 0),
        SECRET_VAR: str(secret_file),
        TRUSTED_VAR: until,
    }


def write_secret(state: Path, saved: SavedLease) -> Path:
    """The file with the secret alone, for who is to prove that it works under the lease."""
    path = _secret_file(state, saved.request_id)
    try:
        make_private(path.parent)
        write_private(path, saved.secret.encode("ascii"))
    except OSError as error:
        raise unusable(path, error) from error
    return path


def read_secret(path: str) -> str | None:
    """The secret in a private file of this user; None when it is not one, or others can read it."""
    data = read_private(Path(path))
    return None if data is None else data.decode("ascii", "replace").strip() or None


def forget_secret(state: Path, request_id: str) -> None:
    """Delete it; nothing happens when there is none."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        _secret_file(state, request_id).unlink()


def _secret_file(state: Path, request_id: str) -> Path:
    if not REQUEST_ID.fullmatch(request_id):
        raise ValueError(f"{request_id!r} is no request id")
    return state / "client" / "secrets" / request_id
