"""The paper's table 8: fragments of 2, 3 and 5 tokens, with the same layers below and above the cut."""

import sys
from collections.abc import Sequence

from benchmarks.accuracy.shapes import run
from benchmarks.accuracy.trainings import Shape

SHAPES = tuple(Shape(n=n) for n in (2, 3, 5))


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing and print the table."""
    return run("ngram", __doc__ or "", SHAPES, argv)


if __name__ == "__main__":
    sys.exit(main())
