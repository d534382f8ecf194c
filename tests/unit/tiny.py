"""A tiny root with everything that hangs below it, random but real: files, tables and models that the
product's own code reads. Weights are drawn wide, so that every part of the model shows in the answer."""

import hashlib
import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
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
from inference.hplm.adapters import AdapterWeights
from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.heads import Head
from inference.hplm.hplm import CLASSIFICATION, TAGGING, Hplm, Task
from inference.hplm.local_lower import LocalLower
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.plot_writer import write_plot
from inference.hplm.root import Root

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
) -> Path:
    """A random BERT checkpoint as it would be published: config.json, tokenizer.json, model.safetensors."""
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
    return folder


def tiny_root(folder: Path, **checkpoint: Any) -> Root:
    """A root split from a tiny checkpoint that is made in `folder`."""
    return Root.from_checkpoint(open_checkpoint(tiny_checkpoint(folder, **checkpoint)), lower=2)


def tiny_lower(root: Root, *, seed: int = 0) -> LocalLower:
    """Local lower layers whose maps and biases differ from level to level."""
    lower = LocalLower.from_full(root.checkpoint_lower(), root.config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in (lower.level_maps, lower.level_bias, lower.position_bias):
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    return lower


def tiny_texts(count: int, *, seed: int = 0, longest: int = 12) -> list[str]:
    """Random sentences of known and unknown words."""
    draw = random.Random(seed)
    words = [*WORDS, "zebra", "quixotic", "max_tokens", "don't", "42", "."]
    return [" ".join(draw.choices(words, k=draw.randint(1, longest))) for _ in range(count)]


def fragments_of(root: Root, texts: Sequence[str]) -> NDArray[np.int64]:
    """The different fragments [F, 3] of the texts."""
    found = [fragments.of_sequence(root.tokenizer.encode(text).ids, root.config.missing_id) for text in texts]
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
) -> Path:
    """A table with a random `share` of the tri-grams and bi-grams of `texts`, and uni-grams of all the
    vocabulary or of the texts."""
    missing = root.config.missing_id
    exact = fragments_of(root, texts)
    bigrams = [
        fragments.degrade(exact, level, missing) for level in (fragments.LEVEL_LEFT, fragments.LEVEL_RIGHT)
    ]
    candidates = np.unique(fragments.pack(np.concatenate([exact, *bigrams])))
    kept = candidates[np.random.default_rng(seed).random(len(candidates)) < share]
    centres = np.arange(root.config.vocab) if all_unigrams else np.unique(exact[:, 1])
    lone = np.full_like(centres, missing)
    keys = np.union1d(kept, fragments.pack(np.stack([lone, centres, lone], axis=-1)))
    with torch.no_grad():
        vectors = lower(torch.from_numpy(fragments.unpack(keys))).half().numpy()
    halves = [(part, vectors[np.searchsorted(keys, part)]) for part in np.array_split(keys, 2)]
    write_plot(folder, halves, {"missing_id": missing, "alpha": 100 * share}, lower.position_bias)
    return folder


def tiny_hplm(
    root: Root, task: Task = CLASSIFICATION, *, labels: int = 3, adapter_size: int = 8, seed: int = 0
) -> Hplm:
    """A random hPLM; for a tagging, `labels` is how many kinds of span there are (2 * labels + 1 tags)."""
    kinds = [f"{task[:3]}{index}" for index in range(labels)]
    names = ["O", *(f"{prefix}-{kind}" for kind in kinds for prefix in "BI")] if task == TAGGING else kinds
    generator = torch.Generator().manual_seed(seed)
    adapter = AdapterWeights.initial(
        root.config.upper, adapter_size, root.config.hidden, generator=generator, scale=0.3
    )
    head = Head.initial(len(names), root.config.hidden, generator=generator)
    biased = {
        name: value + 0.1 * torch.randn(value.shape, generator=generator)
        for name, value in adapter.tensors().items()
    }
    return Hplm(
        task,
        tuple(names),
        AdapterWeights.from_tensors(biased),
        Head(head.weight * 20, head.bias),
        {"seed": seed},
    )


def tiny_hplms(root: Root, count: int) -> list[Hplm]:
    """Hplms of both tasks in turn, with differing adapter sizes and numbers of labels."""
    tasks: list[Task] = [CLASSIFICATION, TAGGING]
    return [
        tiny_hplm(root, tasks[n % 2], labels=2 + n % 4, adapter_size=(1, 4, 16, 7, 9)[n % 5], seed=n)
        for n in range(count)
    ]


@dataclass(frozen=True, slots=True)
class TinyHplm:
    """An hPLM lying in an artifact root: whose, which version, and the chain of tables it reads."""

    tenant: str
    hplm: str
    version: int
    digest: str
    plots: tuple[str, ...]
    model: Hplm


@dataclass(frozen=True, slots=True)
class TinyWorld:
    """An artifact root with one root, its own table, a domain's table, and hPLMs of two tenants under
    both."""

    artifact_root: Path
    root: Root
    root_digest: str
    lower_digest: str
    hplms: tuple[TinyHplm, ...]

    def folder(self, kind: str, digest: str) -> Path:
        return self.artifact_root / kind / digest[:2] / digest

    def chain(self, hplm: TinyHplm) -> PlotChain:
        return PlotChain([PlotTable.open(self.folder("plot", digest)) for digest in hplm.plots])

    def publish(self, *, revision: int = 1, hplms: Sequence[TinyHplm] | None = None) -> Path:
        """Write manifest.json (of all hPLMs, or of those given) as the web process would; returns its
        path."""
        served = self.hplms if hplms is None else hplms
        manifest = {
            "format": 1,
            "revision": revision,
            "roots": {
                self.root_digest: {"name": "tiny", "path": f"root/{self.root_digest[:2]}/{self.root_digest}"}
            },
            "hplms": {f"{h.tenant}/{h.hplm}:{h.version}": self._served(h) for h in served},
        }
        path = self.artifact_root / "manifest.json"
        partial = path.with_suffix(".tmp")
        partial.write_text(json.dumps(manifest))
        partial.replace(path)
        return path

    def _served(self, hplm: TinyHplm) -> dict[str, Any]:
        files = artifact_files(self.folder("hplm", hplm.digest))
        return {
            "tenant": hplm.tenant,
            "hplm": hplm.hplm,
            "version": hplm.version,
            "digest": hplm.digest,
            "task": hplm.model.task,
            "root": self.root_digest,
            "plots": list(hplm.plots),
            "files": {name: entry["sha256"] for name, entry in files.items()},
        }


def tiny_world(artifact_root: Path, *, hplms: int = 6) -> TinyWorld:
    """Build everything in an artifact root and publish its manifest. Takes about a second."""
    scratch = artifact_root / ".incoming" / "tiny"
    root = tiny_root(scratch / "checkpoint")
    root.save(scratch / "root")
    lowers = [tiny_lower(root, seed=n) for n in range(2)]
    lowers[0].save(scratch / "lower")
    texts = tiny_texts(60)
    tiny_plot(scratch / "root_plot", root, lowers[0], texts, share=0.5)
    tiny_plot(scratch / "domain_plot", root, lowers[1], texts[:30], share=0.4, all_unigrams=False, seed=1)
    root_plot = place(artifact_root, "plot", scratch / "root_plot")
    chains = ((root_plot,), (place(artifact_root, "plot", scratch / "domain_plot"), root_plot))
    built = []
    for number, model in enumerate(tiny_hplms(root, hplms)):
        model.save(scratch / f"hplm{number}")
        digest = place(artifact_root, "hplm", scratch / f"hplm{number}")
        tenant = ("acme", "globex")[number // 2 % 2]
        built.append(TinyHplm(tenant, f"model{number}", 1, digest, chains[number % 2], model))
    world = TinyWorld(
        artifact_root=artifact_root,
        root=root,
        root_digest=place(artifact_root, "root", scratch / "root"),
        lower_digest=place(artifact_root, "lower", scratch / "lower"),
        hplms=tuple(built),
    )
    shutil.rmtree(scratch)
    world.publish()
    return world


def artifact_files(folder: Path) -> dict[str, dict[str, Any]]:
    """sha256 and size of each file of an artifact."""
    return {
        path.relative_to(folder).as_posix(): {
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "size": path.stat().st_size,
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def place(artifact_root: Path, kind: str, folder: Path) -> str:
    """Move a finished folder to where its content's digest says; returns the digest."""
    canonical = json.dumps(artifact_files(folder), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    target = artifact_root / kind / digest[:2] / digest
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(target)
    return digest
