"""Queries about the demo of this installation."""

from dataclasses import dataclass
from enum import StrEnum

from demo.record.models import THE_DEMO, Demo, DemoPart, Goal
from tenants.accounts.models import Tenant
from tenants.base.background_jobs import BackgroundKind
from versiontree.jobs.models import ACTIVE, Job

SUBJECT = "demo"
"""The subject of its background job, of which there is one at a time."""


class DemoState(StrEnum):
    """Whether there is a demo."""

    ABSENT = "absent"
    REMOVED = "removed"
    WORKING = "working"
    INCOMPLETE = "incomplete"
    BUILT = "built"


@dataclass(frozen=True, slots=True)
class DemoStatus:
    """The state of the demo; ``error`` is what stopped it when it is incomplete."""

    state: DemoState
    goal: Goal = Goal.BUILT
    error: str = ""


def demo_status() -> DemoStatus:
    """The state of the demo (two queries)."""
    demo = Demo.objects.filter(pk=THE_DEMO).first()
    if demo is None:
        return DemoStatus(DemoState.ABSENT)
    goal = Goal(demo.goal)
    if Job.unscoped.filter(kind=BackgroundKind.DEMO, subject=SUBJECT, state__in=ACTIVE).exists():
        return DemoStatus(DemoState.WORKING, goal)
    if demo.error:
        return DemoStatus(DemoState.INCOMPLETE, goal, demo.error)
    return DemoStatus(DemoState.REMOVED if goal == Goal.REMOVED else DemoState.BUILT, goal)


def demo_models_of(tenant: Tenant) -> frozenset[str] | None:
    """The names of the models that the demo made for the tenant; None if the tenant is not of the demo.

    Receiver of ``tenants.base.hooks.demo_models``.
    """
    parts = list(DemoPart.objects.for_tenant(tenant).values_list("hplm__name", flat=True))
    return frozenset(name for name in parts if name is not None) if parts else None
