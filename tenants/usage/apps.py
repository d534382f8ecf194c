from django.apps import AppConfig


class UsageConfig(AppConfig):
    name = "tenants.usage"
    label = "usage"
    verbose_name = "Usage and quotas"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from tenants.base import hooks
        from tenants.usage.services.request_log import request_log_expire

        hooks.expiry.register(request_log_expire)
