"""URLs of the OpenAI-compatible API. The API key decides the tenant; signed-in users add ``?tenant=``."""

from uuid import UUID

from django.urls import path, register_converter

from inference.openai import batches, embeddings, files, fine_tuning, generation, models


class HexUuidConverter:
    """A UUID as 32 hexadecimal digits."""

    regex = "[0-9a-f]{32}"

    def to_python(self, value: str) -> UUID:
        """The UUID."""
        return UUID(value)

    def to_url(self, value: UUID | str) -> str:
        """The digits of the UUID."""
        return UUID(str(value)).hex


register_converter(HexUuidConverter, "hex")

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
    path("files", files.OpenAiFilesView.as_view()),
    path("files/<str:file_id>", files.OpenAiFileView.as_view()),
    path("files/<str:file_id>/content", files.OpenAiFileContentView.as_view()),
    path("chat/completions", generation.ChatCompletionsView.as_view(), name="openai-chat-completions"),
    path("completions", generation.CompletionsView.as_view(), name="openai-completions"),
    path("embeddings", embeddings.EmbeddingsView.as_view(), name="openai-embeddings"),
]
