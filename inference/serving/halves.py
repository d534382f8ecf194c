"""The lower halves of everything that is served: chains of tables, and the lower layers behind them."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from inference.hplm.compose import Composition
from inference.hplm.errors import HplmError
from inference.hplm.full_lower import FullLower
from inference.hplm.json_files import read_artifact_json
from inference.hplm.local_lower import JSON_FILE, LocalLower
from inference.hplm.miss_plan import CostModel, LevelErrors
from inference.hplm.misses import LowerHalf
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.root import LOWER_FILE, Root
from inference.manifest import Manifest, ServedHplm
from inference.serving.following import follow
from inference.serving.hot_tier import HotTier
from inference.serving.loading import verify
from inference.serving.lowers import LowerCache, Use

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
class _Lent(LowerHalf):
    """A lower half whose layers stay in memory until the batch lets go of it."""

    use: Use = field(default_factory=Use)


class Halves:
    """Tables are mapped at once; lower layers are loaded when they are first wanted, within a budget.
    ``hot_bytes`` says how much of the device may be taken for rows of tables."""

    def __init__(
        self,
        roots: Mapping[str, Root],
        *,
        device: torch.device,
        dtype: torch.dtype,
        lower_bytes: int,
        hot_bytes: Callable[[], int] = lambda: 0,
    ) -> None:
        self.lowers = LowerCache(budget_bytes=lower_bytes)
        self.hot = HotTier(device)
        self._hot_bytes = hot_bytes
        self._roots = roots
        self._device = device
        self._dtype = dtype
        self._manifest = Manifest(artifact_root=Path())
        self._tables: dict[str, PlotTable] = {}
        self._links: dict[str, _Link] = {}
        self._costs: dict[str, CostModel] = {}
        self._verified: set[Path] = set()

    def __contains__(self, chain: str) -> bool:
        return chain in self._links

    def follow(self, manifest: Manifest) -> str:
        """Hold the tables and chains of the manifest; why one of them cannot be had, or ""."""
        self._manifest = manifest
        self._costs = {root: costs for root, costs in self._costs.items() if root in manifest.roots}
        hplms = manifest.hplms.values()
        tables = follow(self._tables, {digest for hplm in hplms for digest in hplm.plots}, self._table)
        self.hot.follow(self._tables, self._hot_bytes())
        chains = {chain_name(hplm): hplm for hplm in hplms}
        links = follow(self._links, chains, lambda name: self._link(chains[name]))
        self.lowers.keep({f"local/{hplm.lower}" for hplm in hplms} | {f"full/{root}" for root in self._roots})
        return links or tables

    def half(self, chain: str, *, computing: bool) -> LowerHalf:
        """The lower half behind the chain, with what computes where it is wanted and there is room for it.
        KeyError for an unknown chain."""
        link = self._links[chain]
        hot = self.hot.of(link.tables)
        if not computing:
            return LowerHalf(link.chain, composition=link.composition, device=self._device, hot=hot)
        use = Use()
        local, full = self._local(link.lower, use), self._full(link.root, use)
        costs = self._costs.get(link.root)
        return _Lent(
            link.chain, local, full, link.errors, costs, link.composition, self._device, hot, use=use
        )

    def measure(self, root: str) -> None:
        """Time what computing costs under the root, with its own lower layers; nothing where they lack."""
        use = Use()
        local, full = self._local(self._manifest.roots[root].lower, use), self._full(root, use)
        if local is not None and full is not None:
            config = self._roots[root].config
            self._costs[root] = CostModel.measure(local, full, n=config.n, tokens=config.max_tokens)
            log.info("root %s: %s", config.name, self._costs[root])

    def _local(self, digest: str, use: Use) -> LocalLower | None:
        return self.lowers.get(f"local/{digest}", lambda: self._load_local(digest), use) if digest else None

    def _full(self, root: str, use: Use) -> FullLower | None:
        return self.lowers.get(f"full/{root}", lambda: self._load_full(root), use)

    def _load_local(self, digest: str) -> LocalLower:
        folder = self._manifest.folder("lower", digest)
        self._verify_once(folder, self._manifest.lowers[digest])
        return LocalLower.load(folder, self._device, self._dtype)

    def _load_full(self, digest: str) -> FullLower:
        files = self._manifest.roots[digest].files
        folder = self._manifest.folder("root", digest)
        self._verify_once(folder, {LOWER_FILE: files[LOWER_FILE]})
        config = self._roots[digest].config
        path = folder / LOWER_FILE
        return FullLower.load(path, config.architecture, config.lower, self._device, self._dtype)

    def _verify_once(self, folder: Path, files: Mapping[str, str]) -> None:
        """The store never changes what it holds, and this may run while requests wait."""
        if folder not in self._verified:
            verify(folder, files)
            self._verified.add(folder)

    def _table(self, digest: str) -> PlotTable:
        return PlotTable.open(self._manifest.folder("plot", digest))

    def _link(self, hplm: ServedHplm) -> _Link:
        absent = [digest for digest in hplm.plots if digest not in self._tables]
        if absent or not hplm.plots:
            raise HplmError(
                "corrupt_artifact", f"a table of the chain of {hplm.tenant}/{hplm.hplm} is absent"
            )
        chain = PlotChain([self._tables[digest] for digest in hplm.plots])
        composition = chain.composition.to(self._device).with_context_in(self._dtype)
        return _Link(chain, tuple(hplm.plots), composition, hplm.root, hplm.lower, self._errors(hplm))

    def _errors(self, hplm: ServedHplm) -> LevelErrors:
        """What was measured of the nearest local lower layers, or else of the root's."""
        root = self._manifest.roots.get(hplm.root)
        lowers = dict.fromkeys([hplm.lower, root.lower if root else ""])
        return LevelErrors.from_reports(*(self._report(digest) for digest in lowers if digest))

    def _report(self, digest: str) -> Mapping[str, Any]:
        try:
            report = read_artifact_json(self._manifest.folder("lower", digest) / JSON_FILE).get("report")
        except HplmError as error:
            log.warning("no figures of the lower layers %s: %s", digest[:12], error)
            return {}
        return report if isinstance(report, Mapping) else {}


def chain_name(hplm: ServedHplm) -> str:
    """One name per root, local lower layers and sequence of tables."""
    return ":".join((hplm.root, hplm.lower, *hplm.plots))
