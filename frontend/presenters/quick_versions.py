"""The quick version of a new model beside the trained one, while that is in training and after."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import reverse

from frontend.presenters.charts import Tile
from frontend.presenters.formatting import metric_difference, metric_label, time_range
from frontend.presenters.jobs import JobRow, jobs_of_version
from frontend.presenters.versions import is_ready, measurements, same_test, version_row
from frontend.status import style_of
from tenants.base.plurals import counted
from versiontree.jobs.models import JobState
from versiontree.tree.models import Version
from versiontree.tree.promotion import LOWER_IS_BETTER, comparison_of_version
from versiontree.tree.selectors.label_checks import suspects_count
from versiontree.tree.selectors.readiness import time_until_ready
from versiontree.tree.selectors.versions import is_number


@dataclass(frozen=True, slots=True)
class QuickVersionPanel:
    """The headline and figures of both first versions of a model. `job` is the one that is watched while they
    are built, or that failed; None if there is none. `answers`: there is a default version.

    `known` tells the page whether versions became ready, or the default moved, since it was rendered.
    """

    headline: str
    tiles: list[Tile]
    job: JobRow | None
    answers: bool
    known: str

    @property
    def active(self) -> bool:
        """Return whether it changes without anybody's doing."""
        return self.job is not None and self.job.job.is_active


@dataclass(frozen=True, slots=True)
class _Building:
    """A version that is not ready: its first job that has not succeeded, what that does, and a note."""

    job: JobRow
    doing: str
    note: str


def quick_version_panel(versions: Sequence[Version], default: Version | None) -> QuickVersionPanel | None:
    """Return the quick and the trained version of a new model; None for others, and once it was updated.

    ``versions``: its newest ones, newest first, with their jobs.
    """
    if len(versions) != 2 or not versions[1].is_quick:
        return None
    trained, quick = versions
    building = {version.pk: _building(version) for version in versions}
    jobs = [one.job for version in (quick, trained) if (one := building[version.pk]) is not None]
    return QuickVersionPanel(
        headline=_headline(trained, default, building[quick.pk], building[trained.pk]),
        tiles=[
            _tile("Quick version", quick, default, building[quick.pk]),
            _tile("Trained version", trained, default, building[trained.pk]),
            *_gain(quick, trained),
        ],
        job=next((row for row in jobs if row.job.is_active), jobs[0] if jobs else None),
        answers=default is not None,
        known=f"{quick.state}-{trained.state}-{default.number if default else 0}",
    )


def _building(version: Version) -> _Building | None:
    jobs = jobs_of_version(version)
    job = next((row for row in jobs if row.state != JobState.SUCCEEDED), None)
    if job is None or is_ready(version):
        return None
    left = time_until_ready(version, [row.job for row in jobs])
    note = "" if left is None else f"{time_range(left)} left"
    if job.state == JobState.RUNNING:
        return _Building(job, f"{job.progress:.0%}", note or job.title.lower())
    if job.job.is_active:
        return _Building(job, "Waiting", _place(job.place) if job.place else note)
    return _Building(job, style_of(job.state).label, job.error_message)


def _place(place: int) -> str:
    return "first in line" if place == 1 else f"number {place:,} in line"


def _headline(
    version: Version, default: Version | None, quick: _Building | None, trained: _Building | None
) -> str:
    """Return which version answers, and what the others do. ``version`` is the trained one."""
    if trained is None:
        takes_over = default is None or default.pk == version.pk
        return "The trained version answers" if takes_over else "The quick version still answers"
    training = f"trained version: {trained.doing.lower()}"
    if trained.note:
        training += f", {trained.note}"
    return f"Quick version{' answers' if quick is None else f': {quick.doing.lower()}'}; {training}"


def _tile(name: str, version: Version, default: Version | None, building: _Building | None) -> Tile:
    title = f"{name}, v{version.number}"
    if building is not None:
        return Tile(title, building.doing, building.note)
    row = version_row(version)
    answers = ["answers now"] if default is not None and default.pk == version.pk else []
    note = ", ".join([*filter(None, [row.metric_name, row.interval]), *answers])
    return Tile(title, row.metric or "–", note, _labels_to_check(version))


def _labels_to_check(version: Version) -> tuple[tuple[str, str], ...]:
    """Return a link to the rows whose label looks wrong to the version, if there are any."""
    count = suspects_count(version)
    if not count or version.dataset_id is None or version.tenant is None:
        return ()
    address = reverse("frontend:dataset_labels", args=[version.tenant.slug, version.dataset_id])
    return ((f"{counted(count, 'label')} to check", address),)


def _gain(quick: Version, trained: Version) -> list[Tile]:
    """Return the difference of their metrics on the same test rows, if it is known."""
    against, after = comparison_of_version(trained), measurements(trained)
    if against is not None and against.version == quick.number and against.test is not None:
        paired = against.test
        return [_gain_tile(paired.metric, paired.new - paired.old, paired.rows)]
    before, name, rows = measurements(quick), str(after.get("metric", "")), after.get("rows")
    old, new = before.get("value"), after.get("value")
    alike = (before.get("metric"), before.get("rows")) == (name, rows) and same_test(quick, trained)
    if not (alike and is_number(old) and is_number(new) and isinstance(rows, int)):
        return []
    return [_gain_tile(name, new - old, rows)]


def _gain_tile(metric: str, difference: float, rows: int) -> Tile:
    lower = " (lower is better)" if metric in LOWER_IS_BETTER else ""
    note = f"{metric_label(metric)}{lower} on the same {counted(rows, 'test row')}"
    return Tile("Gain by training", metric_difference(metric, difference), note)
