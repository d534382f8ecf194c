"""The demo's background job: built in order, resumed, told when it fails, removed, and built again."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings

from demo import parts as parts_module
from demo import tree as tree_module
from demo.datasets import TASKS, DemoTask
from demo.job_progress import DemoError
from demo.options import DemoOptions
from demo.people import people_ensure
from demo.record.adoption import EARLIER_VERSION
from demo.record.models import Demo, DemoPart, Goal
from demo.record.selectors import DemoState, demo_models_of, demo_status
from demo.record.services import demo_request
from demo.tree import demo_is_built, outdated_parts
from demo.version import DOMAIN, ROOT, model_part
from tenants.accounts.models import ApiKey, Tenant, User
from tenants.base.background_jobs import BackgroundKind
from tenants.datasets.models import Dataset
from tests.background import run_background
from tests.integration.versiontree import tree_factory
from versiontree.jobs.models import ACTIVE, Job, JobKind, JobState
from versiontree.jobs.services.control import job_cancel
from versiontree.transfer.services.tenant_deletion import tenant_delete_step
from versiontree.tree.models import Domain, Hplm, Root, Version
from versiontree.tree.services.domains import domain_retire
from versiontree.tree.services.hplms import hplm_create, hplm_delete, hplm_update

pytestmark = pytest.mark.django_db
BELOW_ROOT = [task for task in TASKS if not task.under_domain]
BELOW_DOMAIN = [task for task in TASKS if task.under_domain]


@pytest.fixture(autouse=True)
def home(settings: Settings, tmp_path: Path, artifact_root: Path, upload_root: Path, redis_url: str) -> None:
    settings.HMI_HOME = tmp_path


@pytest.fixture
def options(tmp_path: Path) -> DemoOptions:
    """The encoders' part, small, on a root that no job of a test converts."""
    return DemoOptions(root=tree_factory.checkpoint(tmp_path / "checkpoint"), scale=0.02)


@pytest.fixture
def ask(options: DemoOptions) -> Callable[..., None]:
    """Asks for the demo as the launcher does."""

    def request(goal: Goal = Goal.BUILT) -> None:
        people_ensure(generative=options.generative)
        demo_request(goal=goal, actor=None, options=options)

    return request


@pytest.fixture
def built(ask: Callable[..., None]) -> None:
    """A complete demo."""
    ask()
    build()


def step() -> Job:
    """The background job runs once, as a worker that got its message."""
    job = Job.unscoped.get(kind=BackgroundKind.DEMO, state=JobState.QUEUED)
    run_background(job.pk)
    return Job.unscoped.get(pk=job.pk)


def build() -> Job:
    """All jobs run until the background job has ended."""
    while (job := step()).state == JobState.QUEUED:
        for version in Version.unscoped.filter(state=Version.State.BUILDING):
            tree_factory.do_jobs(version)
    return job


def models() -> set[str]:
    return {str(hplm) for hplm in Hplm.unscoped.filter(deleted_at=None)}


def names(tasks: list[DemoTask]) -> set[str]:
    return {model_part(task) for task in tasks}


def tenant_of(task: DemoTask) -> Tenant:
    return Tenant.objects.get(slug=task.tenant)


def owner_of(task: DemoTask) -> User:
    return User.objects.get(username=task.tenant)


def test_the_root_comes_first_then_what_stands_on_it_then_the_domain_and_its_models(
    ask: Callable[..., None], options: DemoOptions
) -> None:
    ask()
    assert step().state == JobState.QUEUED, "it holds no worker while others work"
    root = Root.objects.get()
    assert (models(), Domain.unscoped.exists()) == (set(), False)
    assert Dataset.unscoped.count() == len(TASKS), "the texts are read while the root is converted"

    tree_factory.do_jobs(root.versions.get())
    step()
    assert models() == names(BELOW_ROOT)
    first = Job.unscoped.filter(kind=JobKind.FINE_TUNE).order_by("priority", "queued_at").first()
    assert first is not None
    assert str(first.version.hplm) == model_part(TASKS[0])

    tree_factory.do_jobs(Domain.unscoped.get().versions.get())
    step()
    assert models() == names(list(TASKS))
    assert not demo_is_built(options)

    assert build().state == JobState.SUCCEEDED
    assert demo_is_built(options)
    assert demo_status().state == DemoState.BUILT


def test_a_new_model_has_a_quick_version_and_its_sentence(built: None) -> None:
    for hplm in Hplm.unscoped.all():
        task = next(task for task in TASKS if model_part(task) == str(hplm))
        assert [version.is_quick for version in hplm.versions.order_by("number")] == [True, False]
        assert hplm.description == task.about


def test_jobs_that_people_start_run_before_those_of_the_demo_but_for_its_first_model(
    ask: Callable[..., None],
) -> None:
    ask()
    step()
    tree_factory.do_jobs(Root.objects.get().versions.get())
    step()
    tunings = Job.unscoped.filter(kind=JobKind.FINE_TUNE)
    priorities = {str(job.version.hplm): job.priority for job in tunings.select_related("version__hplm")}
    first = priorities.pop(model_part(TASKS[0]))
    assert set(priorities.values()) == {6}
    assert first == 3


def test_an_interrupted_build_goes_on_and_makes_nothing_twice(ask: Callable[..., None]) -> None:
    ask()
    step()
    ask()  # the next start
    step()
    assert Job.unscoped.filter(kind=BackgroundKind.DEMO).count() == 1
    assert Root.objects.count() == 1
    assert Dataset.unscoped.count() == len(TASKS)
    assert build().state == JobState.SUCCEEDED


def test_a_cancelled_job_is_told_and_is_retried_only_when_asked(
    ask: Callable[..., None], options: DemoOptions
) -> None:
    ask()
    step()
    converting = Job.unscoped.get(kind=JobKind.CONVERT)
    job_cancel(job=converting, actor=None)
    assert step().state == JobState.FAILED
    status = demo_status()
    assert status.state == DemoState.INCOMPLETE
    assert "Convert of minilm:1: Canceled." in status.error
    assert not Job.unscoped.filter(state__in=ACTIVE).exists()

    ask()
    assert build().state == JobState.SUCCEEDED
    assert demo_is_built(options)


def test_what_people_delete_afterwards_is_not_built_again(built: None, ask: Callable[..., None]) -> None:
    hplm_delete(hplm=Hplm.unscoped.get(name=TASKS[0].hplm), actor=None)
    ask()
    assert build().state == JobState.SUCCEEDED
    assert model_part(TASKS[0]) not in models()


def test_a_domain_that_people_retire_is_told_when_a_model_is_missing_below_it(
    built: None, ask: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    domain_retire(domain=Domain.unscoped.get(), actor=None)
    ask()
    assert build().state == JobState.SUCCEEDED
    monkeypatch.setitem(parts_module.VERSIONS, model_part(BELOW_DOMAIN[0]), 99)
    ask()
    assert build().state == JobState.FAILED
    assert "retired" in demo_status().error


def test_a_tenant_that_people_delete_afterwards_stays_deleted(
    built: None, ask: Callable[..., None], options: DemoOptions
) -> None:
    tenant = tenant_of(TASKS[0])
    now = timezone.now()
    Tenant.objects.filter(pk=tenant.pk).update(suspended_at=now, deletion_requested_at=now)
    while not tenant_delete_step(tenant=tenant):
        pass
    assert demo_is_built(options)
    ask()
    assert build().state == JobState.SUCCEEDED
    assert not DemoPart.unscoped.filter(tenant=tenant).exists()
    assert not Hplm.unscoped.filter(tenant=tenant).exists()
    assert not ApiKey.unscoped.filter(tenant=tenant).exists()


def test_a_model_that_people_delete_before_it_is_ready_is_not_waited_for(
    ask: Callable[..., None], options: DemoOptions
) -> None:
    ask()
    step()
    tree_factory.do_jobs(Root.objects.get().versions.get())
    step()
    hplm = Hplm.unscoped.get(name=TASKS[0].hplm)
    for job in Job.unscoped.filter(version__hplm=hplm, after=None):
        job_cancel(job=job, actor=None)
    hplm_delete(hplm=hplm, actor=None)
    ask()
    assert build().state == JobState.SUCCEEDED
    assert demo_is_built(options)
    assert model_part(TASKS[0]) not in models()


def test_people_are_looked_after_once_and_not_at_each_step(
    ask: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask()
    step()
    monkeypatch.setattr(tree_module, "people_ensure", pytest.fail)
    assert step().state == JobState.QUEUED


def test_removal_that_is_asked_for_in_the_last_step_is_done_next(
    ask: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = tree_module._finish

    def ask_at_the_end(options: DemoOptions) -> None:
        finish(options)
        monkeypatch.undo()
        ask(Goal.REMOVED)

    monkeypatch.setattr(tree_module, "_finish", ask_at_the_end)
    ask()
    assert build().state == JobState.SUCCEEDED
    assert models() == set()


def test_removal_deletes_what_the_demo_made_and_suspends_its_tenants(
    built: None, ask: Callable[..., None]
) -> None:
    ask(Goal.REMOVED)
    assert build().state == JobState.SUCCEEDED
    assert demo_status().state == DemoState.REMOVED
    for model in (Hplm, Version, Domain, Dataset, DemoPart):
        assert not model.unscoped.exists(), model
    assert not Root.objects.exists()
    assert all(tenant_of(task).is_suspended for task in TASKS)

    ask()
    assert build().state == JobState.SUCCEEDED
    assert models() == names(list(TASKS))
    assert not any(tenant_of(task).is_suspended for task in TASKS)


def test_removal_stops_running_jobs_first(ask: Callable[..., None]) -> None:
    ask()
    step()
    converting = Job.unscoped.get(kind=JobKind.CONVERT)
    tree_factory.claim(converting)
    ask(Goal.REMOVED)
    assert step().state == JobState.QUEUED
    converting.refresh_from_db()
    assert converting.cancel_requested_at is not None
    assert Root.objects.exists()


def test_removal_keeps_what_people_made_and_what_it_stands_on(built: None, ask: Callable[..., None]) -> None:
    first, second = BELOW_ROOT[:2]
    tenant, owner = tenant_of(first), owner_of(first)
    root = Root.objects.get().versions.get(kind="root")
    mine = tree_factory.dataset(tenant, "mine")
    hplm_create(tenant=tenant, name="mine", parent=root, dataset=mine, actor=owner)
    further = Hplm.unscoped.get(name=second.hplm)
    hplm_update(hplm=further, dataset=Dataset.unscoped.get(name=second.hplm), actor=owner_of(second))

    ask(Goal.REMOVED)
    assert build().state == JobState.SUCCEEDED
    assert models() == {f"{first.tenant}/mine", model_part(second)}
    assert set(Dataset.unscoped.values_list("name", flat=True)) == {"mine", second.hplm}
    assert Root.objects.exists()
    assert not Domain.unscoped.exists()
    suspended = {task.tenant for task in TASKS if tenant_of(task).is_suspended}
    assert suspended == {task.tenant for task in TASKS} - {first.tenant, second.tenant}


def test_a_newer_demo_builds_what_changed_and_leaves_the_rest(
    built: None, ask: Callable[..., None], options: DemoOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = model_part(TASKS[0])
    before = {str(hplm): hplm.pk for hplm in Hplm.unscoped.all()}
    monkeypatch.setitem(parts_module.VERSIONS, changed, 99)
    assert [part.name for part in outdated_parts()] == [changed]
    assert not demo_is_built(options)
    ask()
    assert build().state == JobState.SUCCEEDED
    after = {str(hplm): hplm.pk for hplm in Hplm.unscoped.all()}
    assert after.pop(changed) != before.pop(changed)
    assert after == before


def as_an_earlier_copy_left_it() -> Hplm:
    """One of the models that only such copies made, and no record of anything. Returns that model."""
    home, root = tenant_of(TASKS[0]), Root.objects.get().versions.get(kind="root")
    dataset = tree_factory.dataset(home, "package-of-docstring")
    version = hplm_create(tenant=home, name=dataset.name, parent=root, dataset=dataset, actor=None)
    tree_factory.do_jobs(version)
    DemoPart.unscoped.all().delete()
    Demo.objects.all().delete()
    return Hplm.unscoped.get(name=dataset.name)


def test_the_demo_of_an_earlier_copy_is_replaced(built: None, ask: Callable[..., None]) -> None:
    as_an_earlier_copy_left_it()
    old = Root.objects.get().pk
    ask()
    assert DemoPart.unscoped.get(name=ROOT).version == EARLIER_VERSION
    build()
    assert models() == names(list(TASKS))
    assert Root.objects.get().pk == old, "models of that version, whose names nobody knows, stand on it"


def test_a_model_of_an_earlier_copy_that_somebody_trained_further_stays(
    built: None, ask: Callable[..., None]
) -> None:
    hplm = as_an_earlier_copy_left_it()
    dataset = Dataset.unscoped.get(name=hplm.name)
    mine = hplm_update(hplm=hplm, dataset=dataset, actor=owner_of(TASKS[0]))
    ask()
    build()
    assert models() == names(list(TASKS)) | {str(hplm)}
    assert Version.unscoped.get(pk=mine.pk).dataset == dataset


def test_a_root_that_somebody_gave_a_name_of_the_demo_stays_and_is_used(
    ask: Callable[..., None], tmp_path: Path
) -> None:
    mine = tree_factory.ready_root(tmp_path, parts_module.ROOT_NAME)
    ask()
    assert build().state == JobState.SUCCEEDED
    assert Root.objects.get().pk == mine.root_id
    ask(Goal.REMOVED)
    assert build().state == JobState.SUCCEEDED
    assert Root.objects.get().pk == mine.root_id


def test_models_are_marked_in_the_tenants_of_the_demo_alone(built: None) -> None:
    first = TASKS[0]
    other = tree_factory.create_tenant("other")
    assert demo_models_of(tenant_of(first)) == frozenset([first.hplm])
    assert demo_models_of(other.tenant) is None


def test_a_checkpoint_that_is_not_there_fails_with_its_reason(ask: Callable[..., None]) -> None:
    ask()
    Demo.objects.update(options={"root": "/nowhere", "scale": 0.02})
    assert step().state == JobState.FAILED
    assert "/nowhere" in demo_status().error


def test_a_demo_error_is_an_error_of_a_job_with_its_message() -> None:
    assert DemoError("why").message == "why"
    assert DOMAIN not in names(list(TASKS))
