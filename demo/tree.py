"""Build the demo's version tree: an encoder root, a domain, a decoder root, and models of several tenants.

Every step goes through the services that the web UI and the API call, and is run by the Celery workers.
What is there already is left alone, so an interrupted build goes on where it stopped.
"""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from rich.console import Console

from demo.checkpoints import decoder_checkpoint, encoder_checkpoint
from demo.datasets import TASKS, DemoTask, write_examples
from demo.generative import WRITING_TASKS
from demo.job_progress import wait_until_ready
from demo.options import DemoOptions
from demo.people import ADMIN, Login, logins_read, people_ensure
from demo.size import DemoSize
from demo.texts import DemoTexts, prose_corpus
from tenants.accounts.models import Tenant, User
from tenants.datasets.models import GENERATIVE_TASKS, Corpus, Dataset, Split
from tenants.datasets.services.corpora import corpus_upload
from tenants.datasets.services.datasets import dataset_upload
from versiontree.tree.models import Domain, Hplm, Root, RootKind, Version
from versiontree.tree.services.domains import domain_create
from versiontree.tree.services.hplms import hplm_create
from versiontree.tree.services.roots import root_register
from versiontree.tree.services.version_completion import version_retry

ROOT_NAME: Final = "minilm"


DOMAIN_NAME: Final = "python-docs"


DOMAIN_ALPHA: Final = 60.0


DECODER_NAME: Final = "smollm2"


DECODER_LOWER_LAYERS: Final = 18
"""Of the 30 layers of the packaged decoder. Fine-tuning computes them once for each text; the rest learns."""


@dataclass(frozen=True, slots=True)
class DemoSummary:
    """What a newcomer needs to use the demo: logins, and one tenant's key and model to call."""

    logins: list[Login]
    model: str
    api_key: str
    text: str


def demo_is_built(options: DemoOptions) -> bool:
    """Whether the demo was built to its end once; what people do with it afterwards is theirs."""
    return all(mark.is_file() for mark in _parts(options))


def _parts(options: DemoOptions) -> Mapping[Path, Callable[[DemoTexts, User, Console, DemoOptions], None]]:
    """What builds each part of the demo, by the file that says that it was built to its end."""
    home = Path(settings.HMI_HOME)
    encoders, generative = home / "demo.built", home / "demo.generative.built"
    return {encoders: _encoders_build} | ({generative: _generative_build} if options.generative else {})


def demo_summary() -> DemoSummary:
    """The demo's logins, and a first request that works."""
    logins = logins_read()
    task = TASKS[0]
    model, api_key = f"{task.tenant}/{task.hplm}", logins[task.tenant].api_key
    return DemoSummary(list(logins.values()), model, api_key, task.try_text)


def demo_build(console: Console, options: DemoOptions) -> None:
    """Build what is absent of the demo tree (10 to 25 minutes on two cores; nothing is downloaded).

    Raises:
        DemoError: a job failed; the message is the job's own.
    """
    people_ensure(generative=options.generative)
    if demo_is_built(options):
        return
    admin = User.objects.get(username=ADMIN)
    texts = DemoTexts(DemoSize(options.scale))
    for mark, build in _parts(options).items():
        if not mark.is_file():
            build(texts, admin, console, options)
            mark.touch()


def _encoders_build(texts: DemoTexts, admin: User, console: Console, options: DemoOptions) -> None:
    root = _root_ensure(texts.size, admin, options.root)
    wait_until_ready([root], console)
    domain = _domain_ensure(root, texts, admin)
    wait_until_ready([domain], console)
    hplms = [_hplm_ensure(task, domain if task.under_domain else root, texts) for task in TASKS]
    wait_until_ready(hplms, console)


def _generative_build(texts: DemoTexts, admin: User, console: Console, options: DemoOptions) -> None:
    decoder = _decoder_ensure(admin, options.decoder)
    wait_until_ready([decoder], console)
    wait_until_ready([_hplm_ensure(task, decoder, texts) for task in WRITING_TASKS], console)


def _root_ensure(size: DemoSize, admin: User, source: str) -> Version:
    known = Root.objects.filter(name=ROOT_NAME).first()
    if known is not None:
        return _going(known.versions.earliest("number"), admin)
    corpus = _corpus_ensure("general-prose", partial(prose_corpus, size), admin)
    return root_register(
        name=ROOT_NAME,
        source=source or encoder_checkpoint(),
        corpus=corpus,
        actor=admin,
        settings=size.convert,
    )


def _decoder_ensure(admin: User, source: str) -> Version:
    known = Root.objects.filter(name=DECODER_NAME).first()
    if known is not None:
        return _going(known.versions.earliest("number"), admin)
    return root_register(
        name=DECODER_NAME,
        source=source or decoder_checkpoint(),
        kind=RootKind.DECODER,
        lower_layers=None if source else DECODER_LOWER_LAYERS,
        actor=admin,
    )


def _domain_ensure(root: Version, texts: DemoTexts, admin: User) -> Version:
    known = Domain.unscoped.filter(name=DOMAIN_NAME, tenant=None).first()
    if known is not None:
        return _going(known.versions.earliest("number"), admin)
    corpus = _corpus_ensure(DOMAIN_NAME, partial(texts.corpus, settings.HMI_CORPUS_MIN_WORDS), admin)
    return domain_create(
        tenant=None,
        parent=root,
        name=DOMAIN_NAME,
        corpus=corpus,
        actor=admin,
        alpha=DOMAIN_ALPHA,
        settings=texts.size.further_pretrain,
    )


def _hplm_ensure(task: DemoTask, parent: Version, texts: DemoTexts) -> Version:
    tenant = Tenant.objects.get(slug=task.tenant)
    owner = User.objects.get(username=task.tenant)
    known = Hplm.objects.for_tenant(tenant).filter(name=task.hplm, deleted_at=None).first()
    if known is not None:
        return _going(known.versions.earliest("number"), owner)
    dataset = Dataset.objects.for_tenant(tenant).filter(name=task.hplm).first()
    if dataset is None:
        uploads = {
            split: write_examples(examples, task.file_format, task.task)
            for split, examples in texts.dataset(task).items()
        }
        dataset = dataset_upload(
            tenant=tenant,
            name=task.hplm,
            task=task.task,
            files={
                split: (f"{split}.{task.file_format}", io.BytesIO(upload))
                for split, upload in uploads.items()
            },
            columns=None,
            actor=owner,
        )
    return hplm_create(
        tenant=tenant,
        name=task.hplm,
        parent=parent,
        dataset=dataset,
        actor=owner,
        settings=_fine_tune_settings(dataset, texts.size),
    )


def _fine_tune_settings(dataset: Dataset, size: DemoSize) -> dict[str, Any]:
    if dataset.task in GENERATIVE_TASKS:
        return size.fine_tune_generative
    return size.fine_tune(dataset.splits.get(split=Split.TRAIN).rows)


def _corpus_ensure(name: str, content: Callable[[], bytes], admin: User) -> Corpus:
    known = Corpus.unscoped.filter(tenant=None, name=name).first()
    if known is not None:
        return known
    return corpus_upload(
        tenant=None, name=name, stream=io.BytesIO(content()), filename=f"{name}.txt", actor=admin
    )


def _going(version: Version, actor: User) -> Version:
    """An interrupted build's version, set going again if a job of it failed or was cancelled."""
    if version.state == Version.State.FAILED:
        version_retry(version=version, actor=actor)
    return version
