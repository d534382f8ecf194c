from django.apps import AppConfig


class DemoConfig(AppConfig):
    name = "demo.record"
    label = "demo"
    verbose_name = "Demo"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from demo.record.selectors import demo_models_of
        from demo.record.services import demo_failed, demo_run
        from tenants.base import hooks
        from tenants.base.background_jobs import BackgroundKind, BackgroundWork, background_work

        hooks.demo_models.register(demo_models_of)
        background_work[BackgroundKind.DEMO] = BackgroundWork(demo_run, demo_failed)
