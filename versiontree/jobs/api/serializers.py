"""Serializers of jobs, their events, and the query parameters of their lists."""

from typing import Any

from rest_framework import serializers

from versiontree.jobs.models import Job, JobEvent


class JobSerializer(serializers.ModelSerializer[Job]):
    """A job, without the fields that only administrators need."""

    version = serializers.IntegerField(source="version_id", read_only=True)
    version_name = serializers.CharField(
        source="version.name", read_only=True, help_text="The root, domain or model of the version."
    )
    after = serializers.UUIDField(source="after_id", read_only=True, allow_null=True)

    class Meta:
        model = Job
        fields = (
            "id",
            "kind",
            "state",
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

    state = serializers.ChoiceField(choices=Job.State.choices, required=False)
    kind = serializers.ChoiceField(choices=Job.Kind.choices, required=False, default="")
    words = serializers.CharField(required=False, default="")
