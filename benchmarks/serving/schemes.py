"""The ways of serving that the paper compares with the product: a model of its own for every tenant, one for
all, and adapters over computed lower layers."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from benchmarks.result_cache import bench_dir
from benchmarks.serving.timing import settled
from benchmarks.serving.world import World
from inference.engine.adapters import AdapterLoader
from inference.engine.pipeline import Pipeline
from inference.engine.pipelining import SYNCHRONISED
from inference.engine.rows import Row
from inference.hplm.encoder import FullLower, UpperLayers
from inference.hplm.heads import Head, apply_heads, pool
from inference.hplm.pets import UpperShape
from inference.hplm.sequences import PackedSequences

Scheme = Callable[[Sequence[Row]], None]
STORED_DEDICATED = 32
"""So many dedicated models lie on disk; a tenant has one of them, and what is not resident is read again."""


class Dedicated:
    """A whole model of its own for every tenant, of which `resident` stay on the device; the rows of a
    tenant are computed together."""

    def __init__(self, world: World, *, resident: int) -> None:
        self._world, self._room = world, resident
        self._models: OrderedDict[int, nn.ModuleList] = OrderedDict()
        self._folder = bench_dir() / "serving" / world.encoder.name / "dedicated"
        self._head = Head.initial(3, world.encoder.hidden).to(world.device)
        self._store()

    @torch.inference_mode()
    def __call__(self, rows: Sequence[Row]) -> None:
        """Compute a batch."""
        by_tenant: dict[int, list[Row]] = {}
        for row in rows:
            by_tenant.setdefault(int(row.model.hplm), []).append(row)
        for tenant, own in by_tenant.items():
            lower, upper = self._model(tenant)
            ids, mask = padded(own, self._world.device)
            last = upper(lower(ids, mask), mask)
            self._head.apply(pool(last, mask, "cls")).cpu()

    def _model(self, tenant: int) -> nn.ModuleList:
        model = self._models.pop(tenant, None)
        if model is None:
            while len(self._models) >= self._room:
                self._models.popitem(last=False)
            model = self._fresh()
            model.load_state_dict(load_file(self._file(tenant % STORED_DEDICATED)))
            model.to(self._world.device)
        self._models[tenant] = model
        return model

    def _store(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        for number in range(STORED_DEDICATED):
            if not self._file(number).is_file():
                torch.manual_seed(number)
                save_file(
                    {k: v.contiguous() for k, v in self._fresh().state_dict().items()}, self._file(number)
                )

    def _fresh(self) -> nn.ModuleList:
        world = self._world
        shape = world.encoder.architecture
        model = nn.ModuleList(
            [FullLower(shape, world.lower), UpperLayers(shape, world.encoder.layers - world.lower)]
        )
        return model.eval().requires_grad_(False).to(world.dtype)

    def _file(self, number: int) -> Path:
        kind = str(self._world.dtype).removeprefix("torch.")
        return self._folder / f"{number:02}-{kind}.safetensors"


class Shared:
    """One model for all tenants, which only have a head each."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._head = Head.initial(3, world.encoder.hidden).to(world.device)

    @torch.inference_mode()
    def __call__(self, rows: Sequence[Row]) -> None:
        """Compute a batch."""
        ids, mask = padded(rows, self._world.device)
        last = self._world.root.upper(self._world.full(ids, mask), mask)
        self._head.apply(pool(last, mask, "cls")).cpu()


class HbertAdapter:
    """The product's adapters over computed lower layers, nothing looked up."""

    def __init__(self, world: World, *, pool_bytes: int) -> None:
        encoder = world.encoder
        shape = UpperShape(encoder.layers - world.lower, encoder.hidden, encoder.inner)
        pool = world.pool(pool_bytes, pool_bytes)
        self._world = world
        self._desk = AdapterLoader(pool, shape, world.device, Pipeline(SYNCHRONISED))

    @torch.inference_mode()
    def __call__(self, rows: Sequence[Row]) -> None:
        """Compute a batch."""
        adapters = self._desk.fetch(0, rows)
        ids = [row.ids for row in rows]
        sequences = PackedSequences.of(ids)
        packed = torch.from_numpy(np.concatenate(ids)).to(self._world.device)
        last = self._world.root.upper(self._world.full(packed, sequences), sequences, adapters.feed)
        apply_heads(adapters.heads, last, sequences)
        self._desk.release(adapters.leases)
        settled(self._world.device)


def padded(rows: Sequence[Row], device: torch.device) -> tuple[Tensor, Tensor]:
    """Ids [B, T] and mask [B, T] on the device."""
    longest = max(map(len, rows))
    ids: NDArray[np.int64] = np.zeros((len(rows), longest), dtype=np.int64)
    for at, row in enumerate(rows):
        ids[at, : len(row)] = row.ids
    lengths = torch.tensor([len(row) for row in rows])
    mask = torch.arange(longest) < lengths[:, None]
    return torch.from_numpy(ids).to(device), mask.to(device)
