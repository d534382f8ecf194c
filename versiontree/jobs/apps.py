from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "versiontree.jobs"
    label = "jobs"
    verbose_name = "Jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from tenants.base import background_jobs as below
        from tenants.base import hooks
        from versiontree.jobs.services.background import (
            background_job_create,
            background_job_is_active,
            background_jobs_expire,
        )
        from versiontree.jobs.services.lease_recovery import leases_recover

        below.background_job_create.register(background_job_create)
        below.background_job_is_active.register(background_job_is_active)
        hooks.recovery.register(leases_recover)
        hooks.expiry.register(background_jobs_expire)
