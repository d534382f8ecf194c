"""``/v1/``, as the OpenAI conventions have it: what an inference worker answers."""

from django.urls import path

from inference.api.openai.embeddings import EmbeddingsView

urlpatterns = [
    path("embeddings", EmbeddingsView.as_view(), name="openai-embeddings"),
]
