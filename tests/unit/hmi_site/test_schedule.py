"""The clock's wiring: what it sends is known, and somebody takes it."""

from typing import Any

import pytest
from django.conf import settings

from hmi_site.celery import app
from hmi_site.launcher import children
from tenants.base.dispatch import LONG_QUEUE, QUICK_QUEUE, SHORT_QUEUE, TRAINING_QUEUE
from versiontree.jobs.services.shards import RUN_SHARDS_TASK
from versiontree.jobs.services.transitions import RUN_BACKGROUND_JOB_TASK, RUN_JOB_TASK
from versiontree.tree.selectors.coverage import MEASURE_COVERAGE_TASK

SCHEDULE: dict[str, dict[str, Any]] = settings.CELERY_BEAT_SCHEDULE


def queues_consumed() -> set[str]:
    """The queues of the workers that the launcher starts."""
    workers = (
        children.training_worker(),
        children.quick_worker(),
        children.short_worker(),
        children.long_worker(),
    )
    commands = [list(child.command) for child, _ in workers]
    return {queue for command in commands for queue in command[command.index("--queues") + 1].split(",")}


@pytest.mark.parametrize("name", SCHEDULE)
def test_scheduled_tasks_are_on_queues_of_workers(name: str) -> None:
    app.loader.import_default_modules()
    entry = SCHEDULE[name]
    assert entry["task"] in app.tasks
    assert entry["options"]["queue"] in queues_consumed()
    assert entry["options"]["expires"] == entry["schedule"]


def test_the_queues_of_everything_else_are_taken_too() -> None:
    others = {
        settings.CELERY_TASK_DEFAULT_QUEUE,
        TRAINING_QUEUE,
        QUICK_QUEUE,
        LONG_QUEUE,
        SHORT_QUEUE,
    }
    assert others <= queues_consumed()


def test_dispatched_names_are_tasks() -> None:
    app.loader.import_default_modules()
    dispatched = {
        MEASURE_COVERAGE_TASK,
        RUN_BACKGROUND_JOB_TASK,
        RUN_JOB_TASK,
        RUN_SHARDS_TASK,
    }
    assert dispatched <= set(app.tasks)
