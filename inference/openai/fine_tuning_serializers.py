"""Fine-tuning jobs, their events, checkpoints and result files as OpenAI's JSON objects."""

import csv
import io
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from rest_framework import serializers

from inference.openai.ids import FILE, FINE_TUNING, format_id, unix_time
from tenants.base.api.inputs import ChoiceField
from versiontree.jobs.models import JobEvent, JobKind
from versiontree.tree.models import FineTuning
from versiontree.tree.selectors.fine_tunings import (
    METRICS,
    STATUSES,
    SUCCEEDED,
    fine_tuning_status,
    training_curve,
)

EVENT, CHECKPOINT, RESULTS = "ftevent", "ftckpt", "file-results"
RESULTS_PURPOSE: Final = "fine-tune-results"
ERRORS: Final = frozenset({"failed"})
WARNINGS: Final = frozenset({"cancelled", "cancel_requested"})
STEP_FIELDS: Final = ("stage", "step", "total")
DATASET_FIELDS: Final = frozenset({"rows", "imbalance", "truncated_share"})


class FineTuningErrorSerializer(serializers.Serializer[Any]):
    """Why a fine-tuning job failed."""

    code = serializers.CharField()
    message = serializers.CharField()
    param = serializers.CharField(allow_null=True)


class FineTuningJobSerializer(serializers.Serializer[Any]):
    """A fine-tuning job."""

    id = serializers.CharField()
    object = serializers.CharField(help_text="`fine_tuning.job`.")
    model = serializers.CharField()
    created_at = serializers.IntegerField()
    finished_at = serializers.IntegerField(allow_null=True)
    estimated_finish = serializers.IntegerField(allow_null=True)
    fine_tuned_model = serializers.CharField(allow_null=True)
    organization_id = serializers.CharField()
    status = ChoiceField(STATUSES)
    training_file = serializers.CharField()
    validation_file = serializers.CharField(allow_null=True)
    result_files = serializers.ListField(child=serializers.CharField())
    trained_tokens = serializers.IntegerField(allow_null=True)
    hyperparameters = serializers.DictField()
    method = serializers.DictField()
    seed = serializers.IntegerField()
    suffix = serializers.CharField(allow_null=True)
    metadata = serializers.DictField(allow_null=True)
    integrations = serializers.ListField()
    error = FineTuningErrorSerializer(allow_null=True)
    hmi = serializers.DictField(
        help_text="The ids of the jobs, the version and the dataset in the product's own API, and the name "
        "of the quick version, which answers before the job ends."
    )


class FineTuningEventSerializer(serializers.Serializer[Any]):
    """An event of a fine-tuning job."""

    id = serializers.CharField()
    object = serializers.CharField(help_text="`fine_tuning.job.event`.")
    created_at = serializers.IntegerField()
    level = ChoiceField(["info", "warn", "error"])
    message = serializers.CharField()
    type = ChoiceField(["message", "metrics"])
    data = serializers.DictField()  # type: ignore[assignment]  # the name of the field in OpenAI's API


class CheckpointSerializer(serializers.Serializer[Any]):
    """The version that a fine-tuning job created."""

    id = serializers.CharField()
    object = serializers.CharField(help_text="`fine_tuning.job.checkpoint`.")
    created_at = serializers.IntegerField()
    fine_tuned_model_checkpoint = serializers.CharField()
    fine_tuning_job_id = serializers.CharField()
    step_number = serializers.IntegerField()
    metrics = serializers.DictField()


def job_json(fine_tuning: FineTuning) -> dict[str, Any]:
    """The JSON object of a fine-tuning job."""
    status, request, version = (
        fine_tuning_status(fine_tuning),
        fine_tuning.request_fields,
        fine_tuning.version,
    )
    done, hyperparameters = status.status == SUCCEEDED, request.get("hyperparameters", {})
    jobs = sorted(version.jobs.all(), key=lambda job: job.created_at) if version else []
    return {
        "id": format_id(FINE_TUNING, fine_tuning.pk),
        "object": "fine_tuning.job",
        "model": fine_tuning.model,
        "created_at": unix_time(fine_tuning.created_at),
        "finished_at": unix_time(status.finished_at),
        "estimated_finish": unix_time(status.expected_at),
        "fine_tuned_model": _model(fine_tuning) if done else None,
        "organization_id": fine_tuning.tenant.slug,
        "status": status.status,
        "training_file": format_id(FILE, fine_tuning.training_file),
        "validation_file": fine_tuning.validation_file and format_id(FILE, fine_tuning.validation_file),
        "result_files": [results_id(fine_tuning.pk)] if done and not fine_tuning.results_deleted_at else [],
        "trained_tokens": None,
        "hyperparameters": hyperparameters,
        "method": {"type": "supervised", "supervised": {"hyperparameters": hyperparameters}},
        "seed": fine_tuning.settings.get("seed", 0),
        "suffix": request.get("suffix"),
        "metadata": request.get("metadata"),
        "integrations": [],
        "error": status.error,
        "hmi": {
            "jobs": [str(job.pk) for job in jobs],
            "version": version.pk if version else None,
            "dataset": version.dataset_id if version else None,
            "quick_model": _quick_model(fine_tuning),
        },
    }


def event_json(event: JobEvent) -> dict[str, Any]:
    """The JSON object of an event."""
    is_metrics = event.kind == METRICS
    level = "error" if event.kind in ERRORS else "warn" if event.kind in WARNINGS else "info"
    return {
        "id": f"{EVENT}-{event.pk}",
        "object": "fine_tuning.job.event",
        "created_at": unix_time(event.at),
        "level": level,
        "message": _message(event),
        "type": "metrics" if is_metrics else "message",
        "data": event.data,
    }


def checkpoints_json(fine_tuning: FineTuning) -> list[dict[str, Any]]:
    """The JSON objects of the checkpoints: the version, once it is ready."""
    version = fine_tuning.version
    if version is None or fine_tuning_status(fine_tuning).status != SUCCEEDED:
        return []
    curve = _steps(fine_tuning)
    step = curve[-1].get("step", 0) if curve else 0
    return [
        {
            "id": f"{CHECKPOINT}-{version.pk}",
            "object": "fine_tuning.job.checkpoint",
            "created_at": unix_time(version.ready_at),
            "fine_tuned_model_checkpoint": _model(fine_tuning),
            "fine_tuning_job_id": format_id(FINE_TUNING, fine_tuning.pk),
            "step_number": step,
            "metrics": {"step": step, **_metrics(version.metrics)},
        }
    ]


def results_csv(fine_tuning: FineTuning) -> bytes:
    """The training metrics as CSV: a row for each logged step, and a last row with dev and test metrics."""
    steps = _steps(fine_tuning)
    final = _metrics(fine_tuning.version.metrics) if fine_tuning.version else {}
    columns = list(dict.fromkeys(["step", *(name for row in steps for name in row), *final]))
    out = io.StringIO()
    table = csv.DictWriter(out, columns)
    table.writeheader()
    table.writerows(steps)
    table.writerow({"step": steps[-1]["step"] if steps else 0, **final})
    return out.getvalue().encode()


def results_id(key: UUID) -> str:
    """The id of the result file of the fine-tuning with this primary key."""
    return f"{RESULTS}-{key.hex}"


def results_file_json(fine_tuning: FineTuning) -> dict[str, Any]:
    """The JSON object of the result file."""
    finished = fine_tuning_status(fine_tuning).finished_at
    return {
        "id": results_id(fine_tuning.pk),
        "object": "file",
        "bytes": len(results_csv(fine_tuning)),
        "created_at": unix_time(finished),
        "expires_at": None,
        "filename": "step_metrics.csv",
        "purpose": RESULTS_PURPOSE,
        "status": "processed",
    }


def _steps(fine_tuning: FineTuning) -> list[dict[str, Any]]:
    """The logged steps of the training. The stages before it have no loss."""
    rows = [row for row in training_curve(fine_tuning) if row.get("stage") == "fine-tune"]
    return [
        {"step": row.get("step", 0), **{k: v for k, v in row.items() if k not in STEP_FIELDS}} for row in rows
    ]


def _metrics(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The dev and test metrics by names such as ``test_accuracy``."""
    trained = metrics.get(JobKind.FINE_TUNE.value) or {}
    # The training of a generative model measures the loss on test, too; its evaluation does not.
    found = {"dev": trained.get("dev"), "test": trained.get("test") or metrics.get(JobKind.EVALUATE.value)}
    named: dict[str, float] = {}
    for split, reported in found.items():
        figures = dict(reported or {})
        figures = {str(figures.get("metric")): figures.pop("value", None)} | figures
        named |= {f"{split}_{name}": value for name, value in figures.items() if _is_metric(name, value)}
    return named


def _is_metric(name: str, value: object) -> bool:
    return name not in DATASET_FIELDS and isinstance(value, int | float) and not isinstance(value, bool)


def _model(fine_tuning: FineTuning) -> str:
    assert fine_tuning.version is not None
    return f"{fine_tuning.tenant.slug}/{fine_tuning.version.name}:{fine_tuning.version.number}"


def _quick_model(fine_tuning: FineTuning) -> str | None:
    """The name of the quick version, which comes before its version. None if it has none."""
    version = fine_tuning.version
    if version is None or not fine_tuning.quick or version.number == 1:
        return None
    return f"{fine_tuning.tenant.slug}/{version.name}:1"


def _message(event: JobEvent) -> str:
    if event.kind == METRICS:
        figures = (f"{name} {value:.4g}" for name, value in event.data.items() if isinstance(value, float))
        return f"Step {event.data.get('step')}/{event.data.get('total')}: {', '.join(figures)}"
    return event.message or f"The job is {event.kind}."
