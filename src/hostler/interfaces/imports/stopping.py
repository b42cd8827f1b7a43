"""`cmdStop` of llama-swap: whether Hostler's own way to stop an engine does the same.

Decides what is told. Nothing of a cmdStop is ever run: an engine is ended by the identity of its processes
(ENG-6), never by a name or a pattern.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Final

from hostler.interfaces.imports.command import Command, readable, without_comments
from hostler.interfaces.imports.docker import is_docker
from hostler.interfaces.imports.fields import Fields
from hostler.interfaces.imports.macros import PID
from hostler.interfaces.imports.notes import Notes

_PLAIN: Final = re.compile(rf"(/\S*/)?kill( (-s )?-?(SIG)?(TERM|15))?( --)? {PID}")
_BY_PATTERN: Final = re.compile(r"""(^|[\s;&|('"/])(pkill|killall5?|fuser|slay)(\s|$)""")


def tell_of_stop(fields: Fields, command: Command, keys: Mapping[str, object], notes: Notes) -> None:
    """Note what becomes of the model's cmdStop."""
    given = fields.get("cmdStop")
    if given is None or not given.text.strip():
        return
    path = fields.below("cmdStop")
    text = " ".join(without_comments(given).text.split())
    try:
        words = shlex.split(text)
    except ValueError as error:
        notes.refuse(given, path, f"its quotes do not match: {error}")
        return
    program = words[0].rpartition("/")[2] if words else ""
    shown = readable(text)
    if _PLAIN.fullmatch(text):
        notes.left_out(
            given, path, "it is not needed: an engine's own processes get SIGTERM anyway", alike="cmdStop"
        )
        return
    if _BY_PATTERN.search(text):
        notes.left_out(
            given,
            path,
            f"refused: `{shown}` would end anybody's process that matches, not only this engine's;"
            " Hostler ends the engine's own processes, by their ids",
        )
    elif program in ("docker", "podman") and is_docker(command) and "container" in keys:
        notes.changed(given, path, f"`{shown}` is not run: the container driver stops the container")
    else:
        notes.changed(
            given,
            path,
            f"`{shown}` is not run: the engine's processes get SIGTERM, and SIGKILL after stop_timeout;"
            " what it stops elsewhere is not stopped",
        )
