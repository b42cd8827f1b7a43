from dataclasses import replace

import pytest

from hostler.domain.curation import Curation
from hostler.domain.fleet import DriverKind
from hostler.domain.uncurated import barred, is_uncurated, uncurated
from tests.fakes.catalog import catalog
from tests.fakes.world import engine, fleet

PLAIN = engine("plain")
CURATED = engine("curated", entry="a#4k", curation=Curation(entry="a#4k"))
LOST = engine("lost", entry="a#4k")
OTHERS = engine("others", driver=DriverKind.EXTERNAL)


def test_who_is_uncurated() -> None:
    """CAT-7: an engine without an entry is uncurated; one that is only used needs none."""
    assert uncurated(fleet([PLAIN, CURATED, LOST, OTHERS])) == ("plain",)
    assert [is_uncurated(it) for it in (PLAIN, CURATED, OTHERS)] == [True, False, False]


@pytest.mark.parametrize("policy", ["allow", "refuse"])
def test_the_policy_bars_the_uncurated(policy: str) -> None:
    """CAT-7: `policy: {uncurated: refuse}` bars engines without an entry and no others."""
    made = replace(fleet([PLAIN, CURATED, OTHERS]), uncurated=policy)  # type: ignore[arg-type]  # one of two
    found = barred(made, PLAIN)
    assert (found is None) == (policy == "allow")
    assert found is None or found == "it has no catalog entry, and policy.uncurated is refuse"
    assert (barred(made, CURATED), barred(made, OTHERS)) == (None, None)


def test_an_entry_that_nobody_knows_bars() -> None:
    """CAT-7: where no catalog is in force, an engine that names an entry is barred, and told why."""
    made = replace(fleet([LOST]), catalog=catalog(known=False, trouble="/srv/c cannot be used"))
    assert barred(made, LOST) == "nobody knows what a#4k is: /srv/c cannot be used"
    assert barred(fleet([LOST]), LOST) == "nobody knows what a#4k is: no catalog is in force"
