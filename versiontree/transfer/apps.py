from django.apps import AppConfig


class TransferConfig(AppConfig):
    name = "versiontree.transfer"
    label = "transfer"
    verbose_name = "Exports"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from tenants.base import hooks
        from tenants.base.background_jobs import MAX_ATTEMPTS, BackgroundKind, BackgroundWork, background_work
        from versiontree.transfer.services.takeouts import takeout_files_expire, takeout_write
        from versiontree.transfer.services.tenant_deletion import tenant_deletion_check, tenant_deletion_run

        hooks.tenant_deletion.register(tenant_deletion_check)
        hooks.expiry.register(takeout_files_expire)
        background_work[BackgroundKind.TAKEOUT] = BackgroundWork(takeout_write)
        background_work[BackgroundKind.TENANT_DELETION] = BackgroundWork(
            tenant_deletion_run, max_attempts=MAX_ATTEMPTS
        )
