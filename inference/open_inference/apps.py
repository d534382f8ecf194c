from django.apps import AppConfig


class OpenInferenceConfig(AppConfig):
    """The Open Inference Protocol: ``/v2/``. No models of its own."""

    name = "inference.open_inference"
    label = "open_inference"
    verbose_name = "Open Inference Protocol"

    def ready(self) -> None:
        from inference.api.errors import ErrorFormat, register_errors
        from inference.open_inference.errors import PREFIX, oip_error, oip_status

        register_errors(ErrorFormat(PREFIX, oip_status, oip_error))
