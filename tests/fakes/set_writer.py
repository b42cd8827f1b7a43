"""Adds one number to a set that lies in a file, under a lease: read, think, write (the Jepsen shape of F03).

    python set_writer.py URL KEY RESOURCE FILE NUMBER DIRECTORY [fenced]

Between its read and its write it thinks: it says so in DIRECTORY/NUMBER.thinking and goes on when
DIRECTORY/NUMBER.go is there. With `fenced` the keeper of the file refuses an older fence number than
it has seen; without it, the lease alone guards it. Ends with 0 when its write was taken, with 3 when refused.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import secrets
import sys
import time
import urllib.request
from pathlib import Path

POLL_S = 0.02


def call(url: str, key: str, body: dict[str, object]) -> dict[str, object]:
    """One POST to the head."""
    headers = {
        "authorization": f"Bearer {key}",
        "content-type": "application/json",
        "idempotency-key": secrets.token_hex(16),
    }
    asked = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(asked, timeout=60) as answer:
        lease = json.loads(answer.read())["lease"]
    assert isinstance(lease, dict)
    return lease


def granted(url: str, key: str, resource: str, name: str) -> dict[str, object]:
    """The lease, once it is active: a place is kept, and an offer taken up."""
    secret = secrets.token_urlsafe(32)
    hashed = hashlib.sha256(secret.encode()).hexdigest()
    leases = f"{url}/v1/hostler/leases"
    lease = call(leases, key, {"resource": resource, "holder": name, "secret_hash": hashed})
    while lease["state"] != "active":
        lease = call(f"{leases}/{lease['id']}/renew", key, {"secret": secret, "wait_s": 5.0})
    return {**lease, "secret": secret}


def read(file: Path) -> dict[str, object]:
    """What the file has: its numbers, and the highest fence number that its keeper has seen."""
    found = json.loads(file.read_text())
    assert isinstance(found, dict)
    return found


def write(file: Path, numbers: list[int], fence: int, *, fenced: bool) -> bool:
    """Put the whole set; whether the file's keeper took it."""
    with file.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        seen = json.loads(held.read())
        if fenced and fence < seen["fence"]:
            return False
        held.seek(0)
        held.truncate()
        held.write(json.dumps({"fence": max(fence, seen["fence"]), "numbers": numbers}))
    return True


def main(url: str, key: str, resource: str, path: str, number: str, directory: str, *more: str) -> int:
    """Add one number."""
    file, room = Path(path), Path(directory)
    lease = granted(url, key, resource, f"writer-{number}")
    found = read(file)["numbers"]
    assert isinstance(found, list)
    (room / f"{number}.thinking").touch()
    while not (room / f"{number}.go").exists():
        time.sleep(POLL_S)
    taken = write(file, [*found, int(number)], int(str(lease["generation"])), fenced="fenced" in more)
    if taken:
        call(f"{url}/v1/hostler/leases/{lease['id']}/release", key, {"secret": lease["secret"]})
    return 0 if taken else 3


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
