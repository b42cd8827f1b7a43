import re

import pytest

from tests.docs.tree import ROOT, hits, texts

# Left: what is not written. Right: the word for it. The brackets keep this file from matching itself.
TWINS = {
    r"(?<!build-)\b[b]ack-?ends?\b": "engine (or driver)",
    r"\b[m]odel[ -](server|runner)s?\b": "engine",
    r"\b[i]nference servers?\b": "engine",
    r"\b[v]irtual models?\b": "route",
    r"\b([s]witch\w*|[f]lip\w*) (the |an )?alias(es)?\b": "a route's active profile is switched",
    r"\b([b]ox|[h]old|[r]eservation|[b]ooking)[- ]locks?\b": "hold, or lease",
    r"\b[r]ejections?\b": "refusal",
    r"\b([m]aster|[l]eader|[p]rimary) nodes?\b": "head",
    r"\b([b]lack|[w]hite)-?lists?\b": "allow, or refuse",
    r"\b[d]ead ?man('s)? switch\b": "deadman",
    r"\b[h]ostler server\b": "daemon",
}

READ = (".py", ".md", ".toml", ".sh", ".svg", ".html", ".yaml", ".sql")


@pytest.mark.parametrize("twin", TWINS)
def test_a_word_has_no_twin(twin: str) -> None:
    """HOUSE-5: code and documents say the glossary's word, never its twin."""
    found = hits(re.compile(twin, re.IGNORECASE), texts(*READ))
    assert found == [], f"say: {TWINS[twin]}"


def test_a_twin_would_be_found() -> None:
    """HOUSE-5: the search finds a twin in any case and number, and leaves the build's own key alone."""
    twin = re.compile(next(iter(TWINS)), re.IGNORECASE)
    planted = {ROOT / "a.md": "two Back" + "ends\nbuild-back" + "end = 1\n"}
    assert hits(twin, planted) == ["a.md:1: Back" + "ends"]
