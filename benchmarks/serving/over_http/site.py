"""Tenants, each with a model that is ready, in the database of a running product, and its inference worker.

Imported once Django knows its settings.
"""

import io
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil
from django.conf import settings
from django.db import transaction

from benchmarks.serving.over_http.clients import Call
from benchmarks.serving.over_http.made import ServedModels
from benchmarks.serving.real_texts import RealTexts
from demo.checkpoints import encoder_checkpoint
from demo.populate import populate
from hmi_site.health import started_workers
from tenants.accounts.models import User
from tenants.accounts.services.api_keys import api_key_create
from tenants.accounts.services.tenants import tenant_create
from tenants.datasets.models import Corpus
from tenants.datasets.services.corpora import corpus_upload
from tenants.datasets.services.datasets import dataset_upload
from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job, JobState
from versiontree.jobs.services.lifecycle import job_claim, job_succeed
from versiontree.tree.models import Version
from versiontree.tree.services.hplms import hplm_create
from versiontree.tree.services.roots import root_register

MAKER, LEASE_S, HPLM = "benchmark", 60.0, "model"
CORPUS_LINES, EXAMPLES = 400, 60
PROGRAM: Final = "inference.worker"
PATIENCE_S, POLL_S = 120.0, 0.1
Folders = Mapping[str, Path]


def tokenizer_file() -> Path:
    """That of the demo's checkpoint. Raises DemoError where that is not installed."""
    return Path(encoder_checkpoint()) / "tokenizer.json"


def fill(scratch: Path, models: ServedModels, texts: RealTexts, tenants: int) -> list[Call]:
    """A root and so many tenants with a model each; returns a call for each, without inputs. Their jobs never
    run: each ends well, in the transaction that makes it, with what was written for it."""
    staff = User.objects.create_superuser("staff")
    corpus = _corpus(texts, staff)
    with transaction.atomic():
        version = root_register(name=models.name, source=str(models.checkpoint), corpus=corpus, actor=staff)
        _finish(version, {"root": models.root, "lower": models.lower})
        _finish(version, {"plot": models.plot})
    version.refresh_from_db()
    served = []
    for number in range(tenants):
        folder = scratch / f"hplm{number}"
        models.write(folder, seed=number)
        served.append(_serve(f"tenant-{number}", version, _examples(texts, models.labels), folder))
    return served


def copies_of_model(call: Call, count: int, owners: int) -> list[Call]:
    """Publish so many copies of the model that is called, with other weights, of so many tenants in turn;
    returns a call for each that is answered from the tables, without inputs."""
    like = Version.unscoped.select_related("hplm").get(hplm__tenant__slug=call.tenant)
    tenants, keys = [], []
    for number in range(owners):
        owner = User.objects.create_user(f"owner-{number}")
        tenants.append(tenant_create(slug=f"owner-{number}", name=f"Owner {number}", owner=owner))
        keys.append(api_key_create(tenant=tenants[-1], name="calls", scopes=["infer"], created_by=owner)[1])
    populate(like=like, tenants=tenants, count=count)
    key_of = dict(zip((tenant.slug for tenant in tenants), keys, strict=True))
    made = Version.unscoped.filter(hplm__tenant__in=tenants).order_by("pk")
    return [
        Call(tenant, hplm, key_of[tenant], quality="fast")
        for tenant, hplm in made.values_list("hplm__tenant__slug", "hplm__name")
    ]


def _serve(name: str, root: Version, examples: io.BytesIO, folder: Path) -> Call:
    """A tenant of that name with these examples, whose model is what lies in the folder."""
    owner = User.objects.create_user(name)
    tenant = tenant_create(slug=name, name=name, owner=owner)
    dataset = dataset_upload(
        tenant=tenant,
        name="examples",
        task="classification",
        files={"train": ("train.jsonl", examples)},
        actor=owner,
    )
    with transaction.atomic():
        version = hplm_create(tenant=tenant, name=HPLM, parent=root, dataset=dataset, actor=owner)
        _finish(version, {"hplm": folder})
        _finish(version, {})
    return Call(
        name, HPLM, api_key_create(tenant=tenant, name="calls", scopes=["infer"], created_by=owner)[1]
    )


def _finish(version: Version, folders: Folders) -> None:
    """End the version's job that is next, with these artifacts."""
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    artifacts = [(role, store.ingest(role, folder)) for role, folder in folders.items()]
    queued = Job.unscoped.get(version=version, state=JobState.QUEUED)
    claimed = job_claim(job_id=queued.pk, worker=MAKER, lease_s=LEASE_S)
    assert claimed is not None, "nobody else sees a job before its transaction ends"
    job_succeed(job_id=queued.pk, worker=MAKER, metrics={}, artifacts=artifacts)


def _corpus(texts: RealTexts, staff: User) -> Corpus:
    """As a root must have one."""
    lines = "\n".join(texts.draw(CORPUS_LINES))
    return corpus_upload(
        tenant=None, name="texts", stream=io.BytesIO(lines.encode()), filename="texts.txt", actor=staff
    )


def _examples(texts: RealTexts, labels: Sequence[str]) -> io.BytesIO:
    """As a model must have some."""
    drawn = enumerate(texts.draw(EXAMPLES))
    rows = (json.dumps({"text": text, "label": labels[number % len(labels)]}) for number, text in drawn)
    return io.BytesIO("\n".join(rows).encode())


def restart_worker() -> None:
    """End the inference worker, and return once the launcher has another that is ready. Raises
    TimeoutError."""
    before = _ready_workers()
    for process in psutil.Process().children():
        if PROGRAM in process.cmdline():
            process.terminate()
    latest = time.monotonic() + PATIENCE_S
    while not _ready_workers() - before:
        if time.monotonic() > latest:
            raise TimeoutError("The inference worker has not become ready again.")
        time.sleep(POLL_S)


def _ready_workers() -> set[str]:
    return {worker.name for worker in started_workers() if worker.state == "ready"}
