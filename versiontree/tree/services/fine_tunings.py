"""Fine-tuning jobs of the OpenAI API: create, start in a worker, cancel.

The worker makes a dataset of the files and then a version. Its errors are stored in the fine-tuning.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.conf import settings as django_settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from tenants.accounts.models import ApiKey, Tenant
from tenants.audit.services import Actor, audit_record, person
from tenants.base.background_jobs import BackgroundKind, Reporter
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.conversations import (
    convert_conversations,
    detect_task,
    first_row_columns,
    is_conversation,
)
from tenants.datasets.formats.errors import postgres_safe, report_errors_at
from tenants.datasets.formats.lines import Source
from tenants.datasets.formats.rows import required_columns
from tenants.datasets.models import Dataset, File, FilePurpose, Task
from tenants.datasets.selectors.files import file_of
from tenants.datasets.selectors.uploads import datasets_of
from tenants.datasets.services.datasets import dataset_delete, dataset_upload
from tenants.datasets.services.files import stored_file
from tenants.datasets.storage import StoredFile, digest_file, upload_store, verify_file
from tenants.usage.services.quotas import quota_lock
from versiontree.jobs.models import ACTIVE, Job, JobKind
from versiontree.jobs.services.background import background_job_create
from versiontree.jobs.services.control import job_cancel
from versiontree.jobs.services.transitions import LeaseLost
from versiontree.names import require_slug
from versiontree.tree.models import FineTuning, FineTuningState, Hplm, RootKind, Version
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.bases import base_by_name, base_root_kind, base_version
from versiontree.tree.selectors.fine_tunings import ENDED, fine_tuning_jobs, fine_tuning_status
from versiontree.tree.services.hplms import hplm_create, hplm_update
from versiontree.tree.services.quota_reservations import (
    JOBS_PER_HPLM_VERSION,
    quota_reserve_hplm,
    quota_reserve_version,
)
from versiontree.tree.services.versions import parent_check
from versiontree.tree.training_settings import settings_check

RETRY_AFTER_S: Final = 10


def fine_tuning_create(
    *,
    tenant: Tenant,
    model: str,
    training_file: UUID,
    actor: Actor,
    validation_file: UUID | None = None,
    name: str = "",
    options: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    request_fields: Mapping[str, Any] | None = None,
    quick: bool = False,
) -> FineTuning:
    """Create a fine-tuning and send it to a worker.

    If ``model`` is a root or domain, it makes a new model, called ``name`` or by default by the id. If
    ``model`` is a model, it makes its next version. ``options`` are ``task``, ``columns``, ``separator`` and
    ``allow_leaks`` of the dataset. ``quick`` is as in ``hplm_create``. Raises ``not_found`` (model, files),
    ``invalid_field``, ``conflict`` (the name), ``model_not_ready``, ``quota_exceeded``.
    """
    base, number = base_by_name(tenant, model)
    files = {"training_file": training_file, "validation_file": validation_file}
    for param, key in files.items():
        if key is not None:
            _require_rows(file_of(tenant, key, param=param), param)
    if options and "task" in options:
        required_columns(options["task"])
    kind = base_root_kind(base)
    row = FineTuning(
        tenant=tenant,
        created_by=person(actor),
        api_key=actor if isinstance(actor, ApiKey) else None,
        model=model,
        options=dict(options or {}),
        settings=settings_check(JobKind.FINE_TUNE, settings, kind),
        request_fields=dict(request_fields or {}),
        quick=quick and kind == RootKind.ENCODER and not isinstance(base, Hplm),
        **files,
    )
    with transaction.atomic():
        _check_limit(tenant)
        quota_reserve_version(tenant=tenant, jobs=JOBS_PER_HPLM_VERSION)
        if isinstance(base, Hplm):
            _set_base_hplm(row, base, number, name)
        else:
            row.parent = parent_check(
                parent=base_version(base, number), tenant=tenant, kinds=[VersionKind.ROOT, VersionKind.DOMAIN]
            )
            row.name = require_slug(name or f"ft-{row.pk.hex[:12]}", param="suffix")
            quota_reserve_hplm(tenant=tenant, name=row.name, param="suffix")
        row.save(force_insert=True)
        _record("fine_tuning.create", row, actor)
        background_job_create(BackgroundKind.FINE_TUNING_START, str(row.pk), tenant, row.created_by)
    return row


def fine_tuning_start(fine_tuning_id: str, reporter: Reporter) -> Mapping[str, Any]:
    """Make a dataset of the files, and create the version. A no-op if the fine-tuning was cancelled.

    If the files are invalid, the fine-tuning fails, not the background job that calls this. What the
    reporter raises leaves the fine-tuning as it is.
    """
    if (row := _validating(fine_tuning_id)) is not None:
        try:
            _start(row, reporter)
        except LeaseLost:
            raise
        except HmiError as error:
            _fail(row, error)
    return {}


def fine_tuning_crashed(fine_tuning_id: str, code: str, message: str) -> None:
    """End the fine-tuning whose background job failed: workers were lost, or there was an internal error."""
    if (row := _validating(fine_tuning_id)) is not None:
        _fail(row, HmiError(ErrorCode(code), message))


def fine_tuning_cancel(*, fine_tuning: FineTuning, actor: Actor) -> FineTuning:
    """Cancel a fine-tuning, its jobs and the job of its quick version, as far as they have not ended. A quick
    version that is ready stays. Raises ``invalid_transition`` if the fine-tuning has ended."""
    with transaction.atomic():
        row = FineTuning.unscoped.select_for_update(of=("self",)).get(pk=fine_tuning.pk)
        if row.state == FineTuningState.VALIDATING:
            row.state, row.finished_at = FineTuningState.CANCELLED, timezone.now()
            row.save(update_fields=["state", "finished_at"])
            _record("fine_tuning.cancel", row, actor)
            _delete_dataset(row, actor)
            return row
        has_ended = fine_tuning_status(row).status in ENDED
        first = (
            None if has_ended else next((job for job in fine_tuning_jobs(row) if job.state in ACTIVE), None)
        )
        if first is None:
            raise HmiError(ErrorCode.INVALID_TRANSITION, "This fine-tuning has ended; it cannot be canceled.")
        job_cancel(job=first, actor=actor)
        if row.quick:
            _cancel_quick_version(first.version, actor)
    return row


def _cancel_quick_version(trained: Version, actor: Actor) -> None:
    active = Job.unscoped.filter(version__hplm=trained.hplm_id, kind=JobKind.QUICK, state__in=ACTIVE)
    for job in active.select_related("tenant"):
        with suppress(HmiError):  # it has ended meanwhile
            job_cancel(job=job, actor=actor)


@transaction.atomic
def fine_tuning_delete_results(*, fine_tuning: FineTuning, actor: Actor) -> None:
    """Delete the result file: it is neither listed nor readable any more. The metrics of the version stay."""
    rows = FineTuning.unscoped.filter(pk=fine_tuning.pk, results_deleted_at=None)
    if rows.update(results_deleted_at=timezone.now()):
        _record("fine_tuning.delete_results", fine_tuning, actor)


def _validating(fine_tuning_id: str) -> FineTuning | None:
    """The fine-tuning if its files are still to be validated."""
    rows = FineTuning.unscoped.select_related("tenant", "created_by", "api_key", "parent", "hplm")
    return rows.filter(pk=fine_tuning_id, state=FineTuningState.VALIDATING).first()


def _fail(row: FineTuning, error: HmiError) -> None:
    """End the fine-tuning with this error, and delete its dataset."""
    FineTuning.unscoped.filter(pk=row.pk, state=FineTuningState.VALIDATING).update(
        state=FineTuningState.FAILED,
        error=postgres_safe(error.to_json()["error"]),
        finished_at=timezone.now(),
    )
    _delete_dataset(row, row.created_by or row.api_key)


def _start(row: FineTuning, reporter: Reporter) -> None:
    actor = row.created_by or row.api_key
    dataset = _create_dataset(row, actor, reporter)
    with transaction.atomic():
        locked = FineTuning.unscoped.select_for_update(of=("self",)).get(pk=row.pk)
        if locked.state != FineTuningState.VALIDATING:
            _delete_dataset(row, actor)
            return
        version = _create_version(row, dataset, actor)
        FineTuning.unscoped.filter(pk=row.pk).update(state=FineTuningState.STARTED, version=version)


def _create_version(row: FineTuning, dataset: Dataset, actor: Actor) -> Version:
    shared: dict[str, Any] = {
        "dataset": dataset,
        "actor": actor,
        "settings": row.settings,
        "reserved_by": row,
    }
    if row.hplm is not None:
        return hplm_update(hplm=row.hplm, **shared)
    assert row.parent is not None  # a constraint of the table
    return hplm_create(tenant=row.tenant, name=row.name, parent=row.parent, quick=row.quick, **shared)


def _create_dataset(row: FineTuning, actor: Actor, reporter: Reporter) -> Dataset:
    """The dataset of an earlier attempt whose worker died, else a new one."""
    existing = _datasets(row).first()
    if existing is not None:
        return existing
    splits = {"train": ("training_file", row.training_file), "dev": ("validation_file", row.validation_file)}
    options = dict(row.options)
    base = _root_kind(row)
    with upload_store().workspace() as workspace:
        files: dict[str, tuple[str, StoredFile]] = {}
        for split, (param, key) in splits.items():
            if key is None:
                continue
            file = file_of(row.tenant, key, param=param)
            reporter.start_stage(BackgroundKind.FINE_TUNING_START, file.size_bytes)
            with report_errors_at(param):
                stored = replace(stored_file(file), on_read=reporter.report)
                rows = _rows(file, stored, workspace / split, options, base)
            files[split] = (file.filename, rows)
        with _errors_name_file_params({split: param for split, (param, _) in splits.items()}):
            return dataset_upload(
                tenant=row.tenant, name=_dataset_name(row), files=files, actor=actor, **options
            )


def _root_kind(row: FineTuning) -> RootKind:
    if row.hplm is not None:
        return base_root_kind(row.hplm)
    assert row.parent is not None  # a constraint of the table
    return base_root_kind(row.parent.root)


def _delete_dataset(row: FineTuning, actor: Actor) -> None:
    """Delete the datasets of earlier attempts, unless they are used."""
    for dataset in _datasets(row):
        with suppress(HmiError):  # something else uses it
            dataset_delete(dataset=dataset, actor=actor)


def _datasets(row: FineTuning) -> QuerySet[Dataset]:
    return datasets_of(row.tenant).filter(name=_dataset_name(row))


def _dataset_name(row: FineTuning) -> str:
    return f"{row.name} {row.pk.hex[:12]}"


def _rows(
    file: File, stored: StoredFile, target: Path, options: dict[str, Any], base: RootKind
) -> StoredFile:
    """The file's rows in the format of datasets. The first file sets ``options["task"]`` if it is missing.

    ``base`` is the kind of root: below a decoder, conversations stay conversations.
    """
    source = Source(stored.path, file.filename, stored.on_read)
    columns = first_row_columns(source)
    if base == RootKind.DECODER and is_conversation(columns):
        options.setdefault("task", Task.CHAT if "messages" in columns else Task.GENERATION)
    elif "columns" not in options and is_conversation(columns):
        options.setdefault("task", detect_task(columns))
        verify_file(stored, name=file.filename)
        convert_conversations(source, target, columns)
        return StoredFile(target, digest_file(target), stored.on_read)
    if "task" not in options:
        options["task"] = detect_task(columns)
    return stored


@contextmanager
def _errors_name_file_params(params: Mapping[str, str]) -> Iterator[None]:
    """Replace the split that an error names in ``param`` by the parameter of its file."""
    try:
        yield
    except HmiError as error:
        error.param = params.get(error.param or "", error.param)
        raise


def _set_base_hplm(row: FineTuning, hplm: Hplm, number: int | None, name: str) -> None:
    if name not in ("", hplm.name):
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"A further version of {hplm.name} keeps that name; omit the suffix.",
            param="suffix",
        )
    current = hplm.aliases.filter(name="default").values_list("version__number", flat=True).first()
    if current is None:
        raise HmiError(
            ErrorCode.MODEL_NOT_READY, f"No version of {hplm.name} is ready to train further.", param="model"
        )
    if number not in (None, current):
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"{hplm.name} is trained further from version {current}, where its alias default points.",
            param="model",
        )
    row.hplm, row.name = hplm, hplm.name


def _check_limit(tenant: Tenant) -> None:
    quota_lock(tenant=tenant)
    limit = django_settings.HMI_MAX_CHECKS
    pending = FineTuning.objects.for_tenant(tenant).filter(state=FineTuningState.VALIDATING).count()
    if pending >= limit:
        raise HmiError(
            ErrorCode.QUOTA_EXCEEDED,
            f"{pending} fine-tunings wait for their files to be validated. Try again when some are done.",
            details={"quota": "checks", "limit": limit, "used": pending},
            retry_after=RETRY_AFTER_S,
        )


def _require_rows(file: File, param: str) -> None:
    if file.purpose != FilePurpose.FINE_TUNE:
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"{file.filename} was sent with the purpose {file.purpose}, not {FilePurpose.FINE_TUNE}.",
            param=param,
        )


def _record(verb: str, row: FineTuning, actor: Actor) -> None:
    audit_record(verb=verb, subject=row.name, tenant=row.tenant, actor=actor, detail={"model": row.model})


def fine_tunings_of_file(file: File) -> Iterable[FineTuning]:
    """The fine-tunings whose worker still has to read the file."""
    named = Q(training_file=file.pk) | Q(validation_file=file.pk)
    return FineTuning.unscoped.filter(named, tenant=file.tenant_id, state=FineTuningState.VALIDATING)
