"""`/v1/fine_tuning/jobs`, and the files with their results."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from inference.openai.errors import OpenAiView, errors
from inference.openai.fine_tuning_requests import FineTuningRequestSerializer, hyperparameters_of, settings_of
from inference.openai.fine_tuning_shapes import (
    EVENT,
    CheckpointSerializer,
    FineTuningEventSerializer,
    FineTuningJobSerializer,
    results_csv,
    shown_checkpoints,
    shown_event,
    shown_job,
    shown_results,
)
from inference.openai.lists import FILE, FINE_TUNING, ListQuerySerializer, as_list, list_of, listed, read_id
from inference.openai.serializers import OpenAiFileSerializer
from tenants.accounts.permissions import request_actor
from tenants.base.errors import ErrorCode, HmiError
from versiontree.jobs.api.jobs import validated_body as body_of
from versiontree.tree.models import FineTuning
from versiontree.tree.selectors.fine_tunings import (
    SUCCEEDED,
    fine_tuning_of,
    fine_tuning_status,
    fine_tunings_of,
    training_events,
)
from versiontree.tree.services.fine_tunings import fine_tuning_cancel, fine_tuning_create

OPTIONS = ("task", "columns", "separator", "allow_leaks")
EXAMPLE = {
    "model": "minilm/python-docs",
    "training_file": "file-7bd7a7a4ab6c4d7f9a9f6fd4f9d6f2c1",
    "suffix": "tickets",
    "method": {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 4}}},
}


class FineTuningView(OpenAiView):
    """What these have in common."""

    serializer_class: type[Serializer[Any]] = FineTuningJobSerializer
    queryset = FineTuning.unscoped.none()

    def job(self, given: str) -> FineTuning:
        """The fine-tuning with this id, or ``not_found``."""
        return fine_tuning_of(self.tenant, read_id(FINE_TUNING, given, param="fine_tuning_job_id"))


class FineTuningJobsView(FineTuningView):
    """The tenant's fine-tuning jobs."""

    @extend_schema(
        operation_id="openai_fine_tuning_list",
        parameters=[ListQuerySerializer],
        responses={200: list_of(FineTuningJobSerializer, "FineTuningJobs"), **errors(400)},
    )
    def get(self, request: Request, **_: Any) -> Response:
        """List fine-tuning jobs."""
        read = lambda given: read_id(FINE_TUNING, given, param="after")  # noqa: E731
        return Response(listed(fine_tunings_of(self.tenant), request, shown_job, read=read))

    @extend_schema(
        operation_id="openai_fine_tuning_create",
        request=FineTuningRequestSerializer,
        responses={200: FineTuningJobSerializer, **errors(400, 408, 409, 413)},
        examples=[OpenApiExample("Below a domain", EXAMPLE, request_only=True)],
    )
    def post(self, request: Request, **_: Any) -> Response:
        """Make a model of a file, or a further version of one."""
        asked = body_of(FineTuningRequestSerializer, request)
        validation = asked.get("validation_file")
        own = asked.get("hmi", {})
        made = fine_tuning_create(
            tenant=self.tenant,
            model=asked["model"],
            training_file=read_id(FILE, asked["training_file"], param="training_file"),
            validation_file=read_id(FILE, validation, param="validation_file") if validation else None,
            name=asked.get("suffix") or "",
            options={name: own[name] for name in OPTIONS if name in own},
            settings=settings_of(asked),
            request_fields={
                "hyperparameters": hyperparameters_of(asked),
                "suffix": asked.get("suffix"),
                "metadata": asked.get("metadata"),
            },
            actor=request_actor(request),
        )
        return Response(shown_job(fine_tuning_of(self.tenant, made.pk)))


class FineTuningJobView(FineTuningView):
    """One fine-tuning job."""

    @extend_schema(
        operation_id="openai_fine_tuning_retrieve", responses={200: FineTuningJobSerializer, **errors()}
    )
    def get(self, request: Request, fine_tuning_id: str, **_: Any) -> Response:
        """Where a fine-tuning job stands."""
        return Response(shown_job(self.job(fine_tuning_id)))


class FineTuningCancelView(FineTuningView):
    """Stop one."""

    @extend_schema(
        operation_id="openai_fine_tuning_cancel",
        request=None,
        responses={200: FineTuningJobSerializer, **errors(400, 408, 409, 413)},
    )
    def post(self, request: Request, fine_tuning_id: str, **_: Any) -> Response:
        """Cancel a fine-tuning job; one that runs stops within seconds."""
        job = self.job(fine_tuning_id)
        fine_tuning_cancel(fine_tuning=job, actor=request_actor(request))
        return Response(shown_job(self.job(fine_tuning_id)))


class FineTuningEventsView(FineTuningView):
    """What happened to one."""

    @extend_schema(
        operation_id="openai_fine_tuning_events",
        parameters=[ListQuerySerializer],
        responses={200: list_of(FineTuningEventSerializer, "FineTuningEvents"), **errors(400)},
    )
    def get(self, request: Request, fine_tuning_id: str, **_: Any) -> Response:
        """List events of a fine-tuning job, the newest first."""
        rows = training_events(self.job(fine_tuning_id))
        return Response(listed(rows, request, shown_event, read=_event, made="at"))


class FineTuningCheckpointsView(FineTuningView):
    """What came of one."""

    @extend_schema(
        operation_id="openai_fine_tuning_checkpoints",
        responses={200: list_of(CheckpointSerializer, "FineTuningCheckpoints"), **errors()},
    )
    def get(self, request: Request, fine_tuning_id: str, **_: Any) -> Response:
        """List checkpoints of a fine-tuning job: the version that it made."""
        return Response(as_list(shown_checkpoints(self.job(fine_tuning_id))))


class ResultsView(FineTuningView):
    """The file with the results of one."""

    serializer_class = OpenAiFileSerializer

    @extend_schema(
        operation_id="openai_fine_tuning_results", responses={200: OpenAiFileSerializer, **errors()}
    )
    def get(self, request: Request, fine_tuning_key: UUID, **_: Any) -> Response:
        """About the results of a fine-tuning job."""
        return Response(shown_results(self.finished(fine_tuning_key)))

    def finished(self, key: UUID) -> FineTuning:
        """The fine-tuning, if it has results; else ``not_found``."""
        found = fine_tuning_of(self.tenant, key)
        if fine_tuning_status(found).status != SUCCEEDED:
            raise HmiError(ErrorCode.NOT_FOUND, "This fine-tuning has no results yet.", param="file_id")
        return found


class ResultsContentView(ResultsView):
    """Their bytes."""

    @extend_schema(
        operation_id="openai_fine_tuning_results_content",
        responses={(200, "text/csv"): OpenApiTypes.BINARY, **errors()},
    )
    def get(self, request: Request, fine_tuning_key: UUID, **_: Any) -> HttpResponse:  # type: ignore[override]
        """Fetch the results of a fine-tuning job."""
        return HttpResponse(results_csv(self.finished(fine_tuning_key)), content_type="text/csv")


def _event(given: str) -> int:
    found, _, number = given.partition("-")
    if found != EVENT or not (number.isascii() and number.isdecimal() and len(number) < 19):
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such event.", param="after")
    return int(number)
