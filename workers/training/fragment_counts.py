"""Counts fragments with DuckDB, and selects those a table keeps (paper sections 5.1 and 7.7)."""

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import duckdb
import numpy as np
import numpy.typing as npt

from inference.errors import HplmError
from inference.hplm.fragments import in_ladder
from workers.training.disk import DISK_FULL, is_disk_full
from workers.training.ngrams import EDGE, FULL, PAIR, TOKEN, TRIGRAM, Ids, Packing, Window

# ruff: noqa: S608 - queries are built from this module's own names and from numbers


CHUNK_ROWS: Final = 200_000
"""Rows of a table that are read into memory at once."""
CHECK_INTERVAL_S: Final = 1.0


class FragmentTables:
    """Counts of fragments in a scratch database in `folder`, with a table for each kind.

    memory_mb: DuckDB's memory limit, beyond which it spills to `folder`. threads: of DuckDB. Neither changes
    the result. check: called every second during a query, which is interrupted when it raises; sorting a
    large corpus takes minutes.
    """

    def __init__(
        self,
        folder: Path,
        packing: Packing,
        *,
        memory_mb: int,
        threads: int,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._packing = packing
        self._key = ", ".join(packing.columns)
        self._check = check
        self._thread = ThreadPoolExecutor(1, "counting")
        self._connection = duckdb.connect(
            str(folder / "counts.duckdb"),
            config={
                "memory_limit": f"{memory_mb}MB",
                "threads": threads,
                "temp_directory": str(folder / "spilled"),
                "preserve_insertion_order": False,
            },
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown()
        self._connection.close()

    def add(self, kind: str, fragments: Ids) -> None:
        """Add every row of fragments [F, n] as one occurrence."""
        columns = ", ".join(f"{column} BIGINT" for column in self._packing.columns)
        self._run(f"CREATE TABLE IF NOT EXISTS {_seen(kind)} ({columns})")
        self._insert(_seen(kind), fragments)

    def save_counts(self, kind: str, path: Path) -> None:
        """Write {fragment, count} of the added occurrences to a Parquet file, and drop them."""
        query = f"SELECT {self._key}, count(*) AS count FROM {_seen(kind)} GROUP BY ALL"
        self._run(f"COPY ({query}) TO {_quoted(path)} (FORMAT parquet, COMPRESSION zstd)")
        self._run(f"DROP TABLE {_seen(kind)}")

    def load_counts(self, kind: str, paths: Sequence[Path]) -> None:
        """Load the summed counts of several files."""
        files = ", ".join(_quoted(path) for path in paths)
        query = f"SELECT {self._key}, CAST(sum(count) AS BIGINT) AS count FROM read_parquet([{files}])"
        self._run(f"CREATE OR REPLACE TABLE {_counted(kind)} AS {query} GROUP BY {self._key}")

    def total(self, kind: str) -> tuple[int, int]:
        """The number of different fragments, and of occurrences."""
        rows = self._run(f"SELECT count(*), coalesce(sum(count), 0) FROM {_counted(kind)}").fetchone()
        assert rows is not None
        return int(rows[0]), int(rows[1])

    def select_covering(self, kind: str, alpha: float) -> tuple[int, int]:
        """Keep only the most frequent fragments, as many as cover `alpha` % of all occurrences.

        Ties are kept in ascending order of their ids, so that every machine keeps the same. Returns the
        number kept and their occurrences. Sorts only the fragments of one count.
        """
        minimum, ties = self._threshold(kind, alpha)
        if ties:
            equal = f"SELECT {self._key} FROM {_counted(kind)} WHERE count = {minimum}"
            self._run(f"CREATE OR REPLACE TEMP TABLE ties AS {equal} ORDER BY {self._key} LIMIT {ties}")
            tied = f"SELECT *, {minimum} AS count FROM ties"
            query = f"SELECT * FROM {_counted(kind)} WHERE count > {minimum} UNION ALL {tied}"
        else:
            query = f"SELECT * FROM {_counted(kind)} WHERE false"
        self._run(f"CREATE TABLE kept AS {query}")
        self._run(f"DROP TABLE {_counted(kind)}")
        self._run(f"ALTER TABLE kept RENAME TO {_counted(kind)}")
        return self.total(kind)

    def most_frequent(self, kind: str, limit: int) -> tuple[Ids, Ids]:
        """The `limit` most frequent fragments [F, n] and their counts [F]; ties in ascending order of ids."""
        query = f"SELECT * FROM {_counted(kind)} ORDER BY count DESC, {self._key} LIMIT {limit}"
        columns = self._run(query).fetchnumpy()
        found = self._packing.unpack([columns[name] for name in self._packing.columns])
        return found, columns["count"].astype(np.int64)

    def fragments(self, kind: str) -> Iterator[Ids]:
        """Yield the fragments [F, n] of a table, unordered, in chunks."""
        for columns in self._chunks(_counted(kind)):
            yield self._packing.unpack([columns[name] for name in self._packing.columns])

    def choose(self, keys: Ids, fragments: Ids) -> None:
        """Add fragments [F, n] with their keys [F] to the chosen ones; duplicates are allowed."""
        columns = ", ".join(f"{column} BIGINT" for column in ("key", *self._packing.columns))
        self._run(f"CREATE TABLE IF NOT EXISTS chosen ({columns})")
        self._insert("chosen", fragments, key=keys)

    def chosen(self) -> Iterator[tuple[Ids, Ids]]:
        """Yield the different chosen fragments as (keys [F] ascending, fragments [F, n]), in chunks."""
        query = f"SELECT DISTINCT key, {self._key} FROM chosen ORDER BY key"
        # The chunks are read by row number, which must follow the order.
        self._run("SET preserve_insertion_order = true")
        self._run(f"CREATE OR REPLACE TABLE in_order AS {query}")
        for columns in self._chunks("in_order"):
            yield columns["key"], self._packing.unpack([columns[name] for name in self._packing.columns])

    def _threshold(self, kind: str, alpha: float) -> tuple[int, int]:
        """The minimum count that is kept, and how many fragments of exactly that count."""
        query = (
            f"SELECT count, count(*) AS fragments FROM {_counted(kind)} GROUP BY count ORDER BY count DESC"
        )
        found = self._run(query).fetchnumpy()
        counts, sizes = found["count"].astype(np.int64), found["fragments"].astype(np.int64)
        covered = np.cumsum(counts * sizes)
        # Exact fractions: rounding could keep one fragment more or less than on another machine.
        needed = -(-Fraction(alpha) * int(covered[-1] if len(covered) else 0) // 100)
        if needed <= 0:
            return 0, 0
        at = int(np.searchsorted(covered, int(needed), side="left"))
        before = int(covered[at - 1]) if at else 0
        return int(counts[at]), -(-(int(needed) - before) // int(counts[at]))

    def _chunks(self, table: str) -> Iterator[dict[str, npt.NDArray[Any]]]:
        rows = self._run(f"SELECT count(*) FROM {table}").fetchone()
        for start in range(0, rows[0] if rows else 0, CHUNK_ROWS):
            chunk = f"rowid >= {start} AND rowid < {start + CHUNK_ROWS}"
            yield self._run(f"SELECT * FROM {table} WHERE {chunk} ORDER BY rowid").fetchnumpy()

    def _insert(self, table: str, fragments: Ids, **others: Ids) -> None:
        if not len(fragments):
            return
        words = zip(self._packing.columns, self._packing.pack(fragments), strict=True)
        self._connection.register("batch", {**others, **dict(words)})
        self._run(f"INSERT INTO {table} SELECT * FROM batch")
        self._connection.unregister("batch")

    def _run(self, query: str) -> duckdb.DuckDBPyConnection:
        pending = self._thread.submit(self._connection.execute, query)
        with _duckdb_errors():
            while not wait([pending], CHECK_INTERVAL_S).done:
                self._check_or_interrupt(pending)
            return pending.result()

    def _check_or_interrupt(self, pending: Future[duckdb.DuckDBPyConnection]) -> None:
        try:
            self._check()
        except BaseException:
            self._connection.interrupt()
            wait([pending])
            raise


@contextmanager
def _duckdb_errors() -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        if is_disk_full(error):
            raise HplmError("out_of_disk", DISK_FULL) from error
        if isinstance(error, duckdb.OutOfMemoryException):
            raise HplmError(
                "out_of_memory", "Counting the fragments of the corpus needs more memory than is allowed."
            ) from error
        raise


def _seen(kind: str) -> str:
    return f"seen_{kind}"


def _counted(kind: str) -> str:
    return f"counted_{kind}"


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


CHOSEN_FILE: Final = "fragments.i4"
"""Rows of n int32 ids, in the order of their keys in the table."""
_SMALL_EDGE: Final = 2


def choose_fragments(
    tables: FragmentTables,
    window: Window,
    counted: Sequence[Path],
    out: Path,
    *,
    alpha: float,
    ladder: Collection[str],
    vocabulary: int | None,
    key_of: Callable[[Ids], Ids],
    on_progress: Callable[[int], None],
) -> dict[str, Any]:
    """Write the fragments to keep to `out`, ordered by key (`key_of` fragments [F, n]), and report {rows,
    coverage, different, tokens}.

    Kept are: the most frequent full fragments, tri-grams and bi-grams that cover `alpha` % of each kind's
    occurrences, as far as their levels are in the ladder; at the ends of texts all fragments of at most two
    tokens, and the longer ones that cover `alpha` %; all uni-grams of the corpus, or for a root, which is the
    last fallback, of a vocabulary of this size.
    """
    coverage, different = {}, {}
    for kind in window.kinds:
        on_progress(0)
        tables.load_counts(kind, [folder / f"{kind}.parquet" for folder in counted])
        if kind in (FULL, TRIGRAM, PAIR):
            name = kind_name(kind, window.n)
            different[name], occurrences = tables.total(kind)
            _, covered = tables.select_covering(kind, alpha)
            coverage[name] = covered / occurrences if occurrences else 0.0
        for part in _kept(tables, window, kind, alpha):
            wanted = part if kind == EDGE else part[in_ladder(part, ladder, window.missing)]
            tables.choose(key_of(wanted), wanted)
    _, tokens = tables.total(TOKEN)
    if vocabulary is not None:
        every = window.unigrams(np.arange(vocabulary, dtype=np.int64))
        tables.choose(key_of(every), every)
    rows = write_chosen(tables, out, on_progress)
    return {"rows": rows, "coverage": coverage, "different": different, "tokens": tokens}


def kind_name(kind: str, n: int) -> str:
    """The display name of a kind of fragment in a window of n."""
    if kind == PAIR or (kind == FULL and n == 2):
        return "bigram"
    return "trigram" if kind == TRIGRAM or n == 3 else f"{n}-gram"


def _kept(tables: FragmentTables, window: Window, kind: str, alpha: float) -> Iterator[Ids]:
    if kind == EDGE:
        for part in tables.fragments(EDGE):
            yield part[(part != window.missing).sum(axis=1) <= _SMALL_EDGE]
        if window.n > _SMALL_EDGE + 1:
            tables.select_covering(EDGE, alpha)
            yield from tables.fragments(EDGE)
        return
    for part in tables.fragments(kind):
        yield window.both_bigrams(part) if kind == PAIR else part


def write_chosen(tables: FragmentTables, out: Path, on_progress: Callable[[int], None]) -> int:
    """Write the chosen fragments to `out`, ordered by key, and return their number."""
    rows, last = 0, None
    with out.open("xb") as file:
        for keys, part in tables.chosen():
            on_progress(0)
            if bool((np.diff(keys) <= 0).any()) or (last is not None and keys[0] <= last):
                raise HplmError("internal", "Two fragments of this corpus have the same key.")
            last = int(keys[-1])
            file.write(np.ascontiguousarray(part, dtype=np.int32).data)
            rows += len(part)
    return rows
