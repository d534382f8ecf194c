"""The decoder that both sides train, as the product stores it and as a folder of transformers."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from benchmarks.result_cache import cache_folder
from benchmarks.serving.generation.decoder_root import config_of
from inference.decoder.architecture import DecoderArchitecture
from inference.decoder.checkpoint import DecoderCheckpoint, open_decoder_checkpoint
from inference.decoder.decoder import Decoder
from inference.decoder.llama_like import LLAMA
from inference.decoder.root import DecoderRoot
from inference.hplm.artifact_files import write_json
from inference.text.generative_codec import GenerativeCodec
from workers.training.generative.tokenization import GenerativeTokenizer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
"""For chat templates that write the date; none is used here."""
CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"


@dataclass(frozen=True, slots=True, eq=False)
class SharedRoot:
    """A decoder in memory, in float32, and its folders.

    folder: the product's root. checkpoint: the same weights for transformers. sha256: of the file that they
    come from.
    """

    decoder: Decoder
    tokenizer: GenerativeTokenizer
    folder: Path
    checkpoint: Path
    sha256: str

    @classmethod
    def load(cls, source: Path) -> "SharedRoot":
        """The decoder in a GGUF file or a folder of transformers. Its folders are written if missing.

        Raises SystemExit for a family whose weights are not written here.
        """
        found = open_decoder_checkpoint(source)
        folder = cache_folder("decoders", {"sha256": found.sha256})
        product, checkpoint = folder / "root", folder / "transformers"
        _write_once(product, lambda out: DecoderRoot.from_checkpoint(found).save(out))
        _write_once(checkpoint, lambda out: write_checkpoint(found, out))
        codec = GenerativeCodec.of_root(product)
        tokenizer = GenerativeTokenizer(
            codec.prompts, codec.detokenizer, found.stop_ids, found.architecture.positions, NOW
        )
        decoder = Decoder.from_weights(found.architecture, found.weights)
        return cls(decoder, tokenizer, product, checkpoint, found.sha256)

    @property
    def architecture(self) -> DecoderArchitecture:
        """The decoder's."""
        return self.decoder.architecture


def write_checkpoint(found: DecoderCheckpoint, folder: Path) -> None:
    """Write a decoder of the family LLaMA as `AutoModelForCausalLM.from_pretrained` reads it, without a
    tokenizer. Raises SystemExit for another family."""
    shape = found.architecture
    if shape.family != LLAMA.name or shape.rotary is None or shape.rotary.kind != "default":
        raise SystemExit(f"A plain LLaMA is needed, not {shape.family}.")
    folder.mkdir(parents=True)
    config: dict[str, Any] = {
        **config_of(shape),
        "architectures": ["LlamaForCausalLM"],
        "model_type": shape.family,
        "hidden_act": shape.activation,
        "rms_norm_eps": shape.eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": shape.rotary.theta},
        "bos_token_id": found.bos_id,
        "eos_token_id": list(found.stop_ids),
    }
    write_json(folder / CONFIG_FILE, config)
    weights = {_name(name): value.float().contiguous() for name, value in found.weights.items()}
    save_file(weights, folder / WEIGHTS_FILE, metadata={"format": "pt"})


def _name(ours: str) -> str:
    """The name of a weight in a checkpoint with a head."""
    if ours in LLAMA.other_names:
        theirs = LLAMA.other_names[ours]
        return theirs if ours == "head.weight" else LLAMA.prefix + theirs
    _, layer, part, kind = ours.split(".")
    return f"{LLAMA.prefix}{LLAMA.layer.format(layer)}{LLAMA.layer_names[part]}.{kind}"


def _write_once(folder: Path, write: Callable[[Path], None]) -> None:
    """Call `write` with a folder that becomes `folder` once it is complete, unless that is there."""
    if folder.is_dir():
        return
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    write(partial)
    partial.rename(folder)
