from django.apps import AppConfig
from django.db.backends.signals import connection_created


class BaseConfig(AppConfig):
    """Tenant scope, row security, errors: what all other applications stand on. It has no models."""

    name = "tenants.base"
    label = "base"
    verbose_name = "Base"

    def ready(self) -> None:
        from tenants.base.scope import follow_scope

        connection_created.connect(follow_scope)
