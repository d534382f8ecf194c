"""Encoder families beside their own library; models of a larger root beside those of the demo's root.

Random checkpoints of every family and flag give their states here and in transformers. With `--checkpoint`
(the folder of MPNet, which `manage.py add_root mpnet` fetches, or another larger checkpoint) both roots are
converted and models trained on them by the product's defaults; results are kept: stop it and start it again.

    python -m benchmarks.roots --checkpoint FOLDER
"""

import argparse
import copy
import sys
from collections.abc import Sequence
from typing import Final

from rich.console import Console

from benchmarks import harness
from benchmarks.accuracy.__main__ import add_options, schedule_of, settings_of
from benchmarks.roots import families, larger_root
from inference.errors import HplmError

SEEDS: Final = 2
ROWS: Final = 1500


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the tables."""
    parser = harness.arguments(__doc__ or "")
    add_options(parser)
    options = parser.parse_args(argv)
    options.seeds = options.seeds or (None if options.quick else SEEDS)
    options.rows = options.rows or (None if options.quick else ROWS)
    console = Console()
    rows = families.rows()
    console.out(harness.markdown_table(rows), highlight=False)
    figures, settings = families.figures(rows), dict[str, object]()
    if options.checkpoint is not None:
        try:
            more, found, settings = _compare(options, console)
        except HplmError as error:
            print(f"roots: {error}", file=sys.stderr)
            return 1
        console.out(harness.markdown_table(more), highlight=False)
        rows, figures = [*rows, *more], {**figures, **found}
    console.print({name: round(value, 4) for name, value in figures.items()})
    if options.json:
        harness.write_json(harness.Report("roots", settings, rows, figures), options.json)
    return 1 if figures["parity_failures"] else 0


def _compare(
    options: argparse.Namespace, console: Console
) -> tuple[list[harness.Row], dict[str, float], harness.Row]:
    of_small = copy.copy(options)
    of_small.checkpoint = None
    larger = schedule_of(options, console)
    comparison = larger_root.LargerRoot(schedule_of(of_small, console), larger)
    found = comparison.run()
    conversion = comparison.conversion()
    figures = larger_root.figures(found, conversion)
    return larger_root.rows(found), figures, settings_of(larger, options) | {"conversion": conversion}


if __name__ == "__main__":
    sys.exit(main())
