"""Output files of a batch: sizes count only lines that were written whole."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from inference.batches.jsonl import ERRORS, RESULTS, OutputFiles, output_path

ROOM = 100
NOTHING = {RESULTS: 0, ERRORS: 0}


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Of a longer write the beginning is written, as on a disk that is almost full; the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("too_long", [RESULTS, ERRORS])
def test_of_lines_that_do_not_all_fit_none_is_counted(tmp_path: Path, too_long: str) -> None:
    line = b"x" * 59 + b"\n"
    both = {RESULTS: [line], ERRORS: [line]}
    with OutputFiles(tmp_path, NOTHING) as outputs:
        outputs.write(both)
        with files_of_at_most(ROOM), pytest.raises(OSError):
            outputs.write({kind: [line] if kind == too_long else [b"y\n"] for kind in both})
        noted = dict(outputs.sizes)
    assert noted == {RESULTS: 60, ERRORS: 60}
    with OutputFiles(tmp_path, noted) as outputs:
        outputs.write(both)
    for kind in both:
        assert output_path(tmp_path, kind).read_bytes() == 2 * line
