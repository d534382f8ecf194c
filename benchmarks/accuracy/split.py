"""The paper's table 10: one to four layers looked up, below the same number of upper layers.

The roots are the first three to six layers of the checkpoint.
"""

import sys
from collections.abc import Sequence

from benchmarks.accuracy.shapes import run
from benchmarks.accuracy.trainings import Shape

UPPER = 2
SHAPES = tuple(Shape(lower, UPPER) for lower in range(1, 5))


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing and print the table."""
    return run("split", __doc__ or "", SHAPES, argv)


if __name__ == "__main__":
    sys.exit(main())
