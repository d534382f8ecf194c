"""The ways to serve many tenants from one process that HMI is compared with, each as its documentation says.

Run in an environment of their own (`program`): of our packages this imports none.
"""

import importlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Protocol

import torch
import transformers
from torch import Tensor

RESERVE = 0.1
"""The part of the memory that dedicated models leave free."""
EVERYBODY: Final = 2**31
"""Tenants of the base model: it makes no difference between them."""
MODULES: Final = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "output": "attention.output.dense",
    "expand": "intermediate.dense",
    "contract": "output.dense",
}
"""Our names of the linear maps of a layer, and BERT's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A scheme (one of SCHEMES), the encoder's shape, and how many tenants' adapters it holds.

    width: of the bottleneck adapters of AdapterHub, behind the attention block; rank, places: of PEFT's LoRA
    (the places are those that PEFT takes for BERT by itself); bare: so many layers, from the lowest, have no
    adapter.
    """

    scheme: str
    layers: int
    hidden: int
    heads: int
    inner: int
    vocab: int
    tenants: int = 1
    bare: int = 0
    width: int = 64
    rank: int = 16
    places: tuple[str, ...] = ("query", "value")
    positions: int = 512
    dtype: str = "bfloat16"
    threads: int = 1
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class Batch:
    """Token ids [rows, tokens], in main memory, and whose each row is; the rows of a tenant are together."""

    ids: Tensor
    owners: list[int]

    @classmethod
    def draw(
        cls, settings: Settings, resident: int, rows: int, tokens: int, tenants: int, seed: int
    ) -> "Batch":
        """Random texts, dealt out evenly to `tenants` of those resident."""
        if not 1 <= tenants <= min(rows, resident):
            raise ValueError(f"{tenants} tenants in {rows} rows, with {resident} resident")
        if not 1 <= tokens <= settings.positions:
            raise ValueError(f"{tokens} tokens, with {settings.positions} positions")
        chosen = random.Random(seed).sample(range(resident), tenants)  # noqa: S311 - no secret
        generator = torch.Generator().manual_seed(seed)
        ids = torch.randint(settings.vocab, (rows, tokens), generator=generator)
        return cls(ids, sorted(chosen[row % tenants] for row in range(rows)))

    def groups(self) -> list[tuple[int, int]]:
        """(owner, rows) in the order of the rows."""
        return [(owner, len(list(rows))) for owner, rows in groupby(self.owners)]


class Scheme(Protocol):
    """A way to serve many tenants from one process."""

    @property
    def resident(self) -> int:
        """The tenants that it can serve, numbered from 0."""

    def run(self, ids: Tensor, batch: Batch) -> Tensor:
        """The last hidden states of the batch; `ids` are the batch's, on the device."""

    def alone(self, ids: Tensor, owner: int) -> Tensor:
        """The same of rows of one tenant, not by the way for mixed batches."""


class Base:
    """The encoder without any adapter: what serving would cost if tenants did not differ."""

    resident = EVERYBODY

    def __init__(self, settings: Settings) -> None:
        self._model = _placed(_encoder(settings, seed=0), settings)

    def run(self, ids: Tensor, batch: Batch) -> Tensor:
        return _states(self._model(ids))

    def alone(self, ids: Tensor, owner: int) -> Tensor:
        return _states(self._model(ids))


class Loop:
    """A whole model for each tenant, all resident (as many as the memory holds), one after the other."""

    def __init__(self, settings: Settings) -> None:
        self._models = list(self._fill(settings))

    @property
    def resident(self) -> int:
        return len(self._models)

    def run(self, ids: Tensor, batch: Batch) -> Tensor:
        parts = torch.split(ids, [rows for _, rows in batch.groups()])
        return torch.cat(
            [self.alone(part, owner) for part, (owner, _) in zip(parts, batch.groups(), strict=True)]
        )

    def alone(self, ids: Tensor, owner: int) -> Tensor:
        return _states(self._models[owner](ids))

    def _fill(self, settings: Settings) -> Iterator[Any]:
        for tenant in range(settings.tenants):
            free, total = _memory(settings.device)
            if tenant and free < total * RESERVE:
                return
            yield _placed(_encoder(settings, seed=tenant), settings)


class BatchSplit:
    """AdapterHub: bottleneck adapters of the paper's form (equation 1), mixed by `BatchSplit`."""

    def __init__(self, settings: Settings) -> None:
        self._adapters: Any = importlib.import_module("adapters")
        self.resident = settings.tenants
        model = _encoder(settings, seed=0)
        self._adapters.init(model)
        config = self._adapters.BnConfig(
            mh_adapter=True,
            output_adapter=False,
            # The library cuts hidden / factor down to a whole number: aim at the middle.
            reduction_factor=settings.hidden / (settings.width + 0.5),
            non_linearity="relu",
            original_ln_before=True,
            residual_before_ln=False,
            original_ln_after=False,
            leave_out=list(range(settings.bare)),
        )
        for tenant in range(settings.tenants):
            model.add_adapter(_name(tenant), config)
        self._model = _placed(model, settings)

    def run(self, ids: Tensor, batch: Batch) -> Tensor:
        groups = batch.groups()
        if len(groups) == 1:
            return self.alone(ids, groups[0][0])
        blocks = self._adapters.composition.BatchSplit(
            *(_name(owner) for owner, _ in groups), batch_sizes=[rows for _, rows in groups]
        )
        with self._adapters.AdapterSetup(blocks):
            return _states(self._model(ids))

    def alone(self, ids: Tensor, owner: int) -> Tensor:
        with self._adapters.AdapterSetup(_name(owner)):
            return _states(self._model(ids))


class Peft:
    """Hugging Face PEFT: LoRA, mixed by `adapter_names`; a batch of one tenant by the active adapter."""

    def __init__(self, settings: Settings) -> None:
        peft: Any = importlib.import_module("peft")
        self.resident = settings.tenants
        layers = "|".join(map(str, range(settings.bare, settings.layers)))
        places = "|".join(MODULES[place] for place in settings.places)
        config = peft.LoraConfig(
            r=settings.rank,
            lora_alpha=settings.rank,
            target_modules=rf"encoder\.layer\.({layers})\.({places})",
            init_lora_weights=False,
        )
        model = peft.get_peft_model(_encoder(settings, seed=0), config, adapter_name=_name(0))
        for tenant in range(1, settings.tenants):
            model.add_adapter(_name(tenant), config)
        # PEFT keeps the adapters of a bfloat16 model in float32 unless told otherwise.
        self._model = _placed(model, settings)

    def run(self, ids: Tensor, batch: Batch) -> Tensor:
        if len(set(batch.owners)) == 1:
            return self.alone(ids, batch.owners[0])
        return _states(self._model(ids, adapter_names=[_name(owner) for owner in batch.owners]))

    def alone(self, ids: Tensor, owner: int) -> Tensor:
        if self._model.active_adapters != [_name(owner)]:
            self._model.set_adapter(_name(owner), inference_mode=True)
        return _states(self._model(ids))


SCHEMES: Final[dict[str, Callable[[Settings], Scheme]]] = {
    "base": Base,
    "loop": Loop,
    "batchsplit": BatchSplit,
    "peft": Peft,
}


def _encoder(settings: Settings, seed: int) -> Any:
    """A BERT of random weights."""
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        vocab_size=settings.vocab,
        hidden_size=settings.hidden,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=settings.inner,
        max_position_embeddings=settings.positions,
    )
    models: Any = transformers.AutoModel
    return models.from_config(config, attn_implementation="sdpa", add_pooling_layer=False)


def _placed(model: Any, settings: Settings) -> Any:
    return model.to(device=settings.device, dtype=getattr(torch, settings.dtype)).eval()


def _states(output: Any) -> Tensor:
    states: Tensor = output.last_hidden_state
    return states


def _name(tenant: int) -> str:
    return f"tenant{tenant}"


def _memory(device: str) -> tuple[int, int]:
    """(free, all) bytes of the device."""
    if torch.device(device).type == "cuda":
        return torch.cuda.mem_get_info(device)
    lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    kibibytes = {line.partition(":")[0]: int(line.split()[1]) for line in lines}
    return kibibytes["MemAvailable"] * 1024, kibibytes["MemTotal"] * 1024
