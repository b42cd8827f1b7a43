"""Shell text as words and operators, with their lines (PORT-2).

Decides what is quoted, what is a comment, a here-document or a redirection. Expands nothing, runs nothing,
and never fails: what does not close ends with the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

_OPERATORS: Final = re.compile(r"<<-|<<<|<<|>>|>\||[<>]&|&>>|&>|&&|\|\||\|&|;;&|;;|;&|[;&|()<>\n]")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_BLANK: Final = " \t\r"
_PLAIN: Final = re.compile(r"[^\s;&|()<>'\"\\$`]+")


class Of(StrEnum):
    """What a part of a word is."""

    TEXT = "text"
    VARIABLE = "variable"
    COMMAND = "command"
    SUM = "sum"


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a word; `quoted`: it is never split into several words."""

    of: Of
    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Token:
    """A word of `parts`, or the operator `text`. `body` is the text of a here-document."""

    line: int
    text: str = ""
    parts: tuple[Part, ...] = ()
    body: str = ""

    @property
    def is_word(self) -> bool:
        """Whether it is no operator."""
        return not self.text

    @property
    def plain(self) -> str:
        """The text of a word that has no variables; what surrounds them of one that has."""
        return "".join(part.text for part in self.parts if part.of is Of.TEXT)


def tokens(text: str, line: int = 1) -> list[Token]:
    """The tokens of a script."""
    return list(_Lexer(text=text, line=line).run())


def closing(text: str, start: int, opened: str, closed: str) -> int:
    """Where what was opened before `start` closes, quotes passed over; the end where it does not."""
    depth, at = 1, start
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif char == "'" and opened == "(":
            at = _after(text, "'", at + 1) - 1
        elif char == opened:
            depth += 1
        elif char == closed:
            depth -= 1
            if not depth:
                return at
        at += 1
    return len(text)


def _after(text: str, char: str, start: int) -> int:
    found = text.find(char, start)
    return len(text) if found < 0 else found + 1


@dataclass(slots=True, kw_only=True)
class _Lexer:
    """One pass over a text."""

    text: str
    line: int
    at: int = 0
    parts: list[Part] = field(default_factory=list)
    began: int = 0
    waiting: list[tuple[str, bool]] = field(default_factory=list)

    def run(self) -> Iterator[Token]:
        """Every token."""
        redirected = ""
        while self.at < len(self.text):
            word = self._step()
            if word is None:
                continue
            if word.is_word:
                if redirected in ("<<", "<<-"):
                    self.waiting.append((word.plain, redirected == "<<-"))
                elif not redirected:
                    yield word
                redirected = ""
            elif word.text[0] in "<>" or word.text.startswith("&>"):
                redirected = word.text
            else:
                yield word
                redirected = ""
                if word.text == "\n":
                    yield from self._bodies()
        if (last := self._word()) is not None and not redirected:
            yield last

    def _step(self) -> Token | None:
        """The next token, if it is whole now."""
        char = self.text[self.at]
        if char in _BLANK:
            self.at += 1
            return self._word()
        if char == "#" and not self.parts:
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
            return None
        if char in "<>" and self._descriptor():
            self.parts.clear()
        if char in "<>" and self.text[self.at + 1 : self.at + 2] == "(":
            self._substitution(self.at + 2)
            return None
        operator = _OPERATORS.match(self.text, self.at)
        if operator is None:
            self._piece(char)
            return None
        if (word := self._word()) is not None:
            return word
        self.at = operator.end()
        found = Token(self.line, text=operator[0])
        self.line += operator[0] == "\n"
        return found

    def _descriptor(self) -> bool:
        """Whether the word before a redirection is the number of its descriptor."""
        return len(self.parts) == 1 and self.parts[0].text.isdigit() and not self.parts[0].quoted

    def _substitution(self, start: int) -> None:
        """`<(command)` is part of a word."""
        end = closing(self.text, start, "(", ")")
        self._add(Of.COMMAND, self.text[start:end])
        self._move(end + 1)

    def _word(self) -> Token | None:
        """The word that ends here, if there is one."""
        if not self.parts:
            return None
        found = Token(self.began, parts=tuple(self.parts))
        self.parts.clear()
        return found

    def _add(self, of: Of, text: str, *, quoted: bool = False) -> None:
        if not self.parts:
            self.began = self.line
        self.parts.append(Part(of, text, quoted))

    def _move(self, to: int) -> None:
        to = min(to, len(self.text))
        self.line += self.text.count("\n", self.at, to)
        self.at = to

    def _piece(self, char: str) -> None:
        """One part of a word that begins here."""
        if char == "\\":
            self._escape()
        elif char == "'":
            end = _after(self.text, "'", self.at + 1)
            self._add(Of.TEXT, self.text[self.at + 1 : end].removesuffix("'"), quoted=True)
            self._move(end)
        elif char == '"':
            self._double()
        elif char in "$`":
            self._dollar(quoted=False)
        else:
            match = _PLAIN.match(self.text, self.at)
            end = match.end() if match is not None else self.at + 1
            self._add(Of.TEXT, self.text[self.at : end])
            self.at = end

    def _escape(self) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        if following != "\n":
            self._add(Of.TEXT, following, quoted=True)
        self._move(self.at + 2)

    def _double(self) -> None:
        self._add(Of.TEXT, "", quoted=True)
        self.at += 1
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return
            if char in "$`":
                self._dollar(quoted=True)
            elif char == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                kept = following if following in '"$`\\' else "" if following == "\n" else "\\" + following
                self._add(Of.TEXT, kept, quoted=True)
                self._move(self.at + 2)
            else:
                end = next(
                    (n for n in range(self.at, len(self.text)) if self.text[n] in '"$`\\'), len(self.text)
                )
                self._add(Of.TEXT, self.text[self.at : end], quoted=True)
                self._move(end)

    def _dollar(self, *, quoted: bool) -> None:
        """A variable, a command or a sum; a dollar by itself is one."""
        text, start = self.text, self.at
        if text[start] == "`":
            end = _after(text, "`", start + 1)
            self._add(Of.COMMAND, text[start + 1 : end].removesuffix("`"), quoted=quoted)
            self._move(end)
        elif text.startswith("$((", start):
            end = closing(text, start + 3, "(", ")")
            self._add(Of.SUM, text[start + 3 : end], quoted=quoted)
            self._move(end + 2)
        elif text.startswith("$(", start):
            end = closing(text, start + 2, "(", ")")
            self._add(Of.COMMAND, text[start + 2 : end], quoted=quoted)
            self._move(end + 1)
        elif text.startswith("${", start):
            end = closing(text, start + 2, "{", "}")
            self._add(Of.VARIABLE, text[start + 2 : end], quoted=quoted)
            self._move(end + 1)
        elif (name := _NAME.match(text, start + 1)) is not None:
            self._add(Of.VARIABLE, name[0], quoted=quoted)
            self.at = name.end()
        else:
            self._add(Of.TEXT, "$", quoted=quoted)
            self.at += 1

    def _bodies(self) -> Iterator[Token]:
        """The here-documents that begin after this line, in order."""
        for end, tabs in self.waiting:
            lines: list[str] = []
            began = self.line
            while self.at < len(self.text):
                stop = _after(self.text, "\n", self.at)
                line = self.text[self.at : stop].removesuffix("\n")
                self._move(stop)
                if (line.lstrip("\t") if tabs else line) == end:
                    break
                lines.append(line)
            yield Token(began, text="<<", body="\n".join(lines))
        self.waiting.clear()
