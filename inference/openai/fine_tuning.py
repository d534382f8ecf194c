"""`/v1/fine_tuning/jobs`, and the result files of the jobs."""

from functools import partial
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from inference.openai.errors import OpenAiView, error_responses
from inference.openai.fine_tuning_requests import (
    FineTuningRequestSerializer,
    check_setting_names,
    hyperparameters_of,
    training_settings,
)
from inference.openai.fine_tuning_serializers import (
    EVENT,
    CheckpointSerializer,
    FineTuningEventSerializer,
    FineTuningJobSerializer,
    checkpoints_json,
    event_json,
    job_json,
    results_csv,
    results_file_json,
    results_id,
)
from inference.openai.ids import FILE, FINE_TUNING, parse_id
from inference.openai.pagination import ListQuerySerializer, list_json, list_schema, paginated_list
from inference.openai.serializers import DeletedSerializer, OpenAiFileSerializer
from tenants.accounts.permissions import request_actor
from tenants.base.api.inputs import validated_body
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.row_ids import row_id
from versiontree.tree.models import FineTuning
from versiontree.tree.selectors.bases import base_by_name, base_root_kind
from versiontree.tree.selectors.fine_tunings import (
    SUCCEEDED,
    fine_tuning_of,
    fine_tuning_status,
    fine_tunings_of,
    training_events,
)
from versiontree.tree.services.fine_tunings import (
    fine_tuning_cancel,
    fine_tuning_create,
    fine_tuning_delete_results,
)

OPTIONS = ("task", "columns", "separator", "allow_leaks")
EXAMPLE = {
    "model": "minilm/python-docs",
    "training_file": "file-7bd7a7a4ab6c4d7f9a9f6fd4f9d6f2c1",
    "suffix": "tickets",
    "method": {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 4}}},
}


class FineTuningView(OpenAiView):
    """Base of the views of fine-tuning jobs."""

    serializer_class: type[Serializer[Any]] = FineTuningJobSerializer
    queryset = FineTuning.unscoped.none()

    def job(self, job_id: str) -> FineTuning:
        """The fine-tuning with this id, or ``not_found``."""
        return fine_tuning_of(self.tenant, parse_id(FINE_TUNING, job_id, param="fine_tuning_job_id"))


class FineTuningJobsView(FineTuningView):
    """The tenant's fine-tuning jobs."""

    @extend_schema(
        operation_id="openai_fine_tuning_list",
        parameters=[ListQuerySerializer],
        responses={200: list_schema(FineTuningJobSerializer, "FineTuningJobs"), **error_responses(400)},
    )
    def get(self, request: Request, **_: Any) -> Response:
        """List fine-tuning jobs."""
        after = partial(parse_id, FINE_TUNING, param="after")
        return Response(paginated_list(fine_tunings_of(self.tenant), request, job_json, parse_id=after))

    @extend_schema(
        operation_id="openai_fine_tuning_create",
        request=FineTuningRequestSerializer,
        responses={200: FineTuningJobSerializer, **error_responses(400, 408, 409, 413)},
        examples=[OpenApiExample("Below a domain", EXAMPLE, request_only=True)],
    )
    def post(self, request: Request, **_: Any) -> Response:
        """Fine-tune a model on a file: a new model, or a new version of one."""
        data = validated_body(FineTuningRequestSerializer, request)
        check_setting_names(data)
        validation = data.get("validation_file")
        extra = data.get("hmi", {})
        job = fine_tuning_create(
            tenant=self.tenant,
            model=data["model"],
            training_file=parse_id(FILE, data["training_file"], param="training_file"),
            validation_file=parse_id(FILE, validation, param="validation_file") if validation else None,
            name=data.get("suffix") or "",
            options={name: extra[name] for name in OPTIONS if name in extra},
            settings=training_settings(data, base_root_kind(base_by_name(self.tenant, data["model"])[0])),
            quick=extra.get("quick", True),
            request_fields={
                "hyperparameters": hyperparameters_of(data),
                "suffix": data.get("suffix"),
                "metadata": data.get("metadata"),
            },
            actor=request_actor(request),
        )
        return Response(job_json(fine_tuning_of(self.tenant, job.pk)))


class FineTuningJobView(FineTuningView):
    """One fine-tuning job."""

    @extend_schema(
        operation_id="openai_fine_tuning_retrieve",
        responses={200: FineTuningJobSerializer, **error_responses()},
    )
    def get(self, request: Request, fine_tuning_id: str, **_: Any) -> Response:
        """Get a fine-tuning job and its status."""
        return Response(job_json(self.job(fine_tuning_id)))


class FineTuningCancelView(FineTuningView):
    """Cancel a fine-tuning job."""

    @extend_schema(
        operation_id="openai_fine_tuning_cancel",
        request=None,
        responses={200: FineTuningJobSerializer, **error_responses(400, 408, 409, 413)},
    )
    def post(self, request: Request, fine_tuning_id: str, **_: Any) -> Response:
        """Cancel a fine-tuning job. A running one stops within seconds."""
        job = self.job(fine_tuning_id)
        fine_tuning_cancel(fine_tuning=job, actor=request_actor(request))
        return Response(job_json(self.job(fine_tuning_id)))


class FineTuningEventsView(FineTuningView):
    """The events of a fine-tuning job."""

    @extend_schema(
        operation_id="openai_fine_tuning_events",
        parameters=[ListQuerySerializer],
        responses={200: list_schema(FineTuningEventSerializer, "FineTuningEvents"), **error_responses(400)},
    )
    def get(self, request: Request, fine_tuning_id: str, **_: Any) -> Response:
        """List the events of a fine-tuning job, newest first."""
        rows = training_events(self.job(fine_tuning_id))
        return Response(
            paginated_list(rows, request, event_json, parse_id=_parse_event_id, created_field="at")
        )


class FineTuningCheckpointsView(FineTuningView):
    """The checkpoints of a fine-tuning job."""

    @extend_schema(
        operation_id="openai_fine_tuning_checkpoints",
        responses={200: list_schema(CheckpointSerializer, "FineTuningCheckpoints"), **error_responses()},
    )
    def get(self, request: Request, fine_tuning_id: str, **_: Any) -> Response:
        """List the checkpoints of a fine-tuning job: the version that it created."""
        return Response(list_json(checkpoints_json(self.job(fine_tuning_id))))


class ResultsView(FineTuningView):
    """The result file of a fine-tuning job."""

    serializer_class = OpenAiFileSerializer

    @extend_schema(
        operation_id="openai_fine_tuning_results", responses={200: OpenAiFileSerializer, **error_responses()}
    )
    def get(self, request: Request, fine_tuning_key: UUID, **_: Any) -> Response:
        """Get the metadata of a result file."""
        return Response(results_file_json(self.finished(fine_tuning_key)))

    @extend_schema(
        operation_id="openai_fine_tuning_results_delete",
        responses={200: DeletedSerializer, **error_responses(409)},
    )
    def delete(self, request: Request, fine_tuning_key: UUID, **_: Any) -> Response:
        """Delete a result file. The version and its metrics are kept."""
        found = self.finished(fine_tuning_key)
        fine_tuning_delete_results(fine_tuning=found, actor=request_actor(request))
        return Response({"id": results_id(found.pk), "object": "file", "deleted": True})

    def finished(self, key: UUID) -> FineTuning:
        """The fine-tuning. Raises ``not_found`` if it has no results."""
        found = fine_tuning_of(self.tenant, key)
        if fine_tuning_status(found).status != SUCCEEDED or found.results_deleted_at:
            raise HmiError(ErrorCode.NOT_FOUND, "This fine-tuning has no results.", param="file_id")
        return found


class ResultsContentView(ResultsView):
    """The content of a result file."""

    http_method_names = ("get", "head", "options")  # a file is deleted at its own address

    @extend_schema(
        operation_id="openai_fine_tuning_results_content",
        responses={(200, "text/csv"): OpenApiTypes.BINARY, **error_responses()},
    )
    def get(self, request: Request, fine_tuning_key: UUID, **_: Any) -> HttpResponse:  # type: ignore[override]
        """Get the results of a fine-tuning job as CSV."""
        return HttpResponse(results_csv(self.finished(fine_tuning_key)), content_type="text/csv")


def _parse_event_id(value: str) -> int:
    found, _, number = value.partition("-")
    if found != EVENT or not (key := row_id(number)):
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such event.", param="after")
    return key
