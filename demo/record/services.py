"""Ask for the demo to be built, removed, or removed and built again; a background job does it."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.db import IntegrityError, transaction

from demo.options import DemoOptions
from demo.record.models import THE_DEMO, Demo, DemoPart, Goal
from demo.record.removal import part_versions_of
from demo.record.selectors import SUBJECT
from tenants.audit.services import Actor, audit_record
from tenants.base.background_jobs import BackgroundKind, Reporter
from versiontree.jobs.services.background import background_job_create
from versiontree.tree.models import Version
from versiontree.tree.services.version_completion import version_retry


@transaction.atomic
def demo_request(*, goal: Goal, actor: Actor, options: DemoOptions | None = None) -> None:
    """Have the background job of the demo work towards this goal. A job that is active takes it over.

    Without ``options`` those of the last request apply. Jobs that failed or were cancelled are retried.
    """
    wanted: dict[str, Any] = {"goal": goal, "error": ""}
    if options is not None:
        wanted["options"] = asdict(options)
    _, is_first = Demo.objects.update_or_create(pk=THE_DEMO, defaults=wanted)
    if is_first:
        from demo.record.adoption import earlier_demo_adopt  # it loads the tasks

        earlier_demo_adopt()
    if goal == Goal.BUILT:
        _retry_failed(actor)
    audit_record(verb=f"demo.{goal}", subject=SUBJECT, tenant=None, actor=actor)
    try:
        with transaction.atomic():
            background_job_create(BackgroundKind.DEMO, SUBJECT, None)
    except IntegrityError:
        return  # a job is active


def demo_run(_: str, reporter: Reporter) -> Mapping[str, Any]:
    """Do what can be done now for the goal. Raises ``RunLater`` until it is reached, ``DemoError`` if it
    cannot be."""
    from demo.tree import demo_advance  # in the child process of the job alone

    demo_advance(reporter)
    return {}


def demo_failed(_: str, __: str, message: str) -> None:
    """Keep why the job failed or was cancelled, for whoever asks after the job is gone."""
    Demo.objects.filter(pk=THE_DEMO).update(error=message)


def _retry_failed(actor: Actor) -> None:
    for part in DemoPart.unscoped.filter(ready_at=None, hplm__deleted_at=None):
        for version in part_versions_of(part).filter(state=Version.State.FAILED):
            version_retry(version=version, actor=actor)
