"""Keys of `hosts`: each box, its memory, ports, links and groups."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, PlainValidator, Tag

from hostler.adapters.config.schema.base import (
    Duration,
    IpAddress,
    Line,
    Name,
    Pin,
    PortRange,
    SecretText,
    Size,
    Strict,
    Time,
    matching,
)
from hostler.adapters.config.schema.node import NodeKeys

GPU_POOLS = tuple(f"gpu{number}" for number in range(8))
POOLS = ("ram", *GPU_POOLS)
"""Names of pools where memory is not one: RAM, and each device's own."""

Speed = Annotated[
    str, PlainValidator(matching(r"[0-9]+(\.[0-9]+)? [KMGT]bit/s", "a speed such as 10 Gbit/s"))
]
Reader = Annotated[str, PlainValidator(matching(r"files:/.+", "files: and an absolute directory"))]


class FloorStop(Strict):
    """Engines to stop when memory runs out."""

    stop: list[Name]
    """Engines of this host, stopped in this order."""


class PoolKeys(Strict):
    """One pool of a box whose memory is not one."""

    total: Size | None = None
    """Its size; default: read from the machine."""
    reserve: Size | None = None
    """Kept free; default 8 GiB or a tenth of RAM, the smaller; 512 MiB of a GPU's own."""
    floor: Size | None = None
    """Under this a start in progress is killed; default half of reserve."""


def _floor_form(value: object) -> str:
    return "=stop" if isinstance(value, dict | FloorStop) else "=notify"


class HostMemory(Strict):
    """Memory of a box: one pool (total, reserve, floor), or named pools (ram, gpu0, …)."""

    total: Size | None = None
    """Size of the one pool; default: read from the machine."""
    reserve: Size | None = None
    """Kept free; default 8 GiB or a tenth of the pool, the smaller."""
    floor: Size | None = None
    """Under this a start in progress is killed; default half of reserve."""
    on_floor: Annotated[
        Annotated[Literal["notify"], Tag("=notify")] | Annotated[FloorStop, Tag("=stop")],
        Discriminator(_floor_form),
    ] = "notify"
    """What happens under the floor besides: notify, or {stop: [engines]} in that order."""
    max_residue: Size = 2 << 30
    """Memory that a stopped engine may leave behind before the stop counts as failed."""
    reader: Reader | None = None
    """files:DIR reads memory from a recorded tree: for a test bed only. Default: the machine."""
    ram: PoolKeys | None = None
    """RAM of a box whose GPU has memory of its own."""
    gpu0: PoolKeys | None = None
    """Memory of the first GPU."""
    gpu1: PoolKeys | None = None
    """Memory of the second GPU."""
    gpu2: PoolKeys | None = None
    """Memory of the third GPU."""
    gpu3: PoolKeys | None = None
    """Memory of the fourth GPU."""
    gpu4: PoolKeys | None = None
    """Memory of the fifth GPU."""
    gpu5: PoolKeys | None = None
    """Memory of the sixth GPU."""
    gpu6: PoolKeys | None = None
    """Memory of the seventh GPU."""
    gpu7: PoolKeys | None = None
    """Memory of the eighth GPU."""

    def pools(self) -> dict[str, PoolKeys]:
        """The named pools that are given, by name; empty where memory is one pool."""
        given = {name: getattr(self, name) for name in POOLS}
        return {name: pool for name, pool in given.items() if isinstance(pool, PoolKeys)}


class HostPorts(Strict):
    """Ports of a box."""

    range: PortRange = (8100, 8199)
    """Where `port: auto` takes from."""


class LinkKeys(Strict):
    """A cable to another host, probed before a start that needs it."""

    interface: Line
    """Network interface here."""
    address: IpAddress
    """Our address on it."""
    peer: IpAddress
    """The other host's address on it."""
    speed: Speed | None = None
    """What it is to reach, as in 10 Gbit/s."""


class GroupKeys(Strict):
    """Engines of this host that exclude each other: an engine joins by its `group`."""

    evicts: list[Name] = Field(default_factory=list)
    """Groups of this host whose running members a start here stops as well."""
    idle_revert: Name | None = None
    """The default member: it comes back once another has been idle."""
    idle: Time = 1200.0
    """How long another member is idle before the default comes back."""
    min_resident: Duration = 60.0
    """A member that has just started is not evicted before."""
    yield_after: Duration = 120.0
    """How long others wait behind a busy member."""


class HostKeys(Strict):
    """A box."""

    url: Line | None = None
    """The node's control and gateway address for other nodes; needed where there are several hosts."""
    key: SecretText | None = None
    """Opens this host's node API; that host, the head, and nodes that forward to it have it."""
    tls_pin: Pin | None = None
    """sha256/ and the base64 of the SHA-256 of the certificate's public key."""
    allow_plain_http: bool = False
    """Whether http:// beyond loopback is accepted for this host."""
    orchestration: bool = True
    """false: nothing is ever started or stopped here."""
    address: IpAddress = "127.0.0.1"
    """Where engines here listen unless they say otherwise."""
    memory: HostMemory = HostMemory()
    """How much there is, and what is kept free."""
    ports: HostPorts = HostPorts()
    """Where `port: auto` takes from."""
    links: dict[Name, LinkKeys] = Field(default_factory=dict)
    """Cables to other hosts, by the other host's name."""
    groups: dict[Name, GroupKeys] = Field(default_factory=dict)
    """Groups of this host; a group cannot be named from another host."""
    node: NodeKeys | None = None
    """Keys of `node` that differ on this host."""
