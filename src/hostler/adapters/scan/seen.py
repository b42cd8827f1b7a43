"""What a scanner sees in one file: findings without a host, and troubles (PORT-2).

Decides the form of a file's findings: whose they are, and where. Hosts are told later.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hostler.adapters.scan.args import Value
from hostler.domain.ports import UNSAID, Finding, Role, Trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen, with the files that it was read from beside the one that was asked for."""

    findings: tuple[Finding, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who has what is found: `thing` tells it apart, `name` and `names` are for people and for rows."""

    file: str
    thing: str
    name: str
    names: tuple[str, ...] = ()
    host: str = ""
    profiles: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Sight:
    """Findings of one owner as they come; `line` is where it is at."""

    owner: Owner
    line: int = 1
    findings: list[Finding] = field(default_factory=list)

    def found(
        self,
        form: str,
        port: int | None,
        value: Value,
        *,
        address: str = UNSAID,
        protocol: str = "tcp",
        role: Role = Role.LISTENS,
        host: str = "",
        note: str = "",
    ) -> None:
        """Note a port; `host` is another than the owner's."""
        who = self.owner
        self.findings.append(
            Finding(
                port=port,
                file=who.file,
                line=self.line,
                form=form,
                host=host or who.host,
                address=address,
                protocol=protocol,
                role=role,
                certainty=value.certainty,
                thing=who.thing,
                owner=who.name,
                names=who.names,
                profiles=who.profiles,
                branch=value.branch,
                note=note,
            )
        )

    def on(self, host: str) -> Sight:
        """The same list for what runs on another host."""
        return Sight(owner=replace(self.owner, host=host), line=self.line, findings=self.findings)
