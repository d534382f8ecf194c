"""The LoRAs that steps compute with: loaded while others decode, leased from start to end of a request."""

from collections.abc import Container, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass

from inference.decoder.lora import DecoderLora
from inference.engine.pet_pool import IntegrityError, Lease, PetPool, SlotMismatchError
from inference.engine.rows import ModelIdentity
from inference.generation.step import AdapterState


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """A generative model in memory. lora: None where it is the root itself."""

    lora: DecoderLora | None

    @property
    def bytes(self) -> int:
        """The size of the LoRA."""
        return 0 if self.lora is None else self.lora.bytes


@dataclass(slots=True, eq=False)
class _Claim:
    """A model that is loading, or that was loaded and is not leased yet. last_asked: the number of the call
    of `acquire` that asked for it last."""

    lease: Future[Lease[LoadedModel]]
    last_asked: int


@dataclass(slots=True, eq=False)
class _Held:
    """The lease of a model that so many running requests use."""

    lease: Lease[LoadedModel]
    users: int = 0


class LoraPool:
    """The `AdapterPool` of a runner, over a pool of models.

    Models are loaded by ``executor``. Those that are leased and those that are about to be keep their room in
    the budget; the pool fills the rest with models that were used before. A model that was loaded and is not
    asked for any more gives up its room to others. Not thread-safe.
    """

    def __init__(
        self, pool: PetPool[LoadedModel], executor: Executor, most_asked: int, *, root: str = ""
    ) -> None:
        """most_asked: the most models that are asked for before one step. root: the digest of the root, which
        computes without a LoRA when it is asked for itself."""
        self._pool = pool
        self._executor = executor
        self._most_asked = most_asked
        self._root = root
        self._held: dict[str, _Held] = {}
        self._claims: dict[str, _Claim] = {}
        self._asked = 0
        self._largest = 0  # bytes of the largest model so far

    @property
    def used_bytes(self) -> int:
        """The size of the models in memory."""
        return self._pool.used_bytes

    def acquire(self, model: ModelIdentity) -> AdapterState:
        """Lease the model, or begin to load it; see `AdapterPool`. Raises what loading raised."""
        if model.digest == self._root:
            return AdapterState.LEASED
        self._asked += 1
        digest = model.digest
        if digest not in self._held:
            state = self._fetch(model)
            if state is not AdapterState.LEASED:
                return state
        self._held[digest].users += 1
        return AdapterState.LEASED

    def release(self, model: ModelIdentity) -> None:
        """Give a lease back."""
        if model.digest == self._root:
            return
        held = self._held[model.digest]
        held.users -= 1
        if not held.users:
            del self._held[model.digest]
            self._pool.release(held.lease)

    def keep(self, digests: Container[str]) -> None:
        """Evict all other models; those that running requests use when these are done."""
        self._pool.keep(digests)

    def lora(self, model: ModelIdentity) -> DecoderLora | None:
        """The LoRA of a leased model; None for the root. Raises SlotMismatchError if its slot is of another
        one."""
        if model.digest == self._root:
            return None
        held = self._held.get(model.digest)
        if held is None:
            raise SlotMismatchError(f"{model} is computed without a lease")
        held.lease.identity(model)
        return held.lease.model().lora

    def check_integrity(self) -> None:
        """Raise IntegrityError unless, with no request running, all leases were given back."""
        if self._held:
            raise IntegrityError(f"{len(self._held)} models are leased and not used")
        if not self._claims:
            self._pool.check_integrity()

    def _fetch(self, model: ModelIdentity) -> AdapterState:
        """Take the lease of a model that is not held, if it is in memory."""
        claim = self._claims.get(model.digest)
        if claim is None:
            lease = self._pool.acquire_held(model.digest)
            if lease is not None:
                self._hold(lease)
                return AdapterState.LEASED
            if not self._has_room():
                return AdapterState.NO_ROOM
            claim = _Claim(self._executor.submit(self._pool.acquire, model), self._asked)
            self._claims[model.digest] = claim
        claim.last_asked = self._asked
        if not claim.lease.done():
            return AdapterState.LOADING
        del self._claims[model.digest]
        self._hold(claim.lease.result())
        return AdapterState.LEASED

    def _hold(self, lease: Lease[LoadedModel]) -> None:
        self._largest = max(self._largest, lease.slot.size)
        self._held[lease.digest] = _Held(lease)

    def _has_room(self) -> bool:
        """Whether one more model may be loaded. One whose size is not known yet is taken for the largest so
        far; a lone one always may."""
        if self._fits_another():
            return True
        self._forget_unwanted()
        return self._fits_another()

    def _fits_another(self) -> bool:
        if not self._held and not self._claims:
            return True
        loaded = _loaded(self._claims)
        leases = [*loaded.values(), *(held.lease for held in self._held.values())]
        self._largest = max([self._largest, *(lease.slot.size for lease in leases)])
        loading = len(self._claims) - len(loaded)
        used = sum(lease.slot.size for lease in leases) + (loading + 1) * self._largest
        return self._largest > 0 and used <= self._pool.budget_bytes

    def _forget_unwanted(self) -> None:
        """Drop claims whose loading has ended and that no request asked for before the last step."""
        loaded = _loaded(self._claims)
        for digest, claim in [*self._claims.items()]:
            if claim.lease.done() and self._asked - claim.last_asked > self._most_asked:
                del self._claims[digest]
                if digest in loaded:
                    self._pool.release(loaded[digest])


def _loaded(claims: Mapping[str, _Claim]) -> dict[str, Lease[LoadedModel]]:
    """The leases of the claims whose model was loaded, by digest."""
    done = {digest: claim.lease for digest, claim in claims.items() if claim.lease.done()}
    return {digest: lease.result() for digest, lease in done.items() if lease.exception() is None}
