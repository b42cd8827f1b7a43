"""Hostler looks after the inference engines of a few GPU boxes that several parties share.

    from hostler import AsyncHostler, Hostler, LeaseLost

These three are loaded when they are first named: a program that wants none of them starts as fast as before.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hostler.client.facade import AsyncHostler, Hostler
    from hostler.domain.errors import LeaseLost

__version__ = "0.1.0"
__all__ = ["AsyncHostler", "Hostler", "LeaseLost", "__version__"]


if not TYPE_CHECKING:  # A checker would take any name for one that there is.

    def __getattr__(name: str) -> object:
        if name in ("AsyncHostler", "Hostler"):
            return getattr(import_module("hostler.client.facade"), name)
        if name == "LeaseLost":
            return getattr(import_module("hostler.domain.errors"), name)
        raise AttributeError(f"module 'hostler' has no attribute {name!r}")
