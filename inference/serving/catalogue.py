"""What this worker can serve: everything the current manifest names, in memory."""

import logging
from dataclasses import dataclass

import torch

from inference.engine.batcher import BatchLimits
from inference.engine.costs import PROFILE_S, Costs, profile
from inference.engine.executor import Counters, Executor
from inference.engine.packed import PackedHplm
from inference.engine.pipeline import Pipeline
from inference.engine.pipelining import SYNCHRONISED
from inference.engine.residency import HplmCache
from inference.engine.rows import ModelIdentity
from inference.engine.slab_room import SlabRoom
from inference.engine.slabs import open_slabs
from inference.hplm.errors import HplmError
from inference.hplm.miss_policy import Misses, MissPolicy
from inference.hplm.root import Root
from inference.manifest import Manifest, ManifestWatcher, ServedHplm
from inference.serving.following import follow
from inference.serving.halves import Halves, chain_name
from inference.serving.hot_tier import free_bytes, left_for_rows
from inference.serving.loading import load_verified
from inference.serving.metrics import WorkerMetrics

log = logging.getLogger(__name__)

LOWER_BYTES = 2 * 1024**3


@dataclass(frozen=True, slots=True)
class Route:
    """Where the rows of one hPLM go, and what the manifest says about it."""

    executor: Executor
    chain: str
    served: ServedHplm


class NotServedError(Exception):
    """The hPLM cannot be served; ``code`` is a word of the product's error table."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Catalogue:
    """Follows the manifest: loads what it adds, forgets what it drops. What cannot be loaded is reported, is
    not served, and is tried again with the next manifest."""

    def __init__(
        self,
        watcher: ManifestWatcher,
        *,
        device: torch.device,
        dtype: torch.dtype,
        cache_bytes: int,
        slab: SlabRoom | None = None,
        lower_bytes: int = LOWER_BYTES,
        misses: Misses | None = None,
        pipeline: Pipeline | None = None,
        metrics: WorkerMetrics | None = None,
        profile_s: float = PROFILE_S,
        device_bytes: int = 0,
        limits: BatchLimits | None = None,
    ) -> None:
        self.device = device
        self.dtype = dtype
        self.misses = misses or Misses()
        load = metrics.timed_load(self._load_hplm) if metrics else self._load_hplm
        self.cache = HplmCache(load, open_slabs(dtype, slab, memory_bytes=cache_bytes))
        self.counters = Counters()
        self.pipeline = pipeline or Pipeline(SYNCHRONISED)
        self.executors: dict[str, Executor] = {}
        self.manifest = Manifest(artifact_root=watcher.artifact_root)
        self._roots: dict[str, Root] = {}
        self.halves = Halves(
            self._roots, device=device, dtype=dtype, lower_bytes=lower_bytes, hot_bytes=self._hot_bytes
        )
        self._device_bytes, self._limits = device_bytes, limits or BatchLimits()
        self._profile_s = profile_s
        self._error = ""
        self._watcher = watcher

    @property
    def last_error(self) -> str:
        """What could not be loaded last, "" when all is well."""
        return self._error or self.halves.lowers.last_error

    def refresh(self) -> bool:
        """Follow the manifest to its current revision; True when it had changed."""
        manifest = self._watcher.current()
        if manifest is self.manifest:
            return False
        self.manifest = manifest
        roots = follow(self._roots, manifest.roots, self._load_root)
        halves = self.halves.follow(manifest)
        executors = follow(self.executors, self._roots, self._start)
        self._error = halves or executors or roots
        if manifest.revision:  # before there is one, nothing was retired
            self.cache.keep({hplm.digest for hplm in manifest.hplms.values()})
        log.info(
            "revision %d: %d roots, %d hPLMs", manifest.revision, len(self.executors), len(manifest.hplms)
        )
        return True

    def route(self, model: ModelIdentity) -> Route:
        """Where rows for ``model`` go; NotServedError when it is unknown, removed or cannot be served."""
        served = self._served(model)
        executor, chain = self.executors.get(served.root), chain_name(served)
        if executor is None or chain not in self.halves:
            raise NotServedError("inference_failed", f"the root or a PLOT of {model} cannot be loaded")
        return Route(executor, chain, served)

    def _served(self, model: ModelIdentity) -> ServedHplm:
        served = self.manifest.find(model.tenant, model.hplm, model.version)
        if served is None:
            raise NotServedError("not_found", f"{model} is not served")
        if served.digest != model.digest:
            raise NotServedError(
                "inference_failed", f"{model} is served with another digest than was asked for"
            )
        return served

    def _load_hplm(self, model: ModelIdentity) -> PackedHplm:
        try:
            served = self._served(model)
        except NotServedError as error:  # removed between admission and this step
            raise HplmError(error.code, error.message) from error
        hplm = load_verified(self.manifest.folder("hplm", model.digest), served)
        return PackedHplm.of(hplm, self.dtype)

    def _hot_bytes(self) -> int:
        """What rows of tables may take of the device, beside everything else that is to lie there."""
        halves = self.halves
        free = free_bytes(self.device) + halves.hot.bytes + halves.lowers.used_bytes
        return left_for_rows(
            self._device_bytes or free,
            [root.config for root in self._roots.values()],
            limits=self._limits,
            lower_bytes=halves.lowers.budget_bytes,
            number_bytes=self.dtype.itemsize,
        )

    def _load_root(self, digest: str) -> Root:
        return Root.load(self.manifest.folder("root", digest), self.device, self.dtype)

    def _start(self, digest: str) -> Executor:
        root = self._roots[digest]
        executor = Executor(root, self.halves, self.cache, self.counters, self.pipeline)
        executor.warm_up(rows=4, tokens=root.config.max_tokens)
        if self._profile_s:
            table = profile(executor.warm_up, longest=root.config.max_tokens, budget_s=self._profile_s)
            executor.costs = Costs(table)
        if self.misses.policy is not MissPolicy.FALLBACK:
            self.halves.measure(digest)
        return executor
