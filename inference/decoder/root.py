"""A decoder root: the weights, tokenizer and chat template of a checkpoint, in canonical files."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import tokenizers
import torch
from torch import Tensor

from inference.decoder.architecture import DecoderArchitecture
from inference.decoder.checkpoint import DecoderCheckpoint, checked_tokenizer
from inference.decoder.decoder import Decoder, check_weights
from inference.errors import HplmError
from inference.hplm.artifact_files import (
    FORMAT,
    read_artifact_json,
    read_weights,
    write_json,
    write_weights,
)
from inference.text.chat_template import ChatTemplate
from inference.text.tokenization import DECODER_FILE, TOKENIZER_FILE

WEIGHTS_FILE: Final = "decoder.safetensors"
CHAT_TEMPLATE_FILE: Final = "chat_template.jinja"
SPECIAL_TOKENS_FILE: Final = "tokenizer_config.json"
"""The texts of the tokens that begin and end a text: chat templates write them."""
SHARE_BELOW_CUT: Final = 3
"""By default a third of the layers are below the cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderRootConfig:
    """The configuration of a decoder root: the content of decoder.json.

    lower_layers: the number of layers below the cut. max_tokens: the longest context. bos_id: the token that
    begins a text, if there is one. stop_ids: the tokens that end an answer. source_sha256: of the
    checkpoint's weight files.
    """

    name: str
    architecture: DecoderArchitecture
    lower_layers: int
    max_tokens: int
    bos_id: int | None
    stop_ids: tuple[int, ...]
    source_sha256: str
    format: int = FORMAT

    def __post_init__(self) -> None:
        layers, vocab = self.architecture.layers, self.architecture.vocab
        if not 0 <= self.lower_layers < layers:
            raise HplmError(
                "unsupported_checkpoint",
                f"{self.lower_layers} lower layers of {layers}: at least one must be above the cut",
            )
        if not 0 < self.max_tokens <= self.architecture.positions:
            raise HplmError(
                "unsupported_checkpoint",
                f"a context of {self.max_tokens} tokens; the decoder has {self.architecture.positions}",
            )
        for token in (*self.stop_ids, *([] if self.bos_id is None else [self.bos_id])):
            if not 0 <= token < vocab:
                raise HplmError("unsupported_checkpoint", f"special id {token} is outside the vocabulary")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "DecoderRootConfig":
        """The inverse of `to_json`. Raises HplmError(corrupt_artifact) for missing or unknown fields."""
        try:
            architecture = DecoderArchitecture.from_json(raw["architecture"])
            return cls(**{**raw, "architecture": architecture, "stop_ids": tuple(raw["stop_ids"])})
        except (KeyError, TypeError, AttributeError) as error:
            raise HplmError("corrupt_artifact", f"{DECODER_FILE}: {error}") from error
        except HplmError as error:
            raise HplmError("corrupt_artifact", f"{DECODER_FILE}: {error.message}") from error


@dataclass(frozen=True, slots=True)
class DecoderRoot:
    """A decoder root in memory.

    tokenizer: the content of its tokenizer.json. chat_template: Jinja, "" if there is none.
    """

    config: DecoderRootConfig
    weights: Mapping[str, Tensor]
    tokenizer: str
    chat_template: str = ""

    @classmethod
    def from_checkpoint(
        cls, checkpoint: DecoderCheckpoint, *, lower_layers: int | None = None, name: str | None = None
    ) -> "DecoderRoot":
        """The root of a checkpoint. lower_layers: below the cut; None: a third of them.

        Raises HplmError(unsupported_checkpoint) if no layer would be above the cut, or if the chat template
        fails.
        """
        architecture = checkpoint.architecture
        if checkpoint.chat_template:
            ChatTemplate(checkpoint.chat_template).check()
        config = DecoderRootConfig(
            name=name or checkpoint.name,
            architecture=architecture,
            lower_layers=architecture.layers // SHARE_BELOW_CUT if lower_layers is None else lower_layers,
            max_tokens=architecture.positions,
            bos_id=checkpoint.bos_id,
            stop_ids=checkpoint.stop_ids,
            source_sha256=checkpoint.sha256,
        )
        return cls(config, checkpoint.weights, checkpoint.tokenizer, checkpoint.chat_template)

    def decoder(self, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> Decoder:
        """The decoder with these weights, on `device` in `dtype`."""
        return Decoder.from_weights(self.config.architecture, self.weights, device, dtype, "corrupt_artifact")

    def save(self, folder: Path) -> None:
        """Write the root's files into `folder`, the weights in their own dtypes."""
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / DECODER_FILE, self.config.to_json())
        write_weights(folder / WEIGHTS_FILE, self.weights)
        (folder / TOKENIZER_FILE).write_text(self.tokenizer, encoding="utf-8")
        write_json(folder / SPECIAL_TOKENS_FILE, self.special_tokens())
        if self.chat_template:
            (folder / CHAT_TEMPLATE_FILE).write_text(self.chat_template, encoding="utf-8")

    def special_tokens(self) -> dict[str, str]:
        """The texts of `bos_token` and `eos_token`, as far as there are such tokens."""
        tokenizer = tokenizers.Tokenizer.from_str(self.tokenizer)
        ids = {"bos_token": self.config.bos_id, "eos_token": next(iter(self.config.stop_ids), None)}
        texts = {name: tokenizer.id_to_token(token) for name, token in ids.items() if token is not None}
        return {name: text for name, text in texts.items() if text is not None}

    @classmethod
    def load(cls, folder: Path) -> "DecoderRoot":
        """Read what `save` wrote, on the CPU.

        Raises HplmError(corrupt_artifact) if a file is missing, damaged or inconsistent with the others.
        """
        config = DecoderRootConfig.from_json(read_artifact_json(folder / DECODER_FILE))
        tokenizer = checked_tokenizer(
            _read_text(folder / TOKENIZER_FILE), config.architecture, "corrupt_artifact"
        )
        template = folder / CHAT_TEMPLATE_FILE
        weights = read_weights(folder / WEIGHTS_FILE)
        check_weights(config.architecture, weights, "corrupt_artifact")
        return cls(config, weights, tokenizer, _read_text(template) if template.is_file() else "")


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise HplmError("corrupt_artifact", f"{path.name} cannot be read: {error}") from error
