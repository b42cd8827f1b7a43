"""The addresses of this machine's interfaces, as the kernel tells them."""

from __future__ import annotations

import ipaddress
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from hostler.adapters.host import interfaces
from hostler.adapters.host.interfaces import SystemInterfaces, pairs
from tests.testbed.cable import NoNamespaces, needed


def test_every_address_is_found() -> None:
    """SYNC-3: names and addresses are those that the kernel has."""
    if shutil.which("ip") is None:
        needed(NoNamespaces("there is no ip command to compare with"))
    rows = json.loads(subprocess.run(("ip", "-j", "address"), check=True, capture_output=True).stdout)
    known = {(row["ifname"], it["local"]) for row in rows for it in row["addr_info"]}
    assert {(name, str(ipaddress.ip_address(address))) for name, address in pairs()} == known


def test_bridges_and_containers_are_not_this_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SYNC-3: loopback, bridges and what containers are given prove nothing: every box has such addresses."""
    (tmp_path / "mybridge" / "bridge").mkdir(parents=True)
    found = (
        ("lo", "127.0.0.1"),
        ("lo", "::1"),
        ("eth0", "10.0.0.9"),
        ("eth0", "fd00::9"),
        ("docker0", "172.17.0.1"),
        ("br-1234", "172.18.0.1"),
        ("veth7", "169.254.9.9"),
        ("mybridge", "192.168.122.1"),
        ("tailscale0", "100.64.0.7"),
    )
    monkeypatch.setattr(interfaces, "pairs", lambda: iter(found))
    assert SystemInterfaces(tmp_path).addresses() == {"10.0.0.9", "fd00::9", "100.64.0.7"}
