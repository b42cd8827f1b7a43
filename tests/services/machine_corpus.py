"""Plays of the state machine that are played every time: what was found once, and what chance meets seldom.

Each is a list of rules with their values, as a failing run prints them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

Step = tuple[str, Mapping[str, object]]


def _reserve(*resources: str, way: str = "queue", ttl: float | None = None) -> Step:
    return "reserve", {"resources": list(resources), "way": way, "ttl": ttl}


def _restart(config: str, calls: int = -1) -> Step:
    return "restart", {"config": config, "calls": calls}


def _next(which: int = 0) -> Step:
    return "go_on", {"which": which}


def _release(which: int = 0) -> Step:
    return "release", {"which": which, "cancel": False, "operator": False}


def _time(how: str, n: int) -> Step:
    return "time", {"how": how, "n": n}


def _fault(what: str, n: int = 0) -> Step:
    return "fault", {"what": what, "n": n}


def _fence(for_s: float, minutes: int = 0) -> Step:
    return "fence", {"for_s": for_s, "minutes": minutes}


def _person(what: str, n: int = 0, profile: str = "least") -> Step:
    return "person", {"what": what, "n": n, "profile": profile}


def _work(what: str, which: int = 0) -> Step:
    return "work", {"what": what, "which": which, "holder": "anna", "release": False}


REBOOT: Final[Step] = ("reboot", {"minutes": 5})
REPEAT: Final[Step] = ("odd", {"which": 0, "how": "repeat"})

CORPUS: Final[Mapping[str, Sequence[Step]]] = {
    "F02: repeated when its resource has left the config": (_reserve("pair"), _restart("shrunk"), REPEAT),
    "F17: the clock jumps after a reboot": (_reserve("disk"), REBOOT, _time("jump", 12), _time("minutes", 3)),
    "R41: the clock goes back before a reboot": (
        _reserve("crow-box", "crow-box", way="detached"),
        _time("jump", 1),
        _reserve("crow-box", way="detached"),
        REBOOT,
        _time("seconds", 8),
        _next(),
        _next(),
        _time("seconds", 8),
    ),
    "LEASE-3: a queued pair grows with the config": (
        _reserve("crow-box", "pair", way="detached"),
        _restart("grown"),
        _release(),
        _time("seconds", 8),
        _reserve("disk", way="detached"),
        _next(),
        _next(),
        _time("seconds", 8),
    ),
    "LEASE-5: the config moves a thing to another resource": (
        _restart("grown"),
        _reserve("disk"),
        _restart("moved"),
        _reserve("crow-box", way="detached"),
        _reserve("crow-box", way="now"),
        _release(),
        _time("seconds", 8),
        _next(),
    ),
    "LEASE-28: nothing ends under a fence, all of it after": (
        _reserve("disk", "disk", ttl=60.0),
        _fence(1800.0, 20),
        _fence(0.0),
        _time("minutes", 12),
    ),
    "LEASE-28: the fence goes up with a node away": (
        _fault("cut off", 1),
        _fence(60.0),
        _fault("cut off", 1),
        _time("seconds", 8),
    ),
    "JOB-4: killed between the end of a lease and its word to the job": (
        _reserve("disk"),
        _work("begin"),
        _release(),
        _restart("first"),
        _time("seconds", 2),
        _work("finish"),
    ),
    "F20: a reboot gives back what was leased": (_reserve("crow-box"), REBOOT, _time("minutes", 3)),
    "F10: an engine that does not come back": (
        _reserve("crow-box", "crow-box", way="detached"),
        _fault("sicken", 0),
        _release(),
        _time("minutes", 12),
        _restart("edited"),
        _fault("heal"),
        _release(),
        _time("seconds", 8),
        _next(),
    ),
    "F12: routes and engines moved behind a lease": (
        _reserve("pair"),
        _person("route", 0, "least"),
        _person("route", 2, "least"),
        _person("suspend", 0),
        _release(),
        _time("seconds", 8),
    ),
    "R35: killed while a step hangs": (
        _fault("hang", 18),
        _reserve("pair"),
        _restart("edited", 6),
        _time("minutes", 12),
        ("abandon", {"which": 0}),
        _reserve("pair"),
    ),
    "R35: the store is away as the daemon begins": (
        _fault("hang", 15),
        _reserve("crow-box"),
        _fault("store", 3),
        _restart("first"),
        _time("seconds", 4),
        _next(),
    ),
    "NODE-3: answers are lost": (
        _fault("lose", 2),
        _reserve("pair"),
        _fault("lose", 3),
        _release(),
        _time("seconds", 3),
    ),
    "LEASE-26: a booking comes first": (
        _reserve("crow-box", way="booked", ttl=1800.0),
        _reserve("crow-box", "pair", way="detached"),
        _time("minutes", 6),
        _next(),
        _time("minutes", 12),
        _next(),
    ),
}
