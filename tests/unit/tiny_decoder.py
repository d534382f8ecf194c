"""A tiny decoder of each family, random but real: a checkpoint that transformers writes and reads, too.
Weights are drawn wide, so that every part of the model shows in the logits."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from inference.decoder.checkpoint import open_decoder_checkpoint
from inference.decoder.decoder import Decoder

VOCAB, HIDDEN, LAYERS, HEADS, POSITIONS = 261, 64, 3, 4, 128
BOS, EOS = 256, 257
BOS_TOKEN, EOS_TOKEN = "<bos>", "<|endoftext|>"
_LLAMA_LIKE: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "intermediate_size": 96,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 2,
    "max_position_embeddings": POSITIONS,
    "tie_word_embeddings": True,
}
WINDOW = 6
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": _LLAMA_LIKE,
    "mistral": {**_LLAMA_LIKE, "sliding_window": WINDOW},
    "qwen2": _LLAMA_LIKE,
    "qwen3": {**_LLAMA_LIKE, "head_dim": 24},
    "gemma3_text": {
        **_LLAMA_LIKE,
        "head_dim": 24,
        "query_pre_attn_scalar": 48,
        "sliding_window": WINDOW,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 900.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
        },
        "pad_token_id": None,
    },
    "smollm3": {**_LLAMA_LIKE, "no_rope_layers": [1, 0, 1], "pad_token_id": None},
    "granite": {
        **_LLAMA_LIKE,
        "attention_multiplier": 0.4,
        "residual_multiplier": 0.6,
        "logits_scaling": 1.7,
    },
    "phi3": {
        **_LLAMA_LIKE,
        "sliding_window": WINDOW,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5},
        "pad_token_id": None,
    },
    "gpt2": {"n_embd": HIDDEN, "n_layer": LAYERS, "n_head": HEADS, "n_positions": POSITIONS},
    "opt": {
        "hidden_size": HIDDEN,
        "ffn_dim": 96,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "max_position_embeddings": POSITIONS,
        "word_embed_proj_dim": HIDDEN,
        "pad_token_id": 1,
    },
}
FAMILIES = tuple(CONFIGS)
CHAT_TEMPLATE = (
    "{% for message in messages %}[{{ message['role'] }}]{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


def tiny_decoder(family: str = "llama", seed: int = 0, **changes: Any) -> Decoder:
    """A random decoder of that family, float32, without files. `changes` are fields of its config.json."""
    with TemporaryDirectory() as folder:
        checkpoint = open_decoder_checkpoint(tiny_decoder_folder(Path(folder), family, seed, **changes))
    return Decoder.from_weights(checkpoint.architecture, checkpoint.weights)


def tiny_decoder_folder(folder: Path, family: str = "llama", seed: int = 0, **changes: Any) -> Path:
    """A checkpoint of that decoder in `folder` as it would be published, with a tokenizer of bytes and a chat
    template."""
    tiny_decoder_model(family, seed, **changes).save_pretrained(folder)
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    return folder


def tiny_decoder_model(family: str = "llama", seed: int = 0, **changes: Any) -> PreTrainedModel:
    """The same decoder as a model of transformers."""
    fields = {"vocab_size": VOCAB, "bos_token_id": BOS, "eos_token_id": EOS, **CONFIGS[family], **changes}
    config = AutoConfig.for_model(family, **fields)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
        for name, parameter in model.named_parameters():
            is_norm = parameter.dim() == 1 and name.endswith("weight")
            torch.nn.init.normal_(parameter, mean=1.0 if is_norm else 0.0, std=0.2)
    model.train(False)
    return model


def byte_tokenizer() -> tokenizers.Tokenizer:
    """A tokenizer of 256 bytes, the tokens that begin and end a text, and " t", "he" and " the"."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("Ġ", "t"), ("h", "e"), ("Ġt", "he")]
    pieces = [*alphabet, BOS_TOKEN, EOS_TOKEN, *map("".join, merges)]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.add_special_tokens([BOS_TOKEN, EOS_TOKEN])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer
