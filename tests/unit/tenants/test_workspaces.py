"""Folders in which files are made ready."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tenants.base.disk import remove_stale_workspaces, workspace


def test_sweeping_minds_nobody_who_comes_and_goes(tmp_path: Path) -> None:
    def work(_: int) -> None:
        for _ in range(150):
            with workspace(tmp_path) as folder:
                for name in ("a", "b"):
                    (folder / name).mkdir()
                    (folder / name / "file").touch()

    with ThreadPoolExecutor(4) as pool:
        workers = [pool.submit(work, number) for number in range(4)]
        while not all(worker.done() for worker in workers):
            assert remove_stale_workspaces(tmp_path, older_than_s=3600) == 0
    for worker in workers:
        worker.result()
