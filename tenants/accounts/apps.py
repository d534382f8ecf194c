from django.apps import AppConfig
from django.db.models.signals import post_migrate


class AccountsConfig(AppConfig):
    name = "tenants.accounts"
    label = "accounts"
    verbose_name = "Accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from tenants.accounts.api import access  # noqa: F401 - registers itself
        from tenants.accounts.services.idempotency import idempotent_responses_expire
        from tenants.accounts.services.invitations import invitations_expire
        from tenants.base import hooks
        from tenants.base.row_security import policies_apply

        post_migrate.connect(policies_apply, sender=self)
        hooks.expiry.register(invitations_expire)
        hooks.expiry.register(idempotent_responses_expire)
