"""A small version tree to test on, and a worker that does its jobs in no time."""

import hashlib
import json
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.utils import timezone

from tenants.accounts.models import Role, Tenant, User
from tenants.accounts.services.members import member_add
from tenants.accounts.services.tenants import tenant_create
from tenants.base.scope import platform_scope, tenant_scope
from tenants.datasets.models import GENERATIVE_TASKS, Corpus, Dataset, DatasetSplit
from versiontree.artifact_store import ArtifactStore, StoredArtifact
from versiontree.jobs.models import Job, JobKind, JobState
from versiontree.jobs.services.lifecycle import job_claim, job_succeed
from versiontree.tree.models import Domain, Hplm, RootKind, Version
from versiontree.tree.models.version import VersionState
from versiontree.tree.promotion import AGAINST
from versiontree.tree.selectors.versions import default_of
from versiontree.tree.services.domains import domain_create
from versiontree.tree.services.hplms import hplm_create
from versiontree.tree.services.roots import root_register

ROLES_MADE = {
    JobKind.CONVERT: ("root", "lower"),
    JobKind.FURTHER_PRETRAIN: ("lower",),
    JobKind.BUILD_PLOT: ("plot",),
    JobKind.QUICK: ("hplm",),
    JobKind.FINE_TUNE: ("hplm",),
    JobKind.EVALUATE: (),
    JobKind.COMPACT: ("lower", "plot"),
}
ROLES_MADE_OF_DECODERS = {JobKind.CONVERT: ("root",)}
"""Of jobs below a decoder that make something else."""
NO_TENSORS = (2).to_bytes(8, "little") + b"{}"
"""A safetensors file with an empty header."""
_serial = count(1)


@dataclass(frozen=True, slots=True)
class TenantFixture:
    """A tenant with an owner, a developer and a viewer, a corpus and a dataset."""

    tenant: Tenant
    owner: User
    developer: User
    viewer: User
    corpus: Corpus
    dataset: Dataset


@platform_scope()
def create_tenant(slug: str) -> TenantFixture:
    people = {role: User.objects.create_user(f"{slug}-{role}") for role in Role.values}
    tenant = tenant_create(slug=slug, name=slug.title(), owner=people[Role.OWNER])
    for role in (Role.DEVELOPER, Role.VIEWER):
        member_add(tenant=tenant, user=people[role], role=role)
    return TenantFixture(
        tenant=tenant,
        owner=people[Role.OWNER],
        developer=people[Role.DEVELOPER],
        viewer=people[Role.VIEWER],
        corpus=corpus(tenant, f"{slug}-texts"),
        dataset=dataset(tenant, f"{slug}-labels"),
    )


@platform_scope()
def corpus(tenant: Tenant | None, name: str, *, words: int = 50_000) -> Corpus:
    return Corpus.unscoped.create(
        tenant=tenant, name=name, sha256=_sha256(name), size_bytes=6 * words, rows=words // 10, words=words
    )


@platform_scope()
def dataset(tenant: Tenant, name: str, *, task: str = "classification") -> Dataset:
    labels = ["text"] if task in GENERATIVE_TASKS else ["no", "yes"]
    made = Dataset.unscoped.create(tenant=tenant, name=name, task=task, labels=labels)
    for split in ("train", "dev", "test"):
        DatasetSplit.unscoped.create(
            dataset=made, split=split, sha256=_sha256(name + split), size_bytes=100, rows=10
        )
    return made


def checkpoint(folder: Path, model_type: str = "bert") -> str:
    """A folder that looks like a checkpoint from outside."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(NO_TENSORS)
    return str(folder)


def stored(kind: str) -> StoredArtifact:
    """An artifact in the store of its own content."""
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    with store.workspace(kind) as folder:
        (folder / f"{kind}.json").write_text(f"{kind} {next(_serial)}")
        (folder / f"{kind}.safetensors").write_bytes(b"tensors")
        return store.ingest(kind, folder)


@platform_scope()
def claim(job: Job, *, lease_s: float = 30.0) -> str:
    """Claim the job as a new worker; returns the worker's name."""
    name = f"worker-{uuid4().hex}"
    assert job_claim(job_id=job.pk, worker=name, lease_s=lease_s) is not None
    return name


def roles_made(job: Job) -> tuple[str, ...]:
    """The roles of the artifacts that a job of this kind makes."""
    is_decoder = job.version.root.kind == RootKind.DECODER
    roles = ROLES_MADE | (ROLES_MADE_OF_DECODERS if is_decoder else {})
    return roles[JobKind(job.kind)]


def not_worse(job: Job) -> dict[str, Any]:
    """What an evaluate job reports of an update that is as good as the current version; else nothing."""
    if job.kind != JobKind.EVALUATE or job.version.state != VersionState.BUILDING:
        return {}
    current = default_of(job.version)
    if current is None:
        return {}
    paired = {"rows": 20, "left_out": 0, "metric": "accuracy", "old": 0.9, "new": 0.9, "p_value": 1.0}
    return {AGAINST: {"version": current.number, "dev": paired, "test": paired}}


@platform_scope()
def do_job(job: Job, **metrics: Any) -> Job:
    """Run one queued job to a good end. Without metrics an update is as good as the version before."""
    worker = claim(job)
    made = [(role, stored(role)) for role in roles_made(job)]
    reported = metrics or {"done": 1} | not_worse(job)
    return job_succeed(job_id=job.pk, worker=worker, metrics=reported, artifacts=made)


@platform_scope()
def do_jobs(version: Version) -> Version:
    """Run all the jobs of a version."""
    queued = Job.unscoped.filter(version=version, state=JobState.QUEUED).select_related("version__root")
    while (job := queued.first()) is not None:
        do_job(job)
    return Version.unscoped.get(pk=version.pk)


@platform_scope()
def expire(job: Job) -> None:
    """The lease of a running job runs out."""
    past = timezone.now() - timedelta(seconds=1)
    Job.unscoped.filter(pk=job.pk, state=JobState.RUNNING).update(lease_expires_at=past)


@platform_scope()
def jobs_in_order(version: Version) -> list[Job]:
    """The jobs of a version, each after the one that it waits for."""
    return list(Job.unscoped.filter(version=version).order_by("created_at"))


@platform_scope()
def ready_root(tmp_path: Path, name: str = "bert") -> Version:
    platform = Corpus.unscoped.filter(tenant=None).first() or corpus(None, "prose")
    return do_jobs(
        root_register(name=name, source=checkpoint(tmp_path / f"ckpt-{name}"), corpus=platform, actor=None)
    )


@platform_scope()
def ready_decoder(tmp_path: Path, name: str = "smol") -> Version:
    source = checkpoint(tmp_path / f"ckpt-{name}", "llama")
    return do_jobs(root_register(name=name, kind=RootKind.DECODER, source=source, actor=None))


@platform_scope()
def ready_domain(parent: Version, name: str, *, home: TenantFixture | None = None) -> Version:
    text = home.corpus if home else corpus(None, f"{name}-{next(_serial)}")
    tenant = home.tenant if home else None
    return do_jobs(domain_create(tenant=tenant, parent=parent, name=name, corpus=text, actor=None))


def new_hplm(
    parent: Version, name: str, home: TenantFixture, data: Dataset | None = None, **options: Any
) -> Version:
    with tenant_scope(home.tenant):
        return hplm_create(
            tenant=home.tenant,
            name=name,
            parent=parent,
            dataset=data or home.dataset,
            actor=home.developer,
            **options,
        )


def new_writer(
    decoder: Version, home: TenantFixture, name: str = "writer", task: str = "generation"
) -> Version:
    """A generative model whose jobs are still to be done."""
    return new_hplm(decoder, name, home, dataset(home.tenant, f"{name}-texts", task=task))


def ready_hplm(parent: Version, name: str, home: TenantFixture) -> Version:
    return do_jobs(new_hplm(parent, name, home))


def hplm_of(version: Version) -> Hplm:
    assert version.hplm is not None
    return version.hplm


def domain_of(version: Version) -> Domain:
    assert version.domain is not None
    return version.domain


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
