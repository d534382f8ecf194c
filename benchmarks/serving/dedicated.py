"""What the product replaces: a whole model of its own for every tenant."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks import harness
from benchmarks.serving.world import World
from inference.engine.rows import Row
from inference.hplm.encoder import FullLower, UpperLayers
from inference.hplm.heads import Head, pool

DIFFERENT_MODELS = 16
"""So many different weights there are; a tenant has one of them."""
MEMORY_SHARE = 0.5
"""Of the memory that is free, the part that dedicated models may fill."""
Weights = Mapping[str, Tensor]


class Dedicated:
    """A model for every tenant, of which `resident` stay on the device; the rows of a tenant are computed
    together. The weights of a model that is not resident are copied from main memory, and the model that was
    used least recently is dropped."""

    def __init__(self, world: World, *, resident: int) -> None:
        self.resident = resident
        self._world = world
        self._weights = [_whole_model(world, seed).state_dict() for seed in range(DIFFERENT_MODELS)]
        self._models: OrderedDict[int, nn.ModuleList] = OrderedDict()
        self._head = Head.initial(3, world.encoder.hidden).to(world.device)
        for tenant in range(resident):
            self._model(tenant)

    @torch.inference_mode()
    def __call__(self, rows: Sequence[Row]) -> None:
        """Compute a batch."""
        by_tenant: dict[int, list[Row]] = {}
        for row in rows:
            by_tenant.setdefault(int(row.model.hplm), []).append(row)
        for tenant, own in by_tenant.items():
            lower, upper = self._model(tenant)
            ids, mask = _padded(own, self._world.device)
            cut = lower(ids, mask)
            self._head.apply(pool(upper(cut, mask), mask, "cls", cut)).cpu()

    def _model(self, tenant: int) -> nn.ModuleList:
        model = self._models.pop(tenant, None)
        if model is None:
            if len(self._models) >= self.resident:
                self._models.popitem(last=False)
            model = self._loaded(self._weights[tenant % len(self._weights)])
        self._models[tenant] = model
        return model

    def _loaded(self, weights: Weights) -> nn.ModuleList:
        with torch.device("meta"):
            model = _layers(self._world)
        copies = {name: value.to(self._world.device, copy=True) for name, value in weights.items()}
        model.load_state_dict(copies, assign=True)
        return model.eval().requires_grad_(False)


def models_in_memory(world: World) -> int:
    """How many whole models fit into MEMORY_SHARE of the device's free memory; at least one."""
    if world.device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(world.device)
    else:
        free = harness.available_memory()
    one = sum(value.nbytes for value in _whole_model(world, seed=0).state_dict().values())
    return max(1, int(MEMORY_SHARE * free / one))


def _whole_model(world: World, seed: int) -> nn.ModuleList:
    """Lower and upper layers of random weights, in main memory."""
    torch.manual_seed(seed)
    return _layers(world).to(world.dtype)


def _layers(world: World) -> nn.ModuleList:
    shape = world.encoder.architecture
    return nn.ModuleList(
        [FullLower(shape, world.lower), UpperLayers(shape, world.encoder.layers - world.lower)]
    )


def _padded(rows: Sequence[Row], device: torch.device) -> tuple[Tensor, Tensor]:
    """Ids [B, T] and mask [B, T] on the device."""
    longest = max(map(len, rows))
    ids: NDArray[np.int64] = np.zeros((len(rows), longest), dtype=np.int64)
    for at, row in enumerate(rows):
        ids[at, : len(row)] = row.ids
    lengths = torch.tensor([len(row) for row in rows])
    mask = torch.arange(longest) < lengths[:, None]
    return torch.from_numpy(ids).to(device), mask.to(device)
