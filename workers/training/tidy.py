"""An artifact's folder is written whole or not at all."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.training.disk import full_disk_told


@contextmanager
def written_whole(*folders: Path) -> Iterator[None]:
    """Remove what was written to `folders` when the block does not come to its end, cancelled or failed.

    A folder that was there before stays, empty. A full disk is HplmError("out_of_disk").
    """
    existed = [folder.exists() for folder in folders]
    try:
        with full_disk_told():
            yield
    except BaseException:
        for folder, before in zip(folders, existed, strict=True):
            shutil.rmtree(folder, ignore_errors=True)
            if before:
                folder.mkdir()
        raise
