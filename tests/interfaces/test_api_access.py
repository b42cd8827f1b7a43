import pytest

from hostler.interfaces.api.endpoint import Endpoint
from hostler.interfaces.api.endpoints import ENDPOINTS
from hostler.services.keys import GIVEN, INCLUDES, OPEN, Scope
from tests.interfaces.room import LOCAL, Room, ring, room

PATHS = {
    "{engine}": "fast",
    "{name:path}": "chat",
    "{request}": "rq_none",
    "{lease:path}": "ls_none",
    "{job:path}": "job_none",
    "{resource:path}": "pair",
}
ROLES = (*sorted(GIVEN), "local", "nobody")
BY_NAME = {endpoint.name: endpoint for endpoint in ENDPOINTS}


def path_of(endpoint: Endpoint) -> str:
    path = endpoint.path
    for part, value in PATHS.items():
        path = path.replace(part, value)
    return path


async def call(box: Room, endpoint: Endpoint, key: str | None) -> int:
    """The status of one call. Streams end at once: the feed is told to."""
    box.control.feed.stop()
    async with box.client(key=key) as client:
        answer = await client.request(endpoint.method, path_of(endpoint))
    return answer.status_code


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", sorted(BY_NAME))
async def test_a_role_may_call_what_its_scope_includes_and_nothing_else(
    box: Room, name: str, role: str
) -> None:
    """SEC-4: for each endpoint and role a call passes exactly if the role's scope includes the endpoint's."""
    box.other_keys(ring(box.clock, *sorted(GIVEN)))
    endpoint = BY_NAME[name]
    key = {"nobody": None, "local": LOCAL}.get(role, f"hk_{role}")
    rights = {"nobody": frozenset[Scope](), "local": INCLUDES[Scope.ADMIN]}.get(role)
    if rights is None:
        rights = INCLUDES[Scope(role)]
    status = await call(box, endpoint, key)
    if endpoint.scope is None or endpoint.scope in rights:
        assert status not in (401, 403)
    else:
        assert status == (401 if role == "nobody" else 403)


@pytest.mark.parametrize("name", sorted(BY_NAME))
async def test_loopback_without_keys_is_open_for_reading_and_asking(box: Room, name: str) -> None:
    """API-4: without keys, status, models, schedule and inference are open, and nothing else is."""
    endpoint = BY_NAME[name]
    status = await call(box, endpoint, None)
    assert (status == 401) == (endpoint.scope is not None and endpoint.scope not in OPEN)


def test_what_may_hold_words_of_others_is_not_open() -> None:
    """API-4: of all that can be read, nobody sees log lines, requests or a node's own without a key."""
    closed = {
        it.path
        for it in ENDPOINTS
        if not it.changes and it.scope not in (None, *OPEN) and it.scope is not Scope.NODE
    }
    assert closed == {"/v1/hostler/engines/{engine}/logs", "/v1/hostler/requests"}


def test_every_call_that_changes_something_needs_a_key_but_inference() -> None:
    """API-4: no endpoint that changes anything is open without a key, except the warming of a model."""
    changing = [endpoint for endpoint in ENDPOINTS if endpoint.changes and endpoint.scope in (None, *OPEN)]
    assert [endpoint.path for endpoint in changing] == ["/llm/acquire"]


async def test_requests_under_way_are_shown_to_who_may_read_logs(box: Room) -> None:
    """API-4: the status without a key counts the requests under way and shows none of them."""
    box.request()
    async with box.client(key=None) as client:
        shown = (await client.get("/v1/hostler/status")).json()
        assert (shown["in_flight"], shown["requests"]) == (1, [])
    async with box.client() as client:
        assert len((await client.get("/v1/hostler/status")).json()["requests"]) == 1


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:7070", 200),
        ("127.8.9.10:7070", 200),
        ("localhost:9999", 200),
        ("LocalHost.", 200),
        ("[::1]:7070", 200),
        ("crow", 200),
        ("crow.lan:7070", 200),
        ("raven.lan", 200),
        ("evil.example.net:7070", 403),
        ("10.99.0.1:7070", 403),
        ("127.0.0.1.example.net", 403),
        ("localhost@example.net", 403),
        ("[::1", 403),
        ("", 403),
    ],
)
async def test_a_foreign_host_header_is_refused(host: str, status: int) -> None:
    """API-4: only a Host that is one of ours is answered, so that no page reaches us by a name of its own."""
    async with room(names=frozenset({"Raven.lan"})) as box, box.client(host=host) as client:
        for path in ("/health", "/nowhere"):
            answer = await client.get(path)
            assert answer.status_code == (404 if path == "/nowhere" and status == 200 else status)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://127.0.0.1:7070"}, 200),
        ({"origin": "https://app.example.net"}, 200),
        ({"origin": "https://app.example.net", "sec-fetch-site": "cross-site"}, 200),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"origin": "http://127.0.0.1:3000"}, 403),
        ({"origin": "https://example.net"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "http://127.0.0.1:7070", "sec-fetch-site": "cross-site"}, 403),
    ],
)
async def test_a_page_of_another_site_changes_nothing(
    box: Room, headers: dict[str, str], status: int
) -> None:
    """API-4: a write from a page of another site is refused by Origin or Sec-Fetch-Site; listed ones pass."""
    async with box.client(**headers) as client:
        answer = await client.post("/v1/hostler/engines/fast/clear")
        assert answer.status_code == status
        assert (await client.get("/health")).status_code == 200


async def test_the_key_may_come_in_either_header(box: Room) -> None:
    """API-4: a key is read from Authorization and from x-api-key, and a wrong one is 401."""
    async with box.client(key=None) as client:
        path = "/v1/hostler/requests"
        assert (await client.get(path, headers={"x-api-key": LOCAL})).status_code == 200
        assert (await client.get(path, headers={"authorization": f"bearer {LOCAL}"})).status_code == 200
        answer = await client.get(path, headers={"authorization": "Bearer hk_wrong"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "no_key")
        assert "hk_wrong" not in answer.text
