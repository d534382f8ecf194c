"""Supported families of decoders, by the `model_type` of their config.json."""

from collections.abc import Mapping
from typing import Any, Final

from inference.decoder.family import DecoderFamily
from inference.decoder.gpt_like import GPT2, OPT
from inference.decoder.llama_like import GEMMA3, GRANITE, LLAMA, MISTRAL, PHI3, QWEN2, QWEN3, SMOLLM3
from inference.errors import HplmError

DECODER_FAMILIES: Final = {
    family.name: family
    for family in (LLAMA, MISTRAL, QWEN2, QWEN3, GEMMA3, SMOLLM3, GRANITE, PHI3, GPT2, OPT)
}
_EXPERTS: Final = ("num_local_experts", "num_experts", "n_routed_experts")
"""Fields with the number of experts of a layer."""


def decoder_family_for(raw: Mapping[str, Any]) -> DecoderFamily:
    """The family of a config.json. Raises HplmError(unsupported_checkpoint) for other families, and for a
    mixture of experts."""
    kind = raw.get("model_type")
    for name in _EXPERTS:
        if raw.get(name):
            raise HplmError(
                "unsupported_checkpoint",
                f"config.json: {name} is {raw[name]!r}: a mixture of experts is not supported",
            )
    if isinstance(kind, str) and kind in DECODER_FAMILIES:
        return DECODER_FAMILIES[kind]
    raise HplmError(
        "unsupported_checkpoint",
        f"model type {kind!r} is not supported as a decoder; {', '.join(DECODER_FAMILIES)} are",
    )
