from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    name = "tenants.webhooks"
    label = "webhooks"
    verbose_name = "Webhooks"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from tenants.base import hooks
        from tenants.webhooks.services.delivery import deliveries_expire

        hooks.expiry.register(deliveries_expire)
