"""Writes a model so small that a real llama.cpp server loads it in a tenth of a second.

Decides the file's every byte; knows nothing of Hostler. The model is a table of pairs: whatever the
prompt was, it ends with one cue token, the cue is followed by the first piece of the text, each piece
by the next one, the last by end of turn. So the answer is known exactly, and it tells which engine
answered.

How: llama architecture, embeddings of one 1 per token (so width >= vocabulary), attention and
feed-forward all zero (so the residual passes unchanged), and an output matrix whose row `next` has
its weight in column `current`. Layers add work and change nothing.
"""

from __future__ import annotations

import argparse
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

ALIGNMENT: Final = 32
HEAD: Final = 64
"""Width of an attention head: the model's width is a multiple of it."""
WEIGHT: Final = 4.0
"""After the norm a 1 is sqrt(width) >= 17: the next piece leads by 4 * 17 = 68, certain at any heat."""

_U32, _I32, _F32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6
_SPECIALS: Final = ("<unk>", "<s>", "</s>", "<|end|>", "<|say|>")
_UNK, _BOS, _EOS, _END, _CUE = range(len(_SPECIALS))
_TEMPLATE: Final = (
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|say|>' }}{% endif %}"
)
_MEAN_POOLING: Final = 1


@dataclass(frozen=True, slots=True)
class _Shape:
    """The sizes of one model: tokens, width (elements), layers, feed-forward width, context (tokens)."""

    vocabulary: int
    width: int
    layers: int
    feed_forward: int
    context: int


def pieces(text: str) -> tuple[str, ...]:
    """`text` cut into tokens that all differ, in order; joined they are `text` again.

    A word that came before is joined with the next one, since a token has one successor.
    ValueError when `text` is empty.
    """
    if not text:
        raise ValueError("a model needs a text to say")
    found: list[str] = []
    held = ""
    for word in re.findall(r" ?[^\s.,;:!?]+|.", text, flags=re.DOTALL):
        held += word
        if held not in found and held not in _SPECIALS:
            found.append(held)
            held = ""
    if not held:
        return tuple(found)
    return tuple(_with_tail(found, held))


def _with_tail(found: list[str], tail: str) -> list[str]:
    """`found` with `tail` joined to its end, taking in earlier pieces until the last one is new."""
    rest = list(found)
    while rest and tail in [*rest, *_SPECIALS]:
        tail = rest.pop() + tail
    return [*rest, tail]


def write_model(
    path: Path,
    *,
    says: str,
    layers: int = 1,
    feed_forward: int = 32,
    endless: bool = False,
    context: int = 4096,
    embeddings: bool = False,
) -> None:
    """Write a model that answers `says` to everything.

    `layers` and `feed_forward` (elements) make each token cost more: the file grows by
    3 * 4 * width * feed_forward bytes a layer, all of it holes. `endless`: after the last piece comes
    the first again, until the caller's limit. `context` in tokens. `embeddings`: vectors are pooled
    by their mean, so `/v1/embeddings` answers without a flag. ValueError for an empty text.
    """
    said = pieces(says)
    tokens = [*_SPECIALS, *(f"<0x{byte:02X}>" for byte in range(256)), *said]
    if len(set(tokens)) < len(tokens):
        raise ValueError(f"{says!r} has a word that is one of the model's own tokens")
    width = -(-len(tokens) // HEAD) * HEAD
    shape = _Shape(len(tokens), width, layers, feed_forward, context)
    first = len(tokens) - len(said)
    with path.open("wb") as out:
        _write(out, shape, tokens, _successors(len(tokens), first, endless=endless), embeddings=embeddings)


def _successors(count: int, first: int, *, endless: bool) -> list[int]:
    """The token that follows each of `count` tokens: the text's first one, unless inside the text."""
    follow = [first] * count
    for token in range(first, count - 1):
        follow[token] = token + 1
    follow[count - 1] = first if endless else _END
    return follow


def _write(out: BinaryIO, shape: _Shape, tokens: list[str], follow: list[int], *, embeddings: bool) -> None:
    fields = _metadata(shape, tokens, embeddings=embeddings)
    tensors = _tensors(shape)
    out.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields)))
    out.writelines(fields)
    offset = 0
    places: dict[str, int] = {}
    for name, dimensions in tensors.items():
        places[name] = offset
        out.write(_text(name) + struct.pack("<I", len(dimensions)))
        out.write(struct.pack(f"<{len(dimensions)}Q", *dimensions) + struct.pack("<IQ", 0, offset))
        size = 4
        for dimension in dimensions:
            size *= dimension
        offset += -(-size // ALIGNMENT) * ALIGNMENT
    start = -(-out.tell() // ALIGNMENT) * ALIGNMENT
    out.truncate(start + offset)
    _write_weights(out, shape, {name: start + place for name, place in places.items()}, follow)


def _write_weights(out: BinaryIO, shape: _Shape, places: dict[str, int], follow: list[int]) -> None:
    """Only what is not zero: norms of ones, the embeddings, and the table of pairs."""
    ones = struct.pack("<f", 1.0) * shape.width
    for name, place in places.items():
        if name.endswith("norm.weight"):
            out.seek(place)
            out.write(ones)
    for token, successor in enumerate(follow):
        out.seek(places["token_embd.weight"] + 4 * (token * shape.width + token))
        out.write(struct.pack("<f", 1.0))
        out.seek(places["output.weight"] + 4 * (successor * shape.width + token))
        out.write(struct.pack("<f", WEIGHT))


def _tensors(shape: _Shape) -> dict[str, tuple[int, ...]]:
    """Name to dimensions, fastest first, all 32-bit floats, in file order."""
    width, wide = shape.width, shape.feed_forward
    found: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (width, shape.vocabulary),
        "output_norm.weight": (width,),
        "output.weight": (width, shape.vocabulary),
    }
    for layer in range(shape.layers):
        block = f"blk.{layer}."
        found |= {
            f"{block}attn_norm.weight": (width,),
            f"{block}attn_q.weight": (width, width),
            f"{block}attn_k.weight": (width, HEAD),
            f"{block}attn_v.weight": (width, HEAD),
            f"{block}attn_output.weight": (width, width),
            f"{block}ffn_norm.weight": (width,),
            f"{block}ffn_gate.weight": (width, wide),
            f"{block}ffn_up.weight": (width, wide),
            f"{block}ffn_down.weight": (wide, width),
        }
    return found


def _metadata(shape: _Shape, tokens: list[str], *, embeddings: bool) -> list[bytes]:
    first = len(_SPECIALS) + 256
    kinds = [_UNKNOWN, *[_CONTROL] * (len(_SPECIALS) - 1), *[_BYTE] * 256, *[_NORMAL] * len(tokens[first:])]
    shown = [*tokens[:first], *(token.replace(" ", "▁") for token in tokens[first:])]
    fields = [
        _string("general.architecture", "llama"),
        _string("general.name", "tiny"),
        _u32("general.alignment", ALIGNMENT),
        _u32("llama.context_length", shape.context),
        _u32("llama.embedding_length", shape.width),
        _u32("llama.block_count", shape.layers),
        _u32("llama.feed_forward_length", shape.feed_forward),
        _u32("llama.attention.head_count", shape.width // HEAD),
        _u32("llama.attention.head_count_kv", 1),
        _u32("llama.rope.dimension_count", HEAD),
        _u32("llama.vocab_size", shape.vocabulary),
        _key("llama.attention.layer_norm_rms_epsilon", _F32) + struct.pack("<f", 1e-5),
        _string("tokenizer.ggml.model", "llama"),
        _array("tokenizer.ggml.tokens", _STRING, b"".join(map(_text, shown)), len(tokens)),
        _array("tokenizer.ggml.scores", _F32, struct.pack("<f", 0.0) * len(tokens), len(tokens)),
        _array("tokenizer.ggml.token_type", _I32, struct.pack(f"<{len(kinds)}i", *kinds), len(tokens)),
        _u32("tokenizer.ggml.unknown_token_id", _UNK),
        _u32("tokenizer.ggml.bos_token_id", _BOS),
        _u32("tokenizer.ggml.eos_token_id", _EOS),
        _u32("tokenizer.ggml.eot_token_id", _END),
        _key("tokenizer.ggml.add_bos_token", _BOOL) + b"\x01",
        _key("tokenizer.ggml.add_space_prefix", _BOOL) + b"\x00",
        _string("tokenizer.chat_template", _TEMPLATE),
    ]
    if embeddings:
        fields.append(_u32("llama.pooling_type", _MEAN_POOLING))
    return fields


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def _key(name: str, kind: int) -> bytes:
    return _text(name) + struct.pack("<I", kind)


def _string(name: str, value: str) -> bytes:
    return _key(name, _STRING) + _text(value)


def _u32(name: str, value: int) -> bytes:
    return _key(name, _U32) + struct.pack("<I", value)


def _array(name: str, kind: int, data: bytes, count: int) -> bytes:
    return _key(name, _ARRAY) + struct.pack("<IQ", kind, count) + data


def main(argv: list[str] | None = None) -> None:
    """`python -m demo.tiny_gguf OUT --says TEXT [--layers N] [--feed-forward N] [--endless] …`."""
    parser = argparse.ArgumentParser(prog="python -m demo.tiny_gguf", description="Write a tiny GGUF model.")
    parser.add_argument("out", type=Path, help="the file to write")
    parser.add_argument("--says", required=True, help="what the model answers to everything")
    parser.add_argument("--layers", type=int, default=1, help="more layers make it slower")
    parser.add_argument("--feed-forward", type=int, default=32, help="a wider one makes it slower")
    parser.add_argument("--context", type=int, default=4096, help="tokens")
    parser.add_argument("--endless", action="store_true", help="repeat the text until the caller's limit")
    parser.add_argument("--embeddings", action="store_true", help="pool vectors by their mean")
    given = parser.parse_args(argv)
    write_model(
        given.out,
        says=given.says,
        layers=given.layers,
        feed_forward=given.feed_forward,
        endless=given.endless,
        context=given.context,
        embeddings=given.embeddings,
    )


if __name__ == "__main__":
    main()
