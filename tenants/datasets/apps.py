from django.apps import AppConfig


class DatasetsConfig(AppConfig):
    name = "tenants.datasets"
    label = "datasets"
    verbose_name = "Data"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from tenants.base import hooks
        from tenants.base.background_jobs import BackgroundKind, BackgroundWork, background_work
        from tenants.base.child_process import TASK_TIME_LIMIT_S
        from tenants.datasets.selectors.uploads import storage_used
        from tenants.datasets.services.checks import check_crashed, check_run, checks_expire
        from tenants.datasets.services.files import files_expire
        from tenants.datasets.services.uploads import uploads_expire

        hooks.storage_used.register(storage_used)
        for expire in (checks_expire, uploads_expire, files_expire):
            hooks.expiry.register(expire)
        background_work[BackgroundKind.UPLOAD_CHECK] = BackgroundWork(
            check_run, check_crashed, time_limit_s=TASK_TIME_LIMIT_S
        )
