"""The decoder root that the benchmark reads with."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import tokenizers

from benchmarks.serving.generation.decoder_root import smollm2_file
from inference.decoder.checkpoint import open_decoder_checkpoint
from inference.decoder.decoder import Decoder
from inference.decoder.root import DecoderRoot

BEGIN_TOKEN: Final = "<|endoftext|>"  # noqa: S105 - a token of text
"""Stands between the documents of the root's pretraining."""


@dataclass(frozen=True, eq=False)
class HgptRoot:
    """The root in float32. begin: the token that begins a document."""

    root: DecoderRoot
    decoder: Decoder
    tokenizer: tokenizers.Tokenizer
    begin: int

    @classmethod
    def load(cls, checkpoint: Path | None = None) -> "HgptRoot":
        """The decoder in this folder or GGUF file (None: SmolLM2-135M-Instruct).

        Exits where the package that carries SmolLM2 is not installed.
        """
        root = DecoderRoot.from_checkpoint(open_decoder_checkpoint(checkpoint or smollm2_file()))
        tokenizer = tokenizers.Tokenizer.from_str(root.tokenizer)
        begin = tokenizer.token_to_id(BEGIN_TOKEN)
        if begin is None:
            raise SystemExit(f"The tokenizer of {root.config.name} has no {BEGIN_TOKEN}.")
        return cls(root, root.decoder(), tokenizer, begin)
