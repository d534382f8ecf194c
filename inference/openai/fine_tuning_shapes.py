"""Fine-tuning jobs, their events, checkpoints and results in the shapes of the OpenAI conventions."""

import csv
import io
from collections.abc import Mapping
from typing import Any, Final

from rest_framework import serializers

from inference.openai.lists import FILE, FINE_TUNING, unix, written_id
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
ERRORS: Final = frozenset({"failed"})
WARNINGS: Final = frozenset({"cancelled", "cancel_requested"})
STEP: Final = ("stage", "step", "total")
ABOUT_THE_ROWS: Final = frozenset({"rows", "imbalance", "truncated_share"})


class FineTuningErrorSerializer(serializers.Serializer[Any]):
    """Why it failed."""

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
    status = serializers.ChoiceField(STATUSES)
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
    hmi = serializers.DictField(help_text="The ids of the jobs and of the version.")


class FineTuningEventSerializer(serializers.Serializer[Any]):
    """Something that happened to a fine-tuning job."""

    id = serializers.CharField()
    object = serializers.CharField(help_text="`fine_tuning.job.event`.")
    created_at = serializers.IntegerField()
    level = serializers.ChoiceField(["info", "warn", "error"])
    message = serializers.CharField()
    type = serializers.ChoiceField(["message", "metrics"])
    data = serializers.DictField()  # type: ignore[assignment]  # their name


class CheckpointSerializer(serializers.Serializer[Any]):
    """The version that came of a fine-tuning job."""

    id = serializers.CharField()
    object = serializers.CharField(help_text="`fine_tuning.job.checkpoint`.")
    created_at = serializers.IntegerField()
    fine_tuned_model_checkpoint = serializers.CharField()
    fine_tuning_job_id = serializers.CharField()
    step_number = serializers.IntegerField()
    metrics = serializers.DictField()


def shown_job(fine_tuning: FineTuning) -> dict[str, Any]:
    """A fine-tuning job as JSON."""
    standing, asked, version = (
        fine_tuning_status(fine_tuning),
        fine_tuning.request_fields,
        fine_tuning.version,
    )
    done, chosen = standing.status == SUCCEEDED, asked.get("hyperparameters", {})
    jobs = sorted(version.jobs.all(), key=lambda job: job.created_at) if version else []
    return {
        "id": written_id(FINE_TUNING, fine_tuning.pk),
        "object": "fine_tuning.job",
        "model": fine_tuning.model,
        "created_at": unix(fine_tuning.created_at),
        "finished_at": unix(standing.finished_at),
        "estimated_finish": unix(standing.expected_at),
        "fine_tuned_model": _model(fine_tuning) if done else None,
        "organization_id": fine_tuning.tenant.slug,
        "status": standing.status,
        "training_file": written_id(FILE, fine_tuning.training_file),
        "validation_file": fine_tuning.validation_file and written_id(FILE, fine_tuning.validation_file),
        "result_files": [f"{RESULTS}-{fine_tuning.pk.hex}"] if done else [],
        "trained_tokens": None,
        "hyperparameters": chosen,
        "method": {"type": "supervised", "supervised": {"hyperparameters": chosen}},
        "seed": fine_tuning.settings.get("seed", 0),
        "suffix": asked.get("suffix"),
        "metadata": asked.get("metadata"),
        "integrations": [],
        "error": standing.error,
        "hmi": {"jobs": [str(job.pk) for job in jobs], "version": version.pk if version else None},
    }


def shown_event(event: JobEvent) -> dict[str, Any]:
    """What happened, as JSON."""
    is_metrics = event.kind == METRICS
    level = "error" if event.kind in ERRORS else "warn" if event.kind in WARNINGS else "info"
    return {
        "id": f"{EVENT}-{event.pk}",
        "object": "fine_tuning.job.event",
        "created_at": unix(event.at),
        "level": level,
        "message": _message(event),
        "type": "metrics" if is_metrics else "message",
        "data": event.data,
    }


def shown_checkpoints(fine_tuning: FineTuning) -> list[dict[str, Any]]:
    """The one version, once it is ready."""
    version = fine_tuning.version
    if version is None or fine_tuning_status(fine_tuning).status != SUCCEEDED:
        return []
    curve = _steps(fine_tuning)
    step = curve[-1].get("step", 0) if curve else 0
    return [
        {
            "id": f"{CHECKPOINT}-{version.pk}",
            "object": "fine_tuning.job.checkpoint",
            "created_at": unix(version.ready_at),
            "fine_tuned_model_checkpoint": _model(fine_tuning),
            "fine_tuning_job_id": written_id(FINE_TUNING, fine_tuning.pk),
            "step_number": step,
            "metrics": {"step": step, **_measured(version.metrics)},
        }
    ]


def results_csv(fine_tuning: FineTuning) -> bytes:
    """The figures of the training step by step, and what was measured in the end, as CSV."""
    steps = _steps(fine_tuning)
    measured = _measured(fine_tuning.version.metrics) if fine_tuning.version else {}
    columns = list(dict.fromkeys(["step", *(name for row in steps for name in row), *measured]))
    out = io.StringIO()
    table = csv.DictWriter(out, columns)
    table.writeheader()
    table.writerows(steps)
    table.writerow({"step": steps[-1]["step"] if steps else 0, **measured})
    return out.getvalue().encode()


def shown_results(fine_tuning: FineTuning) -> dict[str, Any]:
    """The file with the results, as JSON."""
    finished = fine_tuning_status(fine_tuning).finished_at
    return {
        "id": f"{RESULTS}-{fine_tuning.pk.hex}",
        "object": "file",
        "bytes": len(results_csv(fine_tuning)),
        "created_at": unix(finished),
        "expires_at": None,
        "filename": "step_metrics.csv",
        "purpose": "fine-tune-results",
        "status": "processed",
    }


def _steps(fine_tuning: FineTuning) -> list[dict[str, Any]]:
    """Those of the learning; what came before it has no loss."""
    told = [row for row in training_curve(fine_tuning) if row.get("stage") == "fine-tune"]
    return [{"step": row.get("step", 0), **{k: v for k, v in row.items() if k not in STEP}} for row in told]


def _measured(metrics: Mapping[str, Any]) -> dict[str, float]:
    """What was measured on dev and test, by names such as ``test_accuracy``."""
    found = metrics.get(JobKind.FINE_TUNE.value) or {}
    named: dict[str, float] = {}
    for split in ("dev", "test"):
        figures = dict(found.get(split) or {})
        figures = {str(figures.get("metric")): figures.pop("value", None)} | figures
        named |= {f"{split}_{name}": value for name, value in figures.items() if _is_figure(name, value)}
    return named


def _is_figure(name: str, value: object) -> bool:
    return name not in ABOUT_THE_ROWS and isinstance(value, int | float) and not isinstance(value, bool)


def _model(fine_tuning: FineTuning) -> str:
    assert fine_tuning.version is not None
    return f"{fine_tuning.tenant.slug}/{fine_tuning.version.name}:{fine_tuning.version.number}"


def _message(event: JobEvent) -> str:
    if event.kind == METRICS:
        figures = (f"{name} {value:.4g}" for name, value in event.data.items() if isinstance(value, float))
        return f"Step {event.data.get('step')}/{event.data.get('total')}: {', '.join(figures)}"
    return event.message or f"The job is {event.kind}."
