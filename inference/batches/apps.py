from django.apps import AppConfig


class BatchesConfig(AppConfig):
    name = "inference.batches"
    label = "batches"
    verbose_name = "Batches"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from inference.batches.runner import batch_run
        from inference.batches.selectors import batch_takeout_parts, batches_of_file, batches_of_hplm
        from inference.batches.services.lifecycle import (
            batch_end_with_job,
            batch_folders_delete,
            batches_delete_expired,
            batches_expire,
        )
        from tenants.base import hooks
        from tenants.base.background_jobs import BackgroundKind, BackgroundWork, background_work
        from tenants.base.dispatch import LOWEST_PRIORITY

        hooks.tenant_erasure.register(batch_folders_delete)
        hooks.file_users.register(batches_of_file)
        hooks.hplm_callers.register(batches_of_hplm)
        hooks.takeout_parts.register(batch_takeout_parts)
        hooks.recovery.register(batches_expire)
        hooks.expiry.register(batches_delete_expired)
        background_work[BackgroundKind.BATCH] = BackgroundWork(
            batch_run, batch_end_with_job, max_attempts=5, priority=LOWEST_PRIORITY
        )
