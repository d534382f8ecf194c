"""All data of a tenant is deleted: everything that is its own, nothing that is others'."""

import io
from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.db.models import Model
from django.utils.timezone import now
from redis import Redis

from demo.record.models import DemoPart
from inference.batches.jsonl import RESULTS, OutputFiles
from inference.batches.services.batches import batch_create
from inference.queueing.kept_answers import KeptAnswers, Turn
from tenants.accounts.models import IdempotentResponse, Tenant
from tenants.accounts.selectors import membership_of
from tenants.accounts.services.api_keys import api_key_create
from tenants.accounts.services.invitations import invitation_create
from tenants.accounts.services.tenant_deletion import (
    owned_models,
    owned_rows,
    tenant_anonymize,
    tenant_delete,
)
from tenants.accounts.services.tenants import tenant_create, tenant_resume, tenant_suspend
from tenants.audit.models import AuditEvent
from tenants.base.background_jobs import BackgroundKind
from tenants.base.errors import ErrorCode
from tenants.datasets.models import Corpus, DatasetSplit, File
from tenants.datasets.services.checks import check_create
from tenants.datasets.services.datasets import dataset_upload
from tenants.datasets.services.files import file_create
from tenants.datasets.services.uploads import upload_receive
from tenants.datasets.storage import upload_store
from tenants.usage.models import OmittedRequests, UsageDay, UsageSum
from tenants.usage.services.answer_counts import AnswerCount
from tenants.usage.services.request_log import RequestEntry
from tenants.usage.services.usage import answers_record, request_record, usage_record
from tenants.usage.services.usage_buffer import UsageBuffer, UsageCount
from tenants.webhooks.services.endpoints import webhook_create
from tests.background import run_background
from tests.e2e.world import World, tickets_file, world_build
from tests.integration.tenants.content import stored
from tests.integration.versiontree.tree_factory import claim, jobs_in_order
from tests.unit.tenants.files import refused
from versiontree.artifact_store import ArtifactStore, staging_folder
from versiontree.jobs.models import Job, JobEvent, JobState
from versiontree.jobs.services.transitions import job_transition
from versiontree.transfer.archive.conversion_cache import conversion_key, conversion_store
from versiontree.transfer.models import Takeout
from versiontree.transfer.services import tenant_deletion as leaving
from versiontree.transfer.services.takeouts import takeout_path, takeout_request
from versiontree.tree.models import Artifact, Coverage, Domain, Hplm, Version
from versiontree.tree.models.measurements import Evaluation
from versiontree.tree.services.aliases import alias_move
from versiontree.tree.services.domains import domain_create
from versiontree.tree.services.fine_tunings import fine_tuning_create
from versiontree.tree.services.hplms import hplm_update
from versiontree.tree.serving_manifest import manifest_content

pytestmark = pytest.mark.usefixtures("in_platform_scope")

OTHERS = "umbra"
LATE = date(2026, 1, 9)
STORED = (Corpus, DatasetSplit, File)


@pytest.fixture
def world(db: None, redis_client: Redis, artifact_root: Path, upload_root: Path, settings: Any) -> World:
    """Two tenants; the first has at least one row and file of every kind, the second has uploaded the same
    dataset."""
    settings.HMI_EXPORT_ROOT = artifact_root.parent / "exports"
    settings.HMI_EXPORT_ROOT.mkdir()
    world = world_build()
    other = Tenant.objects.get(slug=OTHERS)
    same = {"train": ("tickets.jsonl", tickets_file())}
    dataset_upload(tenant=other, name="Same", task="classification", files=same, actor=world.stranger)
    key, _ = api_key_create(tenant=world.tenant, name="k", scopes=["infer"], created_by=world.owner)
    for whose in (world.tenant, other):
        use(whose, key.prefix)
    webhook_create(tenant=world.tenant, url="https://example.org/", kinds=["alias.moved"], actor=world.owner)
    upload_files(world)
    build_versions(world)
    leave_files(world, artifact_root)
    invitation_create(tenant=world.tenant, email="new@example.org", role="viewer", actor=world.owner)
    IdempotentResponse.unscoped.create(
        tenant=world.tenant, key_digest="a" * 64, fingerprint="b" * 64, status=201, encrypted_response=""
    )
    return world


def use(tenant: Tenant, prefix: str) -> None:
    """Record requests of two days, by this key and by none."""
    for day, key in ((1, prefix), (1, ""), (2, "")):
        usage_record(
            tenant=tenant,
            model_name="triage",
            inputs=2,
            tokens=9,
            day=date(2026, 1, day),
            key_prefix=key,
        )
    request_record(RequestEntry(tenant_id=tenant.pk, request_id="r", api="infer", status=200))
    OmittedRequests.unscoped.create(tenant=tenant, hour=datetime.now(UTC), requests=1)
    answers_record(tenant=tenant, model_name="triage", version=1, count=AnswerCount(texts=2))


def upload_files(world: World) -> None:
    """An upload with its check, a fine-tuning that waits for its file, and a batch with an answer."""
    tenant, owner = world.tenant, world.owner
    file = io.BytesIO(b"some text")
    upload = upload_receive(tenant=tenant, filename="a.txt", size=9, stream=file, actor=owner)
    check_create(tenant=tenant, kind="corpus", files={"file": upload}, actor=owner, store=False)
    rows = file_create(
        tenant=tenant, purpose="fine-tune", filename="r", stream=io.BytesIO(b"{}"), actor=owner
    )
    fine_tuning_create(tenant=tenant, model=str(world.root.root), training_file=rows.pk, actor=owner)
    lines = file_create(
        tenant=tenant, purpose="batch", filename="b", stream=io.BytesIO(b"a text"), actor=owner
    )
    batch = batch_create(tenant=tenant, file=lines, model="triage:1", actor=owner)
    OutputFiles(batch.folder, {RESULTS: 0}).write({RESULTS: [b"an answer"]})


def build_versions(world: World) -> None:
    """A domain and a version in training, measurements, and a moved alias that a webhook is sent."""
    tenant, owner = world.tenant, world.owner
    Coverage.unscoped.create(tenant=tenant, dataset=world.dataset, version=world.root, trigrams=1)
    answers = Artifact.objects.create(kind="answers", digest="a" * 64, size=1, files={})
    Evaluation.unscoped.create(
        tenant=tenant, version=world.hplm, artifact=answers, test_sha256="b" * 64, dataset_name="Tickets"
    )
    domain_create(tenant=tenant, parent=world.domain, name="own", corpus=world.corpus, actor=owner)
    hplm_update(hplm=hplm(world), dataset=world.dataset, actor=owner)
    alias_move(hplm=hplm(world), name="live", version=world.hplm, actor=owner)
    DemoPart.unscoped.create(
        name="acme/triage", version=1, tenant=tenant, dataset=world.dataset, hplm=hplm(world), made_at=now()
    )


def leave_files(world: World, artifact_root: Path) -> None:
    """A takeout, what an ended attempt of a job left, and a cached conversion."""
    takeout = takeout_request(tenant=world.tenant, actor=world.owner)
    Takeout.unscoped.filter(pk=takeout.pk).update(state=JobState.SUCCEEDED)
    takeout_path(takeout).write_bytes(b"everything")
    store = ArtifactStore(artifact_root)
    job = Job.objects.for_tenant(world.tenant).first()
    assert job is not None
    for left in (staging_folder(store.root, job.pk), store.root / ".incoming" / f"job-{job.pk}-1"):
        left.mkdir(parents=True)
        (left / "rows").write_text("a text")
    converted = artifact_root.parent / "converted"
    converted.mkdir()
    (converted / "adapter.zip").write_text("labels")
    conversion_store(store, conversion_key(world.tenant, format="peft"), converted)


def hplm(world: World) -> Hplm:
    world.hplm.refresh_from_db()
    assert world.hplm.hplm is not None
    return world.hplm.hplm


def leave(world: World) -> None:
    """Request the deletion, and run its job."""
    tenant_delete(tenant=world.tenant, typed="acme", actor=world.admin)
    run_deletion()
    assert deletion_job().state == JobState.SUCCEEDED


def deletion_job() -> Job:
    return Job.unscoped.get(kind=BackgroundKind.TENANT_DELETION)


def run_deletion() -> None:
    run_background(deletion_job().pk)


def counts(tenant: Tenant) -> dict[type[Model], int]:
    return {model: owned_rows(model, tenant).count() for model in owned_models()}


def sums(tenant: Tenant) -> dict[date, tuple[int, int]]:
    rows = UsageDay.objects.for_tenant(tenant).values_list("day", "requests", "tokens")
    found: dict[date, tuple[int, int]] = {}
    for day, requests, tokens in rows:
        before = found.get(day, (0, 0))
        found[day] = (before[0] + requests, before[1] + tokens)
    return found


def test_deletion_removes_all_rows_and_files_of_the_tenant_alone(world: World, redis_client: Redis) -> None:
    tenant, other = world.tenant, Tenant.objects.get(slug=OTHERS)
    missing = {model.__name__ for model, count in counts(tenant).items() if not count}
    assert missing == set(), "The world of this test has no row of these."
    before, used = counts(other), sums(tenant)
    shared = set(world.dataset.splits.values_list("sha256", flat=True))
    platforms = {
        name for name in stored(Path(settings.HMI_ARTIFACT_ROOT)) if not name.startswith(("hplm/", "."))
    }
    kept = KeptAnswers(redis_client)
    for whose in (tenant.slug, other.slug):
        turn = kept.begin(whose, "k", body="b", seconds=60)
        assert isinstance(turn, Turn)
        kept.keep(turn, b"an answer")
    leave(world)
    assert set(counts(tenant).values()) == {0}
    assert counts(other) == before
    assert sums(tenant) == used
    assert all(upload_store().path(digest).is_file() for digest in shared)
    needed = {sha256 for model in STORED for sha256 in model.unscoped.values_list("sha256", flat=True)}
    assert {Path(name).name for name in stored(Path(settings.HMI_UPLOAD_ROOT))} == needed
    assert isinstance(kept.begin(tenant.slug, "k", body="b", seconds=60), Turn)
    assert kept.begin(other.slug, "k", body="b", seconds=60) == b"an answer"
    assert stored(Path(settings.HMI_EXPORT_ROOT)) == set()
    assert stored(Path(settings.HMI_ARTIFACT_ROOT)) == platforms
    assert not Artifact.objects.filter(kind__in=["hplm", "answers"]).exists()
    assert Domain.unscoped.filter(tenant=None).exists()
    assert manifest_content()["hplms"] == {}


def test_rows_kept_of_a_deleted_tenant_have_no_names(world: World) -> None:
    leave(world)
    tenant = Tenant.objects.get(pk=world.tenant.pk)
    assert (tenant.slug, tenant.name, tenant.deletion_finished_at is None) == ("acme", "acme", False)
    rows = UsageDay.objects.for_tenant(tenant).values_list("day", "model_name", "key_prefix")
    assert len(rows) == len({day for day, _, _ in rows})
    assert {(model_name, key) for _, model_name, key in rows} == {("", "")}
    assert set(UsageSum.objects.for_tenant(tenant).values_list("key_prefix", flat=True)) == {""}
    kept = ("subject", "detail", "actor", "api_key", "address", "request_id")
    events = AuditEvent.objects.for_tenant(tenant)
    assert all(values == ("", {}, None, None, None, "") for values in events.values_list(*kept))
    assert "dataset.upload" in set(events.values_list("verb", flat=True))
    told = AuditEvent.unscoped.filter(tenant=None, subject="acme").order_by("pk")
    assert list(told.values_list("verb", "actor__username")) == [
        ("tenant.delete_requested", "admin"),
        ("tenant.deleted", None),
    ]
    refused(ErrorCode.CONFLICT, lambda: tenant_create(slug="acme", name="Another"))
    count_late(tenant)
    assert not UsageDay.objects.for_tenant(tenant).exclude(model_name="").exists()


def test_usage_counted_during_the_deletion_is_kept_without_names(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    blank = tenant_anonymize

    def blank_and_count(*, tenant: Tenant) -> None:
        count_late(tenant)
        blank(tenant=tenant)
        count_late(tenant)

    monkeypatch.setattr(leaving, "tenant_anonymize", blank_and_count)
    leave(world)
    rows = UsageDay.objects.for_tenant(world.tenant).filter(day=LATE)
    assert list(rows.values_list("model_name", "key_prefix", "requests")) == [("", "", 4)]
    sums = UsageSum.objects.for_tenant(world.tenant).filter(day=LATE)
    assert list(sums.values_list("key_prefix", "requests")) == [("", 4)]


def count_late(tenant: Tenant) -> None:
    """Two requests that a process counted which had not heard that the tenant leaves."""
    late = UsageBuffer()
    for prefix in ("", "abcdefgh"):
        late.add(tenant.pk, LATE, "triage", UsageCount(1, 1, 1, 0), prefix)
    late.flush()


STEPS = (
    "_stop_serving",
    "tenant_files_delete",
    "job_folders_delete",
    "conversions_delete",
    "tenant_anonymize",
    "tenant_rows_delete",
    "artifacts_discard",
)


def test_deletion_that_failed_after_any_step_is_queued_again_and_completes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = sums(world.tenant)
    tenant_delete(tenant=world.tenant, typed="acme", actor=world.admin)
    for step in STEPS:
        with monkeypatch.context() as broken:
            broken.setattr(leaving, step, failing_after(getattr(leaving, step)))
            run_deletion()
        assert (deletion_job().state, deletion_job().attempt) == (JobState.QUEUED, 0)
        assert Tenant.objects.get(pk=world.tenant.pk).deletion_finished_at is None
    assert not tenant_delete(tenant=world.tenant, typed="acme", actor=world.admin)
    run_deletion()
    assert Tenant.objects.get(pk=world.tenant.pk).deletion_finished_at is not None
    assert set(counts(world.tenant).values()) == {0}
    assert sums(world.tenant) == used


def failing_after(step: Callable[..., object]) -> Callable[..., object]:
    """The step, with an error at its end."""

    def done_and_failed(*args: Any, **named: Any) -> None:
        step(*args, **named)
        raise OSError("the disk failed")

    return done_and_failed


def test_deletion_needs_the_slug_and_suspends_the_tenant_for_good(world: World) -> None:
    for typed in ("", "Acme Pharmacy", "umbra"):
        begin = partial(tenant_delete, tenant=world.tenant, typed=typed, actor=world.admin)
        refused(ErrorCode.INVALID_FIELD, begin)
    assert not Tenant.objects.get(pk=world.tenant.pk).is_suspended
    tenant_delete(tenant=world.tenant, typed="acme", actor=world.admin)
    assert world.tenant.is_suspended
    assert not tenant_resume(tenant=world.tenant, actor=world.admin)
    assert not tenant_suspend(tenant=world.tenant, actor=world.admin)
    assert membership_of(world.owner, world.tenant) is not None, "until the worker comes"


def test_deletion_runs_again_until_the_jobs_of_the_tenant_have_stopped(world: World) -> None:
    job = jobs_in_order(Version.unscoped.get(domain__name="own"))[0]
    claim(job)
    tenant_delete(tenant=world.tenant, typed="acme", actor=world.admin)
    for _ in range(2):
        run_deletion()
        assert deletion_job().state == JobState.QUEUED
    assert JobEvent.unscoped.filter(job=deletion_job()).count() == 1, "its creation"
    job.refresh_from_db()
    assert job.cancel_requested_at is not None
    waiting = Job.objects.for_tenant(world.tenant).exclude(pk=job.pk)
    assert not waiting.filter(state__in=[JobState.QUEUED, JobState.WAITING]).exists()
    assert Hplm.objects.for_tenant(world.tenant).exists()
    job_transition(job_id=job.pk, from_states=[JobState.RUNNING], to=JobState.CANCELLED)
    run_deletion()
    assert deletion_job().state == JobState.SUCCEEDED


def test_deletion_is_refused_while_another_tenant_depends_on_it(world: World) -> None:
    other = Tenant.objects.get(slug=OTHERS)
    own = Version.unscoped.get(domain__name="own")
    made = Hplm.unscoped.create(tenant=other, name="guest", task="classification")
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE tree_version DISABLE TRIGGER tree_version_birth")
        Version.unscoped.create(
            kind="model", root=own.root, hplm=made, tenant=other, parent=own, number=1, state="building"
        )
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE tree_version ENABLE TRIGGER tree_version_birth")
    error = refused(
        ErrorCode.HAS_DEPENDENTS, lambda: tenant_delete(tenant=world.tenant, typed="acme", actor=world.admin)
    )
    assert "umbra/guest" in error.message
    assert not Tenant.objects.get(pk=world.tenant.pk).is_suspended
