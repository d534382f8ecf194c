from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "versiontree.jobs"
    label = "jobs"
    verbose_name = "Jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from tenants.base import hooks
        from tenants.base.background_jobs import background_job_create as created_below
        from versiontree.jobs.services.background import background_job_create, background_jobs_expire
        from versiontree.jobs.services.lease_recovery import leases_recover

        created_below.register(background_job_create)
        hooks.recovery.register(leases_recover)
        hooks.expiry.register(background_jobs_expire)
