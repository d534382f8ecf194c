from django.apps import AppConfig


class OpenAiConfig(AppConfig):
    """The OpenAI-compatible API, ``/v1/``. No models of its own."""

    name = "inference.openai"
    label = "openai"
    verbose_name = "OpenAI API"

    def ready(self) -> None:
        from inference.api.errors import ErrorFormat, register_errors
        from inference.batches.line_formats import register_endpoint
        from inference.batches.models import EMBEDDINGS
        from inference.openai.embeddings import EmbeddingsEndpoint
        from inference.openai.errors import PREFIX, openai_error, openai_status

        register_errors(ErrorFormat(PREFIX, openai_status, openai_error))
        register_endpoint(EMBEDDINGS, EmbeddingsEndpoint())
