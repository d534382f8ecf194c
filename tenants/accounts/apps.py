from django.apps import AppConfig
from django.db.models.signals import post_migrate


class AccountsConfig(AppConfig):
    name = "tenants.accounts"
    label = "accounts"
    verbose_name = "Accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from tenants.accounts.api import schema  # noqa: F401 - registers itself
        from tenants.accounts.services.idempotency import answers_forget
        from tenants.accounts.services.invitations import invitations_forget
        from tenants.base import hooks
        from tenants.base.row_security import walls_put_up

        post_migrate.connect(walls_put_up, sender=self)
        hooks.expiry.register(invitations_forget)
        hooks.expiry.register(answers_forget)
