"""A config of llama-swap as a config of ours (CONF-4): the whole, from its parts.

Decides the document and its comments, and what is told of the keys of the top. What cannot be said in our
config is refused with its line; what means something else now is noted. Reads and writes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from hostler.domain.errors import NotImportable
from hostler.domain.fleet import Secret
from hostler.interfaces.imports import known, yaml_text
from hostler.interfaces.imports.command import without_comments
from hostler.interfaces.imports.fields import Fields
from hostler.interfaces.imports.macros import Macros
from hostler.interfaces.imports.merging import merged
from hostler.interfaces.imports.model import UNKNOWN_NEED, Defaults, Engine, Maker
from hostler.interfaces.imports.names import engine_names
from hostler.interfaces.imports.notes import Note, Notes, Sign
from hostler.interfaces.imports.patches import Patches, patches_of
from hostler.interfaces.imports.peers import Peers, keys_of
from hostler.interfaces.imports.routes import Routes
from hostler.interfaces.imports.secret_words import Secrets
from hostler.interfaces.imports.settings import node_of, tell_of_settings
from hostler.interfaces.imports.together import Groups, groups_of, together
from hostler.interfaces.imports.yaml_text import Said
from hostler.services.import_parts import Draft, Given, Source

LEAST_START: Final = 15
AUTO: Final = (8100, 8199)
"""The ports of `port: auto` unless the config says others."""
KEPT: Final = ("memory", "entry", "serving_class", "enabled")
"""Keys of an engine that a later import keeps: what a person, or a catalog, knows of it."""
_METADATA: Final = 4000
_RUNS: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import comes to: the config, and what is told of it. `programs` with where they start from."""

    draft: Draft
    notes: tuple[Note, ...]
    programs: Mapping[tuple[str, str], Given] = field(default_factory=dict)
    engines: int = 0
    routes: int = 0


def convert(source: Source, *, here: str, earlier: Mapping[str, Given] | None = None) -> Imported:
    """The config that `source` comes to. `here` is the directory that llama-swap is started in.

    `earlier` are the engines of a config that was made before: what llama-swap cannot say of them is kept.

    Refuses: not_importable, with every reason.
    """
    notes = Notes()
    whole = merged(source.files, notes)
    if whole.keys is None:
        notes.refuse(whole, "", "expected a mapping of keys: this is no config of llama-swap")
    run = _Run(
        root=Fields(given=replace(whole, keys=whole.keys or {}), path="", notes=notes),
        notes=notes,
        secrets=Secrets(variables=source.variables, notes=notes),
        routes=Routes(notes=notes),
        here=here,
        earlier=earlier or {},
    )
    document = run.document()
    refusals = notes.refusals()
    if refusals:
        files = ", ".join(dict.fromkeys(file.file for file in source.files))
        raise NotImportable(file=files, count=len(refusals), problems=refusals)
    head = (
        "",
        f"Imported from {', '.join(file.file for file in source.files)} of llama-swap.",
        "What means something else now was told when it was imported; importing again tells it again.",
    )
    return Imported(
        draft=Draft(text=yaml_text.write(document, head), secrets=run.files()),
        notes=notes.notes(),
        programs=run.programs(),
        engines=len(run.engines),
        routes=len(run.routes.routes),
    )


@dataclass(slots=True, kw_only=True)
class _Run:
    """One conversion under way."""

    root: Fields
    notes: Notes
    secrets: Secrets
    routes: Routes
    here: str
    earlier: Mapping[str, Given]
    engines: dict[str, Engine] = field(default_factory=dict)

    def document(self) -> dict[str, object]:
        """Our config, as far as nothing was refused."""
        known.tell_unknown(self.root, self.notes)
        tell_of_settings(self.root, self.notes)
        macros = Macros(defined=self.root.mapping("macros"), notes=self.notes).checked("macros")
        self._expand_others(macros)
        models = [
            (model, self._expanded(model, fields, macros)) for model, fields in self.root.each("models")
        ]
        if not models and self.root.get("peers") is None:
            self.notes.refuse(self.root.given, "models", "there are none, and no peers: nothing to import")
        patches = {model: patches_of(fields.inner("filters"), model, self.notes) for model, fields in models}
        names = self._names(models, patches)
        self._make(models, names, patches)
        upstreams = Peers(notes=self.notes, secrets=self.secrets, routes=self.routes).upstreams(self.root)
        self.routes.selectors(self.root)
        self.routes.profiles(self.root)
        found = together(self.root, [model for model, _ in models], self.notes)
        groups = groups_of(found, names)
        self._group(groups, found.kept)
        self._residents(names)
        self._drop_hidden(names, patches)
        return self._whole(groups, names, upstreams)

    def _expand_others(self, macros: Macros) -> None:
        """Macros of the file in what is no model."""
        keys = {
            name: macros.expand(value, name) if name in ("peers", "selectors") else value
            for name, value in (self.root.given.keys or {}).items()
        }
        self.root = replace(self.root, given=replace(self.root.given, keys=keys))

    def _expanded(self, model: str, fields: Fields, macros: Macros) -> Fields:
        mine = macros.over(fields.mapping("macros"), fields.below("macros")).with_id(model, fields.given)
        keys = {
            name: mine.expand(
                without_comments(value) if name in ("cmd", "cmdStop") else value, fields.below(name)
            )
            for name, value in (fields.given.keys or {}).items()
            if name != "macros"
        }
        return replace(fields, given=replace(fields.given, keys=keys))

    def _names(
        self, models: Sequence[tuple[str, Fields]], patches: Mapping[str, Patches]
    ) -> Mapping[str, str]:
        asked = [text for _, fields in models for _, text in fields.texts("aliases")]
        asked += [name for each in patches.values() for name in each.by_name]
        asked += list(self.root.mapping("selectors"))
        asked += [text for _, peer in self.root.each("peers") for _, text in peer.texts("models")]
        asked += [name for _, profile in self._profiles() for name in profile.mapping("pins")]
        for model, fields in models:
            self.routes.claim(model, fields.given, fields.path)
        return engine_names([model for model, _ in models], asked)

    def _profiles(self) -> Iterator[tuple[str, Fields]]:
        """The profiles that are no lists: those are refused where they become routes."""
        for name, given in self.root.mapping("profiles").items():
            if given.keys is not None:
                yield name, Fields(given=given, path=f"profiles.{name}", notes=self.notes)

    def _make(
        self,
        models: Sequence[tuple[str, Fields]],
        names: Mapping[str, str],
        patches: Mapping[str, Patches],
    ) -> None:
        maker = Maker(notes=self.notes, secrets=self.secrets, defaults=self._defaults())
        for model, fields in models:
            made = maker.engine(model, fields)
            if made is not None:
                self.engines[model] = made
            self.routes.model(names[model], model, fields, patches[model])

    def _defaults(self) -> Defaults:
        given = self.root.get("healthCheckTimeout")
        start = self.root.number("healthCheckTimeout", 120)
        if given is not None and start < LEAST_START:
            self.notes.changed(
                given, "healthCheckTimeout", f"llama-swap raises it to {LEAST_START} without a word"
            )
        return Defaults(
            ttl=self.root.number("globalTTL"),
            unload=self.root.number("unloadTimeout") or 10,
            start_timeout=max(start, LEAST_START) if given is not None else None,
            here=self.here,
        )

    # ------------------------------------------------------------ what needs all engines

    def _group(self, groups: Groups, kept: frozenset[str]) -> None:
        for model, made in self.engines.items():
            if model in groups.of:
                made.keys["group"] = groups.of[model]
            if model in kept:
                made.keys["pinned"] = True
        by_port: dict[int, list[str]] = {}
        for model, made in self.engines.items():
            if made.port is not None:
                by_port.setdefault(made.port, []).append(model)
        for port, models in by_port.items():
            self._shared(port, models, groups)

    def _shared(self, port: int, models: Sequence[str], groups: Groups) -> None:
        first, *others = models
        for model in others:
            fields = self.engines[model].fields
            if groups.of.get(model) is not None and groups.of[model] == groups.of.get(first):
                self.notes.warn(
                    fields.at("proxy"),
                    fields.below("proxy"),
                    f"port {port} is shared, exclusive: never two of its models are up, and an answer of"
                    " another process there is not taken for this engine's",
                    alike=f"port {port}",
                )
            else:
                self.notes.refuse(
                    fields.at("proxy"),
                    fields.below("proxy"),
                    f"port {port} is {first}'s as well, and both may be up at once",
                )

    def _residents(self, names: Mapping[str, str]) -> None:
        """What is preloaded is resident; of those that exclude each other only the last would stay."""
        hooks = self.root.inner("hooks").inner("on_startup")
        by_group: dict[object, str] = {}
        order = 0
        for at, asked in hooks.texts("preload"):
            found = self.routes.leads.get(asked)
            model = next((it for it, name in names.items() if found and name == found[0].name), None)
            if model is None or model not in self.engines:
                self.notes.left_out(
                    at, hooks.below("preload"), f"there is no model {asked}, and llama-swap says nothing"
                )
                continue
            keys = self.engines[model].keys
            order += 10
            group = keys.get("group")
            if group is not None and by_group.get(group, model) != model:
                earlier = by_group[group]
                self.engines[earlier].keys.pop("resident", None)
                self.engines[earlier].keys.pop("order", None)
                self.notes.left_out(at, hooks.below("preload"), f"{earlier} is stopped by {model} at once")
            by_group[group] = model
            keys |= {"resident": True, "order": order}
            self.notes.changed(
                at,
                hooks.below("preload"),
                "it is a resident: kept up, not only loaded once; and nothing starts it by itself before its"
                " memory is known: give it memory",
                alike="preload",
            )
        for made in self.engines.values():
            if made.keys.get("resident") and "ttl" in made.keys:
                self.notes.changed(
                    made.fields.at("ttl"),
                    made.fields.below("ttl"),
                    "it is preloaded, and so a resident: it is brought back each time that its ttl unloads"
                    " it; leave out ttl or resident",
                    alike="preload and ttl",
                )

    def _drop_hidden(self, names: Mapping[str, str], patches: Mapping[str, Patches]) -> None:
        """`unlisted`: an engine can be hidden, a route cannot."""
        for model, made in self.engines.items():
            if not made.fields.truth("unlisted"):
                continue
            made.keys["hidden"] = True
            route = self.routes.routes[model]
            extra = set(route) - {"description", "profiles"}
            if names[model] == model and not extra and not patches[model].of(model):
                del self.routes.routes[model]
            else:
                self.notes.changed(
                    made.fields.at("unlisted"),
                    made.fields.below("unlisted"),
                    "its route is shown in /v1/models: only an engine without a route can be hidden",
                    alike="unlisted",
                )

    # ------------------------------------------------------------ the document

    def _whole(
        self, groups: Groups, names: Mapping[str, str], upstreams: Mapping[str, object]
    ) -> dict[str, object]:
        document: dict[str, object] = {"version": 1}
        keys = keys_of(self.root, self.secrets, self.notes)
        ports = {made.port for made in self.engines.values()}
        node = node_of(self.root, ports, self.notes)
        if node:
            document["node"] = node
        host = self._host(groups)
        if host:
            document["hosts"] = {"local": host}
        if self.engines:
            document["engines"] = {
                names[model]: Said(
                    self._engine(made, self._kept(names[model])),
                    above=(*(("",) if number else ()), *_metadata(made.fields)),
                )
                for number, (model, made) in enumerate(self.engines.items())
            }
        sections = {"upstreams": upstreams, "routes": self.routes.routes, "keys": keys}
        document |= {name: Said(value, above=("",)) for name, value in sections.items() if value}
        return document

    def _host(self, groups: Groups) -> dict[str, object]:
        host: dict[str, object] = {}
        auto = sum(1 for made in self.engines.values() if made.port is None)
        fixed = sum(1 for made in self.engines.values() if made.port in range(AUTO[0], AUTO[1] + 1))
        if auto + fixed > AUTO[1] - AUTO[0] + 1:
            host["ports"] = {"range": f"{AUTO[0]}-{AUTO[0] + 2 * (auto + fixed)}"}
        if groups.evicts:
            host["groups"] = Said(
                {
                    name: {"evicts": list(evicts), "min_resident": 0} if evicts else {"min_resident": 0}
                    for name, evicts in groups.evicts.items()
                },
                above=(
                    "Members of one group exclude each other; a start also stops members of what it evicts.",
                    "min_resident: 0 lets one go right after its start, as llama-swap does.",
                ),
            )
        return host

    def _kept(self, name: str) -> dict[str, object]:
        """What a person said of that engine in an earlier config, and llama-swap has no word for."""
        before = self.earlier.get(name)
        if before is None or before.keys is None:
            return {}
        kept = {key: before.keys[key] for key in KEPT if key in before.keys}
        for key, given in kept.items():
            self.notes.tell(Sign.ADDED, given, f"engines.{name}.{key}", "kept from the config of before")
        return {key: given.plain() for key, given in kept.items()}

    def _engine(self, made: Engine, kept: Mapping[str, object]) -> dict[str, object]:
        first = (
            "driver",
            "argv",
            "container",
            "args",
            "cwd",
            "env",
            "model",
            "task",
            "port",
            "address",
            "health",
        )
        keys = {name: made.keys[name] for name in (*first, *made.keys) if name in made.keys}
        if keys.get("health") == "/health":
            del keys["health"]
        keys |= kept
        if "memory" in kept:
            return keys
        top = next(iter(keys))
        return {**keys, top: Said(keys[top], above=(UNKNOWN_NEED,))}

    def files(self) -> Mapping[str, Secret]:
        """The secrets that need files."""
        return dict(self.secrets.files)

    def programs(self) -> Mapping[tuple[str, str], Given]:
        """Each program with where it is started from, and where the file names it."""
        found: dict[tuple[str, str], Given] = {}
        for made in self.engines.values():
            for each in made.programs:
                found.setdefault(each, made.fields.at("cmd"))
        return found


def _metadata(fields: Fields) -> tuple[str, ...]:
    """What of a model has no key here, as comments: free text is not lost."""
    given = fields.get("metadata")
    if given is None or given.keys is None:
        return ()
    return tuple(
        f"{name}: {_RUNS.sub(' ', json.dumps(each.plain(), ensure_ascii=False))}"[:_METADATA]
        for name, each in given.keys.items()
    )
