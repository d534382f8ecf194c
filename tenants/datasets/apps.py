from django.apps import AppConfig


class DatasetsConfig(AppConfig):
    name = "tenants.datasets"
    label = "datasets"
    verbose_name = "Data"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from tenants.base import hooks
        from tenants.datasets.selectors.uploads import storage_used
        from tenants.datasets.services.checks import checks_expire, checks_redispatch
        from tenants.datasets.services.files import files_expire
        from tenants.datasets.services.uploads import uploads_expire

        hooks.storage_used.register(storage_used)
        hooks.recovery.register(checks_redispatch)
        for expire in (checks_expire, uploads_expire, files_expire):
            hooks.expiry.register(expire)
