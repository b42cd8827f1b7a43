"""What in a file of theirs is a secret, and how it is written in a config of ours: never in clear (CONF-1).

Decides `${env:NAME}` for what came from a variable, else `${file:…}` with a file of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.fleet import Secret
from hostler.interfaces.imports.names import slug, unique
from hostler.interfaces.imports.notes import Notes, Sign
from hostler.services.import_parts import NOWHERE, SECRETS, Given

_NAME: Final = re.compile(r".*(TOKEN(?!S|IZ)|SECRET|PASSWORD|API_KEY).*")


def reads_like_secret(name: str) -> bool:
    """Whether a variable of that name holds a secret."""
    return _NAME.fullmatch(name.upper()) is not None


@dataclass(slots=True, kw_only=True)
class Secrets:
    """The secrets of one import. `variables` leads from a value to the variable that it came from."""

    variables: Mapping[str, str]
    notes: Notes
    files: dict[str, Secret] = field(default_factory=dict)

    def refer(self, value: str, name: str, at: Given, path: str) -> str:
        """What stands in the config in the secret's place; `name` is how its file would be called."""
        if value in self.variables:
            variable = self.variables[value]
            self.notes.tell(
                Sign.CHANGED, at, path, f"the secret is ${{env:{variable}}}: the daemon needs that variable"
            )
            return f"${{env:{variable}}}"
        known = next((file for file, secret in self.files.items() if secret.value == value), None)
        if known is None:
            known = unique(slug(name), self.files)
            self.files[known] = Secret(value)
        self.notes.tell(
            Sign.CHANGED,
            at,
            path,
            f"the secret is never written in clear: it is in {SECRETS}/{known}, mode 0600",
        )
        return f"${{file:{NOWHERE}/{SECRETS}/{known}}}"
