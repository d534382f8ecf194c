"""A small world for tests of pages: people, uploads, and a version tree as workers would have built it."""

import io
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings

from tenants.accounts.models import Tenant, User
from tenants.accounts.services.members import member_add
from tenants.accounts.services.tenants import tenant_create
from tenants.base.scope import platform_scope
from tenants.datasets.models import Corpus, Dataset
from tenants.datasets.services.corpora import corpus_upload
from tenants.datasets.services.datasets import dataset_upload
from tenants.usage.services.usage import usage_record
from tests.e2e.measures import evaluation
from tests.integration.tenants.content import stream
from tests.integration.versiontree.tree_factory import jobs_in_order, not_worse, roles_made
from tests.unit.tenants.files import jsonl
from versiontree.artifact_store import ArtifactStore, StoredArtifact
from versiontree.jobs.models import Job
from versiontree.jobs.services.lifecycle import job_claim, job_heartbeat, job_succeed
from versiontree.tree.models import Version
from versiontree.tree.services.domains import domain_create
from versiontree.tree.services.hplms import hplm_create
from versiontree.tree.services.roots import root_register

ArtifactFiles = Callable[[str, Job, Path], None]
"""Fills a folder with the artifact that a job makes in a role."""

PASSWORD = "correct horse battery staple"
WORKER = "test-worker"
LEASE_S = 600.0
TICKETS = {
    "delivery": "the parcel has not arrived and the tracking page shows nothing",
    "refund": "please send my money back because the order was canceled",
    "prescription": "can I renew the prescription for my blood pressure tablets",
    "side effects": "since I take the new pills I feel dizzy in the morning",
}


@dataclass(frozen=True, slots=True)
class World:
    """Two tenants; the first has an owner, a developer and a viewer, the second a stranger to the first."""

    tenant: Tenant
    owner: User
    developer: User
    viewer: User
    stranger: User
    admin: User
    corpus: Corpus
    dataset: Dataset
    root: Version
    domain: Version
    hplm: Version


@platform_scope()
def world_build(files: ArtifactFiles | None = None) -> World:
    """Everything, through the product's own services; `files` fills artifacts with something of use."""
    finish = partial(versions_finish, files=files or nothing_of_use)
    owner, developer, viewer, stranger = (
        User.objects.create_user(name, password=PASSWORD) for name in ("olga", "dev", "victor", "sam")
    )
    admin = User.objects.create_superuser("admin", password=PASSWORD)
    tenant = tenant_create(slug="acme", name="Acme Pharmacy", owner=owner)
    member_add(tenant=tenant, user=developer, role="developer")
    member_add(tenant=tenant, user=viewer, role="viewer")
    tenant_create(slug="umbra", name="Umbra", owner=stranger)
    root, domain = _branches(admin, finish)
    corpus = corpus_upload(
        tenant=tenant, name="Leaflets", stream=corpus_file(), filename="leaflets.txt", actor=owner
    )
    upload = {"train": ("tickets.jsonl", tickets_file())}
    dataset = dataset_upload(tenant=tenant, name="Tickets", task="classification", files=upload, actor=owner)
    hplm = hplm_create(tenant=tenant, name="triage", parent=domain, dataset=dataset, actor=owner)
    finish(hplm, {"evaluate": evaluation(right=44)})
    hplm.refresh_from_db()
    for tokens in (120, 80, 95):
        usage_record(tenant=tenant, model_name="triage", inputs=4, tokens=tokens)
    return World(tenant, owner, developer, viewer, stranger, admin, corpus, dataset, root, domain, hplm)


def _branches(admin: User, finish: Callable[..., None]) -> tuple[Version, Version]:
    text = corpus_upload(
        tenant=None, name="Plain English", stream=corpus_file(1), filename="en.txt", actor=admin
    )
    root = root_register(name="minilm", source="tiny/checkpoint", corpus=text, actor=admin)
    table = {
        "rows": 84_211,
        "coverage": {"trigram": 0.52, "bigram": 0.55},
        "vectors": "float16",
        "levels": {"trigram": 53_689, "unigram": 30_522},
    }
    finish(root, {"convert": conversion(), "build_plot": table})
    domain = domain_create(
        tenant=None,
        parent=Version.unscoped.get(pk=root.pk),
        name="medicine",
        description="Leaflets, guidelines and abstracts.",
        corpus=text,
        actor=admin,
    )
    finish(
        domain,
        {
            "further_pretrain": pretraining(),
            "build_plot": {"rows": 31_940, "coverage": {"trigram": 0.49, "bigram": 0.51}},
        },
    )
    return Version.unscoped.get(pk=root.pk), Version.unscoped.get(pk=domain.pk)


@platform_scope()
def versions_finish(
    version: Version,
    metrics: Mapping[str, dict[str, Any]] | None = None,
    *,
    files: ArtifactFiles,
) -> None:
    """Do the jobs of a version as a worker would."""
    for job in jobs_in_order(version):
        start(job)
        succeed(job, (metrics or {}).get(job.kind, {}), files=files)


@platform_scope()
def succeed(job: Job, metrics: dict[str, Any] | None = None, *, files: ArtifactFiles) -> None:
    """End a job that was started, with what it makes."""
    made = [(role, _artifact(role, job, files)) for role in roles_made(job)]
    job_succeed(job_id=job.pk, worker=WORKER, metrics=not_worse(job) | (metrics or {}), artifacts=made)


@platform_scope()
def start(job: Job, progress: float = 0.0, stage: str = "", eta: float | None = None) -> None:
    """Claim a job and report how far it is."""
    job_claim(job_id=job.pk, worker=WORKER, lease_s=LEASE_S)
    report(job, progress, stage, eta)


@platform_scope()
def report(job: Job, progress: float, stage: str, eta: float | None = None) -> None:
    """A heartbeat of the worker that holds the job."""
    job_heartbeat(job_id=job.pk, worker=WORKER, lease_s=LEASE_S, progress=progress, stage=stage, eta=eta)


def conversion() -> dict[str, Any]:
    """What a convert job reports."""
    levels = ("trigram", "left_bigram", "right_bigram", "unigram")

    def errors(*shares: float) -> dict[str, Any]:
        return {
            level: {"cut": share, "last": share * 0.8} for level, share in zip(levels, shares, strict=False)
        }

    return {
        "unconverted": errors(0.66),
        "closed_form": errors(0.195, 0.27, 0.28, 0.35),
        "distilled": errors(0.131, 0.19, 0.2, 0.27),
    }


def pretraining() -> dict[str, Any]:
    """What a further-pretrain job reports."""
    return {
        "before": {"perplexity": {"domain": 21.4, "general": 14.2}},
        "after": {"perplexity": {"domain": 12.9, "general": 15.1}},
        "full_context": {"perplexity": {"domain": 8.3, "general": 11.2}},
        "warnings": ["6.2% of the tokens are unknown to the root's vocabulary."],
    }


def tickets_file() -> io.BytesIO:
    """A labelled dataset as JSON lines."""
    draw = random.Random(7)
    rows = []
    for number in range(240):
        label = draw.choice(list(TICKETS))
        words = TICKETS[label].split()
        draw.shuffle(words)
        rows.append({"text": f"{' '.join(words)}, ticket {number}", "label": label})
    return stream(jsonl(rows))


def corpus_file(seed: int = 0, words: int = 21_000) -> io.BytesIO:
    """Enough plain text for a domain."""
    draw = random.Random(seed)
    vocabulary = " ".join(TICKETS.values()).split()
    lines = [" ".join(draw.choices(vocabulary, k=14)) for _ in range(words // 14 + 1)]
    return stream("\n".join(lines))


def nothing_of_use(role: str, job: Job, folder: Path) -> None:
    """A file that no model could be read from."""
    (folder / "content.txt").write_text(f"{role} {job.pk}")


def _artifact(role: str, job: Job, files: ArtifactFiles) -> StoredArtifact:
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    with store.workspace(role) as folder:
        files(role, job, folder)
        return store.ingest(role, folder)
