"""The page of state machines: a diagram and two lists for each table of the domain."""

import importlib
import pkgutil
from collections.abc import Iterator
from enum import Enum
from types import ModuleType

import hostler.domain
from tools.pages.text import first_paragraph, member_sentences, table


def machines() -> Iterator[ModuleType]:
    """The modules of the domain that have a table of transitions, by name."""
    for found in sorted(pkgutil.iter_modules(hostler.domain.__path__), key=lambda each: each.name):
        module = importlib.import_module(f"hostler.domain.{found.name}")
        if hasattr(module, "TRANSITIONS"):
            yield module


def one_or_more(states: Enum | tuple[Enum, ...]) -> tuple[Enum, ...]:
    """The states that a table names in one place: some events lead to one of several."""
    return states if isinstance(states, tuple) else (states,)


def diagram(module: ModuleType) -> str:
    """The table as a Mermaid state diagram."""
    lines = [f"    [*] --> {state.value}" for state in one_or_more(module.INITIAL)]
    for state, moves in module.TRANSITIONS.items():
        lines += [
            f"    {state.value} --> {target.value}: {event.__name__}"
            for event, targets in moves.items()
            for target in one_or_more(targets)
        ]
    return "```mermaid\nstateDiagram-v2\n" + "\n".join(lines) + "\n```\n"


def section(module: ModuleType) -> str:
    """One machine: its diagram, its states, its events."""
    noun = module.__name__.rsplit(".", 1)[1].removesuffix("_machine")
    sentences = member_sentences(module.State)
    states = [(f"`{state.value}`", sentences.get(state.name, "")) for state in module.State]
    events = [(f"`{event.__name__}`", first_paragraph(event)) for event in module.EVENTS]
    return (
        f"## {noun.capitalize()}\n\n"
        f"{diagram(module)}\n"
        f"{table(('state', 'what it means, who moves it on, what a crash of the daemon leaves'), states)}\n"
        f"{table(('event', 'what happened'), events)}"
    )


def render() -> str:
    """The page as Markdown."""
    return (
        "# States\n\n"
        "Each machine is one table in one file of the domain; a pair of state and event that has no arrow"
        " here raises.\n\n" + "\n".join(section(module) for module in machines())
    )
