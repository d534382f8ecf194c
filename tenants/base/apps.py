from django.apps import AppConfig
from django.db.backends.signals import connection_created


class BaseConfig(AppConfig):
    """Tenant scope, row security, errors and locks, for all other applications. It has no models."""

    name = "tenants.base"
    label = "base"
    verbose_name = "Base"

    def ready(self) -> None:
        from tenants.base.scope import install_scope_wrapper

        connection_created.connect(install_scope_wrapper)
