"""The parts of the demo: a root, a domain, a decoder and models, each with the texts that it learns from.

Each is made through the services that the pages and the API call. What is there already is left alone.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from demo.checkpoints import decoder_checkpoint, encoder_checkpoint
from demo.datasets import TASKS, DemoTask, write_examples
from demo.generative import WRITING_TASKS
from demo.options import DemoOptions
from demo.people import ADMIN
from demo.record.models import DemoPart
from demo.size import DemoSize
from demo.texts import DemoTexts, prose_corpus
from demo.version import DECODER, DOMAIN, ROOT, model_part, part_versions
from tenants.accounts.models import Tenant, User
from tenants.accounts.services.tenants import tenant_resume
from tenants.datasets.models import GENERATIVE_TASKS, Corpus, Dataset, Split
from tenants.datasets.services.corpora import corpus_upload
from tenants.datasets.services.datasets import dataset_upload
from versiontree.jobs.models import JobState
from versiontree.jobs.services.control import PRIORITIES, job_prioritise
from versiontree.tree.models import Hplm, RootKind, Version
from versiontree.tree.models.version import VersionKind
from versiontree.tree.services.domains import domain_create
from versiontree.tree.services.hplms import hplm_create, hplm_set_description
from versiontree.tree.services.roots import root_register

ROOT_NAME: Final = "minilm"
DOMAIN_NAME: Final = "python-docs"
DOMAIN_ALPHA: Final = 60.0
DECODER_NAME: Final = "smollm2"
DECODER_LOWER_LAYERS: Final = 18
"""Of the 30 layers of the packaged decoder. Fine-tuning computes them once for each text; the rest learns."""
VERSIONS: Final = part_versions(TASKS, WRITING_TASKS)
"""The version of each part that this copy of HMI makes."""


def part_start(name: str, tenant: Tenant | None = None) -> DemoPart:
    """The record of a part, which is made before the part. A tenant of which the demo had nothing is resumed:
    the removal suspended it."""
    part, is_new = DemoPart.unscoped.get_or_create(
        name=name, defaults={"version": VERSIONS[name], "tenant": tenant, "made_at": timezone.now()}
    )
    if is_new and tenant is not None:
        tenant_resume(tenant=tenant, actor=None)
    return part


@dataclass(frozen=True, slots=True)
class DemoBuilder:
    """Makes parts at the size of the options. The texts are read when the first part needs them."""

    options: DemoOptions
    admin: User = field(default_factory=lambda: User.objects.get(username__iexact=ADMIN))

    @property
    def size(self) -> DemoSize:
        """The amounts."""
        return DemoSize(self.options.scale)

    def root(self) -> Version:
        """The first version of the encoder root."""
        part = part_start(ROOT)
        if (known := first_version(root__name=ROOT_NAME, kind=VersionKind.ROOT)) is not None:
            return _found(part, known)
        corpus = self._corpus(part, "general-prose", partial(prose_corpus, self.size))
        with _recorded(part):
            version = root_register(
                name=ROOT_NAME,
                source=self.options.root or encoder_checkpoint(),
                corpus=corpus,
                actor=self.admin,
                settings=self.size.convert,
            )
            part.root = version.root
        return version

    def decoder(self) -> Version:
        """The first version of the decoder root."""
        part, source = part_start(DECODER), self.options.decoder
        if (known := first_version(root__name=DECODER_NAME, kind=VersionKind.ROOT)) is not None:
            return _found(part, known)
        with _recorded(part):
            version = root_register(
                name=DECODER_NAME,
                source=source or decoder_checkpoint(),
                kind=RootKind.DECODER,
                lower_layers=None if source else DECODER_LOWER_LAYERS,
                actor=self.admin,
            )
            part.root = version.root
        _let_others_pass(version)
        return version

    def domain(self, root: Version) -> Version:
        """The first version of the domain below a ready root."""
        part = part_start(DOMAIN)
        if (
            known := first_version(domain__name=DOMAIN_NAME, kind=VersionKind.DOMAIN, tenant=None)
        ) is not None:
            return _found(part, known)
        corpus = self.domain_corpus()
        part.refresh_from_db()
        with _recorded(part):
            version = domain_create(
                tenant=None,
                parent=root,
                name=DOMAIN_NAME,
                corpus=corpus,
                actor=self.admin,
                alpha=DOMAIN_ALPHA,
                settings=self.size.further_pretrain,
            )
            part.domain = version.domain
        _let_others_pass(version)
        return version

    def domain_corpus(self) -> Corpus:
        """What the domain learns from."""
        texts = DemoTexts(self.size)
        return self._corpus(
            part_start(DOMAIN), DOMAIN_NAME, lambda: texts.corpus(settings.HMI_CORPUS_MIN_WORDS)
        )

    def dataset(self, task: DemoTask) -> Dataset:
        """The dataset of a task."""
        tenant, owner = _tenant_and_owner(task)
        part = part_start(model_part(task), tenant)
        dataset = Dataset.objects.for_tenant(tenant).filter(name=task.hplm).first()
        if dataset is None:
            texts = {
                split: write_examples(rows, task.file_format, task.task)
                for split, rows in DemoTexts(self.size).dataset(task).items()
            }
            files = {
                split: (f"{split}.{task.file_format}", io.BytesIO(text)) for split, text in texts.items()
            }
            dataset = dataset_upload(
                tenant=tenant, name=task.hplm, task=task.task, files=files, columns=None, actor=owner
            )
        if _is_of(part, dataset):
            DemoPart.unscoped.filter(pk=part.pk).update(dataset=dataset)
        return dataset

    def model(self, task: DemoTask, parent: Version) -> Version:
        """The trained version of a task's model below a ready version."""
        tenant, owner = _tenant_and_owner(task)
        if (known := _living(task, tenant)) is not None:
            return _found(part_start(model_part(task), tenant), trained_version(known))
        dataset, part = self.dataset(task), part_start(model_part(task), tenant)
        with _recorded(part):
            version = hplm_create(
                tenant=tenant,
                name=task.hplm,
                parent=parent,
                dataset=dataset,
                actor=owner,
                settings=_fine_tune_settings(dataset, self.size),
                quick=True,
            )
            assert version.hplm is not None
            part.hplm = hplm_set_description(hplm=version.hplm, description=task.about, actor=owner)
        if task is not TASKS[0]:
            _let_others_pass(version)
        return version

    def _corpus(self, part: DemoPart, name: str, content: Callable[[], bytes]) -> Corpus:
        corpus = Corpus.unscoped.filter(tenant=None, name=name).first()
        if corpus is None:
            stream = io.BytesIO(content())
            corpus = corpus_upload(
                tenant=None, name=name, stream=stream, filename=f"{name}.txt", actor=self.admin
            )
        if _is_of(part, corpus):
            DemoPart.unscoped.filter(pk=part.pk).update(corpus=corpus)
            part.corpus = corpus
        return corpus


def first_version(**of: Any) -> Version | None:
    """The first version of a root or domain, None if there is none."""
    return Version.unscoped.filter(**of).order_by("number").first()


def trained_version(hplm: Hplm) -> Version:
    """The first version of a model that is not a quick one."""
    return next(version for version in hplm.versions.order_by("number") if not version.is_quick)


def _found(part: DemoPart, version: Version) -> Version:
    """The version. If somebody else made what has the name of the part, that is taken for the part."""
    if part.ready_at is None and not (part.root_id or part.domain_id or part.hplm_id):
        DemoPart.unscoped.filter(pk=part.pk).update(ready_at=version.ready_at)
    return version


def _is_of(part: DemoPart, data: Corpus | Dataset) -> bool:
    """Whether the part has had this data made: its upload is a transaction of its own, so a build that was
    interrupted may not have recorded it."""
    return data.created_at >= part.made_at


@contextmanager
def _recorded(part: DemoPart) -> Iterator[None]:
    """Save the part in the transaction that makes what it refers to."""
    with transaction.atomic():
        yield
        part.made_at = timezone.now()
        part.save()


def _let_others_pass(version: Version) -> None:
    """Jobs that people start run before those of the demo that nobody waits for."""
    for job in version.jobs.filter(state__in=[JobState.WAITING, JobState.QUEUED]).exclude(priority=0):
        job_prioritise(job=job, priority=PRIORITIES["low"], actor=None)


def _tenant_and_owner(task: DemoTask) -> tuple[Tenant, User]:
    return Tenant.objects.get(slug=task.tenant), User.objects.get(username__iexact=task.tenant)


def _living(task: DemoTask, tenant: Tenant) -> Hplm | None:
    return Hplm.objects.for_tenant(tenant).filter(name=task.hplm, deleted_at=None).first()


def _fine_tune_settings(dataset: Dataset, size: DemoSize) -> dict[str, Any]:
    if dataset.task in GENERATIVE_TASKS:
        return size.fine_tune_generative
    return size.fine_tune(dataset.splits.get(split=Split.TRAIN).rows)
