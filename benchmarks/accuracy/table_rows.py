"""Held-out error of a domain by the rows of its table: none, by coverage (HMI, table 5) and by size.

Reads the artifacts of a deployment: the folders of a root, its lower layers and its table, and the lower
layers of a domain (default: those of the root). Rows are chosen as build-plot does. Their vectors are
computed only where a held-out text looks them up, so no table is built. The error is the unexplained variance
of the states at the cut and after the last layer, against the layers with full context.
"""

import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from benchmarks import harness
from inference.hplm import fragments
from inference.hplm.compose import compose
from inference.hplm.local_lower import LocalLower
from inference.hplm.plot import HIT_EXACT, HIT_UNIGRAM, PlotChain, PlotTable
from inference.hplm.quantization import FLOAT16, row_dtype
from inference.hplm.root import Root
from workers.training.corpus import CorpusReader, Ids
from workers.training.fragment_counts import CHOSEN_FILE
from workers.training.hidden_states import Teacher
from workers.training.plot_shards import PlotBuilder, PlotInputs, PlotSettings
from workers.training.precision import configure_torch
from workers.training.sequences import Batch, make_batch, make_batches, single_text
from workers.training.unexplained_variance import RunningVariance

ALPHAS = (30.0, 50.0, 100.0)
MEGABYTES = (4.0, 16.0, 64.0, 256.0)
HELD_OUT_TEXTS, QUICK_TEXTS = 300, 40
BATCH_TOKENS = 900


def main(argv: Sequence[str] | None = None) -> int:
    """Measure each choice of rows and print the table."""
    parser = harness.arguments(__doc__ or "")
    for name in ("root", "lower", "table", "corpus"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--domain-lower", type=Path)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        rows = measure(options, Path(folder), QUICK_TEXTS if options.quick else HELD_OUT_TEXTS)
    figures = {f"cut_{row['rows by']}": row["cut"] for row in rows}
    return harness.publish(
        harness.Report("table rows", {"corpus": options.corpus.name}, rows, figures), options
    )


def measure(options: Namespace, folder: Path, texts: int) -> list[harness.Row]:
    """A row for each choice, from the corpus without its last `texts`, on those."""
    lines = options.corpus.read_text(encoding="utf-8").splitlines()
    counted, held_out = folder / "counted.txt", lines[-texts:]
    counted.write_text("\n".join(lines[:-texts]), encoding="utf-8")
    inputs = PlotInputs(
        options.root,
        options.domain_lower or options.lower,
        counted,
        all_unigrams=False,
        settings=PlotSettings(),
        alpha=0.0,
        above=(options.table,),
    )
    world = _World.load(inputs, held_out)
    none = np.empty(0, dtype=np.int64)
    rows = [world.row("uni-grams alone", none, unigrams_alone=True), world.row("root's table", none)]
    for name, chosen in _choices(inputs, folder):
        rows.append(world.row(name, chosen))
    return rows


def _choices(inputs: PlotInputs, folder: Path) -> Iterator[tuple[str, Ids]]:
    """The name of each choice, and the keys of its rows."""
    builder = PlotBuilder(inputs)
    pieces = builder.count_pieces()
    counted = [folder / f"count-{number}" for number in range(len(pieces))]
    for piece, part in zip(pieces, counted, strict=True):
        builder.count(piece, part, _ignore)
    choices = [(f"α = {alpha:g} %", replace(inputs, alpha=alpha)) for alpha in ALPHAS]
    choices += [(f"{size:g} MB", replace(inputs, alpha=None, budget_mb=size)) for size in MEGABYTES]
    for name, chosen_by in choices:
        out = folder / name
        PlotBuilder(chosen_by).choose(counted, out, _ignore)
        rows = np.fromfile(out / CHOSEN_FILE, dtype=np.int32).reshape(-1, builder.window.n)
        yield name, fragments.pack(rows.astype(np.int64))


def _ignore(_done: int) -> None:
    pass


@dataclass(frozen=True, eq=False)
class _World:
    """The root's table, the domain's layers, and the held-out texts with their original states."""

    table: PlotTable
    ladder: tuple[str, ...]
    local: LocalLower
    teacher: Teacher
    batches: list[Batch]

    @classmethod
    def load(cls, inputs: PlotInputs, texts: Sequence[str]) -> "_World":
        precision = configure_torch(device="cpu", precision="float32", seed=0)
        root = Root.load(inputs.root)
        reader = CorpusReader(inputs.root / "tokenizer.json", root.config)
        sequences = [single_text(ids) for ids in reader.sequences(texts)]
        return cls(
            PlotTable.open(inputs.above[0]),
            root.config.ladder,
            LocalLower.load(inputs.lower),
            Teacher(root.full_lower(inputs.lower), root.upper, precision),
            [
                make_batch(group, root.config)
                for group in make_batches(sequences, batch_tokens=BATCH_TOKENS, rng=None)
            ],
        )

    def row(self, name: str, keys: Ids, *, unigrams_alone: bool = False) -> harness.Row:
        """The error of the texts as a domain's table with these keys and the root's give them."""
        size = row_dtype(FLOAT16, self.table.n, self.table.hidden)
        about = {"missing_id": self.table.missing_id, "ladder": self.ladder}
        domain = PlotTable(keys, np.empty(len(keys), dtype=size), self.local.composition, about)
        chain = PlotChain([domain, self.table])
        cut, last, whole = RunningVariance(), RunningVariance(), []
        for batch in self.batches:
            wanted = batch.fragments
            if unigrams_alone:
                unigram = fragments.level_count(chain.n) - 1
                wanted = fragments.shorten(wanted, unigram, chain.missing_id)
            states, exact = self._states(chain, batch, wanted)
            original = self.teacher.at_cut(batch)
            cut.add(batch.tokens_of(original), batch.tokens_of(states))
            ends = [self.teacher.upper_states(one, batch) for one in (original, states)]
            last.add(*(batch.tokens_of(one) for one in ends))
            whole.append(exact)
        return {
            "rows by": name,
            "rows": len(keys),
            "MB": len(keys) * size.itemsize / 1e6,
            "whole %": 100 * float(np.concatenate(whole).mean()),
            "cut": cut.unexplained,
            "last": last.unexplained,
        }

    def _states(self, chain: PlotChain, batch: Batch, wanted: Ids) -> tuple[torch.Tensor, Ids]:
        """The states at the cut [B, T, d], and which tokens [N] have their complete fragment."""
        found = chain.search(wanted)
        vectors = torch.empty(len(found.row), chain.n, self.table.hidden)
        of_domain = found.table == 0
        own = fragments.unpack(chain.tables[0].keys[found.row[of_domain]], chain.n)
        vectors[torch.from_numpy(of_domain)] = self.local(torch.from_numpy(own))
        of_root = np.empty((int((~of_domain).sum()), chain.n, self.table.hidden), dtype=np.float16)
        self.table.read(found.row[~of_domain], of_root)
        vectors[torch.from_numpy(~of_domain)] = torch.from_numpy(of_root).float()
        level = found.level[found.inverse].astype(np.int64)
        # Shortened before the search, a fragment is found whole without being complete.
        level[(wanted != batch.fragments).any(axis=1)] = HIT_UNIGRAM
        slots = torch.zeros(*batch.mask.shape, chain.n, self.table.hidden)
        slots[batch.mask] = vectors[torch.from_numpy(found.inverse)]
        levels = torch.zeros_like(batch.ids)
        levels[batch.mask] = torch.from_numpy(level)
        states = compose(slots, batch.lengths, self.local.composition, batch.types, levels)
        return states, (level == HIT_EXACT).astype(np.int64)


if __name__ == "__main__":
    sys.exit(main())
