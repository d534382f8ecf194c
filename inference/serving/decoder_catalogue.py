"""The decoder roots that this worker serves, each with a generation engine."""

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final

import torch

from inference.decoder.generative_hplm import GenerativeHplm
from inference.decoder.root import DecoderRoot, DecoderRootConfig
from inference.device_errors import retry_with_freed_memory
from inference.engine.fairness import FairShares
from inference.engine.pet_pool import PetPool
from inference.engine.rows import ModelIdentity
from inference.errors import HplmError
from inference.generation.engine import GenerationEngine
from inference.generation.kv_cache import KvCache
from inference.generation.limits import GenerationLimits
from inference.generation.lora_pool import LoadedModel, LoraPool
from inference.generation.runner import DecoderRunner
from inference.generation.scheduler import GenerationCounts
from inference.generation.step import Outcome, Runner, Step
from inference.generation.warm_up import warm_up
from inference.manifest import Manifest, ManifestWatcher, ServedDecoder, ServedGenerativeHplm
from inference.serving.catalogue import Catalogue, NotServedError, Revision, require_served
from inference.serving.device_ledger import KV_SHARE, LORA_SHARE, DeviceLedger, ledger_of, step_bytes
from inference.serving.loading import follow, verify

log = logging.getLogger(__name__)

BLOCK_SIZE: Final = 16
LedgerNames = tuple[str, str, str]
"""Of a root's weights and activations, of its keys and values, and of its LoRAs."""


@dataclass(frozen=True, slots=True, eq=False)
class ServedRoot:
    """A decoder root in memory: its configuration, and the engine that continues prompts with it.
    number_format: what that computes in, as answers name it."""

    ledger_names: LedgerNames
    config: DecoderRootConfig
    engine: GenerationEngine
    loras: LoraPool
    number_format: str


class FreeingRunner:
    """A `Runner` that frees memory and tries once more if a step finds none on the device."""

    def __init__(self, runner: Runner, free_memory: Callable[[], None]) -> None:
        """free_memory: gives back what can be loaded again."""
        self._runner = runner
        self._free_memory = free_memory

    def run(self, step: Step) -> list[Outcome]:
        """See `Runner`. Raises what the second attempt raises."""
        return retry_with_freed_memory(lambda: self._runner.run(step), self._free_memory)


@dataclass(frozen=True, slots=True)
class DecoderRevision(Revision):
    """The roots by digest."""

    roots: Mapping[str, ServedRoot]


class DecoderCatalogue(Catalogue[DecoderRevision]):
    """The roots of decoders, each with an engine. See `Catalogue`. A root that is no longer served keeps the
    requests it has."""

    def __init__(
        self,
        watcher: ManifestWatcher,
        *,
        device: torch.device,
        dtype: torch.dtype,
        cache_bytes: int | None = None,
        ledger: DeviceLedger | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``cache_bytes``: of the keys and values of each root; None: a sixteenth of the ``ledger``.
        ``ledger``: of the device; None: one of its own. ``clock`` is that of deadlines."""
        nothing = Manifest(artifact_root=watcher.artifact_root)
        super().__init__("next decoders", watcher, DecoderRevision(nothing, "", {}))
        self._device, self._dtype = device, dtype
        self._ledger = ledger or ledger_of(device)
        self._cache_bytes = cache_bytes or self._ledger.total_bytes // KV_SHARE
        self._deadline_clock = clock
        self._loading = ThreadPoolExecutor(1, "loras")
        self._leaving: list[ServedRoot] = []
        self._loads = count(1)

    @property
    def roots(self) -> Mapping[str, ServedRoot]:
        """Those that take requests, by digest."""
        return self._now.roots

    @property
    def missing_roots(self) -> list[ServedDecoder]:
        """The roots that could not be loaded."""
        now = self._now
        return [root for digest, root in now.manifest.decoders.items() if digest not in now.roots]

    def counts(self) -> dict[str, GenerationCounts]:
        """How the engines of the roots that take requests stand, by the name of the root. Any thread may
        ask."""
        now = self._now
        return {now.manifest.decoders[digest].name: root.engine.counts for digest, root in now.roots.items()}

    def working(self) -> list[ServedRoot]:
        """All that may have requests: those that are served, and those that have some left."""
        idle = [root for root in self._leaving if root.engine.is_idle]
        self._leaving = [root for root in self._leaving if root not in idle]
        for root in idle:
            self._ledger.release(*root.ledger_names)
        return [*self._now.roots.values(), *self._leaving]

    def root_of(self, model: ModelIdentity, root: str) -> ServedRoot:
        """The root that continues prompts for a model. Raises NotServedError if the model is unknown, was
        removed, cannot be served, or has another root than the one that the prompt was read for."""
        require_served(model, self._served(model), root)
        if root not in self._now.roots:
            raise NotServedError("inference_failed", f"the root of {model} cannot be loaded")
        return self._now.roots[root]

    def _served(self, model: ModelIdentity) -> ServedGenerativeHplm | None:
        return self.manifest.find_generative(model.tenant, model.hplm, model.version, model.digest)

    def _load(self, manifest: Manifest) -> DecoderRevision:
        roots, error = follow(self._now.roots, manifest.decoders, partial(self._load_root, manifest))
        folders = {manifest.folder("root", digest) for digest in manifest.decoders}
        models = manifest.generative_hplms.values()
        self._checksums.keep(folders | {manifest.folder("hplm", model.digest) for model in models})
        return DecoderRevision(manifest, error, roots)

    def _swap(self, revision: DecoderRevision) -> None:
        kept = {id(root) for root in revision.roots.values()}
        self._leaving += [root for root in self._now.roots.values() if id(root) not in kept]
        self._now = revision
        for root in revision.roots.values():
            root.loras.keep({hplm.digest for hplm in revision.manifest.generative_hplms.values()})

    def _load_root(self, manifest: Manifest, digest: str) -> ServedRoot:
        folder = manifest.folder("root", digest)
        verify(folder, manifest.decoders[digest].files, self._checksums.of)
        # The same root may still be there, with the requests that it has: each load has names of its own.
        names = _names_in_ledger(f"{digest[:12]} ({next(self._loads)})")
        try:
            return self._start(names, digest, DecoderRoot.load(folder))
        except BaseException:
            self._ledger.release(*names)
            raise

    def _start(self, ledger_names: LedgerNames, digest: str, root: DecoderRoot) -> ServedRoot:
        """The engine of the root of this digest, in memory that the ledger grants. Raises HplmError if there
        is not enough."""
        weights, key_values, loras_name = ledger_names
        numbers = sum(value.numel() for value in root.weights.values())
        self._ledger.reserve(weights, numbers * self._dtype.itemsize)
        cache_bytes = self._ledger.reserve_share(key_values, self._cache_bytes)
        decoder = retry_with_freed_memory(
            lambda: root.decoder(self._device, self._dtype), self._ledger.give_back
        )
        cache = KvCache.within(cache_bytes, decoder, BLOCK_SIZE)
        limits = GenerationLimits(
            context=root.config.max_tokens,
            vocabulary=root.config.architecture.vocab,
            blocks=len(cache),
            block_size=BLOCK_SIZE,
        )
        read = partial(self._load_model, root.config)
        pool = PetPool(read, budget_bytes=0)
        activations = step_bytes(decoder, cache, limits)
        self._ledger.reserve_share(weights, activations, group="activations of a step")
        self._ledger.add_cache(loras_name, self._ledger.total_bytes // LORA_SHARE, pool.resize)
        loras = LoraPool(pool, self._loading, limits.sequences, root=digest)
        shares = FairShares(lambda tenant: self.manifest.weight(tenant))
        warm_up(decoder, cache, limits)
        tokens = len(cache) * BLOCK_SIZE
        log.info("%s: keys and values of %d tokens in %d bytes", root.config.name, tokens, cache.bytes)
        runner = FreeingRunner(DecoderRunner(decoder, cache, loras), self._ledger.give_back)
        engine = GenerationEngine(limits, runner, loras, self._deadline_clock, shares)
        return ServedRoot(ledger_names, root.config, engine, loras, str(decoder.dtype).removeprefix("torch."))

    def _load_model(self, config: DecoderRootConfig, model: ModelIdentity) -> LoadedModel:
        served = require_served(model, self._served(model))
        folder = self.manifest.folder("hplm", model.digest)

        def load() -> LoadedModel:
            verify(folder, served.files, self._checksums.of)
            loaded = GenerativeHplm.load(folder, config.architecture)
            if loaded.task != served.task:
                message = f"published for {served.task}, made for {loaded.task}"
                raise HplmError("corrupt_artifact", message)
            lora = retry_with_freed_memory(
                lambda: loaded.lora.to(self._device, self._dtype), self._ledger.give_back
            )
            return LoadedModel(lora)

        return self._refusals.attempt(model.digest, [folder / name for name in served.files], load)


def _names_in_ledger(root: str) -> LedgerNames:
    return f"root {root}", f"keys and values of root {root}", f"LoRAs of root {root}"
