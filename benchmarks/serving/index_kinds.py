"""How a table finds its fragments: by its sorted keys, by a hash table over them, in LMDB.

Asked as a batch asks: for the different fragments of 32 texts of 128 tokens, of which half are there;
whole fragments are asked for in the order of their keys, parts of them are not. Between two batches the
processor's caches are filled with something else, as the upper layers do.

    python -m benchmarks.serving.index_kinds
"""

import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import lmdb
import numpy as np
from numpy.typing import NDArray

from benchmarks import harness
from benchmarks.serving.timing import interleaved
from benchmarks.serving.token_sources import VOCAB
from inference.hplm.fragments import pack

SIZES, QUICK_SIZES = (100_000, 1_000_000, 10_000_000), (10_000, 100_000)
TEXTS, TOKENS = 32, 128
REPEATS, QUICK_REPEATS = 51, 5
ABSENT = 0.5
EMPTY = -1
FULL = 0.5
"""How full a hash table may be."""
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
PAIRS_AT_ONCE = 500_000
EVICTING_BYTES = 128 * 1024**2
IN_ORDER, SHUFFLED = "in order", "shuffled"
ORDERS = (IN_ORDER, SHUFFLED)
Keys = NDArray[np.int64]
Find = Callable[[Keys], Keys]
"""The row of each key, -1 where it is not there."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    parser = harness.arguments(__doc__ or "")
    parser.add_argument("--repeats", type=int, help="of every measurement")
    options = parser.parse_args(argv)
    repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    rows: list[harness.Row] = []
    for size in QUICK_SIZES if options.quick else SIZES:
        rows += measure(size, repeats)
    print(harness.markdown_table(rows))
    nanoseconds = {(row["kind"], row["asked"], row["keys"]): row["ns a fragment"] for row in rows}
    figures = {
        f"hash_vs_sorted_{row['keys']}_{row['asked'].replace(' ', '_')}": row["ns a fragment"]
        / nanoseconds["sorted keys", row["asked"], row["keys"]]
        for row in rows
        if row["kind"] == "hash"
    }
    print(figures)
    if options.json:
        settings = {"texts": TEXTS, "tokens": TOKENS, "absent": ABSENT, "full": FULL, "repeats": repeats}
        harness.write_json(harness.Report("index_kinds", settings, rows, figures), options.json)
    return 0


def measure(size: int, repeats: int) -> list[harness.Row]:
    """A row for each kind of index over so many keys, and each order of the questions."""
    keys, eviction = draw_keys(size), np.ones(EVICTING_BYTES // 8)
    exact, hashed = sorted_index(keys), HashIndex(keys)
    with tempfile.TemporaryDirectory() as folder, lmdb_index(Path(folder) / "index", keys) as (ask, on_disk):
        kinds = {
            "sorted keys": (exact, keys.nbytes),
            "hash": (hashed.find, hashed.nbytes),
            "LMDB": (ask, on_disk),
        }
        fragments: list[int] = []

        def timed(find: Find, order: str, repeat: int) -> float:
            wanted = draw_batch(exact, keys, order, seed=repeat + 1)
            eviction.sum()
            started = time.perf_counter()
            rows = find(wanted)
            seconds = time.perf_counter() - started
            assert np.array_equal(rows, exact(wanted))
            fragments.append(len(wanted))
            return seconds / len(wanted)

        ways = {(name, order): partial(timed, kinds[name][0], order) for name in kinds for order in ORDERS}
        found = interleaved(ways, repeats=repeats)
    return [
        {
            "keys": size,
            "kind": name,
            "asked": order,
            "ns a fragment": 1e9 * sample.median,
            "spread": sample.spread,
            "ms a batch": 1000 * sample.median * float(np.mean(fragments)),
            "MB": kinds[name][1] / 1e6,
        }
        for (name, order), sample in found.items()
    ]


def draw_keys(count: int) -> Keys:
    """So many different tri-grams, ascending; frequent tokens are in many of them."""
    draw, found = np.random.default_rng(0), np.empty(0, dtype=np.int64)
    while len(found) < count:
        found = np.unique(np.concatenate([found, _trigrams(draw, count)]))
    return np.sort(draw.permutation(found)[:count])


def draw_batch(exact: Find, keys: Keys, order: str, *, seed: int) -> Keys:
    """The different fragments of a batch, ascending or shuffled."""
    draw, count = np.random.default_rng(seed), TEXTS * TOKENS
    absent = round(ABSENT * count)
    others = _trigrams(draw, 4 * count)
    wanted = np.unique(
        np.concatenate([draw.choice(keys, count - absent), others[exact(others) < 0][:absent]])
    )
    return wanted if order == IN_ORDER else draw.permutation(wanted)


def _trigrams(draw: np.random.Generator, count: int) -> Keys:
    """Of tokens that are the rarer the greater they are."""
    tokens = VOCAB * draw.random((count, 3)) ** 3
    return pack(tokens.astype(np.int64))


def sorted_index(keys: Keys) -> Find:
    """As `PlotTable.find`; the row is the key's rank."""

    def find(wanted: Keys) -> Keys:
        at = np.searchsorted(keys, wanted)
        at[at == len(keys)] = 0
        return np.where(keys[at] == wanted, at, -1)

    return find


class HashIndex:
    """Open addressing with linear probing over the row numbers of sorted keys: whole batches step from place
    to place together."""

    def __init__(self, keys: Keys) -> None:
        bits = math.ceil(math.log2(len(keys) / FULL))
        self._shift, self._last = np.uint64(64 - bits), (1 << bits) - 1
        self._keys = keys
        self._slots = np.full(1 << bits, EMPTY, dtype=np.int32)
        left, at = np.arange(len(keys), dtype=np.int32), self._places(keys)
        while len(left):
            free = self._slots[at] == EMPTY
            self._slots[at[free]] = left[free]  # of several that want a place the last one has it
            on = self._slots[at] != left
            left, at = left[on], (at[on] + 1) & self._last

    @property
    def nbytes(self) -> int:
        """Of keys and places."""
        return self._keys.nbytes + self._slots.nbytes

    def find(self, wanted: Keys) -> Keys:
        """The row of each key, -1 where it is not there."""
        found = np.full(len(wanted), -1, dtype=np.int64)
        left, at = np.arange(len(wanted)), self._places(wanted)
        while len(left):
            row = self._slots[at]
            there = row != EMPTY
            left, at, row = left[there], at[there], row[there]
            hit = self._keys[row] == wanted[left]
            found[left[hit]] = row[hit]
            left, at = left[~hit], (at[~hit] + 1) & self._last
        return found

    def _places(self, keys: Keys) -> Keys:
        with np.errstate(over="ignore"):
            return ((keys.astype(np.uint64) * GOLDEN) >> self._shift).astype(np.int64)


@contextmanager
def lmdb_index(path: Path, keys: Keys) -> Iterator[tuple[Find, int]]:
    """A file of keys and rows, asked for many keys in one call; and its size."""
    with lmdb.open(str(path), subdir=False, lock=False, map_size=(1 << 20) + 64 * len(keys)) as index:
        for start in range(0, len(keys), PAIRS_AT_ONCE):
            some = keys[start : start + PAIRS_AT_ONCE].astype(">i8").tobytes()
            rows = np.arange(start, start + len(some) // 8, dtype=np.int32).tobytes()
            pairs = [(some[8 * at : 8 * at + 8], rows[4 * at : 4 * at + 4]) for at in range(len(some) // 8)]
            with index.begin(write=True) as writing:
                writing.cursor().putmulti(pairs, append=True)
        with index.begin(buffers=True) as reading:
            cursor = reading.cursor()

            def find(wanted: Keys) -> Keys:
                packed = wanted.astype(">i8").tobytes()
                asked = [packed[at : at + 8] for at in range(0, len(packed), 8)]
                found = np.full(len(wanted), -1, dtype=np.int64)
                there = {bytes(key): row for key, row in cursor.getmulti(asked)}
                for number, key in enumerate(asked):
                    if key in there:
                        found[number] = int.from_bytes(there[key], "little")
                return found

            yield find, path.stat().st_size


if __name__ == "__main__":
    sys.exit(main())
