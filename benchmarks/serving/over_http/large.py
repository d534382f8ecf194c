"""A tenant with more of everything than anybody looks at.

Imported once Django knows its settings.
"""

import io
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.test import Client

from benchmarks.serving.over_http.crowd import crowd
from benchmarks.serving.over_http.made import RandomModels
from benchmarks.serving.over_http.places import one_of_each
from benchmarks.serving.over_http.site import fill, tokenizer_file
from benchmarks.serving.real_texts import RealTexts
from benchmarks.serving.world import DEMO, LABELS
from demo.populate import statistics_gather
from tenants.accounts.models import Membership, Tenant, User
from tenants.base.scope import use_platform_scope
from tenants.datasets.models import Corpus, Dataset
from tenants.datasets.services.corpora import corpus_upload
from tenants.datasets.services.datasets import dataset_upload
from tenants.datasets.storage import upload_store
from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.jobs.services.control import job_cancel
from versiontree.tree.models import Artifact, Version
from versiontree.tree.services.domains import domain_create
from versiontree.tree.services.evaluations import evaluation_record
from versiontree.tree.services.versions import dataset_check
from workers.training.evaluation_answers import write_answers
from workers.training.tasks.base import EvaluatedRow

PET = "adapter-64"
TEST_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class Large:
    """Browsers in which the tenant's owner and an administrator are signed in, and what stands for the
    parameters of addresses."""

    owner: Client
    admin: Client
    places: dict[str, object]


def fill_large(scratch: Path, *, hplms: int, jobs: int, usage: int, data: int) -> Large:
    """A root, a tenant with so many models, jobs, rows of usage, datasets and corpora, and stored answers."""
    use_platform_scope()
    texts = RealTexts.collect().read_with(tokenizer_file())
    [call] = fill(scratch, RandomModels(scratch, DEMO, PET, texts, tokenizer_file()), texts, 1)
    tenant = Tenant.objects.get(slug=call.tenant)
    owner = Membership.objects.for_tenant(tenant).select_related("user").get().user
    like = Version.unscoped.select_related("hplm").get(hplm__tenant=tenant)
    dataset = _dataset(tenant, texts)
    like.metrics = {"evaluate": _measured()}
    like.config = like.config | {"dataset": dataset_check(dataset=dataset, tenant=tenant)}
    crowd(tenant, like, hplms=hplms, jobs=jobs, usage=usage, data=data)
    answered = Version.unscoped.filter(hplm__name="crowd-00001").get()
    _answers(answered, dataset)
    corpus = corpus_upload(
        tenant=tenant, name="Own text", stream=_lines(texts), filename="own.txt", actor=owner
    )
    assert like.parent is not None
    root = like.parent
    domain = domain_create(tenant=tenant, parent=root, name="own", corpus=corpus, actor=owner)
    # Its training would take a core from what is measured.
    job_cancel(job=Job.unscoped.filter(version=domain).earliest("pk"), actor=owner)
    others = one_of_each(tenant, owner, "crowd-00001")
    statistics_gather()
    job = Job.unscoped.filter(version=answered).first() or Job.unscoped.filter(tenant=tenant).latest("pk")
    places = _places(tenant, answered, root, domain, job, corpus, dataset) | others
    return Large(_signed_in(owner), _signed_in(User.objects.get(username="staff")), places)


def _signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def _places(
    tenant: Tenant, hplm: Version, root: Version, domain: Version, job: Job, corpus: Corpus, dataset: Dataset
) -> dict[str, object]:
    return {
        "slug": tenant.slug,
        "tenant": tenant.slug,
        "kind": "root",
        "root/pk": root.root_id,
        "domains/pk": domain.domain_id,
        "domains/domain_id": domain.domain_id,
        "models/name": "crowd-00001",
        "roots/name": root.root.name,
        "versions/number": 1,
        "compare/other": 1,
        "versions/version_id": hplm.pk,
        "jobs/pk": job.pk,
        "jobs/job_id": job.pk,
        "corpora/pk": corpus.pk,
        "corpora/corpus_id": corpus.pk,
        "datasets/pk": dataset.pk,
        "datasets/dataset_id": dataset.pk,
    }


def _dataset(tenant: Tenant, texts: RealTexts) -> Dataset:
    def rows(count: int, about: str) -> io.BytesIO:
        drawn = enumerate(texts.draw(count))
        lines = (
            json.dumps({"text": f"{text} {about} {number}", "label": LABELS[number % len(LABELS)]})
            for number, text in drawn
        )
        return io.BytesIO("\n".join(lines).encode())

    files = {split: (f"{split}.jsonl", rows(count, split)) for split, count in _SPLITS.items()}
    return dataset_upload(tenant=tenant, name="large", task="classification", files=files, allow_leaks=True)


_SPLITS = {"train": 60, "dev": 60, "test": TEST_ROWS}


def _answers(version: Version, dataset: Dataset) -> None:
    """Every third of its answers is wrong."""
    assert version.tenant is not None
    about = dataset_check(dataset=dataset, tenant=version.tenant)
    file = upload_store().path(about["splits"]["test"])
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    with store.workspace("answers") as folder:
        judged = list(_judged(file))
        write_answers(folder / "made", task="classification", file=file, evaluated=judged)
        made = store.ingest("answers", folder / "made")
    artifact = Artifact.objects.create(
        kind=made.kind, digest=made.digest, size=made.size, files=dict(made.files)
    )
    evaluation_record(version=version, artifact=artifact, dataset=about)


def _judged(file: Path) -> Iterator[EvaluatedRow]:
    draw = random.Random(0)  # noqa: S311 - figures to look at
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            gold = json.loads(line)["label"]
            answer = gold if number % 3 else draw.choice(LABELS)
            yield EvaluatedRow(gold, answer, gold == answer, draw.uniform(0.4, 1.0))


def _measured() -> dict[str, Any]:
    per_label = {label: {"precision": 0.8, "recall": 0.7, "f1": 0.75, "support": 20} for label in LABELS}
    rows = [[15 if at == to else 3 for at in range(len(LABELS))] for to in range(len(LABELS))]
    return {
        "metric": "accuracy",
        "value": 0.71,
        "majority_baseline": 0.34,
        "rows": 60,
        "per_label": per_label,
        "confusion": {"labels": list(LABELS), "rows": rows},
    }


def _lines(texts: RealTexts) -> io.BytesIO:
    return io.BytesIO("\n".join(texts.draw(400)).encode())
