"""Writing all data of a tenant into one zip file."""

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
from tenants.datasets.selectors.uploads import storage_used
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
from versiontree.tree.selectors.versions import artifact_bytes

log = logging.getLogger(__name__)

PARTIAL: Final = ".part"
TELL_EVERY_S: Final = 1.0
READ_ME: Final = """All data of the tenant {slug}.

tenant.json        settings and quota
members.csv        who belongs to it
api_keys.csv       its keys, without what would let anybody in
corpora/<id>/      each corpus: corpus.json tells of it, corpus.txt is its text, one text a line
datasets/<id>/     each dataset: dataset.json tells of it, train, dev and test are JSON lines
files/<id>         files that were sent to be fine-tuned on or asked, and answers; files.csv lists them
domains/, models/  an archive of each ready version, which another installation can import
versions.jsonl     every version: how it was made, and what was measured
aliases.csv, alias_moves.csv, jobs.csv, fine_tunings.csv, batches.csv, usage.csv, audit.csv

Times are UTC. In CSV files a text that begins like a formula has an apostrophe before it.
"""


def takeout_run(*, takeout_id: UUID) -> None:
    """Make the file, unless the takeout is gone, has ended, or somebody is at it."""
    with advisory_lock(f"takeout {takeout_id}") as ours:
        takeout = takeout_start(takeout_id=takeout_id) if ours else None
        if takeout is None:
            return
        path = takeout_path(takeout)
        for left in path.parent.glob(f"{path.name}.*{PARTIAL}"):  # of a process that died
            left.unlink(missing_ok=True)
        # Of its own name: one that was only held up may still write to its file.
        partial = path.with_name(f"{path.name}.{uuid4().hex}{PARTIAL}")
        try:
            with disk_full_errors():
                size = _make(takeout, partial)
            if size is not None:
                partial.rename(path)
                sync(path.parent)
                takeout_finish(takeout=takeout, size=size)
        except (HmiError, ArtifactDamaged) as error:
            log.error("The data of %s could not be written: %s", takeout.tenant.slug, error)
            takeout_fail(takeout=takeout, message=str(error))
        finally:
            partial.unlink(missing_ok=True)


def _make(takeout: Takeout, partial: Path) -> int | None:
    """The size of the file; None when it is wanted no more."""
    tenant = takeout.tenant
    expected = storage_used(tenant) + artifact_bytes(tenant)
    partial.parent.mkdir(parents=True, exist_ok=True)
    free_space_check(partial.parent, expected)
    parts = chain(
        [Part("README.txt", [READ_ME.format(slug=tenant.slug).encode()])],
        tenant_parts(tenant),
        tree_parts(tenant),
        *hooks.takeout_parts(tenant),
    )
    wanted = _zip_write(
        partial, parts, lambda written: takeout_progress(takeout=takeout, written=written, expected=expected)
    )
    if not wanted:
        return None
    sync(partial)
    return partial.stat().st_size


def _zip_write(path: Path, parts: Iterable[Part], tell: Callable[[int], bool]) -> bool:
    """Write the file, telling now and then how far it is; false as soon as nobody wants it."""
    told = time.monotonic()
    with path.open("wb") as out, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        if not tell(0):
            return False
        for part in parts:
            about = zipfile.ZipInfo(part.name, time.gmtime()[:6])
            about.external_attr = 0o644 << 16
            about.compress_type = zipfile.ZIP_STORED if part.name.endswith(ARCHIVE) else zipfile.ZIP_DEFLATED
            with archive.open(about, "w", force_zip64=True) as stream:
                for piece in part.chunks:
                    stream.write(piece)
                    if time.monotonic() - told > TELL_EVERY_S:
                        if not tell(out.tell()):
                            return False
                        told = time.monotonic()
    return True
