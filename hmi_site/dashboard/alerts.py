"""What somebody should look at, and where."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse
from django.utils import timezone

from hmi_site.dashboard.disk import Store
from hmi_site.dashboard.serving import RootRow
from hmi_site.dashboard.work import Jobs
from hmi_site.launcher.supervisor import Restart
from inference.api.serving import Serving


@dataclass(frozen=True, slots=True)
class Alert:
    """A sentence, the name of its colour, and where it leads."""

    text: str
    colour: str
    address: str


def serving_alerts(serving: Serving | None, roots: list[RootRow]) -> Iterator[Alert]:
    """What keeps requests from being answered."""
    page = reverse("admin:serving-workers")
    if serving is None:
        yield Alert("The queue cannot be reached: infer requests are refused.", "danger", page)
        return
    if not serving.workers:
        yield Alert("No inference worker is running: infer requests are refused.", "danger", page)
    elif not any(worker.state == "ready" for worker in serving.workers):
        yield Alert("No inference worker takes requests.", "danger", page)
    else:
        for root in roots:
            if root.hplms and not root.workers:
                told = f"No inference worker serves the root {root.name}, which has {root.hplms:,} models."
                yield Alert(told, "danger", page)
    for worker in serving.workers:
        if worker.slot_mismatches:
            told = f"{worker.name} refused {worker.slot_mismatches:,} rows because a slot held another model."
            yield Alert(told, "danger", page)
        if worker.last_error:
            yield Alert(f"{worker.name}: {worker.last_error}", "warning", page)


def work_alerts(jobs: Jobs) -> Iterator[Alert]:
    """What keeps jobs from being done."""
    listed = reverse("admin:jobs_job_changelist")
    if jobs.failed_today:
        what = "job has" if jobs.failed_today == 1 else "jobs have"
        yield Alert(f"{jobs.failed_today:,} {what} failed today.", "warning", f"{listed}?state__exact=failed")
    if jobs.waits_long:
        told = "Jobs have been waiting for ten minutes and none is running: is there a training worker?"
        yield Alert(told, "warning", f"{listed}?state__exact=queued")


def disk_alerts(stores: list[Store]) -> Iterator[Alert]:
    """What will not fit any more."""
    for store in stores:
        if store.is_nearly_full:
            told = f"{store.name}: the disk is {store.percent} % full, {store.free} are free."
            yield Alert(told, "danger", reverse("admin:tree_artifact_changelist"))


def restart_alerts(restarts: Iterable[Restart]) -> Iterator[Alert]:
    """Which processes of the product have ended by themselves."""
    for one in restarts:
        times = "once" if one.times == 1 else f"{one.times:,} times"
        last = timezone.localtime(datetime.fromisoformat(one.last_at))
        told = f"{one.name[0].upper()}{one.name[1:]}: started again {times}; at {last:%H:%M} it {one.how}."
        yield Alert(told, "warning", reverse("admin:serving-workers"))
