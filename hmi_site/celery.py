"""The Celery app. Messages are JSON and carry only ids."""

import os
from logging.config import dictConfig
from typing import Any

from celery import Celery
from celery.signals import beat_init, celeryd_init, setup_logging, worker_process_init, worker_ready
from django.conf import settings

from hmi_site.embedded.parent_death import die_with_launcher
from hmi_site.ready_file import mark_ready
from tenants.base.scope import use_platform_scope

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hmi_site.settings")

app = Celery("hmi_site")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.autodiscover_tasks(["workers"])


@setup_logging.connect
def configure_logging(**_: Any) -> None:
    """Use the site's log settings instead of Celery's. Redirect stdout to the log, as Celery does."""
    dictConfig(settings.LOGGING)
    app.log.redirect_stdouts("WARNING")  # type: ignore[arg-type]  # pool processes need the level's name


@celeryd_init.connect
def enter_platform_scope(**_: Any) -> None:
    """Tasks see the rows of all tenants. Set before the pool forks, so that its processes inherit it."""
    use_platform_scope()


@worker_process_init.connect
def bind_pool_process(**_: Any) -> None:
    """Kill a pool process with the launcher, whose grandchild it is."""
    die_with_launcher()


@worker_ready.connect
@beat_init.connect
def report_ready(**_: Any) -> None:
    """Report to the launcher that this process is ready."""
    mark_ready()
