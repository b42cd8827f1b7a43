"""What stands where an id should be, in every call that names one: never a path (BG-23)."""

from __future__ import annotations

import re
from urllib.parse import quote

from hostler.interfaces.api.endpoints import ENDPOINTS
from tests.services.test_jobs import STRANGE
from tests.story.house import House
from tests.story.lease_house import resources

PLACE = re.compile(r"\{[a-z]+(:path)?\}")
NAMING = [(it.method, it.path) for it in ENDPOINTS if PLACE.search(it.path)]
ODD_FILE = re.compile(r"x|x{9,}|passwd|.*job.[12]|.*%2f.*|.*[.]{4}.*|C:.*|(?i:job)_9+.*")
NODE_KEY = "hk_" + "n" * 40
ODD = [quote(it, safe="") for it in STRANGE if it]
ODD += [quote(it, safe="") for it in ODD]


async def test_a_strange_id_is_nobody_s(fake: House) -> None:
    """BG-23, SEC-2: in every call that names something a strange id is 404 or 400, and makes no file."""
    fake.fakes("work")
    resources(fake, box={})
    fake.top["keys"] = [
        {"name": "head", "key": f"${{file:{fake.root / 'node.key'}}}", "scope": ["admin", "node"]}
    ]
    (fake.root / "node.key").touch(mode=0o600)
    (fake.root / "node.key").write_text(NODE_KEY)
    await fake.start()
    assert len(NAMING) > 10
    async with fake.client(authorization=f"Bearer {NODE_KEY}") as client:
        for method, path in NAMING:
            for part in ODD:
                answer = await client.request(
                    method,
                    PLACE.sub(lambda _, part=part: part, path),  # type: ignore[misc]  # bound at once
                    json=None if method == "GET" else {},
                    headers={"idempotency-key": "rq-1"},
                )
                assert answer.status_code in {400, 404}, (method, path, part, answer.text)
                assert str(fake.root) not in answer.text
    assert [path for path in fake.root.rglob("*") if ODD_FILE.fullmatch(path.name)] == []


async def test_ids_are_the_daemon_s(fake: House) -> None:
    """BG-23, LEASE-9, JOB-1: an id that a caller gives a lease or a job is refused: the daemon makes them."""
    resources(fake, box={})
    await fake.start()
    given = {"secret_hash": "0" * 64, "id": "../../x"}
    for path, body in (("leases", {"resource": "box"}), ("jobs", {"title": "t"})):
        async with fake.client(authorization=f"Bearer {fake.key}") as client:
            headers = {"idempotency-key": "rq-1"}
            refused = await client.post(f"/v1/hostler/{path}", json={**body, **given}, headers=headers)
            assert (refused.status_code, "id" in refused.text) == (400, True)
            del given["id"]
            made = await client.post(f"/v1/hostler/{path}", json={**body, **given}, headers=headers)
            given["id"] = "../../x"
            found = made.json()[path[:-1]]["id"]
            assert re.fullmatch(r"(ls|job)_[0-9a-z]{26}", found)
