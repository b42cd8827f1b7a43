"""What an endpoint is: one row of data, and what its handler is given.

Decides the form of rows. The rows are `interfaces.api.endpoints`; how a call becomes an answer is
`interfaces.api.dispatch`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from starlette.responses import Response

from hostler.domain.errors import Refusal
from hostler.domain.fleet import frozen
from hostler.domain.values import Requester
from hostler.services.browser_guard import READS
from hostler.services.control import Control
from hostler.services.keys import Principal

Model = TypeVar("Model")


@dataclass(frozen=True, slots=True, kw_only=True)
class Empty:
    """No keys at all: a body or a query that takes none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call that passed the guard, the key check and the checks of its form.

    `path` holds the path's parameters, `headers` are by lower-case name, `sent` and `asked` are the body
    and the query in the types of the endpoint's row.
    """

    control: Control
    who: Principal
    by: Requester
    path: Mapping[str, str]
    headers: Mapping[str, str]
    sent: object
    asked: object

    def body(self, model: type[Model]) -> Model:
        """The body as its endpoint's row declares it."""
        return _declared(self.sent, model)

    def query(self, model: type[Model]) -> Model:
        """The query as its endpoint's row declares it."""
        return _declared(self.asked, model)


def _declared(value: object, model: type[Model]) -> Model:
    if not isinstance(value, model):
        raise TypeError(f"the row declares {type(value).__name__}, the handler reads {model.__name__}")
    return value


Handler = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One endpoint (API-1). `scope` None: open to everybody who reaches the listener.

    `answer` is the type of the JSON of a 200; None where the answer is no JSON: `media` says what it is.
    `body` and `query` are dataclasses of what may be sent. `also` are other good answers by status.
    `flat`: refusals are told in the flat form that clients of `/llm/acquire` know. `own_repeats`: what it
    makes keeps the Idempotency-Key itself, across restarts too; the call has to have one.
    """

    method: str
    path: str
    scope: str | None
    summary: str
    handler: Handler
    answer: object = None
    media: str = "application/json"
    body: type = Empty
    query: type = Empty
    refusals: tuple[type[Refusal], ...] = ()
    also: Mapping[int, str] = field(default_factory=lambda: frozen({}))
    flat: bool = False
    own_repeats: bool = False

    @property
    def changes(self) -> bool:
        """Whether it may change anything; it takes an Idempotency-Key then (API-2)."""
        return self.method not in READS

    @property
    def name(self) -> str:
        """A stable name of the operation, from its method and path."""
        words = self.path.translate({ord(char): None for char in "{}"}).replace(":path", "").split("/")
        return "_".join([self.method.lower(), *(word.replace(".", "_") for word in words if word)])
