"""What is served over HTTP: a root of random weights with a real tokenizer, its table, models, and texts."""

from pathlib import Path
from typing import Protocol

import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertModel

from benchmarks.serving.real_texts import ALPHA, VOCAB, RealTexts
from benchmarks.serving.world import (
    LABELS,
    LONGEST,
    Encoder,
    random_hplm,
    random_mixer,
    random_vectors,
    with_unigrams,
)
from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.local_lower import LocalLower
from inference.hplm.plot_writer import write_plot
from inference.hplm.root import Root


class ServedModels(Protocol):
    """A root, and models of it. checkpoint: the folder that the root was made from."""

    name: str
    labels: tuple[str, ...]
    checkpoint: Path
    root: Path
    lower: Path
    plot: Path

    def write(self, folder: Path, *, seed: int) -> None:
        """Write a model that differs from those of other seeds."""


class RandomModels:
    """A root and models of random weights; without a profile, so the cascade computes all texts in full."""

    labels: tuple[str, ...] = LABELS

    def __init__(
        self, folder: Path, encoder: Encoder, pet: str, texts: RealTexts, tokenizer_file: Path
    ) -> None:
        self.name, self._pet = encoder.name, pet
        self.checkpoint = folder / "checkpoint"
        self.root, self.lower, self.plot = (folder / name for name in ("root", "lower", "plot"))
        write_checkpoint(self.checkpoint, encoder, tokenizer_file)
        self._root = write_root(folder, self.checkpoint, texts)

    def write(self, folder: Path, *, seed: int) -> None:
        random_hplm(self._root.config, self._pet, seed=seed).save(folder)


def write_checkpoint(folder: Path, encoder: Encoder, tokenizer_file: Path) -> None:
    """A BERT of that shape as it would be published."""
    shape = BertConfig(
        vocab_size=VOCAB,
        hidden_size=encoder.hidden,
        num_hidden_layers=encoder.layers,
        num_attention_heads=encoder.heads,
        intermediate_size=encoder.inner,
        max_position_embeddings=LONGEST,
    )
    torch.manual_seed(0)
    shape.save_pretrained(folder)
    save_file(BertModel(shape).state_dict(), folder / "model.safetensors")
    (folder / tokenizer_file.name).write_bytes(tokenizer_file.read_bytes())


def write_root(folder: Path, checkpoint: Path, texts: RealTexts) -> Root:
    """The checkpoint cut in half: ``root``, ``lower`` and ``plot`` in the folder."""
    opened = open_checkpoint(checkpoint)
    root = Root.from_checkpoint(opened, lower=opened.architecture.layers // 2)
    root.save(folder / "root")
    lower = LocalLower.from_full(root.checkpoint_lower(), root.config)
    lower.mixer = random_mixer(root.config.hidden)
    lower.save(folder / "lower", {})
    missing = root.config.missing_id
    vectors = random_vectors(with_unigrams(texts.fragments(missing), missing), root.config.hidden)
    meta = {"missing_id": missing, "alpha": ALPHA}
    write_plot(folder / "plot", vectors, meta, lower.composition, n=3)
    return root
