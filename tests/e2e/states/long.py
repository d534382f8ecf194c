"""Names as long as they may be and without a space, languages that run from right to left, long texts, and
characters that turn the direction of what follows them."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from playwright.sync_api import Page

from tenants.accounts.models import Tenant, User
from tenants.accounts.services.api_keys import api_key_create
from tenants.accounts.services.tenants import tenant_create
from tenants.datasets.models import Corpus, Dataset
from tenants.datasets.services.corpora import corpus_upload
from tenants.datasets.services.datasets import dataset_upload
from tenants.datasets.services.uploads import upload_create
from tests.e2e.conftest import Enter
from tests.e2e.measures import fine_tuning, measured
from tests.e2e.world import World, corpus_file, nothing_of_use, start, versions_finish
from tests.integration.versiontree.tree_factory import jobs_in_order
from tests.unit.tenants.files import jsonl
from versiontree.jobs.models import Job
from versiontree.jobs.services.lifecycle import job_fail
from versiontree.tree.models import Version
from versiontree.tree.services.aliases import alias_move
from versiontree.tree.services.domains import domain_create
from versiontree.tree.services.hplms import hplm_create, hplm_update

OVER, BACK = "\N{RIGHT-TO-LEFT OVERRIDE}", "\N{POP DIRECTIONAL FORMATTING}"
TURNED = f"abc {OVER}drug{BACK} {OVER}not closed"
ARABIC = "دواء للقلب ونتيجة جيدة لدم الطبيب"
HEBREW = "תרופה ללב של החולה (3 פעמים ביום)"
LABELS = ("W" * 200, ARABIC, HEBREW, "ok")
SLUG = "w" * 63
FAULT = f"{'x' * 300} at step 812 of 2,000. {ARABIC}. " + "The worker ran out of memory. " * 12


@dataclass(frozen=True, slots=True)
class Long:
    """What was made."""

    owner: User
    tenant: Tenant
    corpus: Corpus
    dataset: Dataset
    domain: Version
    failed: Job


def build(world: World) -> Long:
    """A tenant in which everything is called as it hardly fits."""
    owner = User.objects.create_user("n" * 150)
    tenant = tenant_create(slug="s" * 50, name="M" * 200, owner=owner)
    tenant_create(slug="rtl", name=HEBREW, owner=owner)
    corpus = corpus_upload(
        tenant=tenant, name="C" * 100, stream=corpus_file(), filename=f"{'f' * 140}.txt", actor=owner
    )
    rows = [{"text": _text(number), "label": LABELS[number % len(LABELS)]} for number in range(80)]
    upload = {"train": (f"{ARABIC}.jsonl", io.BytesIO(jsonl(rows).encode()))}
    dataset = dataset_upload(tenant=tenant, name=ARABIC, task="classification", files=upload, actor=owner)
    finish = partial(versions_finish, files=nothing_of_use)
    first = hplm_create(tenant=tenant, name=SLUG, parent=world.domain, dataset=dataset, actor=owner)
    answers = [LABELS[(number + (number % 5 == 0)) % len(LABELS)] for number in range(80)]
    found = {"evaluate": measured("classification", rows, answers), "fine_tune": fine_tuning()}
    finish(first, found)
    assert first.hplm is not None
    finish(hplm_update(hplm=first.hplm, dataset=dataset, actor=owner), found)
    alias_move(hplm=first.hplm, name="a" * 63, version=first, actor=owner, reason=f"{'r' * 120} {HEBREW}")
    domain = domain_create(
        tenant=tenant,
        parent=world.root,
        name="d" * 63,
        description=f"{'D' * 200} {ARABIC} {TURNED}",
        corpus=corpus,
        actor=owner,
    )
    failed = jobs_in_order(domain)[0]
    start(failed, 0.4, "further pretrain")
    job_fail(job_id=failed.pk, worker="test-worker", code="job_crashed", message=FAULT)
    api_key_create(tenant=tenant, name="K" * 50, scopes=["infer", "manage"], created_by=owner)
    api_key_create(tenant=tenant, name=HEBREW, scopes=["infer"], created_by=owner)
    upload_create(tenant=tenant, filename="ف" * 140 + ".txt", size=10**9, actor=owner)
    return Long(owner, tenant, corpus, dataset, domain, failed)


def _text(number: int) -> str:
    """In turn: from right to left, of one endless word, long, and with its direction turned."""
    texts = (ARABIC, "z" * 400, f"{HEBREW} " * 40, TURNED)
    return f"{texts[number % 4]} {number}"


def pages(page: Page, enter: Enter, world: World) -> Iterator[str]:
    """Each in turn."""
    made = build(world)
    addresses = {
        "home": "",
        "tree": "tree/",
        "hplms": "models/",
        "hplm": f"models/{SLUG}/",
        "hplm-version": f"models/{SLUG}/versions/1/",
        "hplm-new": "models/new/",
        "data": "data/",
        "dataset": f"data/datasets/{made.dataset.pk}/",
        "corpus": f"data/corpora/{made.corpus.pk}/",
        "domain": f"domains/{made.domain.domain_id}/",
        "jobs": "jobs/",
        "job": f"jobs/{made.failed.pk}/",
        "try": "playground/",
        "keys": "keys/",
        "settings": "settings/",
        "members": "members/",
        "usage": "usage/",
        "audit": "audit/",
    }
    enter(made.owner)
    for name, address in addresses.items():
        page.goto(f"/t/{made.tenant.slug}/{address}")
        page.wait_for_load_state("networkidle")
        yield f"long-{name}"
