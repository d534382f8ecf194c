"""What the pictures show: a tenant in the middle of its work, and how to come to each page."""

import io
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from django.utils import timezone
from playwright.sync_api import FilePayload, Page

from inference.batches.models import Batch
from tenants.accounts.models import Invitation
from tenants.accounts.services.api_keys import api_key_create, api_key_revoke, api_key_rotate
from tenants.accounts.services.invitations import invitation_create
from tenants.datasets.models import UploadCheck
from tenants.datasets.services.datasets import dataset_upload
from tenants.datasets.services.uploads import upload_create
from tenants.usage.models import LoggedRequest
from tenants.webhooks.models import WebhookEndpoint
from tests.e2e.batches import batches_used
from tests.e2e.measures import evaluation, fine_tuning, measured
from tests.e2e.task_rows import KINDS, TESTED
from tests.e2e.task_rows import question as _question
from tests.e2e.usage_history import create_answer_history, create_request_log, create_usage_history
from tests.e2e.webhooks import create_webhooks_and_deliveries
from tests.e2e.world import ArtifactFiles, World, report, start, tickets_file, versions_finish
from tests.integration.versiontree.answered import answers_keep, label_judge
from tests.integration.versiontree.tree_factory import jobs_in_order
from tests.unit.tenants.files import jsonl
from versiontree.jobs.models import Job
from versiontree.jobs.services.lifecycle import job_event, job_fail
from versiontree.tree.models import Version
from versiontree.tree.services.domains import domain_create
from versiontree.tree.services.hplms import hplm_create, hplm_update
from workers.coverage import coverage_measure
from workers.training.tasks.base import EvaluatedRow

TEXT = "a drug for the heart of the patient, and a good result for the blood of the doctor"
WORDS = ("Aspirin", "helps", "patient", "{}", "against", "severe", "headache")
TAGS = ("B-DRUG", "O", "O", "O", "O", "B-DISEASE", "I-DISEASE")


def furnish(world: World, files: ArtifactFiles) -> None:
    """Make pages look as after a month of use: a running job, a failed one, a second version, keys."""
    tenant, owner = world.tenant, world.owner
    finish = partial(versions_finish, files=files)
    second = hplm_update(hplm=world.hplm.hplm, dataset=world.dataset, actor=owner)  # type: ignore[arg-type]
    finish(second, {"evaluate": evaluation(right=45), "fine_tune": fine_tuning()})
    answers_keep(world.hplm, label_judge(lambda n: ("refund", "delivery")[n % 2] if n % 5 < 2 else ""))
    answers_keep(second, label_judge(lambda n: ("delivery", "refund")[n % 2] if n % 7 < 2 else ""))
    answers_keep(furnish_tagger(world, files), _spans_judged)
    furnish_kinds(world, files)
    coverage_measure("dataset", world.dataset.pk)
    coverage_measure("corpus", world.corpus.pk)
    upload_create(tenant=tenant, filename="leaflets-of-june.txt", size=10**9, actor=owner)
    fail(world)
    run(world)
    help_desk, _ = api_key_create(tenant=tenant, name="Help desk", scopes=["infer"], created_by=owner)
    create_usage_history(world, help_desk.prefix)
    create_request_log(world, help_desk.prefix)
    create_answer_history(world, second.hplm)  # type: ignore[arg-type]
    importing, _ = api_key_create(
        tenant=tenant, name="Nightly import", scopes=["infer", "manage"], created_by=owner
    )
    api_key_rotate(api_key=importing, overlap=timedelta(days=1), actor=owner)
    leaked, _ = api_key_create(tenant=tenant, name="Old website", scopes=["infer"], created_by=world.admin)
    api_key_revoke(api_key=leaked, actor=owner)
    create_webhooks_and_deliveries(world)
    batches_used(world)
    invitation_create(tenant=tenant, email="nora@example.org", role="developer", actor=owner)
    lapsed, _ = invitation_create(tenant=tenant, email="otto@example.org", role="viewer", actor=owner)
    Invitation.unscoped.filter(pk=lapsed.pk).update(expires_at=timezone.now() - timedelta(days=2))


def furnish_tagger(world: World, files: ArtifactFiles) -> Version:
    """A model that finds spans, as its jobs would have left it."""
    tenant, owner = world.tenant, world.owner
    upload = {"train": ("leaflets.conll", io.BytesIO("\n".join(map(_leaflet, range(40))).encode()))}
    spans = dataset_upload(tenant=tenant, name="Leaflet spans", task="tagging", files=upload, actor=owner)
    tagger = hplm_create(tenant=tenant, name="side-effects", parent=world.root, dataset=spans, actor=owner)
    versions_finish(tagger, {"evaluate": _spans_found()}, files=files)
    return tagger


def furnish_kinds(world: World, files: ArtifactFiles) -> None:
    """A model of each further kind of task, as its jobs would have left it."""
    for task, name, row, answer in KINDS:
        train = {"train": (f"{name}.jsonl", io.BytesIO(jsonl(map(row, range(60))).encode()))}
        dataset = dataset_upload(
            tenant=world.tenant, name=name.title(), task=task, files=train, actor=world.owner
        )
        made = hplm_create(
            tenant=world.tenant, name=name, parent=world.domain, dataset=dataset, actor=world.owner
        )
        found = measured(task, [row(n) for n in TESTED], [answer(n) for n in TESTED])
        versions_finish(made, {"evaluate": found, "fine_tune": fine_tuning()}, files=files)


def _leaflet(number: int) -> str:
    """A text with tags, one word a line."""
    return "".join(f"{word.format(number)} {tag}\n" for word, tag in zip(WORDS, TAGS, strict=True))


def _spans_found() -> dict[str, Any]:
    """The measures of a tagger that takes only the second word of every third disease for one."""
    rows = [{"tokens": [word.format(n) for word in WORDS], "tags": list(TAGS)} for n in TESTED]
    half = [*TAGS[:-2], "O", "B-DISEASE"]
    return measured("tagging", rows, [list(TAGS) if n % 3 else half for n in TESTED])


def _spans_judged(row: dict[str, Any], number: int) -> EvaluatedRow:
    """What that tagger answers."""
    gold = [["DRUG", 0, 1], ["DISEASE", 5, 7]]
    answer = gold if number % 3 else [gold[0], ["DISEASE", 6, 7]]
    return EvaluatedRow(gold, answer, gold == answer, 0.6 + number % 9 / 30)


def fail(world: World) -> None:
    """A model whose training broke."""
    broken = hplm_create(
        tenant=world.tenant, name="language", parent=world.root, dataset=world.dataset, actor=world.owner
    )
    job = jobs_in_order(broken)[0]
    start(job, 0.4, "fine-tune")
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
    for step in range(9):
        fall = 0.9**step
        figures = {"stage": "further pretrain", "step": step * 200, "total": 2000, "loss": 1 + 3.1 * fall}
        levels = {"trigram": 0.13 + 0.3 * fall, "left_bigram": 0.2 + 0.3 * fall, "unigram": 0.27 + 0.4 * fall}
        unexplained = {f"unexplained_{level}": value for level, value in levels.items()}
        job_event(job_id=job.pk, kind="metrics", data=figures | unexplained)
    report(job, 0.62, "further pretrain", eta=148)


def pages_of(world: World) -> dict[str, Callable[[Page], object]]:
    """Each page by its name, with the way to it."""
    ways: dict[str, Callable[[Page], object]] = {
        name: partial(open_page, address=f"/t/{world.tenant.slug}/{address}")
        for name, address in addresses_of(world).items()
    }
    return {
        **ways,
        "try": partial(ask, world, "triage"),
        "corpus": partial(show_corpus, world),
        "try-several": partial(ask, world, "triage@default&model=topics@default&model=pain-score"),
        "try-spans": partial(ask, world, "side-effects"),
        "try-labels": partial(ask, world, "topics"),
        "try-value": partial(ask, world, "pain-score"),
        "try-pair": partial(ask, world, "same-meaning", second=("Second text", TEXT)),
        "try-question": partial(ask, world, "leaflet-questions", first="Question", second=("Context", TEXT)),
        "dataset-questions": partial(check_questions, world),
        "dataset-new": partial(check_dataset, world),
        "dataset-refused": partial(refuse_dataset, world),
        "check-refused": partial(show_check, world),
        "dataset-fit": partial(fit_dataset, world),
        "dataset-bad-rows": partial(bad_rows, world),
        "dataset-uploading": partial(uploading, world),
    }


def addresses_of(world: World) -> dict[str, str]:
    """Each page that an address suffices for, below the tenant's own."""
    running = Job.unscoped.get(state="running")
    failed = Job.unscoped.get(state="failed")
    done = jobs_in_order(world.hplm)[1]
    kept = LoggedRequest.unscoped.filter(texts__isnull=False).latest("pk")
    refused = LoggedRequest.unscoped.filter(error_code="not_found").latest("pk")
    return {
        "home": "",
        "tree": "tree/",
        "tree-found": "tree/?q=t",
        "data": "data/",
        "dataset": f"data/datasets/{world.dataset.pk}/",
        "dataset-rows": f"data/datasets/{world.dataset.pk}/rows/",
        "test-row-add": f"data/datasets/{world.dataset.pk}/test-rows/1/add/",
        "corpus-new": "data/corpora/new/",
        "domain": f"domains/{world.domain.domain_id}/",
        "domain-new": f"domains/new/?parent={world.root.pk}&corpus={world.corpus.pk}",
        "domain-update": f"domains/{running.version.domain_id}/update/",
        "domain-version": f"domains/{world.domain.domain_id}/versions/1/",
        "root-version": f"roots/{world.root.root.name}/versions/1/",
        "settings": "settings/",
        "usage": "usage/?by=model",
        "requests": "requests/",
        "request": f"requests/{refused.pk}/",
        "request-input-add": f"requests/{kept.pk}/inputs/1/add/",
        "audit": "audit/",
        "jobs": "jobs/",
        "job-running": f"jobs/{running.pk}/",
        "job-failed": f"jobs/{failed.pk}/",
        "job-done": f"jobs/{done.pk}/",
        "job-log": f"jobs/{running.pk}/log/",
        "keys": "keys/",
        "batches": "batches/",
        "batch-running": f"batches/{Batch.unscoped.get(state='running').pk}/",
        "batch-done": f"batches/{Batch.unscoped.get(state='completed').pk}/",
        "webhooks": "webhooks/",
        "webhook": f"webhooks/{WebhookEndpoint.unscoped.earliest('created_at').pk}/",
        "members": "members/",
        "not-found": "nothing/",
        **_addresses_of_models(world),
    }


def _addresses_of_models(world: World) -> dict[str, str]:
    """Those of models: their lists, parts, versions, answers and forms."""
    return {
        "hplms": "models/",
        "hplm-settings": f"models/{world.hplm.name}/?part=Settings",
        "hplm-evaluation": f"models/{world.hplm.name}/?part=Evaluation",
        "hplm-usage": f"models/{world.hplm.name}/?part=Usage",
        "hplm-lineage": f"models/{world.hplm.name}/?part=Lineage",
        "hplm-version-served": "models/triage/versions/1/",
        "hplm-version": "models/triage/versions/2/",
        "hplm-version-spans": "models/side-effects/versions/1/",
        "answers": "models/triage/versions/2/answers/",
        "answers-spans": "models/side-effects/versions/1/answers/?wrong=0",
        "answers-not-stored": "models/pain-score/versions/1/answers/",
        "answers-against": "models/triage/versions/2/compare/1/",
        "versions-compared": "compare/?version=triage:1&version=triage:2&version=side-effects:1",
        "hplm-version-value": "models/pain-score/versions/1/",
        "hplm-version-questions": "models/leaflet-questions/versions/1/",
        "hplm": "models/triage/",
        "hplm-new": "models/new/",
        "hplm-new-parent": f"models/new/?dataset={world.dataset.pk}",
        "hplm-new-settings": f"models/new/?dataset={world.dataset.pk}&parent={world.domain.pk}",
        "hplm-new-review": f"models/new/?dataset={world.dataset.pk}&parent={world.domain.pk}&name=urgent",
        "hplm-import": "models/import/",
        "adapter-import": "models/import/adapter/",
        "hplm-about": "models/triage/edit/",
        "hplm-card": "models/triage/versions/1/card/",
        "hplm-update": "models/triage/update/",
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


def show_check(world: World, page: Page) -> None:
    """The page of a check that somebody comes back to."""
    refused = UploadCheck.unscoped.filter(state="refused").latest("created_at")
    page.goto(f"/t/{world.tenant.slug}/data/checks/{refused.pk}/")


def show_corpus(world: World, page: Page) -> None:
    """The page of a corpus, held against the recommended root."""
    page.goto(f"/t/{world.tenant.slug}/data/corpora/{world.corpus.pk}/")
    page.get_by_text("Tokens per row").wait_for()


def fit_dataset(world: World, page: Page) -> None:
    """The page of a dataset, held against a root."""
    page.goto(f"/t/{world.tenant.slug}/data/datasets/{world.dataset.pk}/")
    page.get_by_role("button", name="Check").click()
    page.get_by_text("Tokens per row").wait_for()


def bad_rows(world: World, page: Page) -> None:
    """Check a file of which some rows are faulty."""
    rows = [
        {"text": f"text {number}" if number % 7 else "", "label": "ab"[number % 2]} for number in range(60)
    ]
    choose(world, page, "tickets.jsonl", jsonl(rows).encode())
    page.get_by_text("Download invalid rows").wait_for()


def uploading(world: World, page: Page) -> None:
    """A file on its way, another there, and a connection that broke."""
    page.goto(f"/t/{world.tenant.slug}/data/datasets/new/")
    page.get_by_label("Name", exact=True).fill("Tickets of May")
    file: FilePayload = {
        "name": "train-of-may.jsonl",
        "mimeType": "text/plain",
        "buffer": tickets_file().getvalue(),
    }
    page.get_by_label("Training file").set_input_files(file)
    page.get_by_text("Uploaded", exact=True).wait_for()
    page.route("**/uploads/**", lambda route: route.abort())
    page.get_by_label("Test file").set_input_files({**file, "name": "test-of-may.jsonl", "buffer": b"{}"})
    page.get_by_text("Connection lost").wait_for()
    page.unroute("**/uploads/**")


def choose(world: World, page: Page, name: str, content: bytes, *, fresh: bool = True) -> None:
    """Fill in the form of a dataset, a fresh one or the one that is open, and press Check."""
    if fresh:
        page.goto(f"/t/{world.tenant.slug}/data/datasets/new/")
    page.get_by_label("Name", exact=True).fill("Tickets of May")
    page.get_by_label("Training file").set_input_files(
        {"name": name, "mimeType": "text/plain", "buffer": content}
    )
    page.get_by_role("button", name="Check").click()


def check_questions(world: World, page: Page) -> None:
    """Upload questions with answers up to their preview."""
    page.goto(f"/t/{world.tenant.slug}/data/datasets/new/")
    page.get_by_label("Question answering").check()
    content = jsonl(map(_question, range(60))).encode()
    choose(world, page, "questions.jsonl", content, fresh=False)
    page.get_by_text("First rows").wait_for()


def ask(
    world: World, hplm: str, page: Page, *, first: str = "Text", second: tuple[str, str] | None = None
) -> None:
    """Put a text, or two, to a model."""
    page.goto(f"/t/{world.tenant.slug}/playground/?model={hplm}@default")
    if second is not None:
        page.get_by_label(second[0], exact=True).fill(second[1])
        first = "First text" if first == "Text" else first
    page.get_by_label(first, exact=True).fill(TEXT)
    page.get_by_role("button", name="Send", exact=True).click()
    page.locator("#answer article").first.wait_for()
