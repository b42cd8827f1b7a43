"""Relations of engines to the catalog: entries that there are, and what they are to fit (CAT-7, CAT-8)."""

from __future__ import annotations

from hostler.adapters.config.curate import curation_of, reference_of
from hostler.adapters.config.explain import nearest
from hostler.adapters.config.schema.engines import EngineKeys
from hostler.adapters.config.tree import Path
from hostler.adapters.config.view import View
from hostler.domain.values import shorten


def check_catalog(view: View) -> None:
    """Each engine's entry, and the catalog as a whole."""
    if view.catalog.trouble:
        view.warn(("catalog",), view.catalog.trouble, "hostler catalog check")
    for name, engine in view.doc.engines.items():
        path: Path = ("engines", name)
        if engine.entry is not None:
            _entry(view, path, engine, engine.entry)
        if curation_of(view.doc, view.catalog, name) is not None:
            _shape(view, path, name, engine)
        refused = view.doc.policy.uncurated == "refuse" and engine.driver != "external"
        if refused and reference_of(view.doc, name) is None:
            view.warn(path, "is uncurated, and policy.uncurated is refuse: it never starts", at_key=True)


def _entry(view: View, path: Path, engine: EngineKeys, reference: str) -> None:
    """An entry that is there; where no good catalog is in force nobody can say."""
    here = (*path, "entry")
    if not view.catalog.known:
        view.warn(here, "nobody knows what it is, so the engine is refused", "hostler catalog check")
        return
    found = view.catalog.find(reference)
    if found is None:
        name, _, _ = reference.partition("#")
        entry = view.catalog.entries.get(name)
        variants = [f"{name}#{variant}" for variant in entry.variants] if entry is not None else []
        hint = nearest(reference, variants or list(view.catalog.references()))
        view.error(here, f"there is no {shorten(reference)} in the catalog", hint)
        return
    entry, variant = found
    shape = entry.topology_of(variant)
    if engine.members is not None and len(engine.members) != shape.boxes:
        roles = f" ({', '.join(shape.roles)})" if shape.boxes > 1 else ""
        message = f"{reference} runs on {shape.boxes} box{'es' if shape.boxes > 1 else ''}{roles}"
        view.error(here, f"{message}, and there are {len(engine.members)} members")


def _shape(view: View, path: Path, name: str, engine: EngineKeys) -> None:
    found = curation_of(view.doc, view.catalog, name)
    most = None if found is None else found.context_most
    if found is not None and most is not None and engine.context is not None and engine.context > most:
        message = f"{engine.context} is above what {found.entry} was made for: {engine.context} > {most}"
        view.error((*path, "context"), message)
    if found is not None and found.crossings is None:
        message = f"{found.entry} runs over several boxes, and {engine.host} has no link to the other"
        view.warn(path, message, f"hosts.{engine.host}.links", at_key=True)
