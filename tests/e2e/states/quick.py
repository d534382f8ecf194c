"""A new model with its quick version, from its form to labels that were corrected."""

import io
from collections.abc import Iterator

from playwright.sync_api import Page

from tenants.datasets.models import Dataset, Split
from tenants.datasets.selectors.previews import dataset_first_rows
from tenants.datasets.services.datasets import dataset_upload
from tests.e2e.conftest import Enter
from tests.e2e.measures import evaluation
from tests.e2e.world import World, nothing_of_use, start, succeed
from tests.unit.tenants.files import jsonl
from versiontree.jobs.models import Job, JobKind
from versiontree.tree.models import Version
from versiontree.tree.promotion import AGAINST
from versiontree.tree.services.hplms import hplm_create


def pages(page: Page, enter: Enter, world: World) -> Iterator[str]:
    """Each in turn."""
    enter(world.owner)
    page.goto(f"/t/acme/models/new/?step=settings&dataset={world.dataset.pk}&parent={world.domain.pk}")
    yield "quick-settings"
    trained = _created(world, world.dataset, "complaints")
    page.goto("/t/acme/models/complaints/")
    yield "quick-building"
    labels = [row["label"] for row in dataset_first_rows(world.dataset, Split.TRAIN)]
    _quick_ready(trained, [{"row": row, "label": labels[row]} for row in range(3)])
    start(_job(trained, JobKind.FINE_TUNE), 0.4, "training", eta=110.0)
    page.get_by_role("link", name="Try it").first.wait_for()
    yield "quick-answers"
    page.goto("/t/acme/models/")
    yield "quick-listed"
    page.goto(f"/t/acme/jobs/{_job(trained, JobKind.FINE_TUNE).pk}/")
    yield "quick-job"
    succeed(_job(trained, JobKind.FINE_TUNE), files=nothing_of_use)
    start(_job(trained, JobKind.EVALUATE))
    paired = {"rows": 48, "left_out": 0, "metric": "accuracy", "old": 0.75, "new": 44 / 48, "p_value": 0.9}
    against = {AGAINST: {"version": 1, "dev": paired, "test": paired}}
    succeed(_job(trained, JobKind.EVALUATE), evaluation(right=44) | against, files=nothing_of_use)
    page.goto("/t/acme/models/complaints/")
    yield "quick-and-trained"
    page.goto("/t/acme/models/complaints/versions/1/")
    yield "quick-version"
    page.goto(f"/t/acme/data/datasets/{world.dataset.pk}/labels/")
    page.get_by_text("Use refund").first.click()
    page.get_by_text("Leave out").nth(1).click()
    yield "labels"
    page.get_by_role("button", name="Save as a new dataset").click()
    page.get_by_text("A corrected copy of Tickets").wait_for()
    yield "labels-corrected"
    page.goto(f"/t/acme/data/datasets/{_spans(world).pk}/labels/")
    yield "labels-spans"


def _created(world: World, dataset: Dataset, name: str) -> Version:
    return hplm_create(
        tenant=world.tenant, name=name, parent=world.domain, dataset=dataset, actor=world.owner, quick=True
    )


def _job(trained: Version, kind: JobKind) -> Job:
    return Job.unscoped.get(version__hplm=trained.hplm, kind=kind)


def _quick_ready(trained: Version, suspects: list[dict[str, object]]) -> None:
    """The quick version is ready, and doubts these labels."""
    job = _job(trained, JobKind.QUICK)
    start(job)
    found = [{"suggested": "refund", "confidence": 0.98 - n / 40} | one for n, one in enumerate(suspects)]
    succeed(job, {"evaluate": evaluation(right=36), "quick": {"suspects": found}}, files=nothing_of_use)


def _spans(world: World) -> Dataset:
    """A tagged dataset, one of whose tags looks wrong."""
    words = "the patient took aspirin twice a day against a severe headache that had lasted since Monday"
    tokens = words.split()
    row = {"tokens": tokens, "tags": ["B-DRUG" if word == "aspirin" else "O" for word in tokens]}
    files = {
        split: (f"{split}.jsonl", io.BytesIO(jsonl([row | {"tokens": [split, *tokens[1:]]}] * 8).encode()))
        for split in ("train", "dev", "test")
    }
    dataset = dataset_upload(tenant=world.tenant, name="Leaflet words", task="tagging", files=files)
    suspect = {"row": 3, "token": 10, "label": "O", "suggested": "B-DRUG", "confidence": 0.93}
    _quick_ready(_created(world, dataset, "drugs"), [suspect])
    return dataset
