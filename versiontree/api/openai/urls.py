"""``/v1/``, as the OpenAI conventions have it: models and fine-tuning jobs."""

from uuid import UUID

from django.urls import path, register_converter

from versiontree.api.openai import batches, fine_tuning, models


class Hex:
    """A key in 32 hexadecimal digits."""

    regex = "[0-9a-f]{32}"

    def to_python(self, value: str) -> UUID:
        """The key."""
        return UUID(value)

    def to_url(self, value: UUID | str) -> str:
        """Its digits."""
        return UUID(str(value)).hex


register_converter(Hex, "hex")

JOB = "fine_tuning/jobs/<str:fine_tuning_id>"
urlpatterns = [
    path("models", models.OpenAiModelsView.as_view()),
    path("models/<path:model>", models.OpenAiModelView.as_view()),
    path("fine_tuning/jobs", fine_tuning.FineTuningJobsView.as_view()),
    path(JOB, fine_tuning.FineTuningJobView.as_view()),
    path(f"{JOB}/cancel", fine_tuning.FineTuningCancelView.as_view()),
    path(f"{JOB}/events", fine_tuning.FineTuningEventsView.as_view()),
    path(f"{JOB}/checkpoints", fine_tuning.FineTuningCheckpointsView.as_view()),
    path("batches", batches.OpenAiBatchesView.as_view()),
    path("batches/<str:batch_key>", batches.OpenAiBatchDetailView.as_view()),
    path("batches/<str:batch_key>/cancel", batches.OpenAiBatchCancelView.as_view()),
    path("files/file-results-<hex:fine_tuning_key>", fine_tuning.ResultsView.as_view()),
    path("files/file-results-<hex:fine_tuning_key>/content", fine_tuning.ResultsContentView.as_view()),
]
