"""Write the zip file of a takeout."""

import logging
import time
import zipfile
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

from tenants.base import hooks
from tenants.base.advisory_lock import advisory_lock
from tenants.base.disk import disk_full_errors, free_space_check, sync
from tenants.base.errors import HmiError
from tenants.base.hooks import TakeoutPart as Part
from tenants.usage.selectors import storage_used_bytes
from versiontree.artifact_store import ArtifactDamaged
from versiontree.transfer.models import Takeout
from versiontree.transfer.services.takeouts import (
    takeout_fail,
    takeout_finish,
    takeout_path,
    takeout_progress,
    takeout_start,
)
from versiontree.transfer.takeout.tenant_parts import tenant_parts
from versiontree.transfer.takeout.tree_parts import ARCHIVE, tree_parts

log = logging.getLogger(__name__)

PARTIAL: Final = ".part"
PROGRESS_INTERVAL_S: Final = 1.0
READ_ME: Final = """All data of the tenant {slug}.

tenant.json        settings and quota
members.csv        its members
api_keys.csv       its API keys, without the secrets
corpora/<id>/      each corpus: corpus.json describes it, corpus.txt has one text a line
datasets/<id>/     each dataset: dataset.json describes it, train, dev and test are JSON lines
files/<id>         uploaded files and results of the OpenAI API; files.csv lists them
domains/, models/  an archive of each ready version, which another installation can import
versions.jsonl     every version with its config and metrics
aliases.csv, alias_moves.csv, jobs.csv, fine_tunings.csv, batches.csv, usage.csv, audit.csv

Times are UTC. In CSV files, an apostrophe precedes text that starts like a formula.
"""


def takeout_run(*, takeout_id: UUID) -> None:
    """Write the file of a takeout, unless it has ended or another worker writes it."""
    with advisory_lock(f"takeout {takeout_id}") as acquired:
        takeout = takeout_start(takeout_id=takeout_id) if acquired else None
        if takeout is None:
            return
        path = takeout_path(takeout)
        for stale in path.parent.glob(f"{path.name}.*{PARTIAL}"):  # of a process that died
            stale.unlink(missing_ok=True)
        # A unique name: an earlier worker that was only slow may still write to its file.
        partial = path.with_name(f"{path.name}.{uuid4().hex}{PARTIAL}")
        try:
            with disk_full_errors():
                size = _write(takeout, partial)
            if size is not None:
                partial.rename(path)
                sync(path.parent)
                takeout_finish(takeout=takeout, size=size)
        except (HmiError, ArtifactDamaged) as error:
            log.error("The data of %s could not be written: %s", takeout.tenant.slug, error)
            takeout_fail(takeout=takeout, message=str(error))
        finally:
            partial.unlink(missing_ok=True)


def _write(takeout: Takeout, partial: Path) -> int | None:
    """Write the file and return its size. None if the takeout is not running any more."""
    tenant = takeout.tenant
    expected = storage_used_bytes(tenant)
    partial.parent.mkdir(parents=True, exist_ok=True)
    free_space_check(partial.parent, expected)
    parts = chain(
        [Part("README.txt", [READ_ME.format(slug=tenant.slug).encode()])],
        tenant_parts(tenant),
        tree_parts(tenant),
        *hooks.takeout_parts(tenant),
    )
    completed = _zip_write(
        partial, parts, lambda written: takeout_progress(takeout=takeout, written=written, expected=expected)
    )
    if not completed:
        return None
    sync(partial)
    return partial.stat().st_size


def _zip_write(path: Path, parts: Iterable[Part], on_progress: Callable[[int], bool]) -> bool:
    """Write the parts into a zip file. Stops and returns False as soon as ``on_progress`` returns False."""
    reported_at = time.monotonic()
    with path.open("wb") as out, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        if not on_progress(0):
            return False
        for part in parts:
            about = zipfile.ZipInfo(part.name, time.gmtime()[:6])
            about.external_attr = 0o644 << 16
            about.compress_type = zipfile.ZIP_STORED if part.name.endswith(ARCHIVE) else zipfile.ZIP_DEFLATED
            with archive.open(about, "w", force_zip64=True) as stream:
                for chunk in part.chunks:
                    stream.write(chunk)
                    if time.monotonic() - reported_at > PROGRESS_INTERVAL_S:
                        if not on_progress(out.tell()):
                            return False
                        reported_at = time.monotonic()
    return True
