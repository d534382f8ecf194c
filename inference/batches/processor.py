"""Processes the lines of a batch: sends them to the inference workers and appends results to output files."""

import math
import time
from collections import Counter, deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from inference.api.rates.limits import DailyLimit, daily_limit
from inference.api.rates.spending import charge, refund, spend
from inference.batches.batch_model import BatchModel
from inference.batches.inference_client import InferenceResults
from inference.batches.jsonl import (
    ERRORS,
    OUTPUT_KINDS,
    RESULTS,
    LineChunk,
    OutputFiles,
    ParsedLine,
    chunk_lines,
    read_lines,
)
from inference.batches.models import Batch
from inference.batches.services.lifecycle import batch_check_storage_quota, batch_save_progress
from inference.queueing.replies import InferClient
from tenants.base.background_jobs import Reporter, RunLater
from tenants.base.errors import HmiError
from tenants.usage.models import RequestApi, RequestStatus
from tenants.usage.services.request_log import RequestEntry, shown_reference
from tenants.usage.services.usage import answers_record, request_record, usage_record
from versiontree.jobs.services.background import background_jobs_waiting
from versiontree.tree.resolution import resolve_model_cached

PROGRESS_INTERVAL_S: Final = 1.0
POLL_INTERVAL_S: Final = 0.5
LONGEST_SLICE_S: Final = 3600.0
"""A batch runs for this time if nothing else waits."""
STALL_TIMEOUT_S: Final = 60.0
"""After this time without a reply other batches get their turn: perhaps no worker serves this root."""
QUOTA_CHECK_INTERVAL_S: Final = 10.0


class BatchStopped(Exception):
    """The batch was cancelled or has expired, or its tenant is suspended."""


class BatchProcessor:
    """Processes a batch until its end, or until the end of its time slice if other jobs wait."""

    def __init__(
        self, batch: Batch, model: BatchModel, client: InferClient, reporter: Reporter, time_slice_s: float
    ) -> None:
        self._batch, self._model, self._reporter = batch, model, reporter
        self._time_slice_s, self._started_at = time_slice_s, time.monotonic()
        self._client = model.endpoint.open_client(client, model.resolved, batch.pk.hex)
        self._in_flight: deque[tuple[LineChunk, Future[InferenceResults], DailyLimit | None]] = deque()
        """With the limit against which each counts as one request; None without Valkey."""
        self._progress = {
            name: int(getattr(batch, name))
            for name in ("read_bytes", "read_lines", "lines", "succeeded", "failed", "tokens")
        }
        self._saved_at = self._replied_at = time.monotonic()
        self._quota_checked_at = -math.inf

    def run(self, source: Path) -> None:
        """Process the lines that are left of the input file.

        Raises RunLater, BatchStopped, HmiError, OSError and what the reporter raises; the progress until
        then is saved.
        """
        batch = self._batch
        sizes = {RESULTS: batch.results_bytes, ERRORS: batch.errors_bytes}
        endpoint, parse = self._model.endpoint, self._model.format.parse
        with (
            source.open("rb") as stream,
            OutputFiles(batch.folder, sizes) as outputs,
            ThreadPoolExecutor(endpoint.max_in_flight, thread_name_prefix="batch") as pool,
        ):
            self._check_storage_quota()
            stream.seek(batch.read_bytes)
            lines = read_lines(stream, after=batch.read_lines)
            try:
                for chunk in chunk_lines(lines, parse, endpoint.max_inputs):
                    while len(self._in_flight) >= endpoint.max_in_flight:
                        self._collect_oldest(outputs)
                    reserved = self._reserve_request()
                    future = pool.submit(self._client.infer, chunk.lines[0].number, chunk.inputs)
                    self._in_flight.append((chunk, future, reserved))
                    self._check_time_slice()
                while self._in_flight:
                    self._collect_oldest(outputs)
                if not self._save_progress(outputs):
                    raise BatchStopped
            except RunLater:
                while self._in_flight:
                    self._collect_oldest(outputs)
                raise
            finally:
                self._client.cancel()
                for _, _, reserved in self._in_flight:
                    _correct(reserved, requests=0)
                self._save_progress(outputs)

    def _check_time_slice(self) -> None:
        """Raise RunLater if the slice has ended and other jobs wait, or after LONGEST_SLICE_S."""
        self._reporter.raise_if_cancelled()
        ran_s = time.monotonic() - self._started_at
        if ran_s > LONGEST_SLICE_S or (ran_s > self._time_slice_s and background_jobs_waiting()):
            raise RunLater(after_s=0)

    def _reserve_request(self) -> DailyLimit | None:
        """Take one of the tenant's requests of this day, and return the limit if it was counted. Raises
        RunLater if they are used up."""
        try:
            daily = daily_limit(self._batch.tenant)
            return daily if spend([daily]) else None
        except HmiError as error:
            raise RunLater from error

    def _collect_oldest(self, outputs: OutputFiles) -> None:
        """Wait for the oldest request in flight and write its results."""
        chunk, future, reserved = self._in_flight[0]
        while True:
            try:
                results = future.result(timeout=POLL_INTERVAL_S)
                break
            except TimeoutError:
                self._reporter.raise_if_cancelled()
                stalled = time.monotonic() - self._replied_at > STALL_TIMEOUT_S
                if stalled and not self._client.is_isolating_crashes:
                    self._check_time_slice()
                self._checkpoint(outputs)
        self._replied_at = time.monotonic()
        self._in_flight.popleft()
        self._write(chunk, results, outputs, reserved)
        self._checkpoint(outputs)

    def _write(
        self,
        chunk: LineChunk,
        results: InferenceResults,
        outputs: OutputFiles,
        reserved: DailyLimit | None,
    ) -> None:
        """Append the results of a chunk, count them, and record the usage: the answered lines are one
        request, each failed line is another."""
        left = iter(results.results)
        written: dict[str, list[bytes]] = {kind: [] for kind in OUTPUT_KINDS}
        unanswered: Counter[RequestStatus] = Counter()
        for line in chunk.lines:
            own = [next(left) for _ in line.inputs]
            kind, output = self._model.format.format_results(line, own)
            written[kind].append(output)
            if error := line.error or next((one for one in own if isinstance(one, HmiError)), None):
                unanswered[RequestStatus.of(error.code)] += 1
                self._log_failure(line, error)
        outputs.write(written)
        progress = self._progress
        progress["read_bytes"], progress["read_lines"] = chunk.end, chunk.last
        progress["lines"] += len(chunk.lines)
        progress["succeeded"] += len(written[RESULTS])
        progress["failed"] += len(written[ERRORS])
        progress["tokens"] += results.tokens
        failed = unanswered[RequestStatus.FAILED]
        requests = failed + bool(written[RESULTS])
        _correct(reserved, requests=requests)
        if chunk.lines:
            usage_record(
                tenant=self._batch.tenant,
                model_name=self._model.resolved.model_name,
                requests=requests,
                inputs=len(results.results),
                tokens=results.tokens,
                generated_tokens=results.generated_tokens,
                failed=failed,
                refused=unanswered[RequestStatus.REFUSED],
                key_prefix=self._batch.key_prefix,
                busy_ms=results.busy_ms,
            )
            answers_record(
                tenant=self._batch.tenant,
                model_name=self._model.resolved.model_name,
                version=self._model.resolved.version_number,
                count=results.answers,
            )

    def _log_failure(self, line: ParsedLine, error: HmiError) -> None:
        """Add a line to the request log of the tenant. Answered lines are in the results alone."""
        entry = RequestEntry(
            tenant_id=self._batch.tenant_id,
            request_id=f"{self._batch.pk.hex}-{line.number}",
            api=RequestApi.BATCH.value,
            status=error.status,
            error_code=str(error.code),
            reference=shown_reference(self._batch.model),
            model_name=self._model.resolved.model_name,
            version=self._model.resolved.version_number,
            key_prefix=self._batch.key_prefix,
            inputs=len(line.inputs),
        )
        entry.set_error(error)
        request_record(entry)

    def _checkpoint(self, outputs: OutputFiles) -> None:
        """Once per PROGRESS_INTERVAL_S: save the progress, and check that the batch may and can continue."""
        if time.monotonic() - self._saved_at < PROGRESS_INTERVAL_S:
            return
        if not self._save_progress(outputs):
            raise BatchStopped
        self._check_storage_quota()
        resolve_model_cached(self._batch.tenant, self._model.version_reference)

    def _check_storage_quota(self) -> None:
        """Once per QUOTA_CHECK_INTERVAL_S: raise ``quota_exceeded`` if the output is too large."""
        if time.monotonic() - self._quota_checked_at >= QUOTA_CHECK_INTERVAL_S:
            self._quota_checked_at = time.monotonic()
            batch_check_storage_quota(batch=self._batch)

    def _save_progress(self, outputs: OutputFiles) -> bool:
        """Whether the batch is still to be processed."""
        outputs.sync()
        sizes = {f"{kind}_bytes": size for kind, size in outputs.sizes.items()}
        self._saved_at = time.monotonic()
        if self._progress["read_bytes"] == self._batch.read_bytes:
            return batch_save_progress(batch=self._batch)
        return batch_save_progress(batch=self._batch, **self._progress, **sizes)


def _correct(reserved: DailyLimit | None, *, requests: int) -> None:
    """Make of one request that was taken so many."""
    if reserved is not None and requests == 0:
        refund([reserved], 1)
    elif reserved is not None and requests > 1:
        charge([reserved], requests - 1)
