"""The models of a batch: leased, put side by side, and given back."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from inference.device_errors import raise_if_device_lost
from inference.engine.pet_pool import Lease, PetPool
from inference.engine.pipeline import LayerFeed, Pipeline
from inference.engine.rows import ModelIdentity, Row
from inference.errors import HplmError
from inference.hplm.heads import Head
from inference.hplm.hplm import Hplm
from inference.hplm.pets.batch import SegmentPets
from inference.hplm.pets.packed import PackedPet
from inference.hplm.pets.spec import UpperShape

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class PackedHplm:
    """What a batch needs of a model: its PET in the number format of the upper layers, its head in fp32."""

    pet: PackedPet
    head: Head

    @classmethod
    def of(cls, hplm: Hplm, dtype: torch.dtype, digest: str | None = None) -> "PackedHplm":
        """The model, with a copy of its PET; see `PackedPet.of`."""
        return cls(PackedPet.of(hplm.pet, dtype, digest), hplm.head.to("cpu"))

    @property
    def shape(self) -> UpperShape:
        """Of the upper layers that it was made for."""
        return self.pet.layout.shape

    @property
    def bytes(self) -> int:
        """Of its tensors."""
        return self.pet.rows.nbytes + sum(value.nbytes for value in self.head.tensors().values())


Leases = Mapping[str, Lease[PackedHplm]]


@dataclass(frozen=True, slots=True, eq=False)
class Adapters:
    """The leases of a batch by digest and, for the others, why they cannot be had. Where all could be had:
    what gives their PETs, layer by layer, and the head of each row."""

    leases: Leases
    refused: Mapping[str, str]
    feed: LayerFeed | None = None

    def bring_layers(self) -> None:
        """Bring what the feed has yet to bring."""
        if self.feed is not None:
            self.feed.bring()


class AdapterLoader:
    """Lends the models of one root's batches."""

    def __init__(
        self, pool: PetPool[PackedHplm], shape: UpperShape, device: torch.device, pipeline: Pipeline
    ) -> None:
        self._pool, self._shape = pool, shape
        self._device, self._pipeline = device, pipeline

    def fetch(
        self, number: int, rows: Sequence[Row], given_up: Callable[[], bool] = lambda: False
    ) -> Adapters:
        """What batch `number` needs, or a part of it once it is `given_up`; to be given back with
        `release`."""
        leases, refused = self._acquire(rows, given_up)
        if refused or given_up():
            return Adapters(leases, refused)
        try:
            return self._side_by_side(number, rows, leases)
        except BaseException:
            self.release(leases)
            raise

    def release(self, leases: Leases) -> None:
        """Give everything back."""
        for lease in leases.values():
            self._pool.release(lease)

    def _side_by_side(self, number: int, rows: Sequence[Row], leases: Leases) -> Adapters:
        hplms = {digest: lease.model() for digest, lease in leases.items()}
        of_rows = [hplms[row.model.digest] for row in rows]
        lengths = [len(row) for row in rows]
        pets = SegmentPets.of([hplm.pet for hplm in of_rows], lengths, self._pool.row_on_device)
        heads = [hplm.head for hplm in of_rows]
        on_device = self._pool.head_on_device

        def bring_heads() -> list[Head]:
            return heads if on_device is None else [on_device(hplm.pet, hplm.head) for hplm in of_rows]

        feed = self._pipeline.feed(number, pets, self._shape.layers, self._device, bring_heads)
        return Adapters(leases, {}, feed)

    def _acquire(
        self, rows: Sequence[Row], given_up: Callable[[], bool]
    ) -> tuple[dict[str, Lease[PackedHplm]], dict[str, str]]:
        """A lease for each digest that can be had, and for the others the reason."""
        leases: dict[str, Lease[PackedHplm]] = {}
        refused: dict[str, str] = {}
        for model in {row.model.digest: row.model for row in rows}.values():
            if given_up():
                break
            found = self._lease(model)
            if isinstance(found, str):
                refused[model.digest] = found
            else:
                leases[model.digest] = found
        return leases, refused

    def _lease(self, model: ModelIdentity) -> Lease[PackedHplm] | str:
        try:
            lease = self._pool.acquire(model)
        except HplmError as error:
            log.error("%s cannot be loaded: %s", model, error)
            return f"the model cannot be loaded: {error.message}"
        except Exception as error:  # one tenant's file must not take the other rows down
            raise_if_device_lost(error)
            log.exception("%s cannot be loaded", model)
            return "the model cannot be loaded"
        if lease.model().shape == self._shape:
            return lease
        self._pool.release(lease)
        return "the model does not fit the shape of its root"
