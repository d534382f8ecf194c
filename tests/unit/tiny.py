"""A tiny checkpoint, root, table and models, random but real: files that the product's own code reads.
Weights are drawn wide, so that every part of the model shows in the answer."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
import tokenizers
import torch
from numpy.typing import NDArray
from tokenizers import models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForMaskedLM, BertModel

from inference.hplm import fragments
from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.context_mixer import ContextMixer
from inference.hplm.heads import POOLINGS, Head, Pooling
from inference.hplm.hplm import Hplm
from inference.hplm.local_lower import LocalLower
from inference.hplm.pets.spec import PetSpec, UpperShape
from inference.hplm.pets.weights import PetWeights
from inference.hplm.plot_writer import write_plot
from inference.hplm.root import Root
from inference.text.tasks import CLASSIFICATION, FIXED_LABELS, PER_TOKEN, QUESTION_ANSWERING, TAGGING, Task

LAYERS, HIDDEN, HEADS, MAX_TOKENS = 4, 32, 4, 64

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_WORDS = """
the a of to and in is it for on with as that this are was be by an or at from not have has river stone cloud
light green winter summer silver copper garden window table paper letter number value return name list dict
string path file open close read write model tenant domain root branch leaf tree token fragment vector
matrix layer adapter batch queue worker server client request answer city mountain doctor patient disease
protein gene cell heart blood drug dose trial result good bad happy sad great poor
"""
WORDS = tuple(_WORDS.split())


def tiny_tokenizer() -> tokenizers.Tokenizer:
    """A WordPiece tokenizer of about 170 tokens, with truncation and padding baked in as published ones
    have."""
    letters = [*ascii_lowercase, *(f"##{letter}" for letter in ascii_lowercase)]
    pieces = [*SPECIALS, *letters, *"0123456789.,;:!?()'-_", *WORDS]
    vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.add_special_tokens(SPECIALS)
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    tokenizer.enable_truncation(16)
    tokenizer.enable_padding(length=16)
    return tokenizer


def tiny_checkpoint(
    folder: Path,
    *,
    layers: int = LAYERS,
    hidden: int = HIDDEN,
    heads: int = HEADS,
    max_tokens: int = MAX_TOKENS,
    seed: int = 0,
    lm_head: bool = False,
    add_files: Callable[[Path], object] = lambda _: None,
) -> Path:
    """A random BERT checkpoint as it would be published: config.json, tokenizer.json, model.safetensors, and
    what is added to its folder."""
    tokenizer = tiny_tokenizer()
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=2 * hidden,
        max_position_embeddings=max_tokens,
        initializer_range=0.2,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = BertForMaskedLM(config) if lm_head else BertModel(config)
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    add_files(folder)
    return folder


def tiny_root(folder: Path, *, n: int = fragments.DEFAULT_N, **checkpoint: Any) -> Root:
    """A root split from a tiny checkpoint that is made in `folder`."""
    return Root.from_checkpoint(open_checkpoint(tiny_checkpoint(folder, **checkpoint)), lower=2, n=n)


def tiny_mixer(hidden: int = HIDDEN, *, width: int = 64, inner: int = 24, seed: int = 0) -> ContextMixer:
    """A mixer that shows in every state."""
    mixer, generator = ContextMixer(hidden, width=width, inner=inner), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in mixer.named_parameters():
            drawn = torch.randn(parameter.shape, generator=generator) / 8
            parameter.copy_(drawn + 1 if name.endswith("norm.weight") else drawn)
    return mixer.requires_grad_(False)


def tiny_lower(root: Root, *, seed: int = 0) -> LocalLower:
    """Local lower layers whose maps and biases differ from level to level; the mixer is that of any seed."""
    lower = LocalLower.from_full(root.checkpoint_lower(), root.config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in (lower.level_maps, lower.level_bias, *lower.composition.tensors().values()):
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    lower.mixer = tiny_mixer(root.config.hidden)
    return lower


def tiny_texts(count: int, *, seed: int = 0, longest: int = 12) -> list[str]:
    """Random sentences of known and unknown words."""
    draw = random.Random(seed)
    words = [*WORDS, "zebra", "quixotic", "max_tokens", "don't", "42", "."]
    return [" ".join(draw.choices(words, k=draw.randint(1, longest))) for _ in range(count)]


def fragments_of(root: Root, texts: Sequence[str]) -> NDArray[np.int64]:
    """The different fragments [F, n] of the texts."""
    missing, n = root.config.missing_id, root.config.n
    found = [fragments.extract(root.tokenizer.encode(text).ids, missing, n) for text in texts]
    return np.unique(np.concatenate(found), axis=0)


def tiny_plot(
    folder: Path,
    root: Root,
    lower: LocalLower,
    texts: Sequence[str],
    *,
    share: float = 0.5,
    all_unigrams: bool = True,
    seed: int = 0,
    dtype: str = "float16",
) -> Path:
    """A table with a random `share` of the fragments of `texts` and of their parts, and uni-grams of all the
    vocabulary or of the texts."""
    missing, n = root.config.missing_id, root.config.n
    exact = fragments_of(root, texts)
    parts = [fragments.shorten(exact, level, missing) for level in fragments.fallback_order(n)[:-1]]
    candidates = fragments.unique(np.concatenate(parts))[1]
    kept = candidates[np.random.default_rng(seed).random(len(candidates)) < share]
    centres = np.arange(root.config.vocab) if all_unigrams else np.unique(exact[:, n // 2])
    lone = np.full((len(centres), n), missing, dtype=np.int64)
    lone[:, n // 2] = centres
    wanted = fragments.unique(np.concatenate([kept, lone]))[1]
    with torch.no_grad():
        vectors = lower(torch.from_numpy(wanted)).numpy()
    halves = zip(np.array_split(wanted, 2), np.array_split(vectors, 2), strict=True)
    meta = {"missing_id": missing, "alpha": 100 * share}
    write_plot(folder, halves, meta, lower.composition, n=n, dtype=dtype)
    return folder


SPECS = (
    PetSpec(adapter=8),
    PetSpec(lora=2, biases=True, norms=True),
    PetSpec(adapter=1, output_adapter=3),
    PetSpec(lora=4, lora_places=("query", "contract"), adapter=5),
    PetSpec(),
)
"""PETs of every kind, differing in size."""


def tiny_hplm(
    root: Root,
    task: Task = CLASSIFICATION,
    *,
    labels: int = 3,
    spec: PetSpec = SPECS[0],
    pooling: Pooling = "cls",
    pairs: bool = False,
    seed: int = 0,
) -> Hplm:
    """A random model; for a tagging, `labels` is how many kinds of span there are (2 * labels + 1 tags).
    pooling: as far as it suits the task."""
    kinds = [f"{task[:3]}{index}" for index in range(labels)]
    tags = ["O", *(f"{prefix}-{kind}" for kind in kinds for prefix in "BI")]
    names = FIXED_LABELS.get(task, tuple(tags if task == TAGGING else kinds))
    generator = torch.Generator().manual_seed(seed)
    config = root.config
    shape = UpperShape(config.upper, config.hidden, config.architecture.inner)
    fresh = PetWeights.initial(spec, shape, generator=generator)
    learnt = {
        name: value + 0.2 * torch.randn(value.shape, generator=generator)
        for name, value in fresh.weights.items()
    }
    suits = POOLINGS[pooling].per_token == (task in PER_TOKEN)
    read: Pooling = pooling if suits else "token"
    head = Head.initial(len(names), config.hidden, pooling=read, generator=generator)
    return Hplm(
        task,
        names,
        PetWeights(spec, shape, learnt),
        Head(head.weight * 20, head.bias, read),
        pairs,
        metadata={"seed": seed},
    )


TWO_TASKS: tuple[Task, ...] = (CLASSIFICATION, TAGGING)


def tiny_hplms(root: Root, count: int, tasks: Sequence[Task] = TWO_TASKS) -> list[Hplm]:
    """Hplms of the tasks in turn, with differing PETs, poolings and numbers of labels."""
    poolings: list[Pooling] = ["cls", "cls", "cls_mean"]
    return [
        tiny_hplm(
            root,
            tasks[n % len(tasks)],
            labels=2 + n % 4,
            spec=SPECS[n % len(SPECS)],
            pooling=poolings[n % 3],
            pairs=tasks[n % len(tasks)] == QUESTION_ANSWERING,
            seed=n,
        )
        for n in range(count)
    ]
