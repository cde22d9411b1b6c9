"""A chat model of a few thousand random weights, saved in transformers' layout."""

from __future__ import annotations

from pathlib import Path

TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def save(folder: Path, seed: int = 0, **changes: object) -> Path:
    """Write model, tokenizer and chat template; a byte is a token. Returns the folder."""
    import torch
    from tokenizers import Tokenizer
    from tokenizers.decoders import ByteLevel as Decoder
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    vocabulary = {c: i for i, c in enumerate(sorted(ByteLevel.alphabet()))}
    bytes_ = Tokenizer(BPE(vocabulary, []))
    bytes_.pre_tokenizer = ByteLevel(add_prefix_space=False)
    bytes_.decoder = Decoder()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bytes_, chat_template=TEMPLATE)
    tokenizer.add_special_tokens(
        {
            "eos_token": "<|end|>",
            "additional_special_tokens": ["<|system|>", "<|user|>", "<|assistant|>"],
        }
    )
    tokenizer.save_pretrained(folder)
    settings = {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "initializer_range": 0.3,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        **changes,
    }
    torch.manual_seed(seed)
    LlamaForCausalLM(LlamaConfig(**settings)).save_pretrained(folder)
    return folder
