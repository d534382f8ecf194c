"""The infer API as a Django application (it has no models of its own)."""

from django.apps import AppConfig


class InferenceApiConfig(AppConfig):
    """Registered under a label of its own, so that `inference` stays free of Django."""

    name = "inference.api"
    label = "inference_api"
    verbose_name = "Infer API"
