"""Evaluating: what a version answered is kept, can be had again, and on the rows of another dataset."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inference.api.prepared_request import text_codec
from inference.cascade.profile import CascadeProfile
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.models import Dataset
from tenants.datasets.services.datasets import dataset_delete, dataset_upload
from tests.integration.jobs.world import World, mood_rows, store
from tests.integration.tenants.content import stream
from tests.integration.versiontree.tree_factory import jobs_in_order
from tests.unit.tenants.files import jsonl
from tests.unit.tiny import tiny_hplm, tiny_root
from versiontree.jobs.models import Job
from versiontree.tree.models import Artifact, Evaluation, Version, VersionArtifact
from versiontree.tree.resolution import resolve_model
from versiontree.tree.selectors.evaluations import (
    answers_of,
    evaluation_of,
    evaluations_shared,
    row_source,
    rows_read,
)
from versiontree.tree.selectors.versions import artifact_bytes
from versiontree.tree.services.evaluations import evaluation_request
from versiontree.tree.services.garbage_collection import artifacts_collect
from versiontree.tree.services.hplms import hplm_delete
from workers.runner import run_job


@pytest.fixture
def version(world: World, tmp_path: Path) -> Version:
    """A model whose jobs really ran."""
    made = world.create_hplm(world.ready_root(tmp_path / "root"))
    for job in jobs_in_order(made):
        run_job(job.pk)
    made.refresh_from_db()
    return made


def request(world: World, version: Version, dataset: Dataset | None = None) -> Job:
    return evaluation_request(
        version=version, dataset=dataset or world.classes, tenant=world.tenant, actor=world.owner
    )


def other_moods(world: World, name: str = "more moods") -> Dataset:
    """Other rows of the same task."""
    files = {"train": ("more.jsonl", stream(jsonl(mood_rows()[40:])))}
    return dataset_upload(
        tenant=world.tenant, name=name, task="classification", files=files, actor=world.owner
    )


def test_an_evaluation_keeps_what_was_answered_to_each_row_and_can_be_had_again(
    world: World, version: Version
) -> None:
    evaluation = evaluation_of(world.tenant, version)
    assert evaluation is not None
    answers = answers_of(evaluation)
    assert len(answers.answered) == version.metrics["evaluate"]["rows"]
    rights = [one.right for one in answers.answered]
    assert sum(map(bool, rights)) / len(rights) == pytest.approx(version.metrics["evaluate"]["value"])
    source = row_source(world.tenant, evaluation.test_sha256)
    rows = list(rows_read(source, answers.answered))
    assert [row["label"] for row in rows if row] == [one.gold for one in answers.answered]
    assert VersionArtifact.unscoped.filter(version=version, artifact__kind="answers").count() == 0

    # One that was fine-tuned keeps the profile of its model.
    assert "cascade" not in version.metrics["evaluate"]
    assert version.metrics["evaluate"]["policy"] == "cascade"
    assert not VersionArtifact.unscoped.filter(version=version, role="cascade").exists()
    assert resolve_model(world.tenant, "mood").cascade == ""

    Evaluation.unscoped.all().delete()  # as of a version from before answers were kept
    job = request(world, version)
    with pytest.raises(HmiError) as refused:
        request(world, version)
    assert refused.value.code == ErrorCode.CONFLICT
    run_job(job.pk)
    again = evaluation_of(world.tenant, version)
    assert again is not None
    assert again.artifact == evaluation.artifact
    before = version.metrics
    version.refresh_from_db()
    assert (version.state, version.metrics) == ("ready", before)


def test_versions_made_from_different_data_are_compared_on_the_rows_of_either(
    world: World, version: Version
) -> None:
    twin, other = world.create_hplm(version.domain_or_root(), name="twin"), other_moods(world)
    with pytest.raises(HmiError) as early:
        request(world, twin, other)
    assert early.value.code == ErrorCode.MODEL_NOT_READY
    with pytest.raises(HmiError) as wrong_task:
        request(world, version, world.tags)
    assert wrong_task.value.code == ErrorCode.INVALID_FIELD
    run_job(request(world, version, other).pk)
    own = evaluation_of(world.tenant, version)
    foreign = evaluation_of(world.tenant, version, test_sha256=other.splits.get(split="test").sha256)
    assert own is not None
    assert foreign is not None
    assert (own.dataset_name, foreign.dataset_name) == ("moods", "more moods")
    assert evaluations_shared(world.tenant, version, version) == (own, own)
    assert evaluations_shared(world.tenant, twin, version) is None
    dataset_delete(dataset=other, actor=world.owner)
    assert row_source(world.tenant, foreign.test_sha256) is None
    assert list(rows_read(None, answers_of(foreign).answered[:2])) == [None, None]

    lost = other_moods(world, "lost moods")
    late = request(world, version, lost)
    dataset_delete(dataset=lost, actor=world.owner)
    run_job(late.pk)
    late.refresh_from_db()
    version.refresh_from_db()
    assert (late.state, version.state) == ("failed", "ready"), "a failed evaluation leaves it ready"
    assert "lost moods" in late.error_message


def test_answers_count_as_storage_and_go_with_the_hplm(world: World, version: Version) -> None:
    evaluation = Evaluation.unscoped.get(version=version)
    assert artifact_bytes(world.tenant) >= evaluation.artifact.size + 1
    assert artifacts_collect(grace_s=0).artifacts == []
    assert answers_of(evaluation).rows
    assert version.hplm is not None
    hplm_delete(hplm=version.hplm, actor=world.owner)
    artifacts_collect(grace_s=0)
    assert not Evaluation.unscoped.exists()
    assert not Artifact.objects.filter(kind="answers").exists()
    assert not store().path("answers", evaluation.artifact.digest).exists()


def test_the_first_evaluation_of_a_version_without_a_profile_fits_it_once(
    world: World, tmp_path: Path
) -> None:
    root = world.ready_root(tmp_path / "root")
    model = tiny_hplm(tiny_root(tmp_path / "same"), "classification")
    version = world.ready_hplm(root, model, tmp_path, name="imported")
    before = resolve_model(world.tenant, "imported")
    assert before.cascade == ""
    job = request(world, version)
    run_job(job.pk)
    job.refresh_from_db()
    link = VersionArtifact.unscoped.get(version=version, role="cascade")
    profile = CascadeProfile.load(store().path("cascade", link.artifact.digest))
    assert profile is not None
    assert job.metrics["cascade"]["full"] == profile.full.metric
    assert job.metrics["value"] == job.metrics["levels"]["cascade"]
    after = resolve_model(world.tenant, "imported")
    assert after == replace(before, cascade=link.artifact.digest)
    names: dict[str, Any] = {"root": after.root_digest, "version": after.digest, "embed": False}
    assert text_codec(**names, cascade=after.cascade).cascade == profile
    assert text_codec(**names).cascade is None

    assert artifacts_collect(grace_s=0).artifacts == []
    run_job(request(world, version, other_moods(world)).pk)
    assert resolve_model(world.tenant, "imported") == after
