"""Jobs over HTTP with the real service behind the endpoints, and what no answer may hold."""

from urllib.parse import quote

import pytest

from hostler.domain.errors import (
    JobNotFound,
)
from hostler.interfaces.api.schedule_endpoints import JOBS, LEASES, SCHEDULING
from hostler.services.keys import keyring
from hostler.wire.redaction import forms
from tests.fakes.jobs import SECRET, JobHouse, log
from tests.interfaces.room import Room
from tests.interfaces.schedule_calls import JOB, KEY, code, get, post, schedule
from tests.services.test_jobs import STRANGE, UNKNOWN

# ---------------------------------------------------------------- real jobs behind it


async def test_a_job_over_http(box: Room, house: JobHouse) -> None:
    """R61, R66, R71: a job lives over HTTP; a foreign secret is 403, a late word 409."""
    id_ = (await post(box, JOBS, JOB)).json()["job"]["id"]
    updates, finish = f"{JOBS}/{id_}/updates", f"{JOBS}/{id_}/finish"
    sent = {"secret": SECRET, "note": "half", "progress": {"n": 1, "total": 2}, "metrics": {"loss": 0.5}}
    answer = await post(box, updates, sent, **{"idempotency-key": "u1"})
    assert answer.json()["job"]["progress"] == {"value": 0.5, "n": 1.0, "total": 2.0, "label": ""}
    foreign = await post(box, updates, {"secret": "not the secret"}, **{"idempotency-key": "u2"})
    assert code(foreign) == (403, "not_yours")
    assert (await post(box, finish, {"result": "finished", "secret": SECRET})).json()["job"][
        "state"
    ] == "finished"
    assert code(await post(box, updates, sent, **{"idempotency-key": "u3"})) == (409, "ended")
    shown = (await get(box, f"{JOBS}/{id_}")).json()
    assert (shown["job"]["note"], [it["name"] for it in shown["points"]]) == ("half", ["loss"])
    assert (await get(box, JOBS)).json()["jobs"] == []
    assert [it["id"] for it in (await get(box, f"{JOBS}?ended=true")).json()["jobs"]] == [id_]
    assert len(await log(house)) == 3


@pytest.mark.parametrize("id_", [it for it in STRANGE if it] + [UNKNOWN])
async def test_a_strange_id_over_http(box: Room, house: JobHouse, id_: str) -> None:
    """R71, BG-23: whatever stands where an id should be is 404, no path of ours in it, nothing touched."""
    # A path with a line end is none of the table's: it is unknown as a whole.
    expected = {JobNotFound.code, "not_found"} if "\n" in id_ else {JobNotFound.code}
    once, twice = quote(id_, safe=""), quote(quote(id_, safe=""), safe="")
    for part in (once, twice):
        for answer in (
            await get(box, f"{JOBS}/{part}"),
            await post(box, f"{JOBS}/{part}/updates", {"secret": SECRET}),
            await post(box, f"{JOBS}/{part}/finish", {"result": "finished", "secret": SECRET}),
        ):
            assert answer.status_code == 404
            assert code(answer)[1] in expected
            assert "/state" not in answer.text
    assert list(await log(house)) == []


async def test_a_wrong_method_is_told_by_the_longer_path(box: Room) -> None:
    """API-1: GET of a call that changes something is 405 and names POST; an id swallows no verb."""
    for path in (f"{LEASES}/ls_1/renew", f"{JOBS}/job_1/updates"):
        answer = await get(box, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert schedule(box).asked == []


OWN = "hk_own/key+of~the caller"


@pytest.mark.parametrize("form", sorted(set(forms(OWN))))
async def test_the_callers_own_key_is_told_nowhere(box: Room, house: JobHouse, form: str) -> None:
    """JOB-7, BG-27, SEC-1: the key that came with a call is taken out of what it wrote, however encoded."""
    box.other_keys(keyring(configured=(), kept=(), local=OWN, clock=box.clock))
    headers = {"x-hostler-client": form[:40], "user-agent": form} if form.isascii() else {}
    async with box.client(key=None, **{"x-api-key": OWN, **headers}) as client:
        made = await client.post(
            JOBS, json={**JOB, "title": f"x {form}"[:200], "holder": form[:200]}, headers=KEY
        )
        id_ = made.json()["job"]["id"]
        body = {
            "secret": SECRET,
            "note": f"it is {form}, and {SECRET}",
            "metrics": {form[:200]: 1.0},
            "receipts": [
                {"kind": "file", "name": "r", "path": form, "url": f"https://{quote(form)}@example.net/"}
            ],
        }
        told = await client.post(f"{JOBS}/{id_}/updates", json=body)
        lost = await client.get(f"{JOBS}/{quote(form, safe='')}")
        seen = await client.get(f"{JOBS}/{id_}")
    assert (made.status_code, told.status_code, lost.status_code) == (200, 200, 404)
    everything = made.text + told.text + lost.text + seen.text + repr(await log(house))
    assert form not in everything
    assert SECRET not in everything
    assert seen.json()["job"]["note"] == "it is ****, and ****"


async def test_a_wrong_key_is_not_told_back(box: Room, house: JobHouse) -> None:
    """BG-27, SEC-1: a wrong key that stands in the path, too, is in no answer, whatever is refused."""
    wrong = "hk_wrong-key-of-somebody"
    assert house.jobs is box.control.jobs
    async with box.client(key=wrong) as client:
        padded = "x" * 60 + wrong
        tried = [f"{start}{end}" for start in ("/v1/hostler/", f"{JOBS}/") for end in (wrong, padded)]
        tried += [f"{JOBS}?{wrong}=1", f"{JOBS}?cursor={wrong}", f"{JOBS}?cursor={padded}"]
        for path in tried:
            answer = await client.get(path)
            assert answer.status_code in (400, 404, 410)
            assert wrong[:16] not in answer.text


async def test_looking_changes_nothing(box: Room, house: JobHouse) -> None:
    """API-2: every look at the schedule leaves jobs and the log as they were, a stalled job among them."""
    began = await house.start()
    await house.clock.advance(90_000)
    kept = await house.kept(began.id)
    for endpoint in SCHEDULING:
        if not endpoint.changes:
            path = endpoint.path.replace("{lease:path}", "ls_1").replace("{job:path}", began.id)
            await get(box, path.replace("{resource:path}", "pair"))
    assert await house.kept(began.id) == kept
    assert len(await log(house)) == 1


async def test_a_daemon_without_disk_says_so(box: Room, house: JobHouse) -> None:
    """REL-1: while the store takes nothing, a start is 507 and names why; looking goes on."""
    house.store.full = "no space"  # type: ignore[attr-defined]  # the store in memory
    assert code(await post(box, JOBS, JOB)) == (507, "store_full")
    assert (await get(box, JOBS)).status_code == 200
