"""The composition root as an app: its commands, its checks, and the Celery app that `send_task` uses."""

from django.apps import AppConfig


class HmiSiteConfig(AppConfig):
    """Loads what must be there in every process."""

    name = "hmi_site"

    def ready(self) -> None:
        from hmi_site import celery, checks  # noqa: F401 - both register themselves
