"""The Celery app: JSON only; its messages are nudges that carry a job id."""

import os
from pathlib import Path
from typing import Any

from celery import Celery
from celery.signals import beat_init, worker_process_init, worker_ready

from hmi_site.embedded.lifeline import die_with_launcher

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hmi_site.settings")

READY_FILE = "HMI_READY_FILE"

app = Celery("hmi_site")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["workers"])


@worker_process_init.connect
def tie_pool_process(**_: Any) -> None:
    """A pool process is a grandchild of the launcher."""
    die_with_launcher()


@worker_ready.connect
@beat_init.connect
def tell_ready(**_: Any) -> None:
    """Tell the launcher, which named a file for it, that this process takes work."""
    if file := os.environ.get(READY_FILE):
        Path(file).touch()
