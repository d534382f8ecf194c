"""A new model with its quick version: what its page says while the trained one is in training, and after."""

import html
from typing import Any

import pytest
from django.test import Client

from tests.e2e.measures import evaluation
from tests.e2e.world import World, nothing_of_use, start, succeed
from tests.integration.frontend.reading import Page
from versiontree.jobs.models import Job, JobKind
from versiontree.jobs.services.lifecycle import job_fail
from versiontree.tree.models import Version
from versiontree.tree.promotion import AGAINST
from versiontree.tree.services.hplms import hplm_create

PAGE = "/t/acme/models/complaints/"
SUSPECTS = [{"row": 1, "label": "refund", "suggested": "delivery", "confidence": 0.95}]
PROGRESS = f"{PAGE}progress/"


@pytest.fixture
def trained(world: World) -> Version:
    """The trained version of a new model, whose quick version is waiting like itself."""
    return hplm_create(
        tenant=world.tenant,
        name="complaints",
        parent=world.domain,
        dataset=world.dataset,
        actor=world.owner,
        quick=True,
    )


def job_of(kind: JobKind) -> Job:
    return Job.unscoped.get(version__hplm__name="complaints", kind=kind)


def finish(kind: JobKind, metrics: dict[str, Any] | None = None) -> None:
    start(job_of(kind))
    succeed(job_of(kind), metrics, files=nothing_of_use)


def quick_ready() -> None:
    finish(JobKind.QUICK, {"evaluate": evaluation(right=36), "quick": {"suspects": SUSPECTS}})


def shown(client: Client, **query: str) -> str:
    return html.unescape(client.get(PROGRESS, query).content.decode())


def headline(client: Client) -> str:
    return shown(client).partition("<h2>")[2].partition("</h2>")[0]


def test_the_quick_version_answers_while_the_other_is_in_training(owner: Client, trained: Version) -> None:
    assert headline(owner).startswith("Quick version: waiting; trained version: waiting")
    assert "Try it" not in shown(owner)
    quick_ready()
    start(job_of(JobKind.FINE_TUNE), 0.4, "training", eta=110.0)
    assert headline(owner).startswith("Quick version answers; trained version: 40%, about ")
    assert 'href="/t/acme/playground/?model=complaints@default">Try it' in shown(owner)
    assert "36 of 48" in shown(owner)
    assert f'href="/t/acme/data/datasets/{trained.dataset_id}/labels/">1 label to check' in shown(owner)


def test_the_page_reloads_its_parts_once_a_version_is_ready_and_not_before(
    owner: Client, trained: Version
) -> None:
    known = shown(owner).partition("?known=")[2].partition('"')[0]
    assert "HX-Trigger" not in owner.get(PROGRESS, {"known": known})
    quick_ready()
    changed = owner.get(PROGRESS, {"known": known})
    assert changed["HX-Trigger"] == "versions-changed"
    assert "every 2s" in changed.content.decode()


def test_both_stand_beside_each_other_with_the_gain_and_nothing_polls(
    owner: Client, trained: Version
) -> None:
    quick_ready()
    finish(JobKind.FINE_TUNE)
    paired = {"rows": 48, "left_out": 0, "metric": "accuracy", "old": 0.75, "new": 44 / 48, "p_value": 0.9}
    against = {AGAINST: {"version": 1, "dev": paired, "test": paired}}
    finish(JobKind.EVALUATE, evaluation(right=44) | against)
    page = shown(owner)
    assert "<h2>The trained version answers</h2>" in page
    assert ("36 of 48" in page, "44 of 48" in page, "+16.7 points" in page) == (True, True, True)
    assert "hx-trigger" not in page
    whole = owner.get(PAGE).content.decode()
    assert "+16.7 points" in whole
    assert ">Quick</span>" in whole


def test_a_trained_version_that_is_worse_does_not_take_over_and_the_page_says_why(
    owner: Client, trained: Version
) -> None:
    quick_ready()
    finish(JobKind.FINE_TUNE)
    paired = {"rows": 48, "left_out": 0, "metric": "accuracy", "old": 0.75, "new": 0.5, "p_value": 0.01}
    finish(JobKind.EVALUATE, evaluation(right=24) | {AGAINST: {"version": 1, "dev": paired, "test": paired}})
    page = owner.get(PAGE).content.decode()
    assert "<h2>The quick version still answers</h2>" in page
    assert "It is worse than version 1 on the dev rows of version 1." in page
    assert "-25.0 points" in page


def test_a_failed_training_leaves_the_quick_version_answering(owner: Client, trained: Version) -> None:
    quick_ready()
    job = job_of(JobKind.FINE_TUNE)
    start(job)
    job_fail(job_id=job.pk, worker="test-worker", code="training_diverged", message="The loss is not finite.")
    assert headline(owner) == "Quick version answers; trained version: failed, The loss is not finite."
    assert f'href="/t/acme/jobs/{job.pk}/">Show job' in shown(owner)
    assert "hx-trigger" not in shown(owner)


def test_lists_and_pages_mark_the_quick_version(owner: Client, trained: Version) -> None:
    quick_ready()
    for address in ("/t/acme/models/", "/t/acme/", PAGE, f"{PAGE}versions/1/"):
        assert ">Quick</span>" in owner.get(address).content.decode(), address
    assert ">Quick</span>" not in owner.get(f"{PAGE}versions/2/").content.decode()
    job = owner.get(f"/t/acme/jobs/{job_of(JobKind.QUICK).pk}/").content.decode()
    assert ("Quick version complaints v1" in job, "36 of 48" in job) == (True, True)


def test_other_models_have_no_quick_version_to_show(owner: Client, world: World) -> None:
    assert "answers</h2>" not in owner.get("/t/acme/models/triage/").content.decode()


def test_strangers_see_no_progress(client: Client, trained: Version, world: World) -> None:
    client.force_login(world.stranger)
    assert client.get(PROGRESS).status_code == 404


def test_without_a_comparison_by_the_job_the_metrics_of_equal_rows_are_compared(
    owner: Client, trained: Version
) -> None:
    finish(JobKind.FINE_TUNE)
    finish(JobKind.EVALUATE, evaluation(right=44))
    quick_ready()
    assert "on the same 48 test rows" in shown(owner)
    report = Version.unscoped.get(hplm=trained.hplm, number=1).metrics
    fewer = report | {"evaluate": report["evaluate"] | {"rows": 40}}
    Version.unscoped.filter(hplm=trained.hplm, number=1).update(metrics=fewer)
    assert "Gain by training" not in shown(owner)


def test_the_quick_version_says_how_its_head_was_fitted(owner: Client, trained: Version) -> None:
    fit = {"penalty": 0.01, "train_rows": 12_000, "fitted_rows": 2_000}
    finish(JobKind.QUICK, {"fine_tune": fit, "evaluate": evaluation(right=36)})
    page = Page(owner.get(f"{PAGE}versions/1/").content.decode())
    assert page.all_of("Penalty") == ["0.01"]
    assert page.all_of("Training rows read") == ["2,000 of 12,000"]
