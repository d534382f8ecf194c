from django.apps import AppConfig


class OpenAiConfig(AppConfig):
    """The OpenAI-compatible API, ``/v1/``. No models of its own."""

    name = "inference.openai"
    label = "openai"
    verbose_name = "OpenAI API"

    def ready(self) -> None:
        from inference.api.errors import ErrorFormat, register_errors
        from inference.batches.endpoints import register_endpoint
        from inference.batches.models import CHAT_COMPLETIONS, COMPLETIONS, EMBEDDINGS
        from inference.openai.batched_completions import CompletionsEndpoint
        from inference.openai.completions import CHAT, TEXT
        from inference.openai.embeddings import EmbeddingsEndpoint
        from inference.openai.errors import PREFIX, openai_error, openai_status
        from inference.openai.generation_requests import ChatCall, CompletionCall
        from inference.openai.prepared_completion import check_chat_template
        from tenants.base import hooks

        hooks.decoder_checkpoint_check.register(check_chat_template)
        register_errors(ErrorFormat(PREFIX, openai_status, openai_error))
        register_endpoint(EMBEDDINGS, EmbeddingsEndpoint())
        register_endpoint(CHAT_COMPLETIONS, CompletionsEndpoint(ChatCall, CHAT))
        register_endpoint(COMPLETIONS, CompletionsEndpoint(CompletionCall, TEXT))
