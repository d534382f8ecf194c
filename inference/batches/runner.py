"""Working at a batch, from what its row says to the files that are kept."""

import errno
import logging
import os
import shutil
import time
from functools import partial
from pathlib import Path
from typing import Final
from uuid import UUID

from django.conf import settings

from inference.batches.endpoints import endpoint_of
from inference.batches.input_lines import lines_of
from inference.batches.line_formats import Inputs, Requests, Taking, body_in, parsed, request_in
from inference.batches.models import MOST_LINES, Batch, BatchForm
from inference.batches.outputs import KINDS, path_in
from inference.batches.services.batches import (
    KEPT_FOR,
    batch_begin,
    batch_complete,
    batch_dispatch,
    batch_expire,
    batch_fail,
    batch_file,
    batch_name,
    batch_note,
    batch_rest,
)
from inference.batches.work_unit import Interrupted, Model, Unwanted, Work
from inference.queueing.replies import InferClient
from tenants.base.advisory_lock import advisory_lock
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.models import File, FilePurpose
from tenants.datasets.services.files import file_create, file_kept
from tenants.datasets.storage import Kept, measure, verify
from tenants.usage.services.usage import usage_write
from versiontree.tree.resolution import resolve_model

log = logging.getLogger(__name__)

CAPACITY: Final = 64
"""Places of the background, of all batches."""
SLICE_S: Final = 30.0
"""For so long a batch is worked at while others wait."""
NEVER_REFUSED: Final = 1 << 62
"""Bytes: what was computed is kept, whatever the quota."""


def batch_run(*, batch_id: UUID, slice_s: float = SLICE_S) -> None:
    """Work at a batch, unless it is gone, has ended, or somebody is at it. Others that wait have their turn
    after ``slice_s``."""
    with advisory_lock(f"batch {batch_id}") as ours:
        batch = batch_begin(batch_id=batch_id) if ours else None
        soon = batch is not None and _turn(batch, slice_s)
    if soon:
        batch_dispatch(batch_id=batch_id)


def _turn(batch: Batch, slice_s: float) -> bool:
    """Whether it is to be gone on with as soon as somebody can."""
    try:
        if batch.is_active:
            _go_on(batch, slice_s)
    except Interrupted as interrupted:
        batch_rest(batch=batch)
        return interrupted.soon
    except Unwanted:
        if not batch_expire(batch=batch) and Batch.unscoped.get(pk=batch.pk).is_active:
            batch_rest(batch=batch)  # of a tenant that is suspended
            return False
    except (HmiError, OSError) as error:
        batch_fail(batch=batch, error=_as_hmi_error(error))
    finally:
        usage_write()
    _keep(batch)
    batch_complete(batch=batch)
    shutil.rmtree(batch.folder, ignore_errors=True)
    return False


def _go_on(batch: Batch, slice_s: float) -> None:
    """Answer its lines. Returns when there are no more."""
    source = _source(batch)
    if batch.total_lines is None:
        _count(batch, source)
    model = _model(batch, source)
    client = InferClient(settings.REDIS_URL, capacity=CAPACITY, background=True)
    try:
        Work(batch, model, client, time.monotonic() + slice_s).through(source)
    finally:
        client.close()


def _source(batch: Batch) -> Path:
    """The file that it is of. Raises ``not_found``, ``corrupt_artifact`` (it is not what was sent)."""
    if batch.input is None:
        raise HmiError(ErrorCode.NOT_FOUND, "The file of the batch was deleted.")
    kept = file_kept(batch.input)
    verify(kept, name=batch.filename)
    return kept.path


def _count(batch: Batch, source: Path) -> None:
    """Raises ``empty_file`` and ``too_many_inputs``."""
    total = 0
    with source.open("rb") as stream:
        for _ in lines_of(stream):
            total += 1
            if total > MOST_LINES:
                message = f"The file has more than {MOST_LINES:,} lines; part it."
                raise HmiError(ErrorCode.TOO_MANY_INPUTS, message)
    if not total:
        raise HmiError(ErrorCode.EMPTY_FILE, "The file has no line that says anything.")
    batch_note(batch=batch, total_lines=total)


def _model(batch: Batch, source: Path) -> Model:
    """Which version answers, and how the lines are read. Raises HmiError when nothing can answer."""
    tenant = batch.tenant
    if batch.form == BatchForm.REQUESTS and batch.version_number is None:
        model = _first_model(source)
        batch_name(batch=batch, model=model, resolved=resolve_model(tenant, model))
    resolved = resolve_model(tenant, f"{batch.model_name}:{batch.version_number}")
    taking = Taking(resolved.task, resolved.pairs)
    if batch.form == BatchForm.INPUTS:
        return Model(resolved, Inputs(taking))
    endpoint = endpoint_of(batch.endpoint)
    form = Requests(
        Taking("", False) if endpoint.embeds else taking,
        endpoint=endpoint,
        url=batch.endpoint,
        model=batch.model,
        answered_by=f"{tenant.slug}/{resolved.model_name}:{resolved.version_number}",
    )
    return Model(resolved, form, endpoint.embeds)


def _first_model(source: Path) -> str:
    """What the first request is for, as all others must be."""
    with source.open("rb") as stream:
        model = body_in(request_in(parsed(next(lines_of(stream))))).get("model")
    if not isinstance(model, str):
        message = "The first request of the file does not say which model it is for."
        raise HmiError(ErrorCode.MISSING_FIELD, message, param="model")
    return model[:256]


def _keep(batch: Batch) -> None:
    """Make files of what was noted as written. What is kept already stays, so this may be done twice."""
    batch.refresh_from_db()
    stem = Path(batch.filename).stem
    for kind in KINDS:
        size: int = getattr(batch, f"{kind}_bytes")
        path = path_in(batch.folder, kind)
        if not size or getattr(batch, f"{kind}_id") is not None or not path.exists():
            continue
        os.truncate(path, size)
        file_create(
            tenant=batch.tenant,
            purpose=FilePurpose.BATCH_OUTPUT,
            filename=f"{stem}-{kind}.jsonl",
            stream=Kept(path, measure(path)),
            actor=None,
            life=KEPT_FOR,
            frees_bytes=NEVER_REFUSED,
            then=partial(_filed, batch, kind),
        )


def _filed(batch: Batch, kind: str, file: File) -> None:
    batch_file(batch=batch, **{kind: file})


def _as_hmi_error(error: HmiError | OSError) -> HmiError:
    """Raises what is nobody's to hear."""
    if isinstance(error, HmiError):
        return error
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        raise error
    log.error("There is no room on the disk for what a batch answers")
    return HmiError(ErrorCode.OUT_OF_DISK, "The server's disk has no room for the results.")
