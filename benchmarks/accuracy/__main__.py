"""The paper's tables 3, 7, 8 and 10 and its figure 14 on real data.

Every method is trained as the product fine-tunes by default. Results are kept, and all tables and the
frontier share them; a killed run goes on. Trainings start until all that the table rests on has cost the
budget; `--committed` prints what is kept.

    python -m benchmarks.accuracy table3
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console

from benchmarks import harness
from benchmarks.accuracy import tenant_curves
from benchmarks.accuracy.comparison import Wanted, compare
from benchmarks.accuracy.data import DATASETS, NLU, SCIENTIFIC, cheapest_first
from benchmarks.accuracy.methods import ADAPTER, DEDICATED, HBERT, PLOT, SHARED
from benchmarks.accuracy.schedule import CORE_HOURS, SECONDS_PER_HOUR, SEEDS, Schedule
from benchmarks.accuracy.trainings import Shape
from benchmarks.accuracy.workbench import Workbench
from benchmarks.result_cache import add_committed

QUICK_EPOCHS: Final = 1
QUICK_TOKENS: Final = 100_000
QUICK_ROWS: Final = 200
OF_ROOTS: Final = (DATASETS["NCBI-disease"],)
"""On which roots are compared: its tags need the context of a token most."""
LEGEND: Final = "Test metric in points, mean ± deviation over seeds. [n of m]: n of m seeds are finished."


def table3(schedule: Schedule) -> list[harness.Row]:
    """All methods on the scientific datasets."""
    methods = (DEDICATED, HBERT, SHARED, ADAPTER, PLOT)
    datasets = cheapest_first(DATASETS[name] for name in SCIENTIFIC)
    return compare(schedule, datasets, list(map(Wanted, methods)))


def table7(schedule: Schedule) -> list[harness.Row]:
    """General language understanding, with all upper layers and with one less."""
    usual = schedule.bench.branches.shape
    wanted = [Wanted(DEDICATED), Wanted(HBERT), Wanted(HBERT, Shape(usual.lower, usual.upper - 1))]
    return compare(schedule, cheapest_first(DATASETS[name] for name in NLU), wanted)


def table8(schedule: Schedule) -> list[harness.Row]:
    """Roots with fragments of 2, 3 and 5 tokens."""
    usual = schedule.bench.branches.shape
    return compare(schedule, OF_ROOTS, [Wanted(HBERT, replace(usual, n=n)) for n in (2, 3, 5)])


def table10(schedule: Schedule) -> list[harness.Row]:
    """Roots of the checkpoint's first layers with one to four of them looked up, below two upper layers."""
    lowers = range(1, schedule.bench.branches.layers - 1)
    return compare(schedule, OF_ROOTS, [Wanted(HBERT, Shape(lower, 2)) for lower in lowers])


def figure14(schedule: Schedule) -> list[harness.Row]:
    """Tenants with few rows each."""
    return tenant_curves.rows(schedule, cheapest_first(DATASETS[name] for name in SCIENTIFIC))


TABLES: Final[dict[str, Callable[[Schedule], list[harness.Row]]]] = {
    function.__name__: function for function in (table3, table7, table8, table10, figure14)
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those of all benchmarks that train on the datasets."""
    add_committed(parser)
    parser.add_argument("--core-hours", type=float, default=CORE_HOURS, help="processor hours in all")
    parser.add_argument("--seeds", type=int, help=f"of each method on each dataset (default: {SEEDS})")
    parser.add_argument("--rows", type=int, help="of each split that are used, at most, drawn by chance")
    parser.add_argument("--epochs", type=int, help="of each training, if not the product's default")
    parser.add_argument("--tokens", type=int, help="that roots and domains learn from, at most")
    parser.add_argument("--checkpoint", type=Path, help="folder to convert, if not the demo root's")


def schedule_of(options: argparse.Namespace, console: Console) -> Schedule:
    """What these options ask for."""
    quick = options.quick
    bench = Workbench(
        console,
        options.checkpoint,
        options.tokens or (QUICK_TOKENS if quick else None),
        options.rows or (QUICK_ROWS if quick else None),
        quick=quick,
        committed=options.committed,
    )
    return Schedule(
        bench,
        seeds=options.seeds or (1 if quick else SEEDS),
        epochs=options.epochs or (QUICK_EPOCHS if quick else None),
        core_hours=options.core_hours,
    )


def settings_of(schedule: Schedule, options: argparse.Namespace) -> harness.Row:
    """For the report; prints what is missing."""
    used = round(schedule.bench.processor_seconds / SECONDS_PER_HOUR, 2)
    given = {name: getattr(options, name) for name in ("seeds", "rows", "epochs", "tokens", "core_hours")}
    return given | {"core_hours_used": used} | schedule.bench.report_kept()


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing within the budget, and print one table."""
    parser = harness.arguments(__doc__ or "")
    parser.add_argument("table", choices=TABLES)
    add_options(parser)
    options = parser.parse_args(argv)
    console = Console()
    schedule = schedule_of(options, console)
    rows = TABLES[options.table](schedule)
    console.print(f"\n{LEGEND}\n", markup=False, highlight=False)
    console.out(harness.markdown_table(rows), highlight=False)
    settings = settings_of(schedule, options)
    if options.json:
        harness.write_json(harness.Report(options.table, settings, rows, {}), options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
