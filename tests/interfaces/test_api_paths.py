"""Which endpoint a path of the control API leads to."""

import re

import pytest

from hostler.interfaces.api.dispatch import headers_of
from hostler.interfaces.api.endpoints import ENDPOINTS
from hostler.interfaces.api.paths import paths

EVERY = list(dict.fromkeys(it.path for it in ENDPOINTS))
"""In the order of the table: of several that fit the first counts."""


@pytest.mark.parametrize("path", EVERY)
def test_every_path_leads_to_its_own_endpoint(path: str) -> None:
    """API-1: each path of the table is found with its parameters, those that may have slashes with these."""
    names = re.findall(r"\{(\w+)(:path)?\}", path)
    asked, wanted = path, {}
    for n, (name, any_part) in enumerate(names):
        wanted[name] = f"a.{n}/b/c" if any_part else f"a.{n}"
        asked = asked.replace(f"{{{name}{any_part}}}", wanted[name])
    assert paths((it, it) for it in EVERY).find(asked) == (path, wanted)


def test_a_path_that_nobody_knows_leads_nowhere() -> None:
    """API-1: neither a part more, nor one less, nor an empty one is a path of ours."""
    of = paths((it, it) for it in ("/v1/leases", "/v1/leases/{lease}", "/v1/leases/{lease}/renew"))
    for path in ("", "/", "/v1", "/v1/leases/", "/v1/leases/a/", "/v1/leases/a/b", "/v1/leases//renew"):
        assert of.find(path) is None, path


def test_a_path_without_parameters_comes_first() -> None:
    """API-1: a name that is an endpoint of its own is never taken for a parameter."""
    of = paths((it, it) for it in ("/v1/{any:path}", "/v1/leases/{lease}", "/v1/leases/old"))
    assert of.find("/v1/leases/old") == ("/v1/leases/old", {})
    assert of.find("/v1/leases/new") == ("/v1/leases/{lease}", {"lease": "new"})
    assert of.find("/v1/leases/new/er") == ("/v1/{any:path}", {"any": "leases/new/er"})


def test_of_a_header_that_came_twice_the_first_counts() -> None:
    """API-4, SEC-3: a second header of the same name changes nothing that the first has said."""
    sent = [(b"authorization", b"Bearer one"), (b"x-other", b"\xfc"), (b"authorization", b"Bearer two")]
    assert headers_of({"headers": sent}) == {"authorization": "Bearer one", "x-other": "ü"}
