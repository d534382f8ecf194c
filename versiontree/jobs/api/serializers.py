"""What the manage API shows of jobs, and which of them may be asked for."""

from typing import Any

from rest_framework import serializers

from versiontree.jobs.models import Job, JobEvent


class JobSerializer(serializers.ModelSerializer[Job]):
    """A job: where it stands and how it ended. What only administrators need is left out."""

    version = serializers.IntegerField(source="version_id", read_only=True)
    of = serializers.CharField(source="version.name", read_only=True, help_text="What the version is of.")
    after = serializers.UUIDField(source="after_id", read_only=True, allow_null=True)

    class Meta:
        model = Job
        fields = (
            "id",
            "kind",
            "state",
            "version",
            "of",
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
    """One thing that happened to a job; ask for those ``after`` the last id you saw."""

    class Meta:
        model = JobEvent
        fields = ("id", "kind", "message", "data", "at")
        read_only_fields = fields


class JobSummarySerializer(serializers.ModelSerializer[Job]):
    """A job in few words."""

    class Meta:
        model = Job
        fields = ("id", "kind", "state")
        read_only_fields = fields


class EventsQuerySerializer(serializers.Serializer[Any]):
    """From which event on."""

    after = serializers.IntegerField(required=False, default=0, min_value=0)


class JobsQuerySerializer(serializers.Serializer[Any]):
    """Only jobs in this state, of this kind, for what has these words in its name."""

    state = serializers.ChoiceField(choices=Job.State.choices, required=False)
    kind = serializers.ChoiceField(choices=Job.Kind.choices, required=False, default="")
    words = serializers.CharField(required=False, default="")
