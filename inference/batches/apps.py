from django.apps import AppConfig


class BatchesConfig(AppConfig):
    name = "inference.batches"
    label = "batches"
    verbose_name = "Batches"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from inference.batches.selectors import batches_of_file
        from inference.batches.services.batches import batches_delete_old, batches_dispatch_lost
        from inference.batches.takeout import batch_parts
        from tenants.base import hooks

        hooks.file_users.register(batches_of_file)
        hooks.takeout_parts.register(batch_parts)
        hooks.recovery.register(batches_dispatch_lost)
        hooks.expiry.register(batches_delete_old)
