"""Reading a GGUF file in a second: metadata, tensors, tokenizer, as plain values.

The format is llama.cpp's (github.com/ggml-org/ggml/blob/master/docs/gguf.md). transformers' own
loader parses every vocabulary entry through memory-mapped scalars, three times over, and takes
half a minute for a model of 100 MB; a test holds that both give the same weights and tokens.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memsys.errors import UserError

_SCALARS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?",
    10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
_STRING, _ARRAY = 8, 9
_CONTROL = 3  # token_type of special tokens


@dataclass(frozen=True)
class Gguf:
    """One GGUF file: its metadata and where each tensor lies."""

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, tuple[tuple[int, ...], int, int]]  # name → shape, type, offset in file

    @property
    def architecture(self) -> str:
        """The architecture's llama.cpp name (`llama`, `qwen2`, …)."""
        return str(self.metadata["general.architecture"])

    def setting(self, name: str, default: Any = None) -> Any:
        """Return a setting of the architecture (`attention.head_count`)."""
        return self.metadata.get(f"{self.architecture}.{name}", default)

    def arrays(self) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Yield every tensor by name, unpacked to float32, in row-major order."""
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
        from gguf.quants import dequantize

        data = np.memmap(self.path, np.uint8, "r")
        for name, (shape, kind, offset) in self.tensors.items():
            type_ = GGMLQuantizationType(kind)
            block, size = GGML_QUANT_SIZES[type_]
            width = shape[-1] // block * size
            rows = int(np.prod(shape[:-1], dtype=np.int64))
            raw = data[offset : offset + rows * width].reshape(rows, width)
            yield name, np.asarray(dequantize(raw, type_), np.float32).reshape(shape)


def read(path: Path) -> Gguf:
    """Read the header of a GGUF file; raises `UserError` if it is none."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:4] != b"GGUF":
            raise UserError(f"{path.name} is not a GGUF file.")
        reader = _Reader(data, 4)
        version = reader.scalar("<I")
        if version not in (2, 3):
            raise UserError(f"{path.name} has GGUF version {version}; versions 2 and 3 are read.")
        tensors, entries = reader.scalar("<Q"), reader.scalar("<Q")
        metadata = {}
        for _ in range(entries):
            key = reader.string()
            metadata[key] = reader.value(reader.scalar("<I"))
        index = {}
        for _ in range(tensors):
            name = reader.string()
            dims = [reader.scalar("<Q") for _ in range(reader.scalar("<I"))]
            kind, offset = reader.scalar("<I"), reader.scalar("<Q")
            index[name] = (tuple(reversed(dims)), kind, offset)
        unit = metadata.get("general.alignment", 32)
        start = -(-reader.at // unit) * unit
    placed = {n: (shape, kind, start + offset) for n, (shape, kind, offset) in index.items()}
    return Gguf(path, metadata, placed)


class _Reader:
    """A cursor over the bytes of the header."""

    def __init__(self, data: mmap.mmap, at: int) -> None:
        self.data, self.at = data, at

    def scalar(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def string(self) -> str:
        size = self.scalar("<Q")
        text = self.data[self.at : self.at + size]
        self.at += size
        return text.decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            return self.scalar(_SCALARS[kind])
        kind, count = self.scalar("<I"), self.scalar("<Q")
        if kind in (_STRING, _ARRAY):
            return [self.value(kind) for _ in range(count)]
        form = f"<{count}{_SCALARS[kind][1]}"
        values = list(struct.unpack_from(form, self.data, self.at))
        self.at += struct.calcsize(form)
        return values


def tokenizer(file: Gguf) -> Any:
    """Return the file's byte-level BPE tokenizer as a transformers fast tokenizer.

    Of llama.cpp's pre-tokenizers only `smollm` (single digits, then GPT-2's split) is known here.
    """
    from tokenizers import AddedToken, Tokenizer
    from tokenizers.decoders import ByteLevel as ByteLevelDecoder
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
    from transformers import PreTrainedTokenizerFast

    meta = file.metadata
    tokens: list[str] = meta["tokenizer.ggml.tokens"]
    merges = [tuple(pair.split(" ", 1)) for pair in meta["tokenizer.ggml.merges"]]
    bpe = Tokenizer(BPE({token: i for i, token in enumerate(tokens)}, merges))
    bpe.pre_tokenizer = Sequence([Digits(individual_digits=True), ByteLevel(False)])
    bpe.decoder = ByteLevelDecoder()
    kinds = meta["tokenizer.ggml.token_type"]
    control = [t for t, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL]
    bpe.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in control])
    fast: Any = PreTrainedTokenizerFast
    return fast(
        tokenizer_object=bpe,
        bos_token=tokens[meta["tokenizer.ggml.bos_token_id"]],
        eos_token=tokens[meta["tokenizer.ggml.eos_token_id"]],
        unk_token=tokens[meta["tokenizer.ggml.unknown_token_id"]],
        pad_token=tokens[meta["tokenizer.ggml.padding_token_id"]],
        chat_template=meta["tokenizer.chat_template"],
        clean_up_tokenization_spaces=False,
    )


def llama_config(file: Gguf) -> Any:
    """Return the `LlamaConfig` of a llama-architecture file."""
    from transformers import LlamaConfig

    heads = file.setting("attention.head_count")
    settings: dict[str, Any] = {
        "vocab_size": file.tensors["token_embd.weight"][0][0],
        "hidden_size": file.setting("embedding_length"),
        "intermediate_size": file.setting("feed_forward_length"),
        "num_hidden_layers": file.setting("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": file.setting("attention.head_count_kv", heads),
        "max_position_embeddings": file.setting("context_length"),
        "rms_norm_eps": file.setting("attention.layer_norm_rms_epsilon"),
        "rope_theta": file.setting("rope.freq_base", 10_000.0),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "bos_token_id": file.metadata["tokenizer.ggml.bos_token_id"],
        "eos_token_id": file.metadata["tokenizer.ggml.eos_token_id"],
        "pad_token_id": file.metadata["tokenizer.ggml.padding_token_id"],
    }
    return LlamaConfig(**settings)


_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def llama_weights(file: Gguf) -> dict[str, NDArray[np.float32]]:
    """Return the weights of a llama-architecture file under transformers' names, in float32."""
    heads = file.setting("attention.head_count")
    kv_heads = file.setting("attention.head_count_kv", heads)
    state = {}
    for name, array in file.arrays():
        parts = name.split(".")
        stem, end = parts[-2], parts[-1]
        where = f"model.layers.{parts[1]}." if parts[0] == "blk" else ""
        if stem in ("attn_q", "attn_k"):
            array = _interleaved_to_halves(array, heads if stem == "attn_q" else kv_heads)
        state[f"{where}{_NAMES[stem]}.{end}"] = array
    return state


def _interleaved_to_halves(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Reorder a projection's rows: llama.cpp rotates pairs of neighbours, transformers halves."""
    half = weight.shape[0] // heads // 2
    pairs = weight.reshape(heads, half, 2, *weight.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(weight.shape))
