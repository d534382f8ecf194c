"""What stands for the lower layers of what is served: chains of tables, and the layers behind them."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from inference.errors import HplmError
from inference.hplm.artifact_files import read_artifact_json
from inference.hplm.compose import Composition
from inference.hplm.encoder import FullLower
from inference.hplm.local_lower import JSON_FILE, LocalLower
from inference.hplm.miss_plan import CostModel, LevelErrors
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.plot_lookup import LowerLayers
from inference.hplm.root import LOWER_FILE, Root
from inference.hplm.root_config import RootConfig
from inference.manifest import Manifest, ServedHplm
from inference.serving.hot_tier import HotTier
from inference.serving.loading import Checksums, follow, verify, verify_artifact
from inference.serving.lower_cache import LowerCache, Use

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Link:
    """A chain, its tables (digests), and its composition on the device; the root and the nearest local lower
    layers (digests), and what was measured of them."""

    chain: PlotChain
    tables: tuple[str, ...]
    composition: Composition
    root: str
    lower: str
    errors: LevelErrors


@dataclass(frozen=True, slots=True, eq=False)
class _Lent(LowerLayers):
    """A lower half whose layers stay in memory until the batch lets go of it."""

    use: Use = field(default_factory=Use)


@dataclass(frozen=True, slots=True)
class Chains:
    """The roots, tables and chains of one manifest, as far as they can be had; ``error`` is why not all."""

    manifest: Manifest
    roots: Mapping[str, Root] = field(default_factory=dict)
    tables: Mapping[str, PlotTable] = field(default_factory=dict)
    links: Mapping[str, _Link] = field(default_factory=dict)
    costs: Mapping[str, CostModel | None] = field(default_factory=dict)
    error: str = ""


class ServedLowerLayers:
    """Tables are mapped at once; lower layers are loaded when they are first wanted, within a budget.

    ``hot_bytes`` says how much of the device may be taken for rows of tables beside those roots. With
    ``measuring``, a root's lower layers are loaded and timed with the root. One thread may ``prepare`` while
    another serves; only the latter may ``swap``.
    """

    def __init__(
        self,
        *,
        device: torch.device,
        dtype: torch.dtype,
        lower_bytes: int,
        hot_bytes: Callable[[Iterable[RootConfig]], int] = lambda _: 0,
        measuring: bool = False,
        checksums: Checksums | None = None,
    ) -> None:
        self.lowers = LowerCache(budget_bytes=lower_bytes)
        self.hot = HotTier(device)
        self._hot_bytes = hot_bytes
        self._measuring = measuring
        self._checksums = checksums or Checksums()
        self._device = device
        self._dtype = dtype
        self._now = Chains(Manifest(artifact_root=Path()))

    def __contains__(self, chain: str) -> bool:
        return chain in self._now.links

    def prepare(self, manifest: Manifest, roots: Mapping[str, Root]) -> Chains:
        """What is to be served by that manifest; what is in memory already is not loaded again."""
        now, hplms = self._now, manifest.hplms.values()
        self.lowers.try_again()
        wanted = {digest for hplm in hplms for digest in hplm.plots}
        tables, lacking = follow(now.tables, wanted, lambda digest: self._table(manifest, digest))
        self.hot.follow(tables, self._hot_bytes(root.config for root in roots.values()))
        named = {chain_name(hplm): hplm for hplm in hplms}
        links, broken = follow(now.links, named, lambda name: self._link(manifest, tables, named[name]))
        chains = Chains(manifest, roots, tables, links)
        timed = roots if self._measuring else ()
        known: dict[str, CostModel | None] = {
            root: cost for root, cost in now.costs.items() if cost is not None
        }
        costs, unmeasured = follow(known, timed, lambda root: self._measured(chains, root))
        return replace(chains, costs=costs, error=lacking or broken or unmeasured)

    def swap(self, chains: Chains) -> None:
        """Serve what was prepared, and nothing else."""
        self._now = chains
        lowers = {link.lower for link in chains.links.values()}
        self.lowers.keep({f"local/{digest}" for digest in lowers} | {f"full/{root}" for root in chains.roots})

    def bring(self, until: float) -> None:
        """Load the lower layers behind what is served until then, in monotonic seconds, while they take at
        most half of their budget: the rest is for what is asked for."""
        now = self._now
        for link in now.links.values():
            if time.monotonic() >= until or 2 * self.lowers.used_bytes >= self.lowers.budget_bytes:
                return
            self._local(now, link.lower, Use(), wait=True)
            self._full(now, link.root, Use(), wait=True)

    def for_chain(self, chain: str, *, computing: bool) -> LowerLayers:
        """The lower half behind the chain, with what computes where it is wanted, loaded, and there is room
        for it. KeyError for an unknown chain."""
        now = self._now
        link = now.links[chain]
        hot = self.hot.of(link.tables)
        if not computing:
            return LowerLayers(link.chain, composition=link.composition, device=self._device, row_caches=hot)
        use = Use()
        local, full = self._local(now, link.lower, use), self._full(now, link.root, use)
        costs = now.costs.get(link.root)
        return _Lent(
            link.chain, local, full, link.errors, costs, link.composition, self._device, hot, use=use
        )

    def _measured(self, chains: Chains, root: str) -> CostModel | None:
        """What computing costs under the root, with its own lower layers; None where they lack."""
        use = Use()
        local = self._local(chains, chains.manifest.roots[root].lower, use, wait=True)
        full = self._full(chains, root, use, wait=True)
        if local is None or full is None:
            return None
        config = chains.roots[root].config
        costs = CostModel.measure(local, full, n=config.n, tokens=config.max_tokens)
        log.info("root %s: %s", config.name, costs)
        return costs

    def _local(self, chains: Chains, digest: str, use: Use, *, wait: bool = False) -> LocalLower | None:
        if not digest:
            return None
        load = partial(self._load_local, chains, digest)
        return self.lowers.get(f"local/{digest}", load, use, wait=wait)

    def _full(self, chains: Chains, root: str, use: Use, *, wait: bool = False) -> FullLower | None:
        return self.lowers.get(f"full/{root}", partial(self._load_full, chains, root), use, wait=wait)

    def _load_local(self, chains: Chains, digest: str) -> LocalLower:
        folder = chains.manifest.folder("lower", digest)
        verify(folder, chains.manifest.lowers[digest], self._checksums.of)
        return LocalLower.load(folder, self._device, self._dtype)

    def _load_full(self, chains: Chains, digest: str) -> FullLower:
        files = chains.manifest.roots[digest].files
        folder = chains.manifest.folder("root", digest)
        verify(folder, {LOWER_FILE: files[LOWER_FILE]}, self._checksums.of)
        config = chains.roots[digest].config
        path = folder / LOWER_FILE
        return FullLower.load(path, config.architecture, config.lower, self._device, self._dtype)

    def _table(self, manifest: Manifest, digest: str) -> PlotTable:
        folder = manifest.folder("plot", digest)
        verify_artifact(folder, self._checksums.of)
        return PlotTable.open(folder)

    def _link(self, manifest: Manifest, tables: Mapping[str, PlotTable], hplm: ServedHplm) -> _Link:
        absent = [digest for digest in hplm.plots if digest not in tables]
        if absent or not hplm.plots:
            raise HplmError(
                "corrupt_artifact", f"a table of the chain of {hplm.tenant}/{hplm.hplm} is absent"
            )
        chain = PlotChain([tables[digest] for digest in hplm.plots])
        composition = chain.composition.to(self._device).with_context_dtype(self._dtype)
        errors = _errors(manifest, hplm)
        return _Link(chain, tuple(hplm.plots), composition, hplm.root, hplm.lower, errors)


def chain_name(hplm: ServedHplm) -> str:
    """One name per root, local lower layers and sequence of tables."""
    return ":".join((hplm.root, hplm.lower, *hplm.plots))


def _errors(manifest: Manifest, hplm: ServedHplm) -> LevelErrors:
    """What was measured of the nearest local lower layers, or else of the root's."""
    root = manifest.roots.get(hplm.root)
    lowers = dict.fromkeys([hplm.lower, root.lower if root else ""])
    folders = [manifest.folder("lower", digest) for digest in lowers if digest]
    return LevelErrors.from_reports(*map(_report, folders))


def _report(folder: Path) -> Mapping[str, Any]:
    try:
        report = read_artifact_json(folder / JSON_FILE).get("report")
    except HplmError as error:
        log.warning("no figures of the lower layers %s: %s", folder.name[:12], error)
        return {}
    return report if isinstance(report, Mapping) else {}
