"""Build the demo's version tree while the site runs: what a visitor sees first comes first.

A background job makes what can be made now and runs again until all is ready, so it holds no worker while
other jobs train. What is there already is left alone, so a build that was interrupted goes on.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from django.utils import timezone
from rich.console import Console

from demo.datasets import TASKS, DemoTask
from demo.generative import WRITING_TASKS, demo_tasks
from demo.job_progress import POLL_S, DemoError, DemoProgress
from demo.options import DemoOptions
from demo.parts import VERSIONS, DemoBuilder, part_start
from demo.people import ADMIN, Login, logins_read, people_ensure
from demo.record.models import THE_DEMO, Demo, DemoPart, Goal
from demo.record.removal import part_versions_of, parts_remove, tenants_suspend
from demo.record.selectors import DemoState
from demo.record.services import demo_request
from demo.version import DECODER, DOMAIN, ROOT, model_part
from tenants.accounts.models import Tenant
from tenants.base.background_jobs import Reporter, RunLater
from versiontree.jobs.models import Job, JobState
from versiontree.tree.models import Version

STEP_S: Final = 1.0
"""After how many seconds the background job looks again."""


@dataclass(frozen=True, slots=True)
class DemoSummary:
    """What a newcomer needs to use the demo: logins, and one tenant's key and model to call."""

    logins: list[Login]
    model: str
    api_key: str
    text: str


def demo_is_built(options: DemoOptions) -> bool:
    """Whether this copy's demo was built to its end once; what people do with it afterwards is theirs."""
    built = DemoPart.unscoped.exclude(ready_at=None).values_list("name", "version")
    return dict(built).items() >= {name: VERSIONS[name] for name in _wanted(options)}.items()


def outdated_parts() -> list[DemoPart]:
    """The parts that another version of the demo made, and that this copy makes otherwise or not at all."""
    return [part for part in DemoPart.unscoped.all() if VERSIONS.get(part.name) != part.version]


def demo_summary() -> DemoSummary | None:
    """The demo's logins, and a first request that works once the model is ready. None without its tenant."""
    logins = logins_read()
    task = TASKS[0]
    if task.tenant not in logins:
        return None
    shown = [logins[name] for name in (ADMIN, *_tenants(demo_tasks(generative=True))) if name in logins]
    return DemoSummary(shown, model_part(task), logins[task.tenant].api_key, task.try_text)


def demo_people(options: DemoOptions) -> None:
    """Make the demo's logins and tenants, and record that they are the demo's. Once it is recorded, nothing:
    to check the passwords takes seconds."""
    known = set(DemoPart.unscoped.values_list("name", flat=True))
    absent = [task for task in _tasks(options) if model_part(task) not in known]
    if absent:
        people_ensure(generative=options.generative)
    for task in absent:
        part_start(model_part(task), Tenant.objects.get(slug=task.tenant))


def demo_build(console: Console, options: DemoOptions) -> None:
    """Have what is absent of the demo built, and show the progress until it is.

    Raises:
        DemoError: a job failed; the message is the job's own.
    """
    if demo_is_built(options):
        return
    people_ensure(generative=options.generative)
    demo_request(goal=Goal.BUILT, actor=None, options=options)
    with DemoProgress(console, (TASKS[0].tenant, TASKS[0].hplm)) as progress:
        while progress.update():
            time.sleep(POLL_S)
    if progress.status.state != DemoState.BUILT:
        raise DemoError(progress.status.error or "It was removed meanwhile.")


def demo_advance(reporter: Reporter) -> None:
    """Do what can be done now for the goal of the demo.

    Raises:
        RunLater: the goal is not reached yet, or is another by now.
        DemoError: it cannot be reached, because jobs failed or were cancelled.
    """
    demo = Demo.objects.get(pk=THE_DEMO)
    if demo.goal != Goal.BUILT:
        _remove(list(DemoPart.unscoped.all()))
        # Only if nobody has asked for something else meanwhile.
        Demo.objects.filter(pk=THE_DEMO, goal=Goal.REBUILT).update(goal=Goal.BUILT)
        demo.refresh_from_db()
        if demo.goal == Goal.REMOVED:
            return
    options = DemoOptions(**demo.options)
    _remove(outdated_parts())
    demo_people(options)
    _build(DemoBuilder(options), options, reporter)
    _mark_ready()
    _finish(options)
    if not Demo.objects.filter(pk=THE_DEMO, goal=Goal.BUILT, options=demo.options).exists():
        raise RunLater(after_s=0)


def _remove(parts: Sequence[DemoPart]) -> None:
    tenants = [part.tenant for part in parts if part.tenant is not None]
    if not parts_remove(parts, actor=None):
        raise RunLater(after_s=STEP_S)
    tenants_suspend(tenants, actor=None)


def _build(make: DemoBuilder, options: DemoOptions, reporter: Reporter) -> None:
    """Make what is absent and can be made: it stands on what is ready, and its turn has come."""
    root = make.root()
    below = [task for task in TASKS if not task.under_domain]
    for task in _missing(below):
        _read_texts(reporter, task.hplm)
        make.dataset(task)
        root.refresh_from_db()
        if root.state == Version.State.READY:
            make.model(task, root)
    for task in _missing(below):  # the root may have become ready meanwhile
        if root.state == Version.State.READY:
            make.model(task, root)
    _read_texts(reporter, DOMAIN)
    make.domain_corpus()
    under_domain = [task for task in TASKS if task.under_domain]
    for task in _missing(under_domain):
        make.dataset(task)
    if root.state != Version.State.READY:
        return
    domain = make.domain(root)
    if domain.state in (Version.State.BUILDING, Version.State.FAILED):
        return  # upon one that somebody retired nothing can be built; to try says so
    for task in _missing(under_domain):
        make.model(task, domain)
    if options.generative:
        _build_generative(make, reporter)


def _build_generative(make: DemoBuilder, reporter: Reporter) -> None:
    decoder = make.decoder()
    for task in _missing(WRITING_TASKS):
        _read_texts(reporter, task.hplm)
        make.dataset(task)
        if decoder.state == Version.State.READY:
            make.model(task, decoder)


def _read_texts(reporter: Reporter, of: str) -> None:
    reporter.start_stage(f"reading the texts of {of}", 1)


def _missing(tasks: Sequence[DemoTask]) -> Iterator[DemoTask]:
    """The tasks whose models were not made yet. Those that people deleted afterwards are not missing."""
    missing = DemoPart.unscoped.filter(hplm=None, ready_at=None).values_list("name", flat=True)
    return (task for task in tasks if model_part(task) in set(missing))


def _mark_ready() -> None:
    """A part is ready once the versions that people wait for are. Nobody waits for a deleted model."""
    for part in DemoPart.unscoped.filter(ready_at=None).select_related("hplm"):
        versions = [version for version in part_versions_of(part) if not version.is_quick]
        is_deleted = part.hplm is not None and part.hplm.deleted_at is not None
        if is_deleted or (versions and all(version.state == Version.State.READY for version in versions)):
            DemoPart.unscoped.filter(pk=part.pk).update(ready_at=timezone.now())


def _finish(options: DemoOptions) -> None:
    """Return if all is ready. Raises DemoError if nothing goes on and something failed, else RunLater."""
    if demo_is_built(options):
        return
    parts = list(DemoPart.unscoped.filter(ready_at=None))
    versions = [version for part in parts for version in part_versions_of(part)]
    failed = Job.unscoped.filter(version__in=versions, state__in=[JobState.FAILED, JobState.CANCELLED])
    if failed.exists() and not any(version.state == Version.State.BUILDING for version in versions):
        reasons = [
            f"{job.get_kind_display()} of {job.version}: {job.error_message}"
            for job in failed.filter(after__isnull=True) | failed.filter(after__state=JobState.SUCCEEDED)
        ]
        raise DemoError(" ".join(reasons))
    raise RunLater(after_s=STEP_S)


def _wanted(options: DemoOptions) -> set[str]:
    parts = {ROOT, DOMAIN, *map(model_part, _tasks(options))}
    return parts | {DECODER} if options.generative else parts


def _tasks(options: DemoOptions) -> list[DemoTask]:
    """The tasks of the tenants that nobody deleted."""
    deleted = set(Tenant.objects.exclude(deletion_requested_at=None).values_list("slug", flat=True))
    return [task for task in demo_tasks(generative=options.generative) if task.tenant not in deleted]


def _tenants(tasks: Sequence[DemoTask]) -> list[str]:
    return list(dict.fromkeys(task.tenant for task in tasks))
