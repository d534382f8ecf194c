"""The Django app of the site: management commands, system checks and the Celery app."""

from django.apps import AppConfig


class HmiSiteConfig(AppConfig):
    """Imports the Celery app and the system checks in every process."""

    name = "hmi_site"

    def ready(self) -> None:
        from hmi_site import celery, checks  # noqa: F401 - both register themselves
