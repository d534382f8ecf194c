"""The ledger of one device's memory: what weights, caches and rows of tables may take of it."""

import logging
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Final

import torch

from inference.decoder.decoder import Decoder
from inference.engine.batcher import BatchLimits
from inference.errors import HplmError
from inference.generation.kv_cache import KvCache
from inference.generation.limits import GenerationLimits
from inference.hplm.root_config import RootConfig
from inference.machine_memory import machine_bytes

log = logging.getLogger(__name__)

FREE_SHARE: Final = 0.9
"""Of what is free of an accelerator when the worker starts. The rest is for workspaces of libraries and for
holes between tensors."""
PET_SHARE: Final = 4
"""The PETs of encoders on an accelerator take up to a quarter of the ledger."""
KV_SHARE: Final = 16
LORA_SHARE: Final = 16
"""The keys and values of each decoder, and its LoRAs, take up to a sixteenth of the ledger each."""
ROWS: Final = "rows of tables"

Resize = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class _Cache:
    """The most bytes that a cache may take, and the function that sets its budget in bytes."""

    most: int
    resize: Resize


class DeviceLedger:
    """Shares out ``total_bytes`` of a device. The sum of what it grants never exceeds them.

    - What cannot be moved is **reserved**: weights, activations, keys and values.
    - **Caches** share what that leaves, in the order in which they were added: lower layers, PETs, LoRAs.
      Each may take its share, but at most half of what those before it leave. They shrink when more is
      reserved.
    - Rows of tables may take the rest. They are the first to shrink.

    Thread-safe.
    """

    def __init__(
        self, total_bytes: int, device: torch.device | None = None, *, for_rows: bool = True
    ) -> None:
        """for_rows: whether rows of tables are to be copied there."""
        self.total_bytes = total_bytes
        self._device, self._for_rows = device or torch.device("cpu"), for_rows
        self._lock = RLock()
        self._reserved: dict[str, dict[str, int]] = {}  # bytes by group and name
        self._caches: dict[str, _Cache] = {}
        self._rows: Resize | None = None
        self._budgets: dict[str, int] = {}

    @property
    def granted(self) -> dict[str, int]:
        """Bytes by name: what is reserved, the budget of each cache, and that of rows of tables."""
        with self._lock:
            return {group: max(parts.values()) for group, parts in self._reserved.items()} | self._budgets

    @property
    def overflow_bytes(self) -> int:
        """By how much the sum of what was granted exceeds the total: 0, or the ledger has a fault."""
        return max(0, sum(self.granted.values()) - self.total_bytes)

    def reserve(self, name: str, count: int, *, group: str = "") -> None:
        """Reserve so many bytes under this name, instead of what it had; caches shrink before this returns.
        Of one ``group`` only the largest counts: one of them is in use at a time. Raises
        HplmError(inference_failed) if they do not fit beside what else is reserved."""
        group = group or name
        with self._lock:
            others = {own: size for own, size in self._reserved.get(group, {}).items() if own != name}
            left = self._unreserved(but=group)
            if max([count, *others.values()]) > left:
                raise HplmError(
                    "inference_failed",
                    f"{name} takes {count >> 20} MiB of device memory, and {left >> 20} of "
                    f"{self.total_bytes >> 20} are left. Raise HMI_DEVICE_MB, or serve fewer roots.",
                )
            self._reserved[group] = {**others, name: count}
            self._share_out()

    def reserve_share(self, name: str, most: int, *, group: str = "") -> int:
        """Reserve up to ``most`` bytes, at most half of what is not reserved. Returns how many. ``group`` as
        in `reserve`."""
        with self._lock:
            count = min(most, self._unreserved(but=group or name) // 2)
            self.reserve(name, count, group=group)
            return count

    def add_cache(self, name: str, most: int, resize: Resize) -> None:
        """A cache that may take up to ``most`` bytes. ``resize`` is called with each new budget, and must
        have given back what is beyond it when it returns."""
        with self._lock:
            self._caches[name] = _Cache(most, resize)
            self._share_out()

    def add_rows(self, resize: Resize) -> None:
        """Rows of tables may take what is left; ``resize`` as in `add_cache`."""
        with self._lock:
            self._rows = resize if self._for_rows else None
            self._share_out()

    def release(self, *names: str) -> None:
        """Release reservations and caches by name."""
        with self._lock:
            for name in names:
                self._caches.pop(name, None)
                for parts in self._reserved.values():
                    parts.pop(name, None)
            self._reserved = {group: parts for group, parts in self._reserved.items() if parts}
            self._share_out()

    def give_back(self) -> None:
        """Empty the caches, for a batch that finds no memory. They fill again as they are used; rows of
        tables stay away until the next revision."""
        with self._lock:
            for resize in self._resizes().values():
                resize(0)
            for name, resize in self._resizes().items():
                resize(self._budgets[name])
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _unreserved(self, but: str = "") -> int:
        """What is not reserved, ``but`` for that group."""
        taken = [max(parts.values()) for group, parts in self._reserved.items() if group != but]
        return self.total_bytes - sum(taken)

    def _share_out(self) -> None:
        """Set the budget of each cache: those that shrink first, and rows of tables before all."""
        before, self._budgets = self._budgets, self._new_budgets()
        resizes = self._resizes()
        changed = [name for name, budget in self._budgets.items() if budget != before.get(name)]
        for name in sorted(changed, key=lambda name: (self._grows(name, before), name != ROWS)):
            resizes[name](self._budgets[name])

    def _new_budgets(self) -> dict[str, int]:
        left = self._unreserved()
        budgets = {}
        for name, cache in self._caches.items():
            budgets[name] = min(cache.most, left // 2)
            left -= budgets[name]
        return budgets if self._rows is None else {**budgets, ROWS: left}

    def _grows(self, name: str, before: dict[str, int]) -> bool:
        return self._budgets[name] > before.get(name, 0)

    def _resizes(self) -> dict[str, Resize]:
        rows = {} if self._rows is None else {ROWS: self._rows}
        return rows | {name: cache.resize for name, cache in self._caches.items()}


def ledger_of(device: torch.device, *, device_bytes: int = 0, model_bytes: int = 0) -> DeviceLedger:
    """The ledger of a device for one worker.

    device_bytes: what the worker may take (0: nine tenths of what is free of an accelerator). model_bytes:
    what models take of the host, which a CPU's ledger does not have.
    """
    if device.type == "cuda":
        used, total = used_and_total_bytes(device)
        free = int(FREE_SHARE * (total - used))
        return DeviceLedger(min(device_bytes or free, free), device)
    # Rows of tables are as near in the mapped files as they would be in copies.
    host = max(machine_bytes() // 2, machine_bytes() - model_bytes)  # that of models is a limit, often high
    return DeviceLedger(device_bytes or host, device, for_rows=bool(device_bytes))


def batch_bytes(config: RootConfig, limits: BatchLimits, number_bytes: int) -> int:
    """Bytes of the activations of an encoder's largest batch, with numbers of ``number_bytes``."""
    shape = config.architecture
    tokens = max(limits.tokens, config.max_tokens)
    # A layer's input, queries, keys, values, result and sum; the inner states twice; the scores of attention
    # where a backend writes them down.
    activations = tokens * (6 * shape.hidden + 2 * shape.inner + shape.heads * config.max_tokens)
    return number_bytes * activations


def step_bytes(decoder: Decoder, cache: KvCache, limits: GenerationLimits) -> int:
    """Bytes of the activations of a decoder's largest step."""
    shape = decoder.architecture
    # States, queries, keys, values, results and sums in float32; the inner states three times.
    states = 4 * limits.step_tokens * (6 * shape.hidden + 3 * shape.inner)
    # Logits and their exponentials, sorted values and their places: 4 + 4 + 4 + 8 bytes, and a copy.
    sampling = 24 * limits.sequences * shape.vocab
    gathered = 2 * cache.bytes // shape.layers  # the keys and values of a layer, and a copy
    return states + sampling + gathered


def host_bytes() -> int:
    """The resident memory of this process; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * resource.getpagesize()


def used_and_total_bytes(device: torch.device) -> tuple[int, int]:
    """The used and the total bytes of the accelerator, by all processes. Zeros for a CPU."""
    if device.type != "cuda":
        return 0, 0
    free, total = torch.cuda.mem_get_info(device)
    return total - free, total
