"""The Celery app: JSON only; its messages are nudges that carry a job id."""

import os
from logging.config import dictConfig
from typing import Any

from celery import Celery
from celery.signals import beat_init, celeryd_init, setup_logging, worker_process_init, worker_ready
from django.conf import settings

from hmi_site.embedded.lifeline import die_with_launcher
from hmi_site.ready_file import mark_ready
from tenants.base.scope import use_platform_scope

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hmi_site.settings")

app = Celery("hmi_site")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.autodiscover_tasks(["workers"])


@setup_logging.connect
def log_as_the_site_does(**_: Any) -> None:
    """Celery would choose formats and levels of its own. What is printed is logged, as it does it."""
    dictConfig(settings.LOGGING)
    app.log.redirect_stdouts("WARNING")  # type: ignore[arg-type]  # pool processes read the name of a level


@celeryd_init.connect
def work_for_all_tenants(**_: Any) -> None:
    """Before the pool forks, so that its processes do as well."""
    use_platform_scope()


@worker_process_init.connect
def tie_pool_process(**_: Any) -> None:
    """A pool process is a grandchild of the launcher."""
    die_with_launcher()


@worker_ready.connect
@beat_init.connect
def takes_work(**_: Any) -> None:
    """The launcher waits for this."""
    mark_ready()
