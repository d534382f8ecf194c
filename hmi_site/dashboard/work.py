"""Jobs and requests: now, today, and of the last two weeks."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from django.db.models import Count, QuerySet, Sum
from django.db.models.functions import TruncDate
from django.utils import timezone

from tenants.usage.models import UsageSum
from versiontree.jobs.models import JOB_STATE_COLOURS, Job, JobState

DAYS: Final = 14
RUNNING_SHOWN: Final = 8
WAITS_TOO_LONG: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class ChartPart:
    """A piece of a bar: a share of its length, 0 to 1, in a colour."""

    share: float
    colour: str

    @property
    def percent(self) -> str:
        """As a length in a style sheet."""
        return f"{100 * self.share:.2f}"


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar with what it says."""

    label: str
    parts: tuple[ChartPart, ...]
    said: str


@dataclass(frozen=True, slots=True)
class Jobs:
    """How jobs stand. ``failed_today`` and ``done_today`` are of this day (UTC); ``waits_long`` is whether
    one has waited for minutes while none runs."""

    running: int
    queued: int
    waiting: int
    done_today: int
    failed_today: int
    waits_long: bool
    at_work: tuple[Job, ...]


def jobs_now() -> Jobs:
    """Four queries, however many jobs there are."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    active = Counter(dict(_counted(Job.unscoped.filter(state__in=["waiting", "queued", "running"]))))
    ended = Counter(dict(_counted(Job.unscoped.filter(finished_at__gte=today))))
    late = Job.unscoped.filter(state=JobState.QUEUED, queued_at__lt=timezone.now() - WAITS_TOO_LONG)
    running = Job.unscoped.filter(state=JobState.RUNNING).order_by("started_at")
    related = ("version__root", "version__domain__root", "version__hplm__tenant", "tenant")
    return Jobs(
        running=active["running"],
        queued=active["queued"],
        waiting=active["waiting"],
        done_today=ended["succeeded"],
        failed_today=ended["failed"],
        waits_long=not active["running"] and late.exists(),
        at_work=tuple(running.select_related(*related)[:RUNNING_SHOWN]),
    )


def jobs_by_day() -> list[Bar]:
    """How the jobs of the last two weeks ended, a bar for each day; one query."""
    days = _days()
    ended = Job.unscoped.filter(finished_at__date__gte=days[0]).order_by()
    rows = ended.values_list(TruncDate("finished_at"), "state").annotate(Count("pk"))
    counts: dict[date, Counter[str]] = {day: Counter() for day in days}
    for day, state, count in rows:
        if day in counts:
            counts[day][state] += count
    top = max((sum(found.values()) for found in counts.values()), default=0) or 1
    states = (JobState.SUCCEEDED, JobState.CANCELLED, JobState.FAILED)
    return [
        Bar(
            f"{day:%-d %b}",
            tuple(
                ChartPart(found[state] / top, JOB_STATE_COLOURS[state]) for state in states if found[state]
            ),
            _day_title(day, {state.label.lower(): found[state] for state in states}),
        )
        for day, found in counts.items()
    ]


def requests_by_day() -> list[Bar]:
    """Infer requests of the last two weeks, a bar for each day; one query."""
    days = _days()
    rows = UsageSum.unscoped.filter(day__gte=days[0]).order_by().values_list("day")
    found = {day: (asked, failed) for day, asked, failed in rows.annotate(Sum("requests"), Sum("failed"))}
    top = max((asked for asked, _ in found.values()), default=0) or 1
    bars = []
    for day in days:
        asked, failed = found.get(day, (0, 0))
        parts = (ChartPart((asked - failed) / top, "primary"), ChartPart(failed / top, "danger"))
        said = _day_title(day, {"answered": asked - failed, "failed": failed})
        bars.append(Bar(f"{day:%-d %b}", tuple(part for part in parts if part.share > 0), said))
    return bars


def _counted(rows: QuerySet[Job]) -> Iterable[tuple[str, int]]:
    return rows.order_by().values_list("state").annotate(Count("pk"))


def _days() -> list[date]:
    today = datetime.now(UTC).date()
    return [today - timedelta(days=back) for back in reversed(range(DAYS))]


def _day_title(day: date, counts: Mapping[str, int]) -> str:
    told = [f"{count:,} {word}" for word, count in counts.items() if count]
    return f"{day:%-d %B}: {', '.join(told) or 'none'}"
