"""What this worker can serve: the roots and PLOT chains of the current manifest, in memory."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import torch

from inference.engine.executor import Counters, Executor
from inference.engine.residency import HplmCache
from inference.engine.rows import ModelIdentity
from inference.hplm.errors import HplmError
from inference.hplm.hplm import Hplm
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.root import Root
from inference.manifest import Manifest, ManifestWatcher, ServedHplm
from inference.serving.loading import load_verified

log = logging.getLogger(__name__)
Loaded = TypeVar("Loaded")


@dataclass(frozen=True, slots=True)
class Route:
    """Where the rows of one hPLM go."""

    executor: Executor
    chain: str


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
        self, watcher: ManifestWatcher, *, device: torch.device, dtype: torch.dtype, cache_bytes: int
    ) -> None:
        self.device = device
        self.dtype = dtype
        self.cache = HplmCache(self._load_hplm, budget_bytes=cache_bytes)
        self.counters = Counters()
        self.executors: dict[str, Executor] = {}
        self.manifest = Manifest(artifact_root=watcher.artifact_root)
        self.last_error = ""
        self._watcher = watcher
        self._tables: dict[str, PlotTable] = {}
        self._chains: dict[str, PlotChain] = {}

    def refresh(self) -> bool:
        """Follow the manifest to its current revision; True when it had changed."""
        manifest = self._watcher.current()
        if manifest is self.manifest:
            return False
        self.manifest = manifest
        hplms = manifest.hplms.values()
        self.last_error = ""
        self._follow(self.executors, manifest.roots, self._load_root)
        self._follow(self._tables, {digest for hplm in hplms for digest in hplm.plots}, self._load_table)
        chains = {_chain_name(hplm): hplm for hplm in hplms}
        self._follow(self._chains, chains, lambda name: self._link(chains[name]))
        log.info("revision %d: %d roots, %d hPLMs", manifest.revision, len(self.executors), len(hplms))
        return True

    def route(self, model: ModelIdentity) -> Route:
        """Where rows for ``model`` go; NotServedError when it is unknown, removed or cannot be served."""
        served = self._served(model)
        executor, chain = self.executors.get(served.root), _chain_name(served)
        if executor is None or chain not in self._chains:
            raise NotServedError("inference_failed", f"the root or a PLOT of {model} cannot be loaded")
        return Route(executor, chain)

    def _served(self, model: ModelIdentity) -> ServedHplm:
        served = self.manifest.find(model.tenant, model.hplm, model.version)
        if served is None:
            raise NotServedError("not_found", f"{model} is not served")
        if served.digest != model.digest:
            raise NotServedError(
                "inference_failed", f"{model} is served with another digest than was asked for"
            )
        return served

    def _load_hplm(self, model: ModelIdentity) -> Hplm:
        try:
            served = self._served(model)
        except NotServedError as error:  # removed between admission and this step
            raise HplmError(error.code, error.message) from error
        return load_verified(self.manifest.folder("hplm", model.digest), served, self.device, self.dtype)

    def _load_root(self, digest: str) -> Executor:
        root = Root.load(self.manifest.folder("root", digest), self.device, self.dtype)
        executor = Executor(root, self._chains, self.cache, self.counters)
        executor.warm_up(rows=4, tokens=root.config.max_tokens)
        return executor

    def _load_table(self, digest: str) -> PlotTable:
        return PlotTable.open(self.manifest.folder("plot", digest))

    def _link(self, hplm: ServedHplm) -> PlotChain:
        absent = [digest for digest in hplm.plots if digest not in self._tables]
        if absent or not hplm.plots:
            raise HplmError(
                "corrupt_artifact", f"a table of the chain of {hplm.tenant}/{hplm.hplm} is absent"
            )
        return PlotChain([self._tables[digest] for digest in hplm.plots])

    def _follow(
        self, loaded: dict[str, Loaded], wanted: Iterable[str], load: Callable[[str], Loaded]
    ) -> None:
        """Make ``loaded`` hold what is wanted, as far as it can be loaded."""
        names = set(wanted)
        for name in loaded.keys() - names:
            del loaded[name]
        for name in sorted(names - loaded.keys()):
            try:
                loaded[name] = load(name)
            except Exception as error:  # one damaged artifact must not stop the serving of the others
                log.exception("%s cannot be loaded", name)
                self.last_error = f"{name[:12]}: {error}"


def _chain_name(hplm: ServedHplm) -> str:
    """One name per root and sequence of tables."""
    return ":".join((hplm.root, *hplm.plots))
