"""Alerts of the admin dashboard."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from django.urls import reverse
from django.utils import timezone

from hmi_site.dashboard.disk import Disk
from hmi_site.dashboard.quotas import UsedUp
from hmi_site.dashboard.serving import RootRow
from hmi_site.dashboard.work import Jobs
from hmi_site.launcher.supervisor import Restart
from inference.api.serving import Serving
from tenants.base.disk_watch import low_disks
from tenants.base.file_sizes import file_size
from tenants.base.plurals import counted
from tenants.usage.selectors import days_drifted

MAX_DRIFTED_SHOWN: Final = 10
MAX_QUOTAS_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Alert:
    """A message, its colour, and a link."""

    text: str
    colour: str
    url: str


def serving_alerts(serving: Serving | None, roots: list[RootRow]) -> Iterator[Alert]:
    """Problems of the inference workers."""
    page = reverse("admin:serving-workers")
    if serving is None:
        yield Alert("The queue cannot be reached. Requests are refused.", "danger", page)
        return
    if not serving.workers:
        yield Alert("No inference worker is running. Requests are refused.", "danger", page)
    elif not any(worker.state == "ready" for worker in serving.workers):
        yield Alert("No inference worker takes requests.", "danger", page)
    else:
        for root in roots:
            if root.hplms and not root.workers:
                text = f"No worker serves the root {root.name} ({counted(root.hplms, 'model')})."
                yield Alert(text, "danger", page)
    for worker in serving.workers:
        if worker.slot_mismatches:
            rows = counted(worker.slot_mismatches, "row")
            text = f"{worker.name} rejected {rows} because a slot held another model."
            yield Alert(text, "danger", page)
        if worker.last_error:
            yield Alert(f"{worker.name}: {worker.last_error}", "warning", page)
        if worker.state in ("draining", "drained"):
            yield Alert(f"{worker.name} is {worker.state} and takes no requests.", "warning", page)


def work_alerts(jobs: Jobs) -> Iterator[Alert]:
    """Failed and stalled jobs."""
    changelist = reverse("admin:jobs_job_changelist")
    if jobs.failed_today:
        text = f"{counted(jobs.failed_today, 'job')} failed today."
        yield Alert(text, "warning", f"{changelist}?state__exact=failed")
    if jobs.is_stalled:
        text = (
            "Jobs have been queued for 10 minutes and none is running. Check the training and quick worker."
        )
        yield Alert(text, "warning", f"{changelist}?state__exact=queued")


def drift_alerts() -> Iterator[Alert]:
    """Versions whose answers drifted today or yesterday, UTC (one query)."""
    changelist = reverse("admin:tree_version_changelist")
    for row in days_drifted(datetime.now(UTC).date() - timedelta(days=1), MAX_DRIFTED_SHOWN):
        name = f"{row.tenant}/{row.model_name}:{row.version}"
        text = f"{name} drifted on {row.day.day} {row.day:%b} ({row.drift})."
        yield Alert(text, "warning", f"{changelist}?q={row.model_name}")


def disk_alerts(disks: list[Disk]) -> Iterator[Alert]:
    """Disks that are filling up."""
    for disk in disks:
        if disk.is_filling:
            text = f"The disk of {disk.name.lower()} is {disk.percent}% full, with {disk.free} free."
            colour = "danger" if disk.is_nearly_full else "warning"
            yield Alert(text, colour, reverse("admin:tree_artifact_changelist"))


def low_disk_alerts() -> Iterator[Alert]:
    """Disks that are nearly full: of the database, too."""
    for disk in low_disks():
        text = f"The disk of {disk.folder} is nearly full: {file_size(disk.free)} free. "
        text += f"Uploads are refused when {file_size(disk.reserved)} are left."
        yield Alert(text, "danger", reverse("admin:tree_artifact_changelist"))


def quota_alerts(used_up: list[UsedUp]) -> Iterator[Alert]:
    """Tenants that have used up a limit of their quota."""
    for row in used_up[:MAX_QUOTAS_SHOWN]:
        text = f"{row.slug} has used up its quota of {row.limit} ({row.used} of {row.most})."
        yield Alert(text, "warning", reverse("admin:accounts_tenant_change", args=[row.tenant]))
    if len(used_up) > MAX_QUOTAS_SHOWN:
        text = f"{counted(len(used_up) - MAX_QUOTAS_SHOWN, 'more quota')} used up."
        yield Alert(text, "warning", reverse("admin:usage_quota_changelist"))


def restart_alerts(restarts: Iterable[Restart]) -> Iterator[Alert]:
    """Processes that were restarted."""
    for restart in restarts:
        times = "once" if restart.count == 1 else counted(restart.count, "time")
        last = timezone.localtime(datetime.fromisoformat(restart.last_at))
        name = restart.name[0].upper() + restart.name[1:]
        text = f"{name} was restarted {times}. At {last:%H:%M} it {restart.reason}."
        if restart.is_down:
            text = f"{name} is down. {text}"
        yield Alert(text, "danger" if restart.is_down else "warning", reverse("admin:serving-workers"))
