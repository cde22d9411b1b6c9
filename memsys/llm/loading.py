"""Loading a causal model and its tokenizer with transformers, on the CPU or a CUDA device."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import Any, Literal

import torch

from memsys.errors import UserError
from memsys.llm import gguf, kv, packing
from memsys.llm.weights import Source

Device = Literal["auto", "cpu", "cuda"]
Dtype = Literal["auto", "float32", "bfloat16", "float16"]


@dataclass(frozen=True)
class Loaded:
    """A model ready to decode; `room` is the memory for keys and values, in bytes."""

    model: Any
    stops: tuple[int, ...]
    room: int


def load_tokenizer(source: Source) -> Any:
    """Return the model's fast tokenizer, which must have a chat template."""
    if source.gguf is not None:
        return gguf.tokenizer(gguf.read(source.gguf))
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source.folder, trust_remote_code=False)
    if not tokenizer.chat_template:
        raise UserError(f"Model '{source.folder.name}' has no chat template; take an instruct one.")
    return tokenizer


def load_model(
    source: Source, tokenizer: Any, device: Device, dtype: Dtype, threads: int
) -> Loaded:
    """Load the weights; raises `UserError` for a model that cannot run here."""
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("llm device=cuda, but torch sees no CUDA device; use device=cpu or auto.")
    place = "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"
    if place == "cpu":
        torch.set_num_threads(threads or _cores())
    kind = getattr(torch, resolve_dtype(dtype, place))
    for noisy in ("transformers", "transformers.modeling_utils"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    _hide_progress_bars()
    model = (_from_gguf(source, kind) if source.gguf else _from_folder(source, kind)).to(place)
    model.eval()
    if place == "cpu":
        packing.pack(model)
    stops = {tokenizer.eos_token_id, *_ids(model.generation_config.eos_token_id)}
    return Loaded(model, tuple(sorted(i for i in stops if i is not None)), _room(model, place))


def resolve_dtype(dtype: Dtype, place: str) -> str:
    """`auto` is float32 on the CPU, whose replies do not depend on their batch, else bfloat16."""
    if dtype != "auto":
        return dtype
    return "float32" if place == "cpu" else "bfloat16"


def _from_gguf(source: Source, kind: torch.dtype) -> Any:
    from transformers import LlamaForCausalLM

    # unpacked: for GGUF blocks transformers has no matrix product on the CPU, and unpacks them too
    assert source.gguf is not None
    file = gguf.read(source.gguf)
    if file.architecture != "llama" or file.metadata.get("tokenizer.ggml.pre") != "smollm":
        raise UserError(
            f"{source.gguf.name} is a GGUF file of another family than SmolLM2; give the "
            "model's Hugging Face folder, or serve the file with llama.cpp and use llm=vllm "
            "with its base_url."
        )
    state = {name: torch.tensor(array) for name, array in gguf.llama_weights(file).items()}
    return LlamaForCausalLM.from_pretrained(
        None, config=gguf.llama_config(file), state_dict=state, dtype=kind,
        attn_implementation=kv.ATTENTION,
    )  # fmt: skip


def _from_folder(source: Source, kind: torch.dtype) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(source.folder, trust_remote_code=False)
    layers = set(getattr(config.get_text_config(), "layer_types", None) or ())
    if not layers <= {"full_attention", "sliding_attention"}:
        raise UserError(
            f"Model '{source.folder.name}' has layers without attention, which cannot run in "
            "process here; serve it with vLLM (llm=vllm)."
        )
    return AutoModelForCausalLM.from_pretrained(
        source.folder, config=config, dtype=kind, attn_implementation=kv.ATTENTION,
        use_safetensors=True, trust_remote_code=False,
    )  # fmt: skip


def _ids(value: int | list[int] | None) -> list[int]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _room(model: Any, place: str) -> int:
    if place == "cuda":
        free, _ = torch.cuda.mem_get_info()
        return int(free * 0.6)  # the rest: activations, logits, remembered prefixes
    return 3 << 29  # 1.5 GiB: sixteen replies of 2,000 tokens for SmolLM2


def _hide_progress_bars() -> None:
    from transformers.utils import logging as bars

    bars.disable_progress_bar()  # type: ignore[no-untyped-call, unused-ignore]
