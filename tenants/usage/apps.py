from django.apps import AppConfig


class UsageConfig(AppConfig):
    name = "tenants.usage"
    label = "usage"
    verbose_name = "Usage and quotas"
    default_auto_field = "django.db.models.BigAutoField"
