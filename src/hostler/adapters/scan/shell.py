"""Shell scripts: assignments, loops and branches, and the ports of each command (PORT-2).

Decides which assignment a command sees. Only text is parsed: nothing is executed. Both branches of an `if`
are possible; a here-document is a file's text, unless a shell reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from hostler.adapters.scan.args import Value, Word, port_of
from hostler.adapters.scan.expand import MOST, expand, split
from hostler.adapters.scan.lexer import Of, Part, Token, tokens
from hostler.adapters.scan.programs import SHELLS, Reader, command, unwrapped
from hostler.adapters.scan.seen import Owner, Sight
from hostler.domain.port_verdicts import SCRIPT
from hostler.domain.ports import Finding, Role

ASSIGNED: Final = "PORT="
PASSED: Final = "PORT=N command"
DEEPEST: Final = 6
MOST_VARIABLES: Final = 2000
"""Variables of a script that are followed: at 128 values of 256 characters each that is 62 MiB."""
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=(.*)", re.DOTALL)
_PORT_NAME: Final = re.compile(r"(?:.*_)?PORTS?[0-9]*(?:_.*)?", re.IGNORECASE)
_DECLARING: Final = frozenset({"export", "declare", "local", "readonly", "typeset"})
_OPENING: Final = frozenset({"if", "while", "until", "case", "select"})
_CLOSING: Final = frozenset({"fi", "esac"})
_STRUCTURE: Final = (
    _OPENING
    | _CLOSING
    | frozenset({"for", "then", "else", "elif", "do", "done", "in", "{", "}", "!", "function"})
)


def shell(file: str, text: str, name: str) -> list[Finding]:
    """Every port that a script shows; `name` is its name for people."""
    owner = Owner(file=file, thing=f"{SCRIPT}{file}", name=name)
    sight = Sight(owner=owner)
    _Script(sight=sight).read(text)
    return tidy(sight.findings)


def tidy(findings: Sequence[Finding]) -> list[Finding]:
    """Each once; an assignment whose number is listened on in the same file says nothing more."""
    listening = {each.port for each in findings if each.role is Role.LISTENS}
    kept = (each for each in findings if each.role is not Role.ASSIGNED or each.port not in listening)
    return list(dict.fromkeys(kept))


@dataclass(slots=True, kw_only=True)
class _Script:
    """One script under way; `known` are the variables, `depth` counts scripts inside scripts.

    `inside` counts open branches, `last` is the command before.
    """

    sight: Sight
    known: dict[str, tuple[Value, ...]] = field(default_factory=dict)
    depth: int = 0
    inside: int = 0
    last: list[Token] = field(default_factory=list)

    def read(self, text: str, line: int = 1) -> None:
        """Every command of a text, in its order."""
        words: list[Token] = []
        bodies: list[str] = []
        before = "\n"
        for token in tokens(text, line):
            if token.is_word:
                words.append(token)
            elif token.text == "<<":
                bodies.append(token.body)
                self._fed(words or self.last, token)
            else:
                self._command(words, maybe=before in ("&&", "||"))
                self.last, words, before = words or self.last, [], token.text
        self._command(words, maybe=before in ("&&", "||"))

    def _fed(self, words: Sequence[Token], token: Token) -> None:
        """A here-document: a script where a shell reads it."""
        args = unwrapped([expand(each, self.known) for each in words])
        name = args[0].text.rpartition("/")[2] if args else ""
        if name in SHELLS and not any(not each.text.startswith("-") for each in args[1:]):
            self._nested(token.body, "", token.line)

    def _nested(self, text: str, host: str, line: int) -> None:
        """A script inside this one, on another host where one is named."""
        if self.depth < DEEPEST:
            sight = self.sight.on(host) if host else self.sight
            _Script(sight=sight, known=self.known, depth=self.depth + 1, inside=self.inside).read(text, line)

    def _command(self, words: Sequence[Token], *, maybe: bool) -> None:
        words = self._structure(words)
        if not words:
            return
        self.sight.line = words[0].line
        for part, line in _commands_in(words):
            self._nested(part, "", line)
        assigned, rest = _assignments(words)
        if rest and rest[0].plain in _DECLARING:
            assigned, rest = _assignments(rest[1:], anywhere=True)[0], ()
        if not rest:
            for token in assigned:
                self._assign(token, maybe=maybe)
            return
        for token in assigned:
            self._passed(token)
        self.sight.line = rest[0].line
        args = [Word(tuple(dict.fromkeys(expand(each, self.known).values))) for each in rest]
        command(args, self.sight, Reader(script=lambda text, host: self._nested(text, host, rest[0].line)))

    def _structure(self, words: Sequence[Token]) -> Sequence[Token]:
        """The words behind `if`, `then`, `do`, …; a loop's values are noted."""
        at = 0
        while at < len(words) and words[at].plain in _STRUCTURE and _bare(words[at]):
            word = words[at].plain
            self.inside += (word in _OPENING) - (word in _CLOSING and self.inside > 0)
            if word in ("for", "select") and len(words) > at + 2 and words[at + 2].plain == "in":
                values = tuple(value for each in words[at + 3 :] for value in split(each, self.known))
                self.known[words[at + 1].plain] = values[:MOST]
                return ()
            if word == "case":
                return ()
            at += 1
        return words[at:]

    def _assign(self, token: Token, *, maybe: bool) -> None:
        """An assignment that later commands see; inside a branch others are as possible."""
        name, value = _named(token)
        branch = maybe or self.inside > 0
        values = tuple(
            replace(each, branch=branch or each.branch) for each in expand(value, self.known).values
        )
        if len(self.known) >= MOST_VARIABLES and name not in self.known:
            return
        before = self.known.get(name, ())[:MOST] if branch else ()
        self.known[name] = tuple(dict.fromkeys((*before, *values)))
        if _PORT_NAME.fullmatch(name):
            self.sight.line = token.line
            self._ports(values, ASSIGNED, Role.ASSIGNED, name)

    def _passed(self, token: Token) -> None:
        """`PORT=8042 ./serve.sh`: the command probably listens there."""
        name, value = _named(token)
        if _PORT_NAME.fullmatch(name):
            self.sight.line = token.line
            self._ports(expand(value, self.known).values, PASSED, Role.LISTENS, f"{name} of its environment")

    def _ports(self, values: Sequence[Value], form: str, role: Role, note: str) -> None:
        for value in values:
            for text in re.split(r"[\s,]+", value.text):
                if port_of(text) is not None:
                    self.sight.found(form, port_of(text), value, role=role, note=note)


def _bare(token: Token) -> bool:
    return all(part.of is Of.TEXT and not part.quoted for part in token.parts)


def _assignments(words: Sequence[Token], *, anywhere: bool = False) -> tuple[list[Token], Sequence[Token]]:
    """The assignments before a command, and the command; with `anywhere` all that are among the words."""
    found: list[Token] = []
    for at, token in enumerate(words):
        if _is_assignment(token):
            found.append(token)
        elif not anywhere:
            return found, words[at:]
    return found, ()


def _is_assignment(token: Token) -> bool:
    first = token.parts[0]
    return first.of is Of.TEXT and not first.quoted and _ASSIGNMENT.fullmatch(first.text) is not None


def _named(token: Token) -> tuple[str, Token]:
    """The name and the value of an assignment."""
    match = _ASSIGNMENT.fullmatch(token.parts[0].text)
    if match is None:
        raise ValueError("no assignment")
    first = Part(Of.TEXT, match[2])
    return match[1], replace(token, parts=(first, *token.parts[1:]))


def _commands_in(words: Sequence[Token]) -> Iterator[tuple[str, int]]:
    """The text of each `$(…)`: its commands run too."""
    for token in words:
        for part in token.parts:
            if part.of is Of.COMMAND:
                yield part.text, token.line
