"""The version tree as a Django app."""

from django.apps import AppConfig


class VersionTreeConfig(AppConfig):
    """What there is: roots, domains, hPLMs, their versions, aliases, artifacts and jobs."""

    name = "versiontree"
    verbose_name = "Version tree"
    default_auto_field = "django.db.models.BigAutoField"
