"""What the pages of roots, domains and hPLMs tell beside their own fields."""

from collections.abc import Iterable

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from tenants.admin.base import LINK_STYLE, linked
from versiontree.models import Domain, Hplm, Job, Root
from versiontree.models.job import JobState
from versiontree.selectors import versions_of


def jobs_told(owner: Root | Domain | Hplm) -> SafeString:
    """The jobs of its newest version that have not succeeded, a line each."""
    version = versions_of(owner).first()
    jobs = Job.unscoped.filter(version=version).exclude(state=JobState.SUCCEEDED).order_by("created_at")
    return _lines(_told(job) for job in jobs)


def listed(lines: Iterable[str]) -> SafeString:
    """A line each."""
    return _lines(format_html("{}", line) for line in lines)


def leading(address: str, text: str) -> SafeString:
    """A link."""
    return format_html('<a class="{}" href="{}">{}</a>', LINK_STYLE, address, text)


def _told(job: Job) -> SafeString:
    how = [job.status_label.lower()]
    if job.state == JobState.RUNNING:
        how += [f"{job.progress:.0%}", *([job.stage] if job.stage else [])]
    if job.error_message:
        how.append(job.error_message)
    return format_html("{}: {}", linked(job, job.get_kind_display()), ", ".join(how))


def _lines(lines: Iterable[SafeString]) -> SafeString:
    return format_html_join(mark_safe("<br>"), "{}", ((line,) for line in lines))
