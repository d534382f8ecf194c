"""A root: the shared upper layers, the tokenizer and the original lower layers of a checkpoint."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.errors import HplmError
from inference.hplm.architecture import Architecture, make_activation
from inference.hplm.artifact_files import (
    load_weights,
    read_weights,
    select_prefix,
    to_float32,
    write_json,
    write_weights,
)
from inference.hplm.checkpoint import Checkpoint
from inference.hplm.encoder import FullLower, UpperLayers
from inference.hplm.fragments import DEFAULT_N
from inference.hplm.root_config import RootConfig
from inference.hplm.sentence_folder import read_sentence_modules
from inference.hplm.sentence_modules import SentenceModules
from inference.text.sentence_config import SentenceConfig
from inference.text.tokenization import ROOT_FILE, TOKENIZER_FILE, TextTokenizer


class LmHead(nn.Module):
    """The masked language model head: a transform, then a decoder tied to the word embeddings."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.dense = nn.Linear(architecture.hidden, architecture.embedding)
        self.activation = make_activation(architecture.activation)
        self.norm = nn.LayerNorm(architecture.embedding, eps=architecture.eps)
        self.bias = nn.Parameter(torch.zeros(architecture.vocab))

    def forward(self, states: Tensor, word_embeddings: Tensor) -> Tensor:
        """Logits [..., V] of final hidden states [..., d]; word_embeddings [V, e]."""
        transformed = self.norm(self.activation(self.dense(states)))
        return functional.linear(transformed, word_embeddings, self.bias)

    @classmethod
    def from_checkpoint(cls, architecture: Architecture, weights: Mapping[str, Tensor]) -> "LmHead | None":
        """The head of a checkpoint, or None if it has none."""
        found = select_prefix(weights, "head.")
        if not {"dense.weight", "bias"} <= found.keys():  # Classifiers have a part of it.
            return None
        module = cls(architecture)
        load_weights(module, found, "the checkpoint's language model head", "unsupported_checkpoint")
        return module

    def save(self, path: Path) -> None:
        """Write the weights to a safetensors file."""
        write_weights(path, self.state_dict())

    @classmethod
    def load(cls, path: Path, architecture: Architecture, device: torch.device | str = "cpu") -> "LmHead":
        """Read what `save` wrote, float32."""
        module = cls(architecture)
        load_weights(module, to_float32(read_weights(path)), path.name)
        return module.to(device)


UPPER_FILE = "upper.safetensors"
LOWER_FILE = "checkpoint_lower.safetensors"
LM_HEAD_FILE = "lm_head.safetensors"
FULL_LOWER_FILE = "full.safetensors"
"""A domain's own lower layers with full context, beside its local ones. Older domains have none."""
GENERAL_TEXT_FILE = "general_text.safetensors"
"""Held-out text of a converted root as token ids. Domains are evaluated on it."""
POOLER_FILE = "pooler.safetensors"
"""The pooler of a BERT checkpoint. Only imported classifiers use it."""


@dataclass(slots=True)
class Root:
    """A root in memory. The tokenizer, the lower layers, the language model head and the pooler are loaded on
    first use."""

    config: RootConfig
    upper: UpperLayers
    folder: Path | None = None
    _tokenizer: TextTokenizer | None = None
    _lower: FullLower | None = None
    _lm_head: LmHead | None = None
    _pooler: dict[str, Tensor] | None = None
    _sentence: SentenceModules | None = None

    @classmethod
    def from_checkpoint(
        cls,
        checkpoint: Checkpoint,
        *,
        lower: int | None = None,
        max_tokens: int | None = None,
        n: int = DEFAULT_N,
        name: str | None = None,
    ) -> "Root":
        """Split a checkpoint after `lower` layers (default: half of them); float32, on the CPU.

        max_tokens: of a text (default and maximum: the checkpoint's). n: tokens of a fragment. Raises
        HplmError(unsupported_checkpoint) if it cannot be split like that or its weights do not fit.
        """
        architecture, weights = checkpoint.architecture, checkpoint.weights
        count = architecture.layers // 2 if lower is None else lower
        tokenizer = _checkpoint_tokenizer(checkpoint, max_tokens)
        specials = tokenizer.specials
        sentence = read_sentence_modules(
            checkpoint.path,
            hidden=architecture.hidden,
            max_tokens=tokenizer.max_tokens,
            lower_case=tokenizer.lower_case,
        )
        config = RootConfig(
            name=name or checkpoint.name,
            architecture=architecture,
            lower=count,
            max_tokens=tokenizer.max_tokens,
            pad_id=tokenizer.id_of(specials.pad),
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            mask_id=tokenizer.id_of(specials.mask),
            unk_id=tokenizer.id_of(specials.unk),
            source_sha256=checkpoint.sha256,
            n=n,
            sentence=sentence.config if sentence else None,
        )
        return cls(
            config,
            UpperLayers.from_checkpoint(architecture, weights, count),
            _tokenizer=tokenizer,
            _lower=FullLower.from_checkpoint(architecture, weights, count),
            _lm_head=LmHead.from_checkpoint(architecture, weights),
            _pooler=_pooler(architecture, select_prefix(weights, "pooler.")),
            _sentence=sentence,
        )

    @property
    def tokenizer(self) -> TextTokenizer:
        """Of the checkpoint. Raises HplmError(corrupt_artifact)."""
        if self._tokenizer is None:
            if self.folder is None:
                raise ValueError("this root came neither from a checkpoint nor from a folder")
            self._tokenizer = TextTokenizer.of_root(self.folder)
        return self._tokenizer

    def checkpoint_lower(self) -> FullLower:
        """The checkpoint's own lower layers, with full context, float32, on the upper layers' device."""
        if self._lower is None:
            if self.folder is None:
                raise ValueError("this root came neither from a checkpoint nor from a folder")
            self._lower = FullLower.load(
                self.folder / LOWER_FILE, self.config.architecture, self.config.lower, self.upper.device
            )
        return self._lower

    def full_lower(self, lower: Path | None) -> FullLower:
        """The lower layers with full context of a branch, frozen, float32, on the upper layers' device.

        lower: the folder of the branch's local lower layers. If it has none with full context, they are the
        checkpoint's own. Raises HplmError(corrupt_artifact).
        """
        own = None if lower is None else lower / FULL_LOWER_FILE
        if own is None or not own.is_file():
            return self.checkpoint_lower()
        return FullLower.load(own, self.config.architecture, self.config.lower, self.upper.device)

    def lm_head(self) -> LmHead | None:
        """The language model head, float32, or None if the root has none."""
        if self._lm_head is None and self.folder is not None and (self.folder / LM_HEAD_FILE).is_file():
            self._lm_head = LmHead.load(
                self.folder / LM_HEAD_FILE, self.config.architecture, self.upper.device
            )
        return self._lm_head

    @property
    def number_format(self) -> str:
        """What it computes in, as answers name it, such as `bfloat16`."""
        return str(self.upper.dtype).removeprefix("torch.")

    def pooler(self) -> dict[str, Tensor] | None:
        """The checkpoint's pooler, weight [d, d] and bias [d], or None if the root has none."""
        if self._pooler is None and self.folder is not None and (self.folder / POOLER_FILE).is_file():
            stored = read_weights(self.folder / POOLER_FILE)
            self._pooler = _pooler(self.config.architecture, stored)
        return self._pooler

    @property
    def sentence(self) -> SentenceModules:
        """What makes embeddings: that of the checkpoint, else the mean of a text's final states, of length
        1."""
        return self._sentence or SentenceModules(SentenceConfig(), self.config.hidden)

    def save(self, folder: Path, report: dict[str, Any] | None = None) -> None:
        """Write the root's files into `folder`. ``report``: of its conversion, for root.json."""
        folder.mkdir(parents=True, exist_ok=True)
        config = self.config if report is None else dataclasses.replace(self.config, report=report)
        write_json(folder / ROOT_FILE, config.to_json())
        self.tokenizer.save(folder / TOKENIZER_FILE)
        self.upper.save(folder / UPPER_FILE)
        self.checkpoint_lower().save(folder / LOWER_FILE)
        head = self.lm_head()
        if head is not None:
            head.save(folder / LM_HEAD_FILE)
        pooler = self.pooler()
        if pooler is not None:
            write_weights(folder / POOLER_FILE, pooler)
        self.sentence.save(folder)

    @classmethod
    def load(
        cls, folder: Path, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> "Root":
        """Read what `save` wrote. The upper layers are on `device` in `dtype`.

        Raises HplmError(corrupt_artifact) if a file is missing, damaged or has another format.
        """
        config = RootConfig.load(folder)
        architecture = config.architecture
        if not (folder / TOKENIZER_FILE).is_file():
            raise HplmError("corrupt_artifact", f"{TOKENIZER_FILE} is missing")
        upper = UpperLayers.load(folder / UPPER_FILE, architecture, config.upper, torch.device(device), dtype)
        sentence = SentenceModules.load(folder, config.sentence or SentenceConfig(), config.hidden)
        return cls(config, upper, folder, _sentence=sentence.to(device))


def _pooler(architecture: Architecture, found: dict[str, Tensor]) -> dict[str, Tensor] | None:
    """The tensors of a pooler, or None. Raises HplmError(unsupported_checkpoint) for wrong shapes."""
    shapes = {name: tuple(value.shape) for name, value in found.items()}
    if found and shapes != {
        "weight": (architecture.hidden, architecture.hidden),
        "bias": (architecture.hidden,),
    }:
        raise HplmError("unsupported_checkpoint", f"the pooler has tensors of shapes {shapes}")
    return found or None


def _checkpoint_tokenizer(checkpoint: Checkpoint, max_tokens: int | None) -> TextTokenizer:
    """The tokenizer of a checkpoint, truncating to `max_tokens` or to its position embeddings."""
    architecture = checkpoint.architecture
    limit = architecture.max_length if max_tokens is None else max_tokens
    if limit > architecture.max_length:
        raise HplmError("unsupported_checkpoint", f"max_tokens {limit} exceeds {architecture.max_length}")
    tokenizer = TextTokenizer.from_file(
        checkpoint.tokenizer_file, limit, family=checkpoint.family.name, types=architecture.types > 1
    )
    if tokenizer.size > architecture.vocab:
        raise HplmError(
            "unsupported_checkpoint",
            f"{checkpoint.tokenizer_file.name} has the id {tokenizer.size - 1}, but there are embeddings of "
            f"{architecture.vocab} tokens",
        )
    return tokenizer
