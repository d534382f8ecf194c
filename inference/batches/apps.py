from django.apps import AppConfig


class BatchesConfig(AppConfig):
    name = "inference.batches"
    label = "batches"
    verbose_name = "Batches"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from inference.batches.selectors import batch_takeout_parts, batches_of_file, batches_of_hplm
        from inference.batches.services.lifecycle import (
            batch_folders_delete,
            batches_delete_expired,
            batches_redispatch,
        )
        from tenants.base import hooks

        hooks.tenant_erasure.register(batch_folders_delete)
        hooks.file_users.register(batches_of_file)
        hooks.hplm_callers.register(batches_of_hplm)
        hooks.takeout_parts.register(batch_takeout_parts)
        hooks.recovery.register(batches_redispatch)
        hooks.expiry.register(batches_delete_expired)
