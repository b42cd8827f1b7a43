"""Rows and findings with what a test does not care about filled in."""

from hostler.domain.ports import ANY, Certainty, Finding, Role, Row, Status

GIB = 1 << 30


def row(
    port: int,
    service: str = "svc",
    host: str = "crow",
    status: Status = Status.PRODUCTION,
    address: str = ANY,
    *,
    last: int | None = None,
    protocol: str = "tcp",
    by: str = "",
    needs: int | None = None,
    line: int = 1,
) -> Row:
    return Row(
        host=host,
        port=port,
        last=port if last is None else last,
        service=service,
        status=status,
        address=address,
        protocol=protocol,
        by=by,
        needs=needs,
        file="ports.yaml",
        line=line,
    )


def finding(
    port: int | None,
    owner: str = "svc",
    host: str = "crow",
    address: str = ANY,
    *,
    thing: str | None = None,
    protocol: str = "tcp",
    role: Role = Role.LISTENS,
    group: str = "",
    profiles: tuple[str, ...] = (),
    names: tuple[str, ...] = (),
    file: str = "",
    among: tuple[int, int] | None = None,
    form: str = "compose ports, short",
) -> Finding:
    return Finding(
        port=port,
        host=host,
        owner=owner,
        address=address,
        thing=f"compose . {owner}" if thing is None else thing,
        protocol=protocol,
        role=role,
        group=group,
        profiles=profiles,
        names=names,
        file=file or f"{owner}.yaml",
        line=1,
        form=form,
        certainty=Certainty.LITERAL,
        among=among,
    )
