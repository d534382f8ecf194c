from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "versiontree.jobs"
    label = "jobs"
    verbose_name = "Jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from tenants.base import hooks
        from versiontree.jobs.services.lease_recovery import leases_recover

        hooks.recovery.register(leases_recover)
