"""The version tree as a Django app."""

from django.apps import AppConfig


class VersionTreeConfig(AppConfig):
    """What there is: roots, domains, hPLMs, their versions, aliases, artifacts and jobs."""

    name = "versiontree"
    verbose_name = "Version tree"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from tenants.signals import serving_changed
        from versiontree.serving import manifest_publish_on_commit

        serving_changed.connect(manifest_publish_on_commit)
