"""The encoder roots and their models that this worker serves."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from inference.cascade.dispatcher import Level
from inference.device_errors import raise_if_device_lost, retry_with_freed_memory
from inference.engine.adapters import PackedHplm
from inference.engine.batcher import BatchLimits
from inference.engine.device_pets import DevicePets, copy_pinned
from inference.engine.executor import Executor
from inference.engine.in_flight import Counters, Engine
from inference.engine.pet_pool import PetPool
from inference.engine.pipeline import Pipeline
from inference.engine.pipelining import SYNCHRONISED
from inference.engine.rows import ModelIdentity, Row
from inference.hplm.encoder import UpperLayers
from inference.hplm.hplm import Hplm
from inference.hplm.pets.spec import UpperShape
from inference.hplm.root import LM_HEAD_FILE, LOWER_FILE, Root
from inference.hplm.root_config import RootConfig
from inference.machine_memory import machine_bytes
from inference.manifest import Manifest, ManifestWatcher, ServedHplm, ServedRoot
from inference.serving.catalogue import BackgroundTask, Catalogue, NotServedError, Revision, require_served
from inference.serving.device_ledger import PET_SHARE, DeviceLedger, batch_bytes, ledger_of
from inference.serving.loading import follow, load_verified, verify
from inference.serving.lower_layers import Chains, ServedLowerLayers, chain_name
from inference.serving.metrics import WorkerMetrics

log = logging.getLogger(__name__)

LOWER_BYTES = 2 * 1024**3
POOL_SHARE = 4
"""The PET pool takes up to a quarter of the machine's memory."""
WARM_UP_TOKENS = 8
LOADING_SHARE = 2 / 3
"""Loading models takes at most this share of the time before ready; the rest is for running texts."""


@dataclass(frozen=True, slots=True)
class EncoderRevision(Revision):
    """The roots and executors by digest, and the chains of tables."""

    roots: Mapping[str, Root]
    executors: Mapping[str, Executor]
    chains: Chains


@dataclass(frozen=True, slots=True)
class Route:
    """Where the rows of one model go, and what the manifest says about it."""

    executor: Engine
    chain: str
    served: ServedHplm


class EncoderCatalogue(Catalogue[EncoderRevision]):
    """The roots of encoders with their tables, and a pool of PETs. See `Catalogue`.

    A second thread loads the models of a new revision before they are asked for.
    """

    def __init__(
        self,
        watcher: ManifestWatcher,
        *,
        device: torch.device,
        dtype: torch.dtype,
        pool_bytes: int | None = None,
        lower_bytes: int = LOWER_BYTES,
        pipeline: Pipeline | None = None,
        metrics: WorkerMetrics | None = None,
        ledger: DeviceLedger | None = None,
        limits: BatchLimits | None = None,
        warm_up_s: float = 0.0,
        load_ahead_s: float = 0.0,
    ) -> None:
        """``pool_bytes``: of the PET pool, on the host; None: a quarter of its memory. ``ledger``: of the
        device; None: one of its own. ``warm_up_s``: for so long at most the first revision is loaded and run
        by ``warm_up``. ``load_ahead_s``: for so long the models of each later revision are loaded before they
        are asked for, beside what is served."""
        nothing = Manifest(artifact_root=watcher.artifact_root)
        super().__init__("next revision", watcher, EncoderRevision(nothing, "", {}, {}, Chains(nothing)))
        self.device = device
        self.dtype = dtype
        self._read = metrics.timed_load(self._read_hplm) if metrics else self._read_hplm
        pool_bytes = pool_bytes or machine_bytes() // POOL_SHARE
        self.ledger = ledger or ledger_of(device, model_bytes=pool_bytes)
        self.counters = Counters()
        self.pipeline = pipeline or Pipeline(SYNCHRONISED)
        self.lower_layers = ServedLowerLayers(
            device=device,
            dtype=dtype,
            lower_bytes=lower_bytes,
            ledger=self.ledger,
            checksums=self._checksums,
        )
        self.pool = PetPool(self._load_hplm, pool_bytes, self._device_pets())
        self._limits = limits or BatchLimits()
        self._reserved: set[str] = set()
        """The roots that the ledger knows."""
        self._bringing: BackgroundTask[None] = BackgroundTask("Models ahead of requests")
        self._bring_due = False
        self._warm_up_s, self._load_ahead_s = warm_up_s, load_ahead_s
        self._warm_by: float | None = None
        """In monotonic seconds, once the first revision is there."""
        self._threads = torch.get_num_threads()

    @property
    def executors(self) -> Mapping[str, Executor]:
        """By the digest of their root."""
        return self._now.executors

    @property
    def missing_roots(self) -> list[ServedRoot]:
        """The roots that could not be loaded."""
        now = self._now
        return [root for digest, root in now.manifest.roots.items() if digest not in now.executors]

    @property
    def pinned_resident(self) -> int:
        """How many of the pinned models are in memory."""
        return sum(self.pool.holds(hplm.digest) for hplm in self.manifest.pinned_hplms())

    def keep_up(self, *, wait: bool = False) -> bool:
        """See `Catalogue`."""
        changed = super().keep_up(wait=wait)
        self._bring()
        return changed

    @property
    def is_bringing(self) -> bool:
        """Whether models are being loaded in the background."""
        return self._bringing.under_way

    def warm_up(self) -> None:
        """Have the first revision loaded as far as there is time and room, and compute one text along every
        chain, so that no first request waits for that. Errors are logged; a request for the model gets them.
        The time counts from when loading began; only what is being computed then is finished later."""
        until = self._warm_by or 0.0
        if not self._bringing.is_done_within(max(0.0, until - time.monotonic())):
            log.warning("Models are still being loaded; the first requests for them will wait")
            return
        self._bringing.take()
        held_last = sorted(self.manifest.hplms.values(), key=lambda hplm: self.pool.holds(hplm.digest))
        of_chains = {chain_name(hplm): hplm for hplm in held_last}  # of each a model in memory, if one is
        for hplm in of_chains.values():
            if time.monotonic() >= until:
                break
            try:
                self._run_once(hplm)
            except Exception as error:  # noqa: BLE001 - it is served as far as it can be
                raise_if_device_lost(error)
                log.warning("no text could be computed for %s: %s", identity_of(hplm), error)
        self.pipeline.trace.forget()

    def _run_once(self, hplm: ServedHplm) -> None:
        """One text by all that the engine does, on every thread that computes, and counted nowhere."""
        route = self.route(identity_of(hplm))
        ids = _warm_up_ids(route.executor.root.config)
        rows = [
            Row(level.name, ids, np.zeros_like(ids), identity_of(hplm), route.chain, level, len(ids))
            for level in self._levels(hplm)
        ]
        executor = self._executor(route.executor.root, Counters())
        for flight in [executor.begin(rows) for _ in range(executor.parallel_batches)]:
            executor.finish(flight)
        for _ in range(executor.parallel_batches):
            executor.finish(executor.begin(rows, alone=True))

    def _levels(self, hplm: ServedHplm) -> list[Level]:
        """The levels that the first texts are computed at. Without tables there is only one."""
        if not hplm.plots:
            return [Level.FULL]
        return [level for level in Level if level is not Level.FULL or self.lower_layers.loads_ahead]

    def _bring(self) -> None:
        """Begin to load the models of a new revision in the background."""
        self._bringing.take()
        if self._bring_due and not self._bringing.under_way:
            self._bring_due = False
            now = time.monotonic()
            if self._warm_by is None:
                self._warm_by = now + self._warm_up_s
                until = now + LOADING_SHARE * self._warm_up_s
            else:
                until = now + self._load_ahead_s
            self._bringing.begin(partial(self._load_ahead, until))

    def _load_ahead(self, until: float) -> None:
        """The pinned models; then, until that time in monotonic seconds, the other models that nobody has to
        make room for."""
        for hplm in self.manifest.pinned_hplms():
            self._load_unless_held(hplm)
        for hplm in self.manifest.hplms.values():
            if time.monotonic() >= until or not self.pool.is_roomy:
                return
            self._load_unless_held(hplm)

    def _load_unless_held(self, hplm: ServedHplm) -> None:
        if self.pool.holds(hplm.digest):
            return
        try:
            self.pool.release(self.pool.acquire(identity_of(hplm)))
        except Exception as error:  # noqa: BLE001 - it is asked for again when somebody needs it
            raise_if_device_lost(error)
            log.warning("%s cannot be loaded ahead of requests: %s", identity_of(hplm), error)

    def _swap(self, revision: EncoderRevision) -> None:
        self._now = revision
        gone = self._reserved - revision.roots.keys()
        self._reserved -= gone
        self.ledger.release(*map(_name_in_ledger, gone))
        self.lower_layers.swap(revision.chains)
        self.pool.pin(revision.manifest.pinned)
        self.pool.keep({hplm.digest for hplm in revision.manifest.hplms.values()})
        self._bring_due = True
        served = len(revision.executors), len(revision.manifest.hplms)
        log.info("revision %d: %d roots, %d models", revision.manifest.revision, *served)

    def _load(self, manifest: Manifest) -> EncoderRevision:
        torch.set_num_threads(self._threads)  # of this thread, whatever those that compute have just now
        now = self._now
        roots, bad_root = follow(now.roots, manifest.roots, lambda root: self._load_root(manifest, root))
        chains = self.lower_layers.prepare(manifest, roots)
        executors, unfit = follow(now.executors, roots, lambda root: self._start(roots[root]))
        self._forget(manifest)
        return EncoderRevision(manifest, bad_root or chains.error or unfit, roots, executors, chains)

    def _forget(self, manifest: Manifest) -> None:
        """Forget the checksums of artifacts that the manifest does not name."""
        self._checksums.keep(
            {manifest.folder("root", root) for root in manifest.roots}
            | {manifest.folder("lower", lower) for lower in manifest.lowers}
            | {manifest.folder("plot", plot) for hplm in manifest.hplms.values() for plot in hplm.plots}
            | {manifest.folder("hplm", hplm.digest) for hplm in manifest.hplms.values()}
        )

    def route(self, model: ModelIdentity, root: str = "") -> Route:
        """Where rows for ``model`` go; ``root``: the digest of the one that read its tokens. Raises
        NotServedError if the model is unknown, was removed or cannot be served."""
        served = self._served(model, root)
        executor, chain = self.executors.get(served.root), chain_name(served)
        if executor is None or chain not in self.lower_layers:
            raise NotServedError("inference_failed", f"the root or a PLOT of {model} cannot be loaded")
        return Route(executor, chain, served)

    def _served(self, model: ModelIdentity, root: str = "") -> ServedHplm:
        return require_served(model, self._find(model), root)

    def _find(self, model: ModelIdentity) -> ServedHplm | None:
        return self.manifest.find(model.tenant, model.hplm, model.version, model.digest)

    def _load_hplm(self, model: ModelIdentity) -> PackedHplm:
        served = self._find(model)
        folder = self.manifest.folder("hplm", model.digest)
        files = [folder / name for name in served.files] if served else []
        return self._refusals.attempt(model.digest, files, lambda: self._read(model))

    def _read_hplm(self, model: ModelIdentity) -> PackedHplm:
        served = self._served(model)  # it may have been removed since the row was admitted
        if served.digest == served.root:
            config = self._now.roots[served.root].config
            hplm = Hplm.of_embeddings(UpperShape(config.upper, config.hidden, config.architecture.inner))
        else:
            hplm = load_verified(self.manifest.folder("hplm", model.digest), served, self._checksums.of)
        return PackedHplm.of(hplm, self.dtype, model.digest)

    def _load_root(self, manifest: Manifest, digest: str) -> Root:
        folder = manifest.folder("root", digest)
        read_later = (LOWER_FILE, LM_HEAD_FILE)
        files = {
            name: sha256 for name, sha256 in manifest.roots[digest].files.items() if name not in read_later
        }
        verify(folder, files, self._checksums.of)
        self._reserve(digest, RootConfig.load(folder))
        return retry_with_freed_memory(
            lambda: Root.load(folder, self.device, self.dtype), self.ledger.give_back
        )

    def _reserve(self, digest: str, config: RootConfig) -> None:
        """Device memory of a root's upper layers, and of the activations of its batches. Raises HplmError if
        the former do not fit. What it took is released when a revision without it is served."""
        name, number_bytes = _name_in_ledger(digest), self.dtype.itemsize
        activations = self.pipeline.pipelining.at_once * batch_bytes(config, self._limits, number_bytes)
        self.ledger.reserve(name, number_bytes * _upper_numbers(config))
        self._reserved.add(digest)
        self.ledger.reserve_share(name, activations, group="activations of a batch")

    def _start(self, root: Root) -> Executor:
        executor = self._executor(root, self.counters)
        executor.warm_up(rows=4, tokens=root.config.max_tokens)
        return executor

    def _executor(self, root: Root, counters: Counters) -> Executor:
        free = self.ledger.give_back
        return Executor(root, self.lower_layers, self.pool, counters, self.pipeline, free_memory=free)

    def _device_pets(self) -> DevicePets | None:
        """None for a CPU, which computes with PETs where they lie."""
        if self.device.type == "cpu":
            return None
        pets = DevicePets(copy_pinned(self.device), budget_bytes=0)
        self.ledger.add_cache("PETs", self.ledger.total_bytes // PET_SHARE, pets.resize)
        return pets


def _name_in_ledger(root: str) -> str:
    return f"root {root[:12]}"


def _upper_numbers(config: RootConfig) -> int:
    """How many numbers the upper layers have."""
    with torch.device("meta"):
        upper = UpperLayers(config.architecture, config.upper)
    return sum(weights.numel() for weights in upper.parameters())


def _warm_up_ids(config: RootConfig) -> NDArray[np.int64]:
    """Some tokens of the vocabulary between the special ones, [T] int64."""
    between = np.linspace(0, config.vocab - 1, min(WARM_UP_TOKENS, config.max_tokens) - 2, dtype=np.int64)
    return np.concatenate([[config.cls_id], between, [config.sep_id]])


def identity_of(hplm: ServedHplm) -> ModelIdentity:
    """The identity of a served model."""
    return ModelIdentity(hplm.tenant, hplm.hplm, hplm.version, hplm.digest)
