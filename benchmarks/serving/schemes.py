"""The ways of serving that the paper compares with the product: a model of its own for every tenant, one for
all, and adapters over computed lower layers."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

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
DEDICATED_MODELS = 16
"""So many different ones there are; a tenant has one of them."""
Weights = Mapping[str, Tensor]


class Dedicated:
    """A whole model of its own for every tenant, of which `resident` stay on the device; the rows of a
    tenant are computed together. The weights of all are in main memory: those of a model that is not resident
    are copied over those of the one used least recently."""

    def __init__(self, world: World, weights: Sequence[Weights], *, resident: int) -> None:
        self._world, self._weights, self._room = world, weights, resident
        self._models: OrderedDict[int, nn.ModuleList] = OrderedDict()
        self._head = Head.initial(3, world.encoder.hidden).to(world.device)

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
            is_full = len(self._models) >= self._room
            model = (
                self._models.popitem(last=False)[1]
                if is_full
                else whole_model(self._world).to(self._world.device)
            )
            model.load_state_dict(self._weights[tenant % len(self._weights)])
        self._models[tenant] = model
        return model


def dedicated_weights(world: World) -> list[Weights]:
    """Those of different dedicated models, in main memory."""
    return [whole_model(world, seed=seed).state_dict() for seed in range(DEDICATED_MODELS)]


def whole_model(world: World, *, seed: int = 0) -> nn.ModuleList:
    """Lower and upper layers of random weights."""
    torch.manual_seed(seed)
    shape = world.encoder.architecture
    halves = [FullLower(shape, world.lower), UpperLayers(shape, world.encoder.layers - world.lower)]
    return nn.ModuleList(halves).eval().requires_grad_(False).to(world.dtype)


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
        assert adapters.feed is not None
        apply_heads(adapters.feed.heads(), last, sequences)
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
