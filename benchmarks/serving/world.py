"""What the serving benchmarks serve: an encoder of random weights, tables with a context mixer, and models
that are really stored.

Nothing here, nor in what it imports, needs more than torch, tokenizers, safetensors, numpy and lmdb, so it
runs on a bare machine with an accelerator.
"""

import hashlib
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from benchmarks.result_cache import bench_dir
from benchmarks.serving.real_texts import VOCAB, RealRows
from inference.cascade.dispatcher import Level
from inference.engine.adapters import PackedHplm
from inference.engine.device_pets import DevicePets, copy_pinned
from inference.engine.executor import Executor
from inference.engine.pet_pool import PetPool
from inference.engine.pipeline import Pipeline
from inference.engine.rows import ModelIdentity, Row, work_of
from inference.hplm.architecture import Architecture
from inference.hplm.compose import Composition
from inference.hplm.context_mixer import ContextMixer
from inference.hplm.encoder import FullLower, UpperLayers
from inference.hplm.fragments import LEVEL_UNI, pack, shorten
from inference.hplm.heads import Head
from inference.hplm.hplm import Hplm
from inference.hplm.pets.spec import PetSpec, UpperShape
from inference.hplm.pets.weights import PetWeights
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.plot_lookup import LowerLayers
from inference.hplm.plot_writer import write_plot
from inference.hplm.root import Root
from inference.hplm.root_config import RootConfig

LONGEST = 512
ROWS_AT_ONCE = 8192
DOMAIN_SHARE: Final = 1 / 8
"""Of the fragments of the root's table, those that a domain has rows of its own for."""
LABELS: Final = ("a", "b", "c")
POOLING: Final = "cls_mean"
"""What heads read by default after fine-tuning."""
Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Encoder:
    """The shape of a root."""

    name: str
    layers: int
    hidden: int
    heads: int
    inner: int

    @property
    def architecture(self) -> Architecture:
        """As a BERT."""
        return Architecture(
            family="bert",
            vocab=VOCAB,
            hidden=self.hidden,
            inner=self.inner,
            layers=self.layers,
            heads=self.heads,
            positions=LONGEST,
            activation="gelu",
            eps=1e-12,
            embedding=self.hidden,
            types=2,
        )


DEMO: Final = Encoder("demo", 6, 384, 12, 1536)
BASE: Final = Encoder("bert-base", 12, 768, 12, 3072)
TINY: Final = Encoder("tiny", 2, 64, 2, 128)
"""To see in a minute that a benchmark runs."""
ENCODERS: Final = {encoder.name: encoder for encoder in (DEMO, BASE, TINY)}
DEFAULT_PET: Final = "lora-16"
"""What a fine-tuning makes by default."""
PETS: Final = {
    "adapter-64": PetSpec(adapter=64),
    DEFAULT_PET: PetSpec(lora=16, biases=True, norms=True),
    "lora-48": PetSpec(lora=48, biases=True, norms=True),
}


class World:
    """An encoder cut in half, its table and those of domains, and any number of models of one kind of PET, of
    which `files` (None: all) are different files."""

    def __init__(
        self,
        encoder: Encoder,
        pet: str,
        source: RealRows,
        device: torch.device,
        dtype: torch.dtype,
        *,
        files: int | None = None,
    ) -> None:
        torch.manual_seed(0)
        self.encoder, self.pet, self.source = encoder, pet, source
        self.device, self.dtype = device, dtype
        shape = encoder.architecture
        self.lower = encoder.layers // 2
        self._files = files
        config = RootConfig(
            name=encoder.name,
            architecture=shape,
            lower=self.lower,
            max_tokens=LONGEST,
            pad_id=0,
            unk_id=100,
            cls_id=101,
            sep_id=102,
            mask_id=103,
            source_sha256="",
        )
        upper = _still(UpperLayers(shape, encoder.layers - self.lower)).to(device, dtype)
        # The engine is given token ids; nothing asks for the tokenizer.
        self.root = Root(config, cast("UpperLayers", upper))
        self.full = cast("FullLower", _still(FullLower(shape, self.lower)).to(device, dtype))
        self._lower_layers = dict[int, LowerLayers]()
        self._folder = bench_dir() / "serving" / encoder.name

    @cached_property
    def table(self) -> PlotTable:
        """The root's: every token's uni-gram, and the fragments of the source."""
        return PlotTable.open(self._table(self._fragments))

    def lower_layers(self, domain: int) -> LowerLayers:
        """The lower half of a domain, whose table is before the root's, or of the root (0): tables, and the
        layers for rows at the level full. They stay open."""
        if domain not in self._lower_layers:
            tables = [self.table]
            if domain:
                chosen = np.random.default_rng(domain).random(len(self._fragments)) < DOMAIN_SHARE
                tables.insert(0, PlotTable.open(self._table(self._fragments[chosen])))
            chain = PlotChain(tables)
            composition = chain.composition.to(self.device).with_context_dtype(self.dtype)
            self._lower_layers[domain] = LowerLayers(chain, self.full, composition, self.device)
        return self._lower_layers[domain]

    def executor(self, pipeline: Pipeline, *, pool_bytes: int, pet_bytes: int | None = None) -> Executor:
        """An engine that loads models from their files on demand and keeps so many bytes of them, and on an
        accelerator `pet_bytes` (None: all) of their PETs."""
        pool = self.pool(pool_bytes, pool_bytes if pet_bytes is None else pet_bytes)
        return Executor(self.root, _Domains(self), pool, pipeline=pipeline)

    def pool(self, pool_bytes: int, pet_bytes: int) -> PetPool[PackedHplm]:
        """As `executor` has it."""
        on_cpu = self.device.type == "cpu"
        return PetPool(
            self.load, pool_bytes, None if on_cpu else DevicePets(copy_pinned(self.device), pet_bytes)
        )

    def load(self, model: ModelIdentity) -> PackedHplm:
        """From its files, as the inference worker does after comparing their checksums."""
        hplm = Hplm.load(self.hplm_folder(int(model.hplm)), dtype=None)
        return PackedHplm.of(hplm, self.dtype, model.digest)

    def store_hplms(self, count: int) -> None:
        """Write so many different models, as far as they are not there."""
        for number in range(count if self._files is None else min(count, self._files)):
            folder = self.hplm_folder(number)
            if not (folder / "hplm.json").is_file():
                shutil.rmtree(folder, ignore_errors=True)
                random_hplm(self.root.config, self.pet, seed=number).save(folder)

    def open_all(self, executor: Executor, count: int) -> float:
        """Read so many models into the executor's memory, as far as it has room; how many seconds it took."""
        started = time.perf_counter()
        for number in range(count):
            executor.pool.release(executor.pool.acquire(_identity(number)))
        return time.perf_counter() - started

    def rows(self, tenants: NDArray[np.int64], level: Level = Level.TABLE, *, domains: int = 0) -> list[Row]:
        """A row for each of these tenants' models, which stand on so many domains (0: on the root)."""
        return [
            Row(
                str(at), ids, np.zeros_like(ids), _identity(int(tenant)),
                str(1 + tenant % domains if domains else 0), level,
                work_of(len(ids), level, self.root.config),
            )
            for at, (tenant, ids) in enumerate(zip(tenants, self.source.draw(len(tenants)), strict=True))
        ]  # fmt: skip

    def hplm_folder(self, number: int) -> Path:
        """Where the model of that number is stored."""
        number = number if self._files is None else number % self._files
        return self._folder / self.pet / f"{number // 1000:03}" / f"{number % 1000:03}"

    @cached_property
    def _fragments(self) -> Ids:
        missing = self.root.config.missing_id
        return with_unigrams(self.source.fragments(missing), missing)

    def _table(self, fragments: Ids) -> Path:
        """The table of these fragments, in the order of their keys."""
        hidden, composition = self.encoder.hidden, self._composition
        content = [fragments, *(value.numpy() for value in composition.tensors().values())]
        digest = hashlib.sha256(b"".join(part.tobytes() for part in content)).hexdigest()[:16]
        folder = self._folder / f"table-{digest}"
        if not (folder / "plot.json").is_file():
            shutil.rmtree(folder, ignore_errors=True)
            meta = {"missing_id": self.root.config.missing_id}
            write_plot(folder, random_vectors(fragments, hidden), meta, composition, n=3)
        return folder

    @cached_property
    def _composition(self) -> Composition:
        hidden, draw = self.encoder.hidden, torch.Generator().manual_seed(0)
        nothing = torch.zeros(4, hidden, 0), torch.zeros(0, hidden)
        positions = torch.randn(LONGEST, hidden, generator=draw) / 10
        return Composition(positions, torch.zeros(2, hidden), *nothing, random_mixer(hidden))


def random_hplm(config: RootConfig, pet: str, *, seed: int) -> Hplm:
    """A model of the root that tells three classes apart, with random weights."""
    generator = torch.Generator().manual_seed(seed)
    shape = UpperShape(config.upper, config.hidden, config.architecture.inner)
    fresh = PetWeights.initial(PETS[pet], shape, generator=generator)
    learnt = {
        name: value + 0.01 * torch.randn(value.shape, generator=generator)
        for name, value in fresh.weights.items()
    }
    head = Head.initial(len(LABELS), config.hidden, pooling=POOLING, generator=generator)
    return Hplm("classification", LABELS, PetWeights(PETS[pet], shape, learnt), head)


def random_mixer(hidden: int) -> ContextMixer:
    """A mixer of the product's size, whose every part has an effect."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        mixer = ContextMixer(hidden)
        for parameter in mixer.parameters():
            if not parameter.any():
                parameter.normal_(std=0.05)
    return cast("ContextMixer", _still(mixer))


def with_unigrams(fragments: Ids, missing: int) -> Ids:
    """The fragments [F, 3] and all uni-grams, in the order of their keys."""
    single = shorten(np.repeat(np.arange(VOCAB)[:, None], 3, 1), LEVEL_UNI, missing)
    found = np.concatenate([fragments, single])
    ordered: Ids = found[np.unique(pack(found), return_index=True)[1]]
    return ordered


def random_vectors(fragments: Ids, hidden: int) -> Iterator[tuple[Ids, NDArray[np.floating[Any]]]]:
    """The fragments in parts, each with random vectors [rows, 3, hidden]."""
    draw = np.random.default_rng(1)
    for start in range(0, len(fragments), ROWS_AT_ONCE):
        some = fragments[start : start + ROWS_AT_ONCE]
        yield some, draw.standard_normal((len(some), 3, hidden), dtype=np.float32) / 2


@dataclass(frozen=True, slots=True)
class _Domains:
    world: World

    def for_chain(self, chain: str, *, full: bool) -> LowerLayers:
        del full
        return self.world.lower_layers(int(chain))


def _identity(number: int) -> ModelIdentity:
    return ModelIdentity(f"tenant-{number}", str(number), 1, f"{number:064}")


def _still(module: nn.Module) -> nn.Module:
    return module.eval().requires_grad_(False)
