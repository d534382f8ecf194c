"""The application "tenants": who uses the product, and what they upload."""

from django.apps import AppConfig
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate


class TenantsConfig(AppConfig):
    name = "tenants"
    label = "tenants"
    verbose_name = "Tenants"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from tenants.api import schema  # noqa: F401 - registers itself
        from tenants.row_security import walls_put_up
        from tenants.scope import follow_scope

        connection_created.connect(follow_scope)
        post_migrate.connect(walls_put_up, sender=self)
