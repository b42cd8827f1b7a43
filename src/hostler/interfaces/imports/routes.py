"""What clients of llama-swap ask for, as routes of ours: ids, aliases, selectors, profiles and peers' models.

Decides which name leads where. No name may lead to two places (BG-11): what would is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hostler.interfaces.imports.fields import Fields, is_null
from hostler.interfaces.imports.names import is_cloud_name, slug
from hostler.interfaces.imports.notes import Notes
from hostler.interfaces.imports.patches import Patches
from hostler.services.import_parts import Given

LOCAL: Final = "local"
"""The profile that is active until somebody switches."""
STRATEGIES: Final[Mapping[str, object]] = {"pin": "pin", "warm": "first_ready"}
MAX_BYTES: Final = 256
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a name leads: an engine's name, or an upstream and the model's name there."""

    name: str
    model: str | None = None
    upstream: bool = False

    def keys(self) -> object:
        """As a profile has it."""
        if not self.upstream:
            return self.name
        return {"upstream": self.name} if self.model is None else {"upstream": self.name, "model": self.model}


@dataclass(slots=True, kw_only=True)
class Routes:
    """The routes in the making, and where each name that clients may ask for leads."""

    notes: Notes
    routes: dict[str, dict[str, object]] = field(default_factory=dict)
    leads: dict[str, tuple[Target, dict[str, object]]] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)

    def claim(self, name: str, at: Given, path: str) -> bool:
        """Whether the name is free; a second place for it is refused."""
        parts = re.sub("%2e", ".", re.sub("%2f", "/", name, flags=re.IGNORECASE), flags=re.IGNORECASE).split(
            "/"
        )
        if not name or len(name.encode()) > MAX_BYTES or {".", ".."} & set(parts) or _CONTROL.search(name):
            why = f"a route is 1 to {MAX_BYTES} bytes of text, no control character, no . or .. as a part"
            self.notes.refuse(at, path, why)
            return False
        if name in self.owners:
            self.notes.refuse(at, path, f"{name} is taken: {self.owners[name]}")
            return False
        self.owners[name] = f"{at.place} has it"
        if is_cloud_name(name):
            self.notes.warn(
                at,
                path,
                f"{name} is a cloud provider's name for a model too: who asks for that is answered from here",
            )
        return True

    def model(self, engine: str, model: str, fields: Fields, patches: Patches) -> None:
        """The routes of one local model: its id with its aliases, and each name with settings of its own."""
        target = Target(name=engine)
        aliases = []
        for at, alias in fields.texts("aliases"):
            if alias != model and self.claim(alias, at, fields.below("aliases")):
                aliases.append(alias)
        for name in patches.by_name:
            if name == model or name in aliases:
                continue
            at = fields.inner("filters").at("setParamsByID")
            if self.claim(name, at, fields.below("filters.setParamsByID")):
                aliases.append(name)
        plain = [name for name in aliases if patches.of(name) == patches.of(model)]
        for name in (model, *(name for name in aliases if name not in plain)):
            self._add(name, target, patches.of(name), _described(fields), plain if name == model else [])
        for name in plain:
            self.leads[name] = (target, patches.of(name))
        if aliases and fields.get("useModelName") is None:
            self.notes.changed(
                fields.at("aliases" if fields.get("aliases") else "filters"),
                fields.path,
                "whichever of its names is asked for, the engine is told its model's own",
                alike="aliases",
            )

    def _add(
        self, name: str, target: Target, patch: Mapping[str, object], described: str, aliases: Sequence[str]
    ) -> None:
        route: dict[str, object] = {}
        if described:
            route["description"] = described
        if aliases:
            route["aliases"] = list(aliases)
        route["profiles"] = {LOCAL: target.keys()}
        if patch:
            route["patches"] = {target.name: dict(patch)}
        self.routes[name] = route
        self.leads[name] = (target, dict(patch))

    def peer(self, name: str, target: Target, patches: Patches, aliases: Sequence[str]) -> None:
        """A route to a model elsewhere."""
        self._add(name, target, patches.of(target.model or name), "", aliases)
        for alias in aliases:
            self.leads[alias] = self.leads[name]

    # ------------------------------------------------------------ selectors and profiles

    def selectors(self, root: Fields) -> None:
        """Each selector becomes a route of several targets."""
        for name, fields in root.each("selectors"):
            if not self.claim(name, fields.given, fields.path):
                continue
            targets = [
                found for at, text in fields.texts("targets") if (found := self._target(text, at, fields))
            ]
            if not targets:
                self.notes.refuse(fields.given, fields.path, "it has no target")
                continue
            route: dict[str, object] = {}
            if described := _described(fields):
                route["description"] = described
            route["profiles"] = {LOCAL: [target.keys() for target, _ in targets]}
            route["strategy"] = self._strategy(fields)
            if patches := {target.name: patch for target, patch in targets if patch}:
                route["patches"] = patches
            self.routes[name] = route

    def _target(self, name: str, at: Given, fields: Fields) -> tuple[Target, dict[str, object]] | None:
        found = self.leads.get(name)
        if found is None:
            self.notes.refuse(at, fields.below("targets"), f"there is no model, alias or peer's model {name}")
        return found

    def _strategy(self, fields: Fields) -> object:
        said = fields.text("strategy", "warm")
        if said == "spillover":
            self.notes.changed(
                fields.given,
                fields.path,
                "the next target is asked once the first has that many requests; targets in one group still"
                " cannot be up together",
            )
            return {"spill": min(10_000, max(1, fields.inner("settings").number("spillover", 1)))}
        if said not in STRATEGIES:
            self.notes.refuse(fields.at("strategy"), fields.below("strategy"), f"there is no strategy {said}")
        return STRATEGIES.get(said, "pin")

    def profiles(self, root: Fields) -> None:
        """Each pin becomes a profile of the route that it is about."""
        for name, given in root.mapping("profiles").items():
            path = f"profiles.{name}"
            if given.items is not None:
                self._old_list(name, given, path)
                continue
            fields = Fields(given=given, path=path, notes=self.notes)
            for asked, pin in fields.mapping("pins").items():
                self._pin(slug(name), asked, pin, f"{path}.pins.{asked}")
            self.notes.changed(
                given,
                path,
                "it is switched route by route (`hostler routes set ROUTE PROFILE`), and the switch outlives"
                " a restart",
            )

    def _old_list(self, name: str, given: Given, path: str) -> None:
        models = [each.text for each in given.items or ()]
        self.notes.refuse(
            given,
            path,
            "a list is the old form of a profile, which llama-swap itself refuses now. It meant that these"
            f' may run together: say `matrix: {{sets: {{{slug(name)}: "{" & ".join(models)}"}}}}` instead'
            " (without it they run one at a time). A profile is now {pins: {ASKED: TARGET}}",
        )

    def _pin(self, profile: str, asked: str, pin: Given, path: str) -> None:
        if is_null(pin) or pin.text == "":
            self.notes.left_out(pin, path, "a route cannot be switched off by a profile")
            return
        found = self.leads.get(pin.text)
        route = self.routes.get(asked) or self._alone(asked)
        if found is None:
            self.notes.refuse(pin, path, f"there is no model, alias or peer's model {pin.text}")
        elif route is None:
            self.notes.changed(pin, path, f"{asked} is a route now, and answered in any profile")
            self.claim(asked, pin, path)
            self._add(asked, found[0], found[1], "", [])
        else:
            target, patch = found
            profiles = route["profiles"]
            if isinstance(profiles, dict):
                profiles[profile] = target.keys()
                route["active"] = LOCAL
            patches = route.get("patches")
            if patch and target.name not in (patches if isinstance(patches, dict) else {}):
                route["patches"] = {**(patches if isinstance(patches, dict) else {}), target.name: patch}

    def _alone(self, asked: str) -> dict[str, object] | None:
        """An alias as a route of its own, so that a profile can be about it alone."""
        owner = next(self._owners_of(asked), None)
        if owner is None:
            return None
        aliases = owner["aliases"]
        if isinstance(aliases, list):
            aliases.remove(asked)
            if not aliases:
                del owner["aliases"]
        target, patch = self.leads[asked]
        self._add(asked, target, patch, "", [])
        return self.routes[asked]

    def _owners_of(self, alias: str) -> Iterator[dict[str, object]]:
        for route in self.routes.values():
            aliases = route.get("aliases")
            if isinstance(aliases, list) and alias in aliases:
                yield route


def _described(fields: Fields) -> str:
    """Name and description, in one text."""
    return ": ".join(text for text in (fields.text("name"), fields.text("description")) if text)
