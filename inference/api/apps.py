"""The infer API as a Django application (it has no models of its own)."""

from django.apps import AppConfig


class InferenceApiConfig(AppConfig):
    """Registered under a label of its own, so that `inference` stays free of Django."""

    name = "inference.api"
    label = "inference_api"
    verbose_name = "Infer API"

    def ready(self) -> None:
        from inference.api.retention import tenant_erase
        from tenants.base import hooks

        hooks.tenant_erasure.register(tenant_erase)
