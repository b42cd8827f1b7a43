"""Memory that outlives the engine it was taken for, as a driver keeps what a killed client had (MEM-4).

`python pinned.py keep SOCKET` is the keeper: what it is handed it keeps until it ends. `python pinned.py take
SOCKET MIB COMMAND…` takes that much, hands it over and becomes the command.
"""

from __future__ import annotations

import os
import socket
import sys

MIB = 1 << 20


def keep(path: str) -> None:
    """Keep every file that is handed over; each is answered once it is here."""
    kept: list[int] = []
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(path)
        door.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            caller, _ = door.accept()
            with caller:
                kept += socket.recv_fds(caller, 1, 1)[1]
                caller.sendall(b"k")


def take(path: str, mib: int) -> None:
    """Fill memory that has no process of its own, and leave it to the keeper."""
    file = os.memfd_create("pinned")
    for _ in range(mib):
        os.write(file, b"\x01" * MIB)
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(path)
        socket.send_fds(door, [b"p"], [file])
        door.recv(1)
    os.close(file)


if __name__ == "__main__":
    verb, where, *more = sys.argv[1:]
    if verb == "keep":
        keep(where)
    take(where, int(more[0]))
    os.execv(more[1], more[1:])  # noqa: S606 - the engine of one test
