from django.apps import AppConfig


class TransferConfig(AppConfig):
    name = "versiontree.transfer"
    label = "transfer"
    verbose_name = "Exports"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from tenants.base import hooks
        from versiontree.transfer.services.takeouts import takeouts_expire, takeouts_redispatch
        from versiontree.transfer.services.tenant_deletion import tenant_deletion_check

        hooks.tenant_deletion.register(tenant_deletion_check)
        hooks.recovery.register(takeouts_redispatch)
        hooks.expiry.register(takeouts_expire)
