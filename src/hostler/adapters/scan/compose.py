"""Compose files: what each service publishes, or listens on in its host's network (PORT-2).

Decides whose a port is and what is wrong with an entry. In the host's network publishing is discarded, and
the command's ports count; another's network has no ports of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from hostler.adapters.scan.args import Value, Word, port_of
from hostler.adapters.scan.compose_ports import Published, entry
from hostler.adapters.scan.expand import expand
from hostler.adapters.scan.lexer import tokens
from hostler.adapters.scan.programs import Reader, command
from hostler.adapters.scan.project import Entry, Project, Service
from hostler.adapters.scan.seen import Owner, Seen, Sight
from hostler.adapters.scan.shell import shell
from hostler.adapters.scan.tree import Items, Keys, Text, Tree
from hostler.adapters.scan.variables import fill
from hostler.domain.ports import ANY, Certainty, Finding, Role, Trouble

NAMED: Final = re.compile(r"(?:.*[._-])?(?:docker-|podman-)?compose(?:[._-].*)?\.ya?ml")
"""Names of compose files: `compose.yaml`, `docker-compose.prod.yml`, `caddy.docker-compose.yml`."""
HOST_NETWORK: Final = "compose command, host network"
IMAGE: Final = "compose image, host network"
IMAGES: Final[Mapping[str, tuple[int, ...]]] = {
    "nginx": (80,),
    "httpd": (80,),
    "redis": (6379,),
    "postgres": (5432,),
    "mariadb": (3306,),
    "mysql": (3306,),
    "mongo": (27017,),
    "ollama": (11434,),
    "grafana": (3000,),
    "prometheus": (9090,),
    "node-exporter": (9100,),
    "vllm-openai": (8000,),
}
"""Where the programs of well-known images listen when nothing tells them otherwise."""


def compose(main: Path, given: Mapping[str, str]) -> Seen:
    """What a project shows. `given` are variables from outside its `.env`."""
    project = Project(given=given)
    project.read(main)
    findings: list[Finding] = []
    troubles = list(project.troubles)
    for service in project.services.values():
        owner = Owner(
            file=service.file,
            thing=f"compose {Path(service.file).parent} {service.name}",
            name=service.name,
            names=tuple(name for name in (service.container,) if name and name != service.name),
            profiles=service.profiles,
        )
        if service.network == "host":
            findings += _in_host_network(service, owner)
        elif not service.network.startswith(("service:", "container:")):
            published, remarks = _published(service, owner)
            findings += published
            troubles += remarks
    return Seen(
        findings=tuple(dict.fromkeys(findings)),
        troubles=tuple(troubles),
        files=tuple(dict.fromkeys(project.files)),
    )


def _published(service: Service, owner: Owner) -> tuple[list[Finding], list[Trouble]]:
    findings: list[Finding] = []
    troubles: list[Trouble] = []
    for each in service.ports:
        for found in entry(each.tree, service.known):
            if isinstance(found, Published):
                findings.append(_finding(found, replace(owner, file=each.file), each.tree.line))
            else:
                troubles.append(
                    Trouble(
                        file=each.file,
                        line=each.tree.line,
                        message=f"{service.name}: {found.message}",
                        profiles=service.profiles,
                        counts=found.counts,
                    )
                )
    return findings, troubles


def _finding(found: Published, owner: Owner, line: int) -> Finding:
    return Finding(
        port=found.port,
        file=owner.file,
        line=line,
        form=found.form,
        address=found.address,
        protocol=found.protocol,
        certainty=found.certainty,
        thing=owner.thing,
        owner=owner.name,
        names=owner.names,
        profiles=owner.profiles,
        among=found.among,
        note=found.note,
    )


def _in_host_network(service: Service, owner: Owner) -> list[Finding]:
    """The ports of a service's command, its environment, else of its image; else one that nobody can tell."""
    sight = Sight(owner=owner, line=service.line)
    given = [each for each in (service.entrypoint, service.command) if each is not None]
    if given:
        owner = replace(owner, file=given[-1].file)
        sight = Sight(owner=owner, line=given[-1].tree.line, findings=sight.findings)
    args = [word for each in given for word in _words(each, service.known)]
    scripts: list[str] = []
    command(args, sight, Reader(script=lambda text, _: scripts.append(text), bare=ANY))
    for text in scripts:
        for found in shell(owner.file, text, owner.name):
            line = sight.line + found.line - 1
            sight.findings.append(replace(found, line=line, thing=owner.thing, profiles=owner.profiles))
    _environment(service, sight)
    listening = [each for each in sight.findings if each.role is Role.LISTENS]
    if not listening:
        _image(service, sight)
    return [replace(each, form=HOST_NETWORK) if each in listening else each for each in sight.findings]


def _image(service: Service, sight: Sight) -> None:
    """What a well-known image listens on, or what the file says that it exposes."""
    name = service.image.rpartition("/")[2].partition(":")[0]
    exposed = [each.tree.value for each in service.expose if isinstance(each.tree, Text)]
    numbers = [number for text in exposed if (number := port_of(text.partition("/")[0])) is not None]
    for number in numbers or IMAGES.get(name, ()):
        sight.found(IMAGE, number, Value("", Certainty.DEFAULT), address=ANY, note="host network")
    if not numbers and name not in IMAGES:
        note = "host network: nothing here says on which ports"
        sight.found(IMAGE, None, Value("", Certainty.VARIABLE), address=ANY, note=note)


def _environment(service: Service, sight: Sight) -> None:
    for name, text in _pairs(service.environment, service.known):
        if re.fullmatch(r"(?:.*_)?PORT", name, re.IGNORECASE) and port_of(text.text) is not None:
            sight.found("environment", port_of(text.text), text, note=f"{name} of its environment")


def _pairs(given: Entry | None, known: Mapping[str, str]) -> Iterator[tuple[str, Value]]:
    tree = given.tree if given is not None else None
    if isinstance(tree, Keys):
        for name, each in tree.entries.items():
            if isinstance(each, Text):
                filled = fill(each.value, known)
                yield name, Value(filled.text, filled.certainty)
    for each in tree.items if isinstance(tree, Items) else ():
        if isinstance(each, Text):
            filled = fill(each.value, known)
            name, _, value = filled.text.partition("=")
            yield name, Value(value, filled.certainty)


def _words(given: Entry, known: Mapping[str, str]) -> Sequence[Word]:
    """The words of a command: a list has them, a text is split as a shell splits it."""
    if isinstance(given.tree, Items):
        return [_word(each, known) for each in given.tree.items]
    filled = _word(given.tree, known)
    value = filled.values[0]
    found = [expand(each, {}) for each in tokens(value.text) if each.is_word]
    return [Word(tuple(replace(each, certainty=value.certainty) for each in word.values)) for word in found]


def _word(tree: Tree, known: Mapping[str, str]) -> Word:
    filled = fill(tree.value if isinstance(tree, Text) else "", known)
    return Word((Value(filled.text, filled.certainty),))
