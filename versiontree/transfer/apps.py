from django.apps import AppConfig


class TransferConfig(AppConfig):
    name = "versiontree.transfer"
    label = "transfer"
    verbose_name = "Exports"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from tenants.base import hooks
        from versiontree.transfer.services.takeouts import takeouts_expire, takeouts_nudge_lost
        from versiontree.transfer.services.tenant_deletion import leaving_begin

        hooks.tenant_deletion.register(leaving_begin)
        hooks.recovery.register(takeouts_nudge_lost)
        hooks.expiry.register(takeouts_expire)
