from django.apps import AppConfig


class FrontendConfig(AppConfig):
    """The pages of the product, rendered on the server."""

    name = "frontend"
    verbose_name = "Frontend"
