"""Takeouts: request them, write their files in a worker, record downloads, delete files."""

import zipfile
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from time import gmtime
from typing import Any, Final
from uuid import UUID, uuid4

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef

from tenants.accounts.models import Tenant
from tenants.audit.services import Actor, audit_record, person
from tenants.base import hooks
from tenants.base.background_jobs import BackgroundKind, Reporter
from tenants.base.disk import disk_full_errors, free_space_check, sync
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.hooks import TakeoutPart as Part
from tenants.usage.selectors import storage_used_bytes
from versiontree.jobs.models import TERMINAL, JobState
from versiontree.jobs.services.background import background_job_create
from versiontree.transfer.models import SIZE, Takeout
from versiontree.transfer.takeout.tenant_parts import tenant_parts
from versiontree.transfer.takeout.tree_parts import ARCHIVE, tree_parts

PARTIAL: Final = ".part"
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


@transaction.atomic
def takeout_request(*, tenant: Tenant, actor: Actor) -> Takeout:
    """Create a takeout, which a worker writes. Raises ``conflict`` while another one is active."""
    try:
        with transaction.atomic():
            job = background_job_create(BackgroundKind.TAKEOUT, str(tenant.pk), tenant, person(actor))
    except IntegrityError as error:
        message = "An export of all data is already running. Wait until it has ended."
        raise HmiError(ErrorCode.CONFLICT, message) from error
    audit_record(verb="tenant.export", subject=tenant.slug, tenant=tenant, actor=actor)
    return Takeout.unscoped.get(pk=job.pk)


@transaction.atomic
def takeout_record_download(*, takeout: Takeout, actor: Actor) -> None:
    """Record the download in the audit log."""
    tenant = takeout.tenant
    assert tenant is not None, "a takeout is of a tenant"
    audit_record(
        verb="tenant.fetch",
        subject=tenant.slug,
        tenant=tenant,
        actor=actor,
        detail={"size_bytes": takeout.size_bytes},
    )


def takeout_write(tenant_id: str, reporter: Reporter) -> Mapping[str, Any]:
    """Write the file of the tenant's running takeout. Returns its size.

    Raises ``out_of_disk``, ``ArtifactDamaged`` and what the reporter raises.
    """
    takeout = Takeout.unscoped.select_related("tenant").get(subject=tenant_id, state=JobState.RUNNING)
    assert takeout.tenant is not None, "a takeout is of a tenant"
    path = takeout_path(takeout)
    for stale in path.parent.glob(f"{path.name}.*{PARTIAL}"):  # of a process that died
        stale.unlink(missing_ok=True)
    # A unique name: an earlier worker that was only slow may still write to its file.
    partial = path.with_name(f"{path.name}.{uuid4().hex}{PARTIAL}")
    try:
        with disk_full_errors():
            size = _write(takeout.tenant, partial, reporter)
        partial.rename(path)
        sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)
    return {SIZE: size}


def takeout_path(takeout: Takeout) -> Path:
    """The path of its file, whether or not it exists."""
    return _path(takeout.pk)


def takeout_files_expire() -> None:
    """Delete takeouts that a later one has replaced, and files without a row.

    A file has no row if its takeout was replaced or has expired (``background_jobs_expire``).
    """
    later = Takeout.unscoped.filter(
        tenant=OuterRef("tenant"), state=JobState.SUCCEEDED, created_at__gt=OuterRef("created_at")
    )
    Takeout.unscoped.filter(Exists(later), state__in=TERMINAL).delete()
    paths = list(Path(settings.HMI_EXPORT_ROOT).glob("*.zip*"))  # before the rows: a row precedes its file
    known = {str(key) for key in Takeout.unscoped.values_list("pk", flat=True)}
    for path in paths:
        if path.name.partition(".")[0] not in known:
            path.unlink(missing_ok=True)


def takeout_files_delete(*, tenant: Tenant) -> None:
    """Delete the files of the tenant's takeouts; their rows stay."""
    for key in Takeout.unscoped.filter(tenant=tenant).values_list("pk", flat=True):
        _path(key).unlink(missing_ok=True)


def _path(takeout_id: UUID) -> Path:
    return Path(settings.HMI_EXPORT_ROOT) / f"{takeout_id}.zip"


def _write(tenant: Tenant, partial: Path, reporter: Reporter) -> int:
    """Write the file and return its size."""
    expected = storage_used_bytes(tenant)
    partial.parent.mkdir(parents=True, exist_ok=True)
    free_space_check(partial.parent, expected)
    parts = chain(
        [Part("README.txt", [READ_ME.format(slug=tenant.slug).encode()])],
        tenant_parts(tenant),
        tree_parts(tenant),
        *hooks.takeout_parts(tenant),
    )
    reporter.start_stage(BackgroundKind.TAKEOUT, expected)
    _zip_write(partial, parts, reporter)
    sync(partial)
    return partial.stat().st_size


def _zip_write(path: Path, parts: Iterable[Part], reporter: Reporter) -> None:
    """Write the parts into a zip file, and report the written bytes."""
    with path.open("wb") as out, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in parts:
            about = zipfile.ZipInfo(part.name, gmtime()[:6])
            about.external_attr = 0o644 << 16
            about.compress_type = zipfile.ZIP_STORED if part.name.endswith(ARCHIVE) else zipfile.ZIP_DEFLATED
            with archive.open(about, "w", force_zip64=True) as stream:
                for chunk in part.chunks:
                    stream.write(chunk)
                    reporter.report(out.tell())
