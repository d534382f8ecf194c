"""Tables of domains whose rows are read from their files in one of several ways."""

import mmap
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.serving.world import World, random_vectors
from inference.engine.rows import Row
from inference.hplm.fragments import extract_all, unpack
from inference.hplm.mapped_rows import MappedRows
from inference.hplm.plot import VECTORS_FILE, PlotChain, PlotTable
from inference.hplm.plot_lookup import LowerLayers
from inference.hplm.plot_writer import write_plot

DOMAIN_SHARE: Final = 0.75
"""Of the fragments of the root's table, those that a domain has rows of its own for."""
Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Way:
    """single: a row that is missing is read without its neighbours in the file (MADV_RANDOM). at_admission,
    at_lookup: the system is asked for the rows of a batch at once (MADV_WILLNEED), while the batch before it
    is under way, or when its own look-up begins. pinned: the process has the most requested rows itself."""

    single: bool = False
    at_admission: bool = False
    at_lookup: bool = False
    pinned: bool = False


class Table(PlotTable):
    """A table that is read in a way of its own."""

    def __init__(self, opened: PlotTable, file: Path, way: Way) -> None:
        advice = mmap.MADV_RANDOM if way.single else mmap.MADV_NORMAL
        self._file = MappedRows(file, opened.rows.dtype, advice=advice)
        mapped = self._file if way.at_lookup else None
        super().__init__(opened.keys, self._file.rows, opened.composition, opened.metadata, mapped)
        self._slots = np.full(len(self), -1, dtype=np.int64)
        self._pinned = self.rows[:0]["values"]

    def pin(self, at: Ids) -> None:
        """Copy these rows into the process's own memory."""
        self.prefetch(at)
        self._slots[at] = np.arange(len(at))
        self._pinned = self.rows["values"][at]

    def prefetch(self, at: Ids) -> None:
        """Have the system read these rows, in whatever way they are looked up."""
        self._file.read_ahead(at)

    def read(self, at: Ids, out: NDArray[np.float16]) -> None:
        """As `PlotTable`, which reads the rows that are not pinned."""
        if not len(self._pinned):
            super().read(at, out)
            return
        slots = self._slots[at]
        pinned, others = np.flatnonzero(slots >= 0), np.flatnonzero(slots < 0)
        out[pinned] = self._pinned[slots[pinned]]
        out[others] = self.rows["values"][at[others]]


class Tables:
    """The root's table (0) and those of domains, in files as the product writes them."""

    def __init__(self, world: World, home: Path, domains: int) -> None:
        fragments, missing = unpack(world.table.keys), world.root.config.missing_id
        self._folders = [home / str(number) for number in range(domains + 1)]
        for number, folder in enumerate(self._folders):
            held = np.random.default_rng(number).random(len(fragments)) < (DOMAIN_SHARE if number else 1)
            vectors = random_vectors(fragments[held], world.encoder.hidden)
            write_plot(folder, vectors, {"missing_id": missing}, world.table.composition, n=3)
        self._opened = [PlotTable.open(folder) for folder in self._folders]

    @property
    def bytes(self) -> int:
        """Of all rows."""
        return sum(table.rows.nbytes for table in self._opened)

    @property
    def row_bytes(self) -> int:
        """Of one row."""
        return self._opened[0].rows.dtype.itemsize

    def counts(self, batches: Iterable[list[Row]]) -> list[Ids]:
        """How often each row of each table is looked up, at most once by a batch."""
        found = [np.zeros(len(table), dtype=np.int64) for table in self._opened]
        for batch in batches:
            for number, at in rows_of(batch, _chains(self._opened)):
                found[number][at] += 1
        return found

    def map(self, way: Way) -> list[Table]:
        """All tables."""
        return [
            Table(opened, folder / VECTORS_FILE, way)
            for opened, folder in zip(self._opened, self._folders, strict=True)
        ]

    def empty_page_cache(self) -> None:
        """Drop the pages of all tables that nobody has mapped."""
        for folder in self._folders:
            with (folder / VECTORS_FILE).open("rb") as file:
                os.fdatasync(file.fileno())  # a page that is not yet written would stay
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Served:
    """The lower layers of the domains, by the tables of the moment."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._composition = world.table.composition.to(world.device).with_context_dtype(world.dtype)
        self.tables: Sequence[Table] = []
        self._chains: dict[str, PlotChain] = {}
        self._layers: dict[str, LowerLayers] = {}

    def use(self, tables: Sequence[Table]) -> None:
        """Serve these from now on."""
        self.tables, self._chains = tables, _chains(tables)
        self._layers = {
            name: LowerLayers(chain, self._world.full, self._composition, self._world.device)
            for name, chain in self._chains.items()
        }

    def for_chain(self, chain: str, *, full: bool) -> LowerLayers:
        """As an executor asks for them."""
        del full
        return self._layers[chain]

    def prefetch(self, batch: list[Row]) -> None:
        """Have the system read the rows that the batch will look up."""
        for number, at in rows_of(batch, self._chains):
            self.tables[number].prefetch(at)

    def admitted(self, batches: Sequence[list[Row]]) -> Iterator[list[Row]]:
        """The batches; before one begins, the rows of the next are requested."""
        self.prefetch(batches[0])
        for batch, following in pairwise([*batches, []]):
            self.prefetch(following)
            yield batch


def rows_of(batch: list[Row], chains: Mapping[str, PlotChain]) -> Iterator[tuple[int, Ids]]:
    """The numbers of the tables of a batch's texts, and the rows that are looked up in each."""
    for name in dict.fromkeys(row.chain for row in batch):
        chain = chains[name]
        ids = [row.ids for row in batch if row.chain == name]
        found = chain.search(extract_all(ids, chain.missing_id, chain.n))
        for place, number in enumerate((int(name), 0)):
            yield number, found.row[found.table == place]


def _chains(tables: Sequence[PlotTable]) -> dict[str, PlotChain]:
    """Of each domain: its table before the root's."""
    return {str(number): PlotChain([table, tables[0]]) for number, table in enumerate(tables) if number}
