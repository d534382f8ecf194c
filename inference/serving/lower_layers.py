"""The lower layers of served models: chains of tables, and the layers behind them."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

import torch
from torch import nn

from inference.device_errors import raise_if_device_lost
from inference.errors import HplmError
from inference.hplm.compose import Composition
from inference.hplm.context_mixer import ContextMixer
from inference.hplm.encoder import FullLower
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.plot_lookup import LowerLayers
from inference.hplm.root import FULL_LOWER_FILE, LOWER_FILE, Root
from inference.manifest import Manifest, ServedHplm
from inference.serving.device_ledger import DeviceLedger
from inference.serving.hot_tier import HotTier
from inference.serving.loading import Checksums, Refusals, follow, verify, verify_artifact

log = logging.getLogger(__name__)


class LowerCache:
    """Lower layers by name. What is asked for is always given, and loaded first where it must be: which
    layers happen to be in memory changes how long an answer takes, never what it is. Beyond the budget those
    go that were used longest ago; a batch that computes with them keeps them until it ends. For any threads.
    """

    def __init__(self, *, budget_bytes: int) -> None:
        self.loads = 0
        self.budget_bytes = budget_bytes
        self._held: OrderedDict[str, FullLower] = OrderedDict()
        self._lock, self._loading = Lock(), Lock()

    def __contains__(self, name: str) -> bool:
        return name in self._held

    @property
    def used_bytes(self) -> int:
        """Bytes of the weights in memory."""
        with self._lock:
            return self._used()

    @property
    def has_room(self) -> bool:
        """Whether it holds less than half of its budget."""
        return 2 * self.used_bytes < self.budget_bytes

    def get(self, name: str, load: Callable[[], FullLower]) -> FullLower:
        """The layers of this name. Raises what `load` does; one is loaded at a time."""
        found = self._find(name)
        if found is None:
            with self._loading:
                found = self._find(name)
                if found is None:
                    found = load()
                    self._hold(name, found)
        return found

    def keep(self, names: Iterable[str]) -> None:
        """Drop all others."""
        with self._lock:
            for name in self._held.keys() - set(names):
                del self._held[name]

    def resize(self, budget_bytes: int) -> None:
        """Change the budget, and drop at once what is beyond it."""
        with self._lock:
            self.budget_bytes = budget_bytes
            self._make_room(least=0)

    def _find(self, name: str) -> FullLower | None:
        with self._lock:
            if name in self._held:
                self._held.move_to_end(name)
            return self._held.get(name)

    def _hold(self, name: str, module: FullLower) -> None:
        with self._lock:
            self.loads += 1
            self._held[name] = module
            self._make_room(least=1)

    def _make_room(self, least: int) -> None:
        while len(self._held) > least and self._used() > self.budget_bytes:
            self._held.popitem(last=False)

    def _used(self) -> int:
        return sum(map(size_of, self._held.values()))


def size_of(module: nn.Module) -> int:
    """Bytes of a module's weights."""
    return sum(value.nbytes for value in module.state_dict().values())


@dataclass(frozen=True, slots=True)
class FullLowerFile:
    """Where full-context lower layers lie: in the artifact of a domain's, or of the root; their sha256."""

    digest: str
    path: Path
    sha256: str
    root: str


@dataclass(frozen=True, slots=True)
class _Link:
    """A chain, its tables (digests), its composition on the device, and the full-context lower layers. A root
    that was not converted has neither chain nor composition."""

    chain: PlotChain | None
    tables: tuple[str, ...]
    composition: Composition | None
    full: FullLowerFile

    @property
    def mixer(self) -> ContextMixer | None:
        """That of the composition."""
        return None if self.composition is None else self.composition.mixer

    @property
    def bytes(self) -> int:
        """Of the composition, which computes with copies of all of its tensors, without the mixer."""
        if self.composition is None:
            return 0
        return 2 * sum(value.nbytes for value in replace(self.composition, mixer=None).tensors().values())


@dataclass(frozen=True, slots=True)
class Chains:
    """The roots, tables and chains of one manifest, as far as they can be had; ``error`` is why not all."""

    manifest: Manifest
    roots: Mapping[str, Root] = field(default_factory=dict)
    tables: Mapping[str, PlotTable] = field(default_factory=dict)
    links: Mapping[str, _Link] = field(default_factory=dict)
    error: str = ""


class ServedLowerLayers:
    """Tables are mapped at once. Full-context lower layers are loaded when a text needs them; on a CPU with
    the revision that needs them, as far as half of their budget holds them.

    They take at most ``lower_bytes`` of the device, and rows of tables what its ``ledger`` leaves. One thread
    may ``prepare`` while another serves; only the latter may ``swap``.
    """

    def __init__(
        self,
        *,
        device: torch.device,
        dtype: torch.dtype,
        lower_bytes: int,
        ledger: DeviceLedger,
        checksums: Checksums | None = None,
    ) -> None:
        self.lowers = LowerCache(budget_bytes=lower_bytes)
        self.hot = HotTier(device)
        self._ledger = ledger
        ledger.add_cache("lower layers", lower_bytes, self.lowers.resize)
        ledger.add_rows(self.hot.resize)
        self._checksums = checksums or Checksums()
        self._refusals = Refusals()
        self._device = device
        self._dtype = dtype
        self._now = Chains(Manifest(artifact_root=Path()))

    def __contains__(self, chain: str) -> bool:
        return chain in self._now.links

    @property
    def loads_ahead(self) -> bool:
        """Whether full-context lower layers are loaded before a text needs them. An accelerator's memory is
        for what is used there (paper, section 3.2.2)."""
        return self._device.type == "cpu"

    def prepare(self, manifest: Manifest, roots: Mapping[str, Root]) -> Chains:
        """The chains of that manifest. Loads what is not in memory already."""
        now, hplms = self._now, manifest.hplms.values()
        wanted = {digest for hplm in hplms for digest in hplm.plots}
        tables, lacking = follow(now.tables, wanted, lambda digest: self._table(manifest, digest))
        named = {chain_name(hplm): hplm for hplm in hplms}
        links, broken = follow(now.links, named, lambda name: self._link(manifest, tables, named[name]))
        mixers = {link.mixer for link in links.values() if link.mixer is not None}
        compositions = sum(link.bytes for link in links.values()) + sum(map(size_of, mixers))
        self._ledger.reserve("compositions", compositions)
        self.hot.follow(tables)
        chains = Chains(manifest, roots, tables, links)
        unloaded = self._load_ahead(chains) if self.loads_ahead else ""
        return replace(chains, error=lacking or broken or unloaded)

    def swap(self, chains: Chains) -> None:
        """Serve these chains from now on, and no others."""
        self._now = chains
        self.lowers.keep({link.full.digest for link in chains.links.values()})

    def for_chain(self, chain: str, *, full: bool) -> LowerLayers:
        """The lower half behind the chain; with `full` also the layers that compute it, which are loaded
        where they are not. KeyError for an unknown chain, HplmError where they cannot be loaded."""
        now = self._now
        link = now.links[chain]
        layers = self._full(now, link.full) if full else None
        hot = self.hot.of(link.tables)
        return LowerLayers(link.chain, layers, link.composition, self._device, hot)

    def _load_ahead(self, chains: Chains) -> str:
        """Load the layers behind what is to be served while half of the budget holds them: the rest is for
        what is asked for. The last reason why some cannot be loaded, or ""."""
        reason = ""
        served = [link.full for link in chains.links.values() if link.full.root in chains.roots]
        for file in {file.digest: file for file in served}.values():
            if not self.lowers.has_room:
                break
            try:
                self._full(chains, file)
            except Exception as error:  # noqa: BLE001 - what needs none of them is served
                raise_if_device_lost(error)
                log.warning("the lower layers %s cannot be loaded: %s", file.digest[:12], error)
                reason = f"{file.digest[:12]}: {error}"
        return reason

    def _full(self, chains: Chains, file: FullLowerFile) -> FullLower:
        def load() -> FullLower:
            return self._refusals.attempt(file.digest, [file.path], lambda: self._read(chains, file))

        return self.lowers.get(file.digest, load)

    def _read(self, chains: Chains, file: FullLowerFile) -> FullLower:
        verify(file.path.parent, {file.path.name: file.sha256}, self._checksums.of)
        config = chains.roots[file.root].config
        return FullLower.load(file.path, config.architecture, config.lower, self._device, self._dtype)

    def _table(self, manifest: Manifest, digest: str) -> PlotTable:
        folder = manifest.folder("plot", digest)
        verify_artifact(folder, self._checksums.of)
        return PlotTable.open(folder)

    def _link(self, manifest: Manifest, tables: Mapping[str, PlotTable], hplm: ServedHplm) -> _Link:
        full = _full_lower_file(manifest, hplm)
        if not hplm.plots and not hplm.lower:
            return _Link(None, (), None, full)
        absent = [digest for digest in hplm.plots if digest not in tables]
        if absent or not hplm.plots:
            raise HplmError(
                "corrupt_artifact", f"a table of the chain of {hplm.tenant}/{hplm.hplm} is absent"
            )
        chain = PlotChain([tables[digest] for digest in hplm.plots])
        composition = chain.composition.to(self._device).with_context_dtype(self._dtype)
        return _Link(chain, tuple(hplm.plots), composition, full)


def chain_name(hplm: ServedHplm) -> str:
    """One name per root, local lower layers and sequence of tables. A root without tables has neither."""
    return ":".join((hplm.root, hplm.lower, *hplm.plots))


def _full_lower_file(manifest: Manifest, hplm: ServedHplm) -> FullLowerFile:
    """Those of its domain, where it has some of its own, else the root's."""
    of_domain = manifest.lowers.get(hplm.lower, {})
    if FULL_LOWER_FILE in of_domain:
        path = manifest.folder("lower", hplm.lower) / FULL_LOWER_FILE
        return FullLowerFile(hplm.lower, path, of_domain[FULL_LOWER_FILE], hplm.root)
    path = manifest.folder("root", hplm.root) / LOWER_FILE
    return FullLowerFile(hplm.root, path, manifest.roots[hplm.root].files[LOWER_FILE], hplm.root)
