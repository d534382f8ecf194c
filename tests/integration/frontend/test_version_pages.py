"""What the pages of versions, domains, jobs and data say."""

import io
import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from frontend.presenters.cascade import cascade_summary
from frontend.presenters.job_charts import MAX_POINTS, job_charts
from inference.cascade.dispatcher import AnswerPolicy
from tenants.datasets.services.datasets import dataset_upload
from tenants.usage.services.answer_counts import AnswerCount
from tenants.usage.services.usage import answers_record
from tests.e2e.measures import evaluation, fine_tuning
from tests.e2e.tiny_files import cascade_of, with_cascade
from tests.e2e.world import World, nothing_of_use, start, versions_finish
from tests.integration.versiontree.tree_factory import jobs_in_order
from tests.unit.tenants.files import jsonl, texts
from versiontree.jobs.models import Job, JobEvent
from versiontree.jobs.services.lifecycle import job_event
from versiontree.tree.models import Version
from versiontree.tree.services.hplms import hplm_create, hplm_update
from versiontree.tree.training_settings import rows_of


def page(client: Client, address: str) -> str:
    """What stands there."""
    answer = client.get(f"/t/acme/{address}")
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_version_shows_the_levels_calibration_and_candidates_of_its_cascade(
    owner: Client, world: World
) -> None:
    assert world.hplm.hplm is not None
    made = hplm_update(hplm=world.hplm.hplm, dataset=world.dataset, actor=world.owner)
    versions_finish(made, {"evaluate": evaluation(right=45), "fine_tune": fine_tuning()}, files=with_cascade)
    assert 'id="cascade"' not in page(owner, "models/triage/versions/1/")
    shown = page(owner, "models/triage/versions/2/")
    cascade, calibration = shown[shown.index('id="cascade"') :].split('id="calibration"')
    levels = re.findall(r"<tr><td>(\w+)</td><td class=\"end\"><strong>([\d.]+%)</strong>", cascade)
    assert levels == [("Table", "86.1%"), ("Cascade", "88.3%"), ("Full", "88.4%")]
    assert "4 candidates" in cascade
    assert re.findall(r"chosen</span> ([\d.]+)", cascade) == ["0.70"]
    facts = re.findall(r"<dt>([\w ]+)</dt><dd>([^<]+)</dd>", cascade)
    assert facts == [
        ("Answers", "mixed: 24.0% of the texts are computed after the tables"),
        ("Expected loss", "0.1 points (95%: -0.9 points to 1.1 points)"),
        ("Time saved", "2.2 of 8.4 ms a text (26%)"),
    ]
    assert "the fastest answers" in cascade
    assert "Not in use" not in cascade
    policy = re.search(r'action="([^"]+/policy/)"', cascade)
    assert policy is not None
    owner.post(policy[1], {"policy": "full"})
    owner.force_login(world.viewer)
    assert "Not in use: by the policy, every text is computed" in page(owner, "models/triage/versions/2/")
    assert calibration.count("<figure") == 2
    assert re.findall(r"ECE ([\d.]+)", calibration)[:2] == ["0.071", "0.024"]
    assert "confidence 88.0%, 90.0% right" in calibration


@pytest.mark.parametrize(
    ("serves", "answers", "loss", "saved"),
    [
        ("table", "from the tables", "0.023 (95%: -0.001 to 0.047)", "4.2 of 8.4 ms a text (50%)"),
        ("full", "computed", "none", "none"),
    ],
)
def test_a_level_that_serves_alone_is_named_with_its_loss_and_its_time(
    serves: str, answers: str, loss: str, saved: str
) -> None:
    profile = replace(cascade_of("number"), serves=AnswerPolicy(serves))
    found = cascade_summary(profile, {"fine_tune": {"dev": {"metric": "pearson"}}})
    assert (found.answers, found.loss, found.saved) == (answers, loss, saved)
    assert not any(one.chosen for one in found.candidates)


def test_costs_of_an_older_profile_are_shares() -> None:
    profile = replace(cascade_of("classes"), costs=None)
    full = replace(profile.full, milliseconds=1.0)
    candidates = tuple(replace(one, milliseconds=one.milliseconds / 8.4) for one in profile.candidates)
    found = cascade_summary(replace(profile, full=full, candidates=candidates), {})
    assert (found.saved, found.levels[1].time, found.loss) == ("26%", "73.8%", "0.1 points")
    assert found.rule.startswith("An earlier release chose this")


def test_a_version_shows_what_it_answered_lately(owner: Client, world: World) -> None:
    assert 'id="served-answers"' not in page(owner, "models/triage/versions/1/")
    version, today = world.hplm, datetime.now(UTC).date()
    Version.unscoped.filter(pk=version.pk).update(ready_at=timezone.now() - timedelta(days=3))
    some = AnswerCount(40, 40, 30.0, 40, 10, 60, 30, 10, checked_texts=8, agreed_texts=7)
    for ago in (40, 5, 0):  # before it was ready: those of an earlier model of the name
        record_answers(world, some, today - timedelta(days=ago))
    shown = page(owner, "models/triage/versions/1/").split('id="served-answers"')[1].split("</section>")[0]
    for figure in ("40", "75.0%", "25.0%", "60.0%", "30.0% partly known, 10.0% word by word", "87.5%"):
        assert f">{figure}" in shown
    assert "<polyline" not in shown, "one day makes no chart"
    record_answers(world, some + some, today - timedelta(days=1))
    shown = page(owner, "models/triage/versions/1/").split('id="served-answers"')[1].split("</section>")[0]
    assert shown.count("<polyline") == 4
    assert '<strong class="number">75.0%</strong> <span class="muted number">from 75.0%</span>' in shown
    assert ">120" in shown


def record_answers(world: World, count: AnswerCount, day: date) -> None:
    """Version 1 of triage answered so much on that day."""
    answers_record(tenant=world.tenant, model_name="triage", version=1, count=count, day=day)


def test_a_cascade_that_cannot_be_read_is_said(owner: Client, world: World) -> None:
    assert world.hplm.hplm is not None
    made = hplm_update(hplm=world.hplm.hplm, dataset=world.dataset, actor=world.owner)

    def broken(role: str, job: Job, folder: Path) -> None:
        (folder / "cascade.json").write_text(f'{{"format": 1, "of": "{role} {job.pk}"}}')

    versions_finish(made, files=broken)
    assert "cascade.json cannot be read" in page(owner, "models/triage/versions/2/")


def test_figures_measured_on_leaking_splits_say_so(owner: Client, world: World) -> None:
    def rows(count: int) -> io.BytesIO:
        return io.BytesIO(jsonl(texts(count)).encode())

    files = {"train": ("train.jsonl", rows(40)), "dev": ("dev.jsonl", rows(5))}
    leaky = dataset_upload(
        tenant=world.tenant, name="Leaky", task="classification", files=files, allow_leaks=True
    )
    made = hplm_create(
        tenant=world.tenant, name="flattered", parent=world.root, dataset=leaky, actor=world.owner
    )
    versions_finish(made, {"evaluate": evaluation(right=48)}, files=nothing_of_use)
    assert "100.0% of the rows of dev are also in train" in page(owner, "models/flattered/versions/1/")


def test_the_errors_of_a_running_job_are_drawn_by_level(owner: Client, world: World) -> None:
    made = hplm_create(
        tenant=world.tenant, name="slow", parent=world.root, dataset=world.dataset, actor=world.owner
    )
    job = jobs_in_order(made)[0]
    start(job)
    for step in range(4):
        told = {"step": step, "loss": 4.0 - step, "unexplained": {"trigram": 0.5 - step / 10, "unigram": 0.6}}
        job_event(job_id=job.pk, kind="metrics", data=told)
    shown = page(owner, f"jobs/{job.pk}/progress/")
    assert shown.count("<polyline") == 3
    assert "<title>step 3: tri-gram 0.2, uni-gram 0.6</title>" in shown


def test_a_long_job_s_curves_reach_from_its_beginning_to_its_end(world: World) -> None:
    made = hplm_create(
        tenant=world.tenant, name="slow", parent=world.root, dataset=world.dataset, actor=world.owner
    )
    job = jobs_in_order(made)[0]
    told = [JobEvent(job=job, kind="metrics", data={"loss": float(step)}) for step in range(1_000)]
    JobEvent.unscoped.bulk_create(told)
    [loss] = job_charts(job).single
    [line] = loss.lines
    assert (line.first, line.last) == ("0", "999")
    assert line.points.count(",") == len(loss.spots) == MAX_POINTS
    assert (loss.began, loss.now) == ("report 1", "report 120")


def test_the_form_of_a_domain_says_how_its_table_is_filled_and_stored(owner: Client, world: World) -> None:
    form = owner.get("/t/acme/domains/new/").context["form"]
    assert {"distillation_weight", "alpha", "budget_mb", "vectors"} <= set(form.more)
    chosen = {"name": "pills", "parent": world.root.pk, "corpus": world.corpus.pk, "alpha": 40}
    assert owner.post("/t/acme/domains/new/", chosen | {"vectors": "int8"}).status_code == 302
    first = Version.unscoped.get(domain__name="pills")
    assert first.config["vectors"] == "int8"
    versions_finish(first, files=nothing_of_use)
    address = f"/t/acme/domains/{first.domain_id}/update/"
    for asked, stored in (
        ({}, ({"alpha": 40.0}, "int8")),
        ({"budget_mb": 16, "vectors": "float16"}, ({"budget_mb": 16.0}, "float16")),
        ({}, ({"budget_mb": 16.0}, "float16")),
    ):
        assert owner.post(address, {"corpus": world.corpus.pk} | asked).status_code == 302
        version = Version.unscoped.filter(domain=first.domain_id).latest("number")
        assert (rows_of(version.config), version.config["vectors"]) == stored
        versions_finish(version, files=nothing_of_use)
    for wrong in ({"vectors": "int4"}, {"budget_mb": 16, "alpha": 40}):
        refused = owner.post(address, {"corpus": world.corpus.pk} | wrong)
        assert list(refused.context["form"].errors) == [next(iter(wrong))]
