"""Names of ours for names of theirs: what they allow in a model's id, we allow in a route's name only.

Decides the name of each engine, group and upstream, and keeps all that clients ask for unique (BG-11).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from hostler.domain.values import NAME

_OTHER: Final = re.compile(r"[^a-z0-9._-]+")
_CLOUD: Final = re.compile(
    r"(gpt-[345o]|o[134](-|$)|chatgpt|claude-|gemini-|text-embedding-|dall-e|whisper-1$|tts-1|command-r|grok-)"
)


def slug(text: str) -> str:
    """A name of ours that reads like `text`."""
    if NAME.fullmatch(text):
        return text
    made = _OTHER.sub("-", text.lower()).strip("._-")[:60]
    return made or "model"


def unique(wanted: str, taken: Iterable[str]) -> str:
    """`wanted`, or with a number behind it where that name is taken."""
    names = set(taken)
    numbered = (f"{wanted}-{number}" for number in range(2, len(names) + 3))
    return wanted if wanted not in names else next(name for name in numbered if name not in names)


def engine_names(models: Iterable[str], asked: Iterable[str]) -> Mapping[str, str]:
    """An engine's name for each model. `asked` are all names that clients ask for: no other may be one."""
    ids = list(models)
    reserved = {*ids, *asked}
    found: dict[str, str] = {}
    for model in ids:
        own = slug(model)
        found[model] = own if own == model else unique(own, {*reserved, *found.values()})
    return found


def is_cloud_name(name: str) -> bool:
    """Whether a cloud provider has a model of that name."""
    return _CLOUD.match(name.lower()) is not None
