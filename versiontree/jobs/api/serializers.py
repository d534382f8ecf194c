"""Serializers of jobs, their events, and the query parameters of their lists."""

from typing import Any, Final
from uuid import UUID

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from tenants.base.api.inputs import ChoiceField
from versiontree.jobs.models import Job, JobEvent
from versiontree.jobs.selectors import queue_positions

POSITIONS: Final = "queue_positions"
"""Where the context of a serializer of many jobs has their queue positions."""


class JobSerializer(serializers.ModelSerializer[Job]):
    """A job, without the fields that only administrators need."""

    version = serializers.IntegerField(source="version_id", read_only=True)
    version_name = serializers.CharField(
        source="version.name", read_only=True, help_text="The root, domain or model of the version."
    )
    after = serializers.UUIDField(source="after_id", read_only=True, allow_null=True)
    queue_position = serializers.SerializerMethodField()

    class Meta:
        model = Job
        fields = (
            "id",
            "kind",
            "state",
            "queue_position",
            "version",
            "version_name",
            "after",
            "stage",
            "progress",
            "eta_seconds",
            "metrics",
            "attempt",
            "max_attempts",
            "cancel_requested_at",
            "error_code",
            "error_message",
            "created_at",
            "queued_at",
            "started_at",
            "finished_at",
        )
        read_only_fields = fields

    @extend_schema_field(
        serializers.IntegerField(allow_null=True, help_text="Of a queued job, among those of all tenants.")
    )
    def get_queue_position(self, job: Job) -> int | None:
        """The position of a queued job, 1 is next. A list gets those of all its jobs in its context."""
        positions: dict[UUID, int] | None = self.context.get(POSITIONS)
        return (queue_positions([job]) if positions is None else positions).get(job.pk)


class JobEventSerializer(serializers.ModelSerializer[JobEvent]):
    """An entry of a job's history."""

    class Meta:
        model = JobEvent
        fields = ("id", "kind", "message", "data", "at")
        read_only_fields = fields


class JobSummarySerializer(serializers.ModelSerializer[Job]):
    """A job's id, kind and state."""

    class Meta:
        model = Job
        fields = ("id", "kind", "state")
        read_only_fields = fields


class EventsQuerySerializer(serializers.Serializer[Any]):
    """Query parameters of a job's events."""

    after = serializers.IntegerField(
        required=False, default=0, min_value=0, help_text="The id of the last event you saw."
    )


class JobsQuerySerializer(serializers.Serializer[Any]):
    """Filters of job lists: state, kind, and words in the name of the domain or model."""

    state = ChoiceField(choices=Job.State.choices, required=False)
    kind = ChoiceField(choices=Job.Kind.choices, required=False)
    words = serializers.CharField(required=False, allow_blank=True, default="")
