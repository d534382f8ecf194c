"""A small world for jobs: a tenant with uploads, a tiny checkpoint, and ways to get a version ready."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from inference.cascade.profile import CascadeProfile
from inference.hplm.hplm import Hplm
from inference.hplm.pets.spec import UpperShape
from tenants.accounts.models import Tenant, User
from tenants.accounts.services.tenants import tenant_create
from tenants.base.scope import platform_scope
from tenants.datasets.models import Corpus, Dataset, Task
from tenants.datasets.services.corpora import corpus_upload
from tenants.datasets.services.datasets import dataset_upload
from tests.integration.tenants.content import stream
from tests.integration.versiontree.tree_factory import jobs_in_order, not_worse
from tests.processes import CeleryWorker, wait_until
from tests.unit.tenants.files import jsonl
from tests.unit.tiny import HIDDEN, LAYERS, tiny_checkpoint, tiny_lower, tiny_plot, tiny_root, tiny_texts
from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.jobs.services.lease_recovery import leases_recover
from versiontree.jobs.services.lifecycle import job_claim, job_succeed
from versiontree.tree.models import Hplm as HplmRow
from versiontree.tree.models import Version
from versiontree.tree.models.artifact import Role
from versiontree.tree.services.hplms import hplm_create, hplm_update
from versiontree.tree.services.roots import root_register
from versiontree.tree.services.version_completion import artifacts_attach, version_finish
from versiontree.tree.services.versions import version_create

Folders = Mapping[str, Path]

SMALL_CONVERT = {"ridge_tokens": 2_000, "mixer_tokens": 1_000, "distil_tokens": 2_000}
SMALL_FINE_TUNE = {"epochs": 1, "max_epochs": 1, "min_steps": 0, "adapter": 4}


def store() -> ArtifactStore:
    """The artifact store of this test."""
    return ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))


@dataclass(frozen=True)
class World:
    """One tenant, its owner and their uploads; `checkpoint` is a folder as somebody would publish it."""

    staff: User
    owner: User
    tenant: Tenant
    checkpoint: Path
    corpus: Corpus
    classes: Dataset
    tags: Dataset

    @platform_scope()
    def register_root(self, **convert: int) -> Version:
        """A root whose jobs are still to be run."""
        return root_register(
            name="tiny",
            source=str(self.checkpoint),
            corpus=self.corpus,
            actor=self.staff,
            alpha=50,
            settings={**SMALL_CONVERT, **convert},
        )

    @platform_scope()
    def ready_root(self, scratch: Path, **checkpoint: Any) -> Version:
        """A root with random local lower layers and a table, put in place as its jobs would have done."""
        version = self.register_root()
        root = tiny_root(scratch / "checkpoint", **checkpoint)
        lower = tiny_lower(root)
        root.save(scratch / "root")
        lower.save(scratch / "lower")
        tiny_plot(scratch / "plot", root, lower, tiny_texts(60))
        convert, build_plot = jobs_in_order(version)
        finish(convert, {"root": scratch / "root", "lower": scratch / "lower"})
        finish(build_plot, {"plot": scratch / "plot"})
        version.refresh_from_db()
        return version

    @platform_scope()
    def create_hplm(
        self, parent: Version, *, name: str = "mood", dataset: Dataset | None = None, quick: bool = False
    ) -> Version:
        """A model whose jobs are still to be run."""
        return hplm_create(
            tenant=self.tenant,
            name=name,
            parent=parent,
            dataset=dataset or self.classes,
            actor=self.owner,
            settings=SMALL_FINE_TUNE,
            quick=quick,
        )

    @platform_scope()
    def ready_hplm(
        self,
        parent: Version,
        model: Hplm,
        scratch: Path,
        *,
        name: str,
        cascade: CascadeProfile | None = None,
    ) -> Version:
        """A model with this very model and cascade, put in place as its jobs would have done, and before any
        worker hears of them."""
        dataset = self.classes if model.task == "classification" else self.tags
        model.save(scratch / name)
        if cascade is not None:
            cascade.save(scratch / name)
        with transaction.atomic():
            version = self.create_hplm(parent, name=name, dataset=dataset)
            return _finished(version, scratch / name)

    @platform_scope()
    def ready_update(self, before: Version, model: Hplm, scratch: Path) -> Version:
        """The next version of a model, in place as by `ready_hplm`. It is not promoted."""
        assert before.hplm is not None
        model.save(scratch / "update")
        with transaction.atomic():
            version = hplm_update(
                hplm=before.hplm, dataset=self.classes, actor=self.owner, auto_promote=False
            )
            return _finished(version, scratch / "update")


@platform_scope()
def ready_embeddings(parent: Version, tenant: Tenant, scratch: Path, *, name: str) -> Version:
    """A model that only gives embeddings of a tiny root, which no job makes."""
    Hplm.of_embeddings(UpperShape(LAYERS - 2, HIDDEN, 2 * HIDDEN)).save(scratch / name)
    with transaction.atomic():
        row = HplmRow.unscoped.create(tenant=tenant, name=name, task=Task.EMBEDDING)
        config = {"labels": list[str]()}
        version = version_create(
            owner=row, root=parent.root, parent=parent, tenant=tenant, config=config, plans=[], actor=None
        )
        artifacts_attach(version=version, artifacts=[(Role.HPLM, store().ingest("hplm", scratch / name))])
        version_finish(version=version, metrics={})
    version.refresh_from_db()
    return version


def _finished(version: Version, folder: Path) -> Version:
    """The version of a model, once its jobs are done and have made what is in the folder."""
    fine_tune, evaluate = jobs_in_order(version)
    finish(fine_tune, {"hplm": folder})
    finish(evaluate, {})
    version.refresh_from_db()
    return version


@platform_scope()
def make_world(scratch: Path) -> World:
    """Everybody and everything, through the product's own services."""
    staff = User.objects.create_superuser("staff", password="staff")
    owner = User.objects.create_user("owner", password="owner")
    tenant = tenant_create(slug="acme", name="Acme", owner=owner)
    corpus = corpus_upload(
        tenant=None, name="texts", stream=stream(corpus_text()), filename="texts.txt", actor=staff
    )
    classes = dataset_upload(
        tenant=tenant,
        name="moods",
        task="classification",
        files={"train": ("moods.jsonl", stream(jsonl(mood_rows())))},
        actor=owner,
    )
    tags = dataset_upload(
        tenant=tenant,
        name="places",
        task="tagging",
        files={"train": ("places.jsonl", stream(jsonl(place_rows())))},
        actor=owner,
    )
    return World(staff, owner, tenant, tiny_checkpoint(scratch / "published"), corpus, classes, tags)


@platform_scope()
def finish(job: Job, folders: Folders) -> None:
    """End a queued job well with these artifacts."""
    claimed = job_claim(job_id=job.pk, worker="test", lease_s=30)
    assert claimed is not None
    artifacts = [(role, store().ingest(role, folder)) for role, folder in folders.items()]
    job_succeed(job_id=job.pk, worker="test", metrics=not_worse(job), artifacts=artifacts)


def make_endless(job: Job) -> None:
    """Have a fine-tuning job go on until it is stopped."""
    endless = {"epochs": 100_000, "max_epochs": 100_000, "patience": 100_000}
    _settings_update(job, endless)


def make_short(job: Job) -> None:
    """Have it end soon after all."""
    _settings_update(job, SMALL_FINE_TUNE)


def learn_well(job: Job) -> None:
    """Have a fine-tuning job go on until a tiny model knows its task."""
    _settings_update(job, {"epochs": 20, "max_epochs": 20, "patience": 20})


def wait_for_jobs(ended: Callable[[], object], worker: CeleryWorker) -> None:
    """Wait as long as the jobs go on, by their states and heartbeats: on a busy machine that takes long."""
    while not ended():
        wait_until(partial(_ended_or_beaten, ended, heartbeats()), worker)


def _ended_or_beaten(ended: Callable[[], object], before: list[tuple[object, ...]]) -> bool:
    return bool(ended()) or heartbeats() != before


@platform_scope()
def heartbeats() -> list[tuple[object, ...]]:
    """The state of each job, and when its worker last renewed the lease."""
    return list(Job.unscoped.order_by("pk").values_list("pk", "state", "heartbeat_at"))


@platform_scope()
def state_of(job: Job) -> str:
    """The job's state as the database has it now."""
    return Job.unscoped.values_list("state", flat=True).get(pk=job.pk)


@platform_scope()
def let_lease_run_out(job: Job) -> None:
    """Half a minute passes, and the reaper comes by."""
    Job.unscoped.filter(pk=job.pk, state="running").update(lease_expires_at=timezone.now())
    leases_recover()


@platform_scope()
def at_stage(job: Job, stage: str) -> bool:
    """Whether the job has come that far."""
    return Job.unscoped.filter(pk=job.pk, state="running", stage=stage).exists()


@platform_scope()
def _settings_update(job: Job, settings: dict[str, int]) -> None:
    params = Job.unscoped.values_list("params", flat=True).get(pk=job.pk)
    params["settings"] |= settings
    Job.unscoped.filter(pk=job.pk).update(params=params)


def corpus_text() -> str:
    """Lines of known and unknown words."""
    return "\n".join(dict.fromkeys(text for text in tiny_texts(400, longest=16) if " " in text))


def mood_rows() -> list[dict[str, object]]:
    """Texts that say good or bad, labelled by that word: a tiny model can learn it."""
    draw = random.Random(1)
    filler = [
        "the",
        "river",
        "stone",
        "cloud",
        "light",
        "green",
        "winter",
        "summer",
        "silver",
        "copper",
        "garden",
        "window",
    ]
    made: list[dict[str, object]] = []
    for number in range(160):
        mood = ("good", "bad")[number % 2]
        words = [*draw.choices(filler, k=draw.randint(3, 9)), mood]
        draw.shuffle(words)
        made.append({"text": " ".join(words), "label": mood})
    return made


def place_rows() -> list[dict[str, object]]:
    """Sentences in which cities and mountains are marked."""
    draw = random.Random(2)
    filler = ["the", "river", "of", "stone", "and", "green", "winter", "silver", "for", "copper", "table"]
    kinds = {"city": "B-PLACE", "mountain": "B-PLACE", "doctor": "B-PERSON", "patient": "B-PERSON"}
    made: list[dict[str, object]] = []
    for _ in range(120):
        words = [*draw.choices(filler, k=draw.randint(3, 8)), *draw.choices(list(kinds), k=2)]
        draw.shuffle(words)
        made.append({"tokens": words, "tags": [kinds.get(word, "O") for word in words]})
    return made
