"""Runs the background job of a batch: a time slice of it, and at its end the storing of its output files."""

import errno
import logging
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from redis.exceptions import RedisError

from inference.batches.batch_model import BatchModel
from inference.batches.jsonl import OUTPUT_KINDS, RESULTS, output_path, read_lines
from inference.batches.line_formats import CustomIds
from inference.batches.models import MAX_LINES, RETENTION, Batch, BatchFormat, BatchState
from inference.batches.processor import BatchProcessor, BatchStopped
from inference.batches.services.lifecycle import (
    batch_attach_file,
    batch_complete,
    batch_expire,
    batch_fail,
    batch_pause,
    batch_save_progress,
    batch_start,
)
from inference.batches.tables import answer_columns, answer_rows, row_lines, table_header, table_rows
from inference.queueing.replies import InferClient
from tenants.base.advisory_lock import advisory_lock
from tenants.base.background_jobs import Reporter, RunLater
from tenants.base.child_process import WorkerStopping
from tenants.base.csv_files import csv_chunks
from tenants.base.disk import free_space_check
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.lines import Source
from tenants.datasets.models import FilePurpose
from tenants.datasets.services.files import file_create, stored_file
from tenants.datasets.storage import StoredFile, digest_file, verify_file
from tenants.usage.services.usage import usage_flush
from versiontree.jobs.services.transitions import LeaseLost
from versiontree.tree.resolution import resolve_model

log = logging.getLogger(__name__)

BACKGROUND_CAPACITY: Final = 64
"""Requests of all batches that may be queued for one root."""
TIME_SLICE_S: Final = 30.0
"""A batch runs for this time while other background jobs wait."""
UNLIMITED_BYTES: Final = 1 << 62
"""Output files are stored whatever the quota: their results are computed already."""


def batch_run(batch_id: str, reporter: Reporter) -> Mapping[str, Any]:
    """Run a batch for a time slice, or until its end, and store its output then. ``BackgroundWork.run`` of
    batches.

    Raises ``RunLater`` if lines are left, or output that could not be stored, and what the reporter raises.
    """
    # Held beyond a lease that is lost while the process stalls: only one process may write the output files.
    with advisory_lock(f"batch {batch_id}") as acquired:
        if not acquired:
            raise RunLater
        batch = batch_start(batch_id=UUID(batch_id))
        if batch is not None:
            _run_time_slice(batch, reporter)
    return {}


def _run_time_slice(batch: Batch, reporter: Reporter) -> None:
    """Run an active batch, and store the output of one that has ended."""
    try:
        if batch.state == BatchState.WAITING:  # its tenant is suspended
            raise RunLater
        if batch.is_active:
            _process(batch, reporter)
        _end(batch)
    except (RunLater, WorkerStopping):
        batch_pause(batch=batch)
        raise
    finally:
        usage_flush()


def _process(batch: Batch, reporter: Reporter) -> None:
    """Process the lines that are left. Ends a batch that cannot go on, and one that has expired."""
    try:
        _process_lines(batch, reporter)
    except BatchStopped:
        if not batch_expire(batch=batch) and Batch.unscoped.get(pk=batch.pk).is_active:
            raise RunLater from None  # its tenant is suspended
    except LeaseLost:
        raise
    except (HmiError, OSError) as error:
        batch_fail(batch=batch, error=_as_hmi_error(error))


def _process_lines(batch: Batch, reporter: Reporter) -> None:
    source = _input_lines(batch)
    if batch.total_lines is None:
        _count_lines(batch, source)
    model = _model_of(batch)
    client = InferClient(settings.REDIS_URL, capacity=BACKGROUND_CAPACITY, background=True)
    try:
        BatchProcessor(batch, model, client, reporter, TIME_SLICE_S).run(source)
    finally:
        with suppress(RedisError):  # without a server the batch goes on later
            client.close()


def _verified_input(batch: Batch) -> Path:
    """The input file. Raises ``not_found``, and ``corrupt_artifact`` if it was changed since it was sent."""
    if batch.input is None:
        raise HmiError(ErrorCode.NOT_FOUND, "The file of the batch was deleted.")
    stored = stored_file(batch.input)
    verify_file(stored, name=batch.filename)
    return stored.path


def _input_lines(batch: Batch) -> Path:
    """The file with the lines of the input. Those of a table are written once. Raises as `_verified_input`,
    and the typed error of a file that is no table."""
    source = _verified_input(batch)
    lines = batch.folder / "input.jsonl"
    if batch.columns and not lines.exists():
        batch.folder.mkdir(parents=True, exist_ok=True)
        free_space_check(batch.folder, source.stat().st_size)
        partial_file = lines.with_suffix(".part")
        with partial_file.open("wb") as file:
            file.writelines(row_lines(table_rows(Source(source, batch.filename), batch.columns)))
        partial_file.replace(lines)
    return lines if batch.columns else source


def _count_lines(batch: Batch, source: Path) -> None:
    """Save the number of lines. Raises ``empty_file``, ``too_many_inputs``, and ``invalid_field`` for a
    ``custom_id`` that two requests have."""
    total = 0
    check = CustomIds().check if batch.line_format == BatchFormat.REQUESTS else None
    with source.open("rb") as stream:
        for line in read_lines(stream):
            total += 1
            if check is not None:
                check(line)
            if total > MAX_LINES:
                message = f"The file has more than {MAX_LINES:,} lines. Split it into several batches."
                raise HmiError(ErrorCode.TOO_MANY_INPUTS, message)
    if not total:
        raise HmiError(ErrorCode.EMPTY_FILE, "The file has only empty lines.")
    batch_save_progress(batch=batch, total_lines=total)


def _model_of(batch: Batch) -> BatchModel:
    """What answers the batch. Raises HmiError if it is not ready."""
    resolved = resolve_model(batch.tenant, f"{batch.model_name}:{batch.version_number}")
    return BatchModel.of(
        batch.model,
        resolved,
        line_format=batch.line_format,
        endpoint=batch.endpoint,
        is_table=bool(batch.columns),
    )


def _end(batch: Batch) -> None:
    """Store the output and complete the batch if it has not ended. Raises RunLater if that failed, for any
    reason: until it is stored, the batch can be neither read nor deleted."""
    try:
        _store_outputs(batch)
    except Exception as error:
        log.exception("The results of batch %s are not stored yet", batch.pk)
        raise RunLater from error
    batch_complete(batch=batch)
    shutil.rmtree(batch.folder, ignore_errors=True)


def _store_outputs(batch: Batch) -> None:
    """Store the output files up to their saved sizes. Skips those that are stored, so it may run twice."""
    batch.refresh_from_db()
    stem = Path(batch.filename).stem
    written = {}
    for kind in OUTPUT_KINDS:
        size: int = getattr(batch, f"{kind}_bytes")
        path = output_path(batch.folder, kind)
        if size and getattr(batch, f"{kind}_id") is None and path.exists():
            os.truncate(path, size)
            written[kind] = path
    if batch.columns and batch.results_id is None and written:
        _store_output(batch, RESULTS, _write_answers(batch, written.values()), f"{stem}-answers.csv")
        written.pop(RESULTS, None)
    for kind, path in written.items():
        _store_output(batch, kind, path, f"{stem}-{kind}.jsonl")


def _store_output(batch: Batch, kind: str, path: Path, filename: str) -> None:
    file_create(
        tenant=batch.tenant,
        purpose=FilePurpose.BATCH_OUTPUT,
        filename=filename,
        stream=StoredFile(path, digest_file(path)),
        actor=None,
        expires_after=RETENTION,
        released_bytes=UNLIMITED_BYTES,
        on_stored=partial(batch_attach_file, batch, kind),
    )


def _write_answers(batch: Batch, outputs: Iterable[Path]) -> Path:
    """The table of a batch with the answers that these files have."""
    answers, source = batch.folder / "answers.csv", Source(_verified_input(batch), batch.filename)
    header, rows = table_header(source, batch.columns), table_rows(source, batch.columns)
    with ExitStack() as stack:
        lines = [stack.enter_context(path.open("rb")) for path in outputs]
        file = stack.enter_context(answers.open("wb"))
        answered = answer_rows(rows, len(header), lines, batch.state)
        file.writelines(csv_chunks(answer_columns(header), answered, kept=len(header)))
    return answers


def _as_hmi_error(error: HmiError | OSError) -> HmiError:
    """A full disk as ``out_of_disk``. Raises RunLater for another OSError."""
    if isinstance(error, HmiError):
        return error
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        log.error("A batch is continued later", exc_info=error)
        raise RunLater from error
    log.error("The disk is full: the results of a batch cannot be written")
    return HmiError(ErrorCode.OUT_OF_DISK, "The server's disk is full. The results cannot be stored.")
