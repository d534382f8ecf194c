"""The paper's table 10: one to five of six layers looked up, on one dataset."""

import sys
from collections.abc import Sequence

from benchmarks.accuracy.shapes import Shape, run

SHAPES = tuple(Shape(lower=lower) for lower in range(1, 6))


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing and print the table."""
    return run("split", __doc__ or "", SHAPES, argv)


if __name__ == "__main__":
    sys.exit(main())
