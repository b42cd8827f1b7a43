"""Which models cannot be up together, and the groups of ours that say the same.

Decides, from llama-swap's groups or its matrix, whom a start of each model stops; and puts models into one
group where they exclude each other and stop the same others. What pairs cannot say is noted.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hostler.interfaces.imports.fields import Fields
from hostler.interfaces.imports.matrix import Expression, Malformed, members, pairs, parse, permits
from hostler.interfaces.imports.names import slug, unique
from hostler.interfaces.imports.notes import Notes
from hostler.services.import_parts import Given

MOST_TRIPLES: Final = 2000
"""Three models at a time that are looked at for one that no set has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """`stops` leads from a model to those that its start stops; `kept` are those no start may stop."""

    stops: Mapping[str, frozenset[str]]
    kept: frozenset[str] = frozenset()
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Our groups: of each model that is in one, and of each group those whose members it stops."""

    of: Mapping[str, str]
    evicts: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """A group of llama-swap."""

    name: str
    members: tuple[str, ...]
    swap: bool
    exclusive: bool
    persistent: bool


def together(root: Fields, models: Sequence[str], notes: Notes) -> Together:
    """Whom a start of each model stops."""
    settings = root.inner("routing").inner("router").inner("settings")
    groups = [it for it in (root, settings) if it.get("groups") is not None]
    matrices = [it for it in (root, settings) if it.get("matrix") is not None]
    if len(groups) + len(matrices) > 1:
        at = (matrices or groups)[-1]
        notes.refuse(at.at("matrix" if matrices else "groups"), at.path, "groups or matrix, once, not both")
    if matrices:
        return _of_matrix(matrices[0].inner("matrix"), models, notes)
    return _of_groups(groups[0] if groups else root, models, notes)


def _of_groups(root: Fields, models: Sequence[str], notes: Notes) -> Together:
    found: list[_Group] = []
    taken: dict[str, str] = {}
    for name, fields in root.each("groups"):
        names = []
        for at, model in fields.texts("members"):
            if model not in models:
                notes.refuse(at, fields.below("members"), f"there is no model {model}")
            elif model in taken:
                notes.refuse(at, fields.below("members"), f"{model} is in the group {taken[model]} already")
            else:
                taken[model] = name
                names.append(model)
        group = _Group(
            name=slug(name),
            members=tuple(names),
            swap=fields.truth("swap", default=True),
            exclusive=fields.truth("exclusive", default=True),
            persistent=fields.truth("persistent"),
        )
        found.append(group)
        if group.persistent and group.swap and len(names) > 1:
            notes.changed(
                fields.at("persistent"),
                fields.below("persistent"),
                "starts of other groups leave its members alone, but a member may be stopped for memory",
            )
    rest = tuple(model for model in models if model not in taken)
    found.append(_Group(name="main", members=rest, swap=True, exclusive=True, persistent=False))
    return _stops_of(found)


def _stops_of(groups: Sequence[_Group]) -> Together:
    stops: dict[str, frozenset[str]] = {}
    for group in groups:
        others = frozenset(
            member
            for other in groups
            if other is not group and group.exclusive and not other.persistent
            for member in other.members
        )
        for member in group.members:
            own = frozenset(group.members) - {member} if group.swap else frozenset()
            stops[member] = own | others
    kept = frozenset(
        member
        for group in groups
        if group.persistent and (not group.swap or len(group.members) == 1)
        for member in group.members
    )
    names = {member: group.name for group in groups for member in group.members}
    return Together(stops=stops, kept=kept, names=names)


def _of_matrix(matrix: Fields, models: Sequence[str], notes: Notes) -> Together:
    names = {model: model for model in models}
    for at, (var, given) in ((value, (key, value)) for key, value in matrix.mapping("vars").items()):
        if given.text not in models:
            notes.refuse(at, f"{matrix.below('vars')}.{var}", f"there is no model {given.text}")
        else:
            names[var] = given.text
    sets = matrix.mapping("sets")
    texts = {name: given.text for name, given in sets.items()}
    found: list[Expression] = []
    for name, given in sets.items():
        try:
            found.append(parse(given.text, names, texts, (name,)))
        except Malformed as error:
            notes.refuse(given, f"{matrix.below('sets')}.{name}", str(error))
    costs = matrix.get("evict_costs")
    if costs is not None:
        notes.left_out(
            costs,
            matrix.below("evict_costs"),
            "whom to stop is not weighed by costs: who cannot stay goes, then, for memory only,"
            " the least recently used, weighed by the time that it took to load",
        )
    permitted = frozenset().union(*(pairs(each) for each in found))
    _tell_of_triples(found, permitted, matrix.given, matrix.path, notes)
    stops = {
        one: frozenset(two for two in models if two != one and frozenset({one, two}) not in permitted)
        for one in models
    }
    return Together(stops=stops)


def _tell_of_triples(
    sets: Sequence[Expression], permitted: frozenset[frozenset[str]], at: Given, path: str, notes: Notes
) -> None:
    """Our groups speak of pairs: three that pass pair by pair may run, though no set has all three."""
    names = sorted(frozenset().union(*(members(each) for each in sets)))
    looked = itertools.islice(
        (
            frozenset(three)
            for three in itertools.combinations(names, 3)
            if all(frozenset(two) in permitted for two in itertools.combinations(three, 2))
        ),
        MOST_TRIPLES,
    )
    for three in looked:
        if not any(permits(each, three) for each in sets):
            notes.changed(
                at,
                path,
                f"groups speak of pairs: {', '.join(sorted(three))} may be up at once, though no set has all"
                " three; the memory gate decides, so give each engine its memory",
            )
            return


def groups_of(found: Together, engines: Mapping[str, str]) -> Groups:
    """Our groups. `engines` leads from a model to its engine's name."""
    stopped_by = {
        model: frozenset(other for other, them in found.stops.items() if model in them)
        for model in found.stops
    }
    classes: list[list[str]] = []
    for model in found.stops:
        same = next((each for each in classes if _twins(model, each[0], found.stops, stopped_by)), None)
        if same is None:
            classes.append([model])
        else:
            same.append(model)
    named = _named(
        [each for each in classes if len(each) > 1 or found.stops[each[0]] or stopped_by[each[0]]],
        found,
        engines,
    )
    of = {model: name for name, each in named.items() for model in each}
    evicts = {
        name: tuple(
            other for other, them in named.items() if other != name and them[0] in found.stops[each[0]]
        )
        for name, each in named.items()
    }
    return Groups(of=of, evicts=evicts)


def _twins(
    one: str, two: str, stops: Mapping[str, frozenset[str]], stopped_by: Mapping[str, frozenset[str]]
) -> bool:
    """Whether they exclude each other, and stand alike towards everybody else."""
    both = {one, two}
    return (
        two in stops[one]
        and one in stops[two]
        and stops[one] - both == stops[two] - both
        and stopped_by[one] - both == stopped_by[two] - both
    )


def _named(
    classes: Sequence[list[str]], found: Together, engines: Mapping[str, str]
) -> Mapping[str, list[str]]:
    """Each class with a name: that of its first model's group, where all of that group is in it."""
    named: dict[str, list[str]] = {}
    for each in classes:
        theirs = found.names.get(each[0])
        whole = all(model in each for model, name in found.names.items() if name == theirs)
        named[unique(theirs if theirs and whole else engines[each[0]], named)] = each
    return named
