"""What the pictures show: a tenant in the middle of its work, and how to come to each page."""

import io
from collections.abc import Callable
from functools import partial

from playwright.sync_api import Page

from tenants.services.api_keys import api_key_create
from tenants.services.datasets import dataset_upload
from tests.e2e.world import (
    ArtifactFiles,
    World,
    evaluation,
    report,
    start,
    tickets_file,
    versions_finish,
)
from tests.integration.versiontree.grove import jobs_in_order
from versiontree.models import Job
from versiontree.services.domains import domain_create
from versiontree.services.hplms import hplm_create, hplm_update
from versiontree.services.jobs import job_event, job_fail

TEXT = "a drug for the heart of the patient, and a good result for the blood of the doctor"
TAGGED = """\
Aspirin B-DRUG
helps O
patient O
{} O
against O
severe B-DISEASE
headache I-DISEASE

"""


def furnish(world: World, files: ArtifactFiles) -> None:
    """Make pages look as after a month of use: a running job, a failed one, a second version, keys."""
    tenant, owner = world.tenant, world.owner
    finish = partial(versions_finish, files=files)
    second = hplm_update(hplm=world.hplm.hplm, dataset=world.dataset, actor=owner)  # type: ignore[arg-type]
    finish(second, {"evaluate": evaluation(0.937)})
    upload = {"train": ("leaflets.conll", io.BytesIO("".join(TAGGED.format(n) for n in range(40)).encode()))}
    spans = dataset_upload(tenant=tenant, name="Leaflet spans", task="tagging", files=upload, actor=owner)
    tagger = hplm_create(tenant=tenant, name="side-effects", parent=world.root, dataset=spans, actor=owner)
    finish(tagger, {"evaluate": {**evaluation(0.684), "metric": "f1", "majority_baseline": 0.42}})
    fail(world)
    run(world)
    api_key_create(tenant=tenant, name="Help desk", scopes=["infer"], created_by=owner)
    api_key_create(tenant=tenant, name="Nightly import", scopes=["infer", "manage"], created_by=owner)


def fail(world: World) -> None:
    """An hPLM whose training broke."""
    broken = hplm_create(
        tenant=world.tenant, name="language", parent=world.root, dataset=world.dataset, actor=world.owner
    )
    job = jobs_in_order(broken)[0]
    start(job, 0.4, "train")
    message = "The worker ran out of memory in step 812 of 2,000."
    job_fail(job_id=job.pk, worker="test-worker", code="job_crashed", message=message)


def run(world: World) -> None:
    """A domain that is being trained."""
    version = domain_create(
        tenant=world.tenant, parent=world.domain, name="pharmacy", corpus=world.corpus, actor=world.owner
    )
    job = jobs_in_order(version)[0]
    start(job)
    job_event(job_id=job.pk, kind="stage", message="further pretrain")
    for step in range(6):
        figures = {"stage": "further pretrain", "step": step * 200, "total": 2000, "loss": 4.1 - step * 0.3}
        job_event(job_id=job.pk, kind="metrics", data=figures)
    report(job, 0.62, "further pretrain", eta=148)


def pages_of(world: World) -> dict[str, Callable[[Page], object]]:
    """Each page by its name, with the way to it."""
    running = Job.unscoped.get(state="running")
    failed = Job.unscoped.get(state="failed")
    done = jobs_in_order(world.hplm)[1]
    addresses = {
        "home": "",
        "tree": "tree/",
        "data": "data/",
        "corpus": f"data/corpora/{world.corpus.pk}/",
        "dataset": f"data/datasets/{world.dataset.pk}/",
        "corpus-new": "data/corpora/new/",
        "domain": f"domains/{world.domain.domain_id}/",
        "domain-new": "domains/new/",
        "hplm": "hplms/triage/",
        "hplm-new": "hplms/new/",
        "hplm-update": "hplms/triage/update/",
        "jobs": "jobs/",
        "job-running": f"jobs/{running.pk}/",
        "job-failed": f"jobs/{failed.pk}/",
        "job-done": f"jobs/{done.pk}/",
        "keys": "keys/",
        "not-found": "nothing/",
    }
    ways: dict[str, Callable[[Page], object]] = {
        name: partial(open_page, address=f"/t/{world.tenant.slug}/{address}")
        for name, address in addresses.items()
    }
    return {
        **ways,
        "try": partial(ask, world, "triage"),
        "try-spans": partial(ask, world, "side-effects"),
        "dataset-new": partial(check_dataset, world),
        "dataset-refused": partial(refuse_dataset, world),
    }


def open_page(page: Page, address: str) -> None:
    """Go there."""
    page.goto(address)


def check_dataset(world: World, page: Page) -> None:
    """Upload a dataset up to its preview."""
    choose(world, page, "tickets.jsonl", tickets_file().getvalue())
    page.get_by_text("First rows").wait_for()


def refuse_dataset(world: World, page: Page) -> None:
    """Check a file that is not what it should be."""
    choose(world, page, "tickets.csv", b"text,answer\nhello,a\n")
    page.get_by_role("alert").wait_for()


def choose(world: World, page: Page, name: str, content: bytes) -> None:
    """Fill in the form of a dataset and press Check."""
    page.goto(f"/t/{world.tenant.slug}/data/datasets/new/")
    page.get_by_label("Name", exact=True).fill("Tickets of May")
    page.get_by_label("Training file").set_input_files(
        {"name": name, "mimeType": "text/plain", "buffer": content}
    )
    page.get_by_role("button", name="Check").click()


def ask(world: World, hplm: str, page: Page) -> None:
    """Put a text to an hPLM."""
    page.goto(f"/t/{world.tenant.slug}/try/?model={hplm}@default")
    page.get_by_label("Text").fill(TEXT)
    page.get_by_role("button", name="Answer").click()
    page.get_by_text("Looked up in the PLOT").wait_for()
