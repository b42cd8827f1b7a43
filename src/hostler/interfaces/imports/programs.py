"""What is known of the programs that serve models: the model id that each reports, its context, its task.

Decides by a program's name and flags alone. An engine is believed to be itself when it reports the id that
is expected (ENG-4), so the id that it will report must be known, or nobody asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hostler.interfaces.imports.command import Command

_ALIAS: Final = ("--alias", "-a", "--served-model-name", "--model_alias", "--model-alias")
_LLAMA: Final = ("llama-server", "llama.cpp:server", "llama.cpp:full", "llama-server:", "ik_llama")
_MODEL: Final = ("--model", "--model-path", "--model-id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The id that an engine will report, None where it is not known; `more` are words that make it so."""

    model: str | None
    more: tuple[str, ...] = ()


def identity_of(command: Command, wanted: str) -> Identity:
    """The model id that the command's engine reports. `wanted` is what its requests are to name."""
    if command.script:
        return Identity(model=None)
    named = command.option(*_ALIAS)
    if named is not None:
        return Identity(model=named.partition(",")[0])
    if is_llama_server(command):
        return Identity(model=wanted, more=("--alias", "{model}"))
    return Identity(model=_of_vllm(command))


def is_llama_server(command: Command) -> bool:
    """Whether it is llama.cpp's server, by itself or in its container."""
    return command.program.startswith("llama-server") or (
        command.program in ("docker", "podman") and any(_is_llama_image(word) for word in command.words)
    )


def _is_llama_image(word: str) -> bool:
    return any(name in word for name in _LLAMA) and not word.startswith("-")


def _of_vllm(command: Command) -> str | None:
    """What vLLM and SGLang report: what they were told to load."""
    words = command.words
    for index, word in enumerate(words[:-1]):
        if word == "serve" and words[index - 1].rpartition("/")[2] == "vllm" and index:
            after = words[index + 1]
            return command.option("--model") if after.startswith("-") else after
    known = any(
        word.startswith(("vllm.entrypoints", "sglang.launch_server")) or "vllm/vllm-openai" in word
        for word in words
    )
    return command.option(*_MODEL) if known else None


def context_of(command: Command) -> int | None:
    """The context that it is started with, where a flag says so."""
    said = command.option("-c", "--ctx-size", "--max-model-len", "--context-length")
    return int(said) if said is not None and said.isdigit() and int(said) > 0 else None


def task_of(command: Command) -> str:
    """What it does, by its flags."""
    if command.has("--embedding", "--embeddings"):
        return "embed"
    return "rerank" if command.has("--rerank", "--reranking") else "chat"
