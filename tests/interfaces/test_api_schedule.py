from collections.abc import Mapping
from dataclasses import replace

import pytest

from hostler.domain.errors import (
    BoxReserved,
    Ended,
    Fenced,
    HoldTaken,
    LeaseLost,
    LeaseNotFound,
    NotHead,
    NotYours,
    QueueFull,
    Refusal,
    ResourceNotFound,
    ScheduleUnavailable,
    SlotTaken,
    StaleGeneration,
    StoreFull,
    Stuck,
    TtlRefused,
)
from hostler.interfaces.api.app import create_app
from hostler.interfaces.api.endpoint import Endpoint
from hostler.interfaces.api.forms import MAX_BODY
from hostler.interfaces.api.schedule_endpoints import FENCE, JOBS, LEASES, SCHEDULING, STORE
from hostler.services.elsewhere import Elsewhere
from hostler.services.keys import GIVEN, INCLUDES, Scope
from hostler.wire.jobs import FinishBody, JobBody, JobsQuery, UpdateBody
from hostler.wire.schedule import (
    CancelBody,
    ClaimBody,
    FenceBody,
    LeasesQuery,
    ProcessBody,
    ReleaseBody,
    RenewBody,
    ReserveBody,
)
from tests.fakes.jobs import SECRET, JobHouse, log
from tests.fakes.schedule import FakeHistory, FakeJobs
from tests.interfaces.room import Room, ring
from tests.interfaces.schedule_calls import HASH, JOB, RESERVE, code, get, post, schedule

# ---------------------------------------------------------------- what is handed on

LEASE = f"{LEASES}/ls_1"
CALLS = [
    (
        LEASES,
        {**RESERVE, "now": True},
        "reserve",
        (ReserveBody(resource="pair", secret_hash=HASH, now=True), "rq-1"),
    ),
    (f"{LEASE}/renew", {"secret": "s", "ttl_s": 60}, "renew", ("ls_1", RenewBody(secret="s", ttl_s=60.0))),
    (f"{LEASE}/release", {"secret": "s"}, "release", ("ls_1", ReleaseBody(secret="s"))),
    (f"{LEASE}/cancel", {"because": "x"}, "cancel", ("ls_1", CancelBody(because="x"))),
    (f"{LEASE}/claim", {"wait_s": 5}, "claim", ("ls_1", ClaimBody(wait_s=5.0))),
    (
        f"{LEASE}/processes",
        {"pid": 7, "start_ticks": 9},
        "register",
        ("ls_1", ProcessBody(pid=7, start_ticks=9)),
    ),
    (FENCE, {"up": True, "reason": "deploy"}, "fence", (FenceBody(up=True, reason="deploy"),)),
]
ENDLESS = [
    (LEASES, {**RESERVE, "ttl_s": 1e300}, "ttl_s"),
    (LEASES, {**RESERVE, "detached_s": 1e12}, "detached_s"),
    (f"{LEASE}/renew", {"secret": "s", "ttl_s": 1e18}, "ttl_s"),
    (FENCE, {"up": True, "for_s": -1e300}, "for_s"),
]
LOOKS = [
    (LEASE, "lease", ("ls_1",)),
    (
        f"{LEASES}?holder=bench&ended=true&limit=3",
        "leases",
        (LeasesQuery(holder="bench", ended=True, limit=3),),
    ),
    ("/v1/hostler/resources", "resources", ()),
    ("/v1/hostler/resources/pair/why", "why", ("pair",)),
    (FENCE, "fence_now", ()),
]


@pytest.mark.parametrize(("path", "sent", "where"), ENDLESS)
async def test_a_time_beyond_every_calendar_is_refused(
    box: Room, path: str, sent: Mapping[str, object], where: str
) -> None:
    """API-1, INTERFACE-2: seconds that no clock can add are 400 with their place, not an internal error."""
    answer = await post(box, path, sent)
    assert code(answer) == (400, "invalid_request")
    assert where in answer.json()["error"]["facts"]["where"]
    assert schedule(box).asked == []


@pytest.mark.parametrize(("path", "sent", "name", "given"), CALLS)
async def test_a_change_is_handed_to_the_schedule(
    box: Room, path: str, sent: Mapping[str, object], name: str, given: tuple[object, ...]
) -> None:
    """API-1: each call that changes the schedule hands on its id, its body, and who asked from where."""
    answer = await post(box, path, sent, **{"x-hostler-client": "bench"})
    assert answer.status_code == 200
    asked = schedule(box).asked
    assert [it.call for it in asked] == [name]
    *rest, who, by = asked[0].given
    assert tuple(rest) == given
    assert (getattr(who, "name", None), getattr(by, "client", None)) == ("local", "bench")


@pytest.mark.parametrize(("path", "name", "given"), LOOKS)
async def test_a_look_is_handed_to_the_schedule(
    box: Room, path: str, name: str, given: tuple[object, ...]
) -> None:
    """API-1: each look at the schedule hands on what it asks for, and is open without a key on loopback."""
    answer = await get(box, path, key=None)
    assert answer.status_code == 200
    assert [(it.call, it.given) for it in schedule(box).asked] == [(name, given)]


async def test_jobs_are_handed_on(box: Room) -> None:
    """API-1, R61: each call about jobs hands on its id and its body to the jobs service."""
    jobs = box.control.jobs
    assert isinstance(jobs, FakeJobs)
    await post(box, JOBS, JOB)
    await post(box, f"{JOBS}/job_1/updates", {"secret": SECRET, "progress": {"n": 1, "total": 2}, "n": 3})
    await post(box, f"{JOBS}/job_1/finish", {"result": "failed", "secret": SECRET})
    await get(box, f"{JOBS}/job_1")
    await get(box, f"{JOBS}?lease=ls_1&ended=true")
    assert [(it.call, *map(type, it.given[:2])) for it in jobs.asked] == [
        ("start", JobBody, str),
        ("update", str, UpdateBody),
        ("finish", str, FinishBody),
        ("job", str),
        ("jobs", JobsQuery),
    ]
    assert jobs.asked[4].given == (JobsQuery(lease="ls_1", ended=True),)


async def test_the_history_is_read_in_parts(box: Room) -> None:
    """HIST-2: the history of a lease, of a job or of a time is asked for by name, and is bounded."""
    history = box.control.history
    assert isinstance(history, FakeHistory)
    history.rows += [{"seq": number} for number in range(3)]
    found = (await get(box, "/v1/hostler/history?lease=ls_1&job=job_1&since_s=60&limit=2")).json()
    assert found["events"] == [{"seq": 1}, {"seq": 2}]
    assert history.asked[0].given == ("ls_1", "job_1", 60.0, 2)
    assert code(await get(box, "/v1/hostler/history?since_s=-1")) == (400, "invalid_request")
    assert code(await get(box, "/v1/hostler/history?limit=10001")) == (400, "invalid_request")


async def test_an_elsewhere_owned_schedule_says_whose_it_is(box: Room) -> None:
    """R3: a node that does not own the schedule answers every call `not_head`, with its owner and its URL."""
    urls = {"raven": "https://raven.lan:7070", "crow": "https://crow.lan:7070"}
    other = Elsewhere(head=("raven",), here="crow", urls=lambda: urls)
    box.control = replace(box.control, schedule=other, jobs=other, history=other, care=other)
    box.app = create_app(box.control)
    bodies = {it[0]: it[1] for it in CALLS} | {
        JOBS: JOB,
        f"{JOBS}/job_1/updates": {"secret": SECRET},
        f"{JOBS}/job_1/finish": {"result": "failed"},
        f"{STORE}/backup": {"file": "/tmp/backup.db"},
        f"{STORE}/recover": {},
    }
    for endpoint in SCHEDULING:
        path = filled(endpoint)
        answer = await post(box, path, bodies[path]) if endpoint.changes else await get(box, path)
        assert code(answer) == (409, "not_head")
        error = answer.json()["error"]
        assert error["message"] == "The schedule is owned by raven, not by crow."
        assert error["hint"].startswith("Set HOSTLER_HEAD_URL to https://raven.lan:7070, with its key")


def filled(endpoint: Endpoint) -> str:
    path = endpoint.path.replace("{lease:path}", "ls_1").replace("{job:path}", "job_1")
    return path.replace("{resource:path}", "pair")


# ---------------------------------------------------------------- who may


@pytest.mark.parametrize("endpoint", SCHEDULING, ids=lambda it: it.name)
async def test_who_may_change_the_schedule(box: Room, endpoint: Endpoint) -> None:
    """R92, API-4: a change without a key is 401, with one that lacks the scope 403, and not done."""
    jobs = box.control.jobs
    assert isinstance(jobs, FakeJobs)
    box.other_keys(ring(box.clock, *sorted(GIVEN)))
    for role in (None, *sorted(GIVEN)):
        key = None if role is None else f"hk_{role}"
        path = filled(endpoint)
        answer = await post(box, path, key=key) if endpoint.changes else await get(box, path, key=key)
        allowed = role is not None and endpoint.scope in INCLUDES[role]
        assert (answer.status_code in (401, 403)) is not allowed
        assert allowed or (schedule(box).asked, jobs.asked) == ([], [])
        schedule(box).asked.clear()
        jobs.asked.clear()


def test_every_write_needs_the_write_scope() -> None:
    """R92: changes ask for schedule:write, the fence's for operator, the store's for admin."""
    writes = {it.path: it.scope for it in SCHEDULING if it.changes}
    assert writes.pop(FENCE) == Scope.OPERATOR
    assert {writes.pop(f"{STORE}/{verb}") for verb in ("backup", "recover")} == {Scope.ADMIN}
    assert set(writes.values()) == {Scope.SCHEDULE_WRITE}
    assert {it.scope for it in SCHEDULING if not it.changes} == {Scope.SCHEDULE_READ}
    assert {it.method for it in SCHEDULING if not it.changes} == {"GET"}


# ---------------------------------------------------------------- forms and refusals


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        (LEASES, {**RESERVE, "resorce": "pair"}, "Did you mean 'resource'?"),
        (LEASES, {"resource": "pair"}, "secret_hash"),
        (LEASES, {**RESERVE, "secret_hash": "x"}, "secret_hash"),
        (LEASES, {**RESERVE, "secret_hash": f"{HASH}\n"}, "secret_hash"),
        (LEASES, {**RESERVE, "priority": 10}, "priority"),
        (LEASES, {**RESERVE, "wait_s": 61}, "wait_s"),
        (LEASES, {**RESERVE, "reason": "x" * 501}, "reason"),
        (f"{LEASE}/renew", {"secrte": "x"}, "Did you mean 'secret'?"),
        (f"{LEASE}/processes", {"pid": 1, "start_ticks": 0}, "pid"),
        (FENCE, {}, "up"),
        (JOBS, {**JOB, "title": "x" * 201}, "title"),
        (JOBS, {**JOB, "evry_s": 5}, "Did you mean 'every_s'?"),
        (f"{JOBS}/job_1/updates", {"secret": "s", "progress": {"valu": 1}}, "progress.valu"),
        (f"{JOBS}/job_1/updates", {"secret": "s", "metrics": {"m": "x"}}, "metrics"),
        (
            f"{JOBS}/job_1/updates",
            {"secret": "s", "receipts": [{"kind": "f", "name": "x", "sha256": "y"}]},
            "sha256",
        ),
        (f"{JOBS}/job_1/updates", {"secret": "s", "source": "me"}, "source"),
        (f"{JOBS}/job_1/updates", {"secret": "s", "n": 0}, "n"),
        (f"{JOBS}/job_1/updates", {"secret": "s", "n": 2**53}, "n"),
        (f"{JOBS}/job_1/updates", {"secret": "s", "generation": 2**53}, "generation"),
        (
            f"{JOBS}/job_1/updates",
            {"secret": "s", "receipts": [{"kind": "f", "name": "x", "exit_code": 2**32}]},
            "exit_code",
        ),
        (f"{JOBS}/job_1/finish", {"result": "done"}, "result"),
    ],
)
async def test_a_body_that_does_not_fit(box: Room, path: str, body: object, where: str) -> None:
    """API-1, JOB-7: an unknown key or a value out of bounds is 400 naming it, and no service is asked."""
    answer = await post(box, path, body)
    assert code(answer) == (400, "invalid_request")
    error = answer.json()["error"]
    assert where in f"{error['message']} {error['hint']} {error['facts']['where']}"
    assert schedule(box).asked == []


@pytest.mark.parametrize("text", ['{"m": NaN}', '{"m": Infinity}', '{"m": 1e999}', '{"m": -1e999}'])
async def test_numbers_that_are_none(box: Room, house: JobHouse, text: str) -> None:
    """JOB-7, R68: NaN and infinities are refused in every spelling, and nothing of the update is kept."""
    began = await house.start()
    body = f'{{"secret": "{SECRET}", "note": "good", "metrics": {text}}}'
    async with box.client() as client:
        answer = await client.post(f"{JOBS}/{began.id}/updates", content=body)
    assert code(answer) == (400, "invalid_request")
    assert (await house.job(began.id)).note == ""


@pytest.mark.parametrize("path", [LEASES, JOBS, f"{JOBS}/job_1/updates", f"{LEASE}/renew", FENCE])
async def test_a_large_body(box: Room, path: str) -> None:
    """JOB-7, R68: a body over 256 KiB is 413 in every call of the schedule, and the bound is named."""
    answer = await post(box, path, {"reason": "x" * MAX_BODY})
    assert code(answer) == (413, "too_large")
    assert str(MAX_BODY) in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("refusal", "status", "retry"),
    [
        (TtlRefused(what="too long"), 422, None),
        (QueueFull(what="pair", waiting=20), 429, "60"),
        (HoldTaken(owner="bench", until="later", retry_after=1200), 409, "1200"),
        (HoldTaken(owner="bench", until="later"), 409, "60"),
        (Fenced(until="later", reason="deploy", retry_after=300), 409, "300"),
        (BoxReserved(host="crow", engine="fast", owner="bench"), 409, "60"),
        (SlotTaken(resource="pair", start="a", end="b", free="c"), 409, "60"),
        (StaleGeneration(resource="pair", given=1, present=2), 409, None),
        (Ended(what="lease", name="ls_1", why="released"), 409, None),
        (LeaseLost(lease="ls_1", resource="pair", why="expired"), 409, None),
        (Stuck(resource="pair", lease="ls_1", step="x", wanted="a", seen="b"), 409, None),
        (LeaseNotFound(lease="ls_1"), 404, None),
        (ResourceNotFound(resource="pear"), 404, None),
        (NotYours(what="not yours"), 403, None),
        (NotHead(head="raven", here="crow"), 409, None),
        (ScheduleUnavailable(why="the disk", file="schedule.db"), 503, None),
        (StoreFull(why="the disk", file="schedule.db"), 507, None),
    ],
    ids=lambda it: it.code if isinstance(it, Refusal) else None,
)
async def test_how_a_refusal_is_told(box: Room, refusal: Refusal, status: int, retry: str | None) -> None:
    """API-1: each refusal of the schedule has the status of the one table, and Retry-After where it helps."""
    schedule(box).refuses = refusal
    answer = await post(box, LEASES, RESERVE)
    assert code(answer) == (status, refusal.code)
    assert answer.headers.get("retry-after") == retry
    assert answer.json()["error"]["retry_after"] == (None if retry is None else int(retry))


# ---------------------------------------------------------------- the request's id


@pytest.mark.parametrize(("path", "body"), [(LEASES, RESERVE), (JOBS, JOB)])
async def test_what_is_made_needs_a_key_of_the_request(box: Room, path: str, body: object) -> None:
    """LEASE-9, API-2: a reserve or a job's start without a usable Idempotency-Key is refused."""
    for headers in ({}, {"idempotency-key": ""}, {"idempotency-key": "x" * 201}):
        async with box.client(**headers) as client:
            answer = await client.post(path, json=body)
        assert code(answer) == (400, "invalid_request")
        assert answer.json()["error"]["facts"]["where"] == "idempotency-key"
    assert schedule(box).asked == []


async def test_a_repeated_reserve_is_the_schedules_affair(box: Room) -> None:
    """LEASE-9, API-2: a repeated reserve reaches the schedule, which keeps the key; a renew does not."""
    for _ in range(2):
        await post(box, LEASES, RESERVE)
        await post(box, f"{LEASE}/renew", {"secret": "s"})
    assert [it.call for it in schedule(box).asked] == ["reserve", "renew", "reserve"]


async def test_a_key_used_for_another_job(box: Room, house: JobHouse) -> None:
    """LEASE-9, API-2: the same key and body give the same job; another body is 409 idempotency_conflict."""
    first = (await post(box, JOBS, JOB)).json()["job"]
    assert (await post(box, JOBS, JOB)).json()["job"]["id"] == first["id"]
    assert code(await post(box, JOBS, {**JOB, "title": "other"})) == (409, "idempotency_conflict")
    assert len(await log(house)) == 1


async def test_the_description_says_what_is_needed(box: Room) -> None:
    """API-1: the description has every call of the schedule, and where the Idempotency-Key is needed."""
    paths = (await get(box, "/v1/hostler/openapi.json")).json()["paths"]

    def needs(path: str) -> object:
        found = paths[path]["post"]["parameters"]
        return next(it["required"] for it in found if it["name"] == "idempotency-key")

    assert (needs(LEASES), needs(JOBS), needs(f"{LEASES}/{{lease}}/renew")) == (True, True, False)
    for endpoint in SCHEDULING:
        assert endpoint.method.lower() in paths[endpoint.path.replace(":path", "")]
