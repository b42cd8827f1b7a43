"""The catalog for commands that need no daemon: the `CatalogParts` of this machine (INTERFACE-3).

Decides which catalog, which host and which directory of models a command means. How it is told is the
commands' decision.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hostler.adapters import hold_path
from hostler.adapters.catalog.kept import kept
from hostler.adapters.catalog.printing import as_text, document_of
from hostler.adapters.catalog.reading import (
    SHIPPED,
    CatalogRead,
    defaults,
    every_problem,
    load,
    over_shipped,
    read_directory,
    read_file,
    shipped,
    together,
)
from hostler.adapters.catalog.schema import schema_text
from hostler.adapters.config.fill import LOCAL
from hostler.adapters.config.find import SYSTEM, find_config
from hostler.adapters.config.paths import Paths, resolve_paths
from hostler.adapters.config.reading import examine, right
from hostler.adapters.downloads import pull
from hostler.adapters.host import pools
from hostler.domain.catalog import Catalog, Entry
from hostler.domain.catalog_fit import capacity, fits_of
from hostler.domain.errors import InvalidCatalog, NoConfig, NotFound
from hostler.domain.fleet import HOST_POOL, Fleet, Node, frozen
from hostler.domain.route import nearest
from hostler.domain.values import HostName
from hostler.services.catalog_parts import BoxFit, CatalogReport, Printed, Progress, Pulled, PullPlan, Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineCatalog:
    """The need `CatalogParts`. `here` is the working directory, where `hostler.yaml` is looked for last."""

    env: Mapping[str, str]
    here: Path
    system: Path = SYSTEM
    machine: str | None = None

    def check(self, path: str | None, config: str | None) -> CatalogReport:
        if path is not None:
            place = Path(path)
            read = read_directory(place) if place.is_dir() else together(path, [read_file(place)])
            return _report((path,), read, whole=place.is_dir())
        fleet = self._fleet(config)
        directory = None if fleet is None else fleet.catalog.directory
        base = shipped()
        if directory is None:
            problems = (*base.problems, *defaults(CatalogRead()))
            return CatalogReport(places=(str(SHIPPED),), entries=len(base.entries), problems=problems)
        own = read_directory(Path(directory))
        found = _report((str(SHIPPED), directory), own, whole=True)
        return CatalogReport(
            places=found.places,
            entries=len(base.entries) + found.entries,
            problems=(*base.problems, *found.problems),
        )

    def schema(self) -> str:
        return schema_text()

    def catalog(self, config: str | None) -> Catalog:
        fleet = self._fleet(config)
        found = load(None, kept(self._paths(None).state_dir)) if fleet is None else fleet.catalog
        if not found.known:
            raise InvalidCatalog(count=1, first=found.trouble)
        return found

    def entry(self, name: str, config: str | None) -> Entry:
        entries = self.catalog(config).entries
        if name not in entries:
            raise NotFound(what="catalog entry", name=name, nearest=nearest(name, entries))
        return entries[name]

    def fit(self, name: str, host: str | None, config: str | None) -> BoxFit:
        fleet = self._fleet(config)
        box = self._host(fleet, host)
        memory = self._memory(fleet, box)
        return BoxFit(
            host=box,
            memory=frozen(memory),
            fits=tuple(fits_of(self.entry(name, config), capacity(memory))),
        )

    def engine(self, reference: str, hosts: Sequence[str], config: str | None) -> Printed:
        name, mark, wanted = reference.partition("#")
        entry = self.entry(name, config)
        default = next((it.id for it in entry.variants.values() if it.default), None)
        variant = entry.variants.get(wanted if mark else default or "")
        if variant is None:
            raise NotFound(
                what="variant",
                name=reference,
                nearest=nearest(wanted, entry.variants)
                if wanted
                else f"Its variants: {', '.join(entry.variants)}.",
            )
        fleet = self._fleet(config)
        named = [self._host(fleet, host) for host in hosts] or [self._host(fleet, None)]
        document = document_of(entry, variant, fleet, named)
        return Printed(
            reference=f"{entry.id}#{variant.id}", document=document, text=as_text(document, entry, variant)
        )

    def plan(self, reference: str, config: str | None) -> PullPlan:
        name, mark, wanted = reference.partition("#")
        entry = self.entry(name, config)
        only = next(iter(entry.quants)) if len(entry.quants) == 1 else ""
        quant = entry.quants.get(wanted if mark else only)
        if quant is None:
            of = f"Its quants: {', '.join(entry.quants)}."
            raise NotFound(what="quant", name=reference, nearest=nearest(wanted, entry.quants) or of)
        fleet = self._fleet(config)
        models = self._paths(fleet).models_dir
        base = entry.source.base
        return PullPlan(
            reference=f"{entry.id}#{quant.name}",
            license=entry.source.license,
            repository=entry.source.repository,
            gated=entry.source.gated,
            models_dir=str(models),
            files=tuple(
                Wanted(
                    entry=entry.id,
                    file=file,
                    url=file.url or (None if base is None else f"{base.rstrip('/')}/{file.name}"),
                    path=str(models / file.name),
                )
                for file in quant.files
            ),
        )

    def pull(self, wanted: Wanted, progress: Progress) -> Pulled:
        return pull(wanted, progress)

    def _fleet(self, config: str | None) -> Fleet | None:
        """The config's fleet; None where there is none. Refuses `invalid_config` for one with errors."""
        try:
            file = find_config(self.env, config, here=self.here, system=self.system)
        except NoConfig:
            return None
        return right(examine(file, self.env, None, machine=self.machine, anywhere=True)).fleet

    def _paths(self, fleet: Fleet | None) -> Paths:
        node = Node() if fleet is None else fleet.node
        hold = hold_path.resolve(self.env, os.geteuid(), node.hold_path)
        return resolve_paths(self.env, node, hold.path)

    def _host(self, fleet: Fleet | None, named: str | None) -> str:
        """The host that is meant: the one that is named, else this machine's. Refuses `not_found`."""
        hosts = {LOCAL: None} if fleet is None else dict.fromkeys(map(str, fleet.hosts))
        if named is None:
            return LOCAL if fleet is None else str(fleet.here)
        if named not in hosts:
            raise NotFound(what="host", name=named, nearest=nearest(named, hosts))
        return named

    def _memory(self, fleet: Fleet | None, host: str) -> dict[str, int | None]:
        """Each pool of a host: as the config says, else as this machine says, if it is that host."""
        known = None if fleet is None else fleet.hosts.get(HostName(host))
        said = {HOST_POOL: None} if known is None else {pool.name: pool.total for pool in known.pools}
        if not self._is_here(fleet, host):
            return dict(said)
        try:
            read = pools.reader(None if known is None else known.reader).read()
        except OSError:
            return dict(said)  # A machine that cannot be read is as unknown as one that is far away.
        alone = said == {HOST_POOL: None}
        names = read if alone else said
        return {name: said.get(name) or (read[name].total if name in read else None) for name in names}

    def _is_here(self, fleet: Fleet | None, host: str) -> bool:
        if fleet is None or len(fleet.hosts) == 1:
            return True
        machine = self.machine or socket.gethostname().partition(".")[0].lower()
        return host in (self.env.get("HOSTLER_HOST"), machine)


def _report(places: tuple[str, ...], read: CatalogRead, *, whole: bool) -> CatalogReport:
    problems = every_problem(read) if whole else (*read.problems, *over_shipped(read))
    return CatalogReport(places=places, entries=len(read.entries), problems=problems)
