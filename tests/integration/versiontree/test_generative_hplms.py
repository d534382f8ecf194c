"""Decoder roots and the generative models below them: what they are made of and what they refuse."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import IntegrityError, transaction

from inference.manifest import Manifest
from tenants.base.errors import ErrorCode
from tenants.datasets.models import FilePurpose
from tenants.datasets.services.files import file_create
from tests.background import run_background_of
from tests.integration.tenants.content import stream
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.callers import with_key
from tests.integration.versiontree.refusals import refused
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.tree.models import Domain, Hplm, Root, RootKind, Version
from versiontree.tree.resolution import resolve_model
from versiontree.tree.selectors.callable_hplms import InputKind, callable_hplm, callable_hplms
from versiontree.tree.selectors.coverage import coverage_targets
from versiontree.tree.selectors.recommended_root import root_recommended
from versiontree.tree.services.domains import domain_create
from versiontree.tree.services.fine_tunings import fine_tuning_create
from versiontree.tree.services.hplms import hplm_update, version_set_policy
from versiontree.tree.services.roots import root_register

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]


@pytest.fixture
def decoder(db: None, tmp_path: Path) -> Version:
    return tree_factory.ready_decoder(tmp_path)


@pytest.fixture
def writer(decoder: Version, acme: TenantFixture) -> Version:
    return tree_factory.do_jobs(tree_factory.new_writer(decoder, acme))


def register(tmp_path: Path, **changes: Any) -> Version:
    asked: dict[str, Any] = {
        "name": "smol",
        "kind": RootKind.DECODER,
        "source": tree_factory.checkpoint(tmp_path / "ckpt", "llama"),
        "actor": None,
    }
    return root_register(**(asked | changes))


def roles_of(version: Version) -> set[str]:
    return set(version.artifact_links.values_list("role", flat=True))


def test_a_decoder_is_ready_with_its_root_alone(tmp_path: Path, db: None) -> None:
    version = register(tmp_path, lower_layers=10)
    (convert,) = tree_factory.jobs_in_order(version)
    assert convert.kind == "convert"
    assert convert.params == {
        "source": str(tmp_path / "ckpt"),
        "name": "smol",
        "settings": {"lower_layers": 10},
    }
    ready = tree_factory.do_jobs(version)
    assert (ready.state, ready.root.kind, roles_of(ready)) == ("ready", "decoder", {"root"})


def test_invalid_options_of_a_decoder_are_refused(tmp_path: Path, db: None) -> None:
    for changes, code, param in (
        ({"kind": "mixer"}, ErrorCode.INVALID_FIELD, "kind"),
        ({"kind": "encoder"}, ErrorCode.UNSUPPORTED_CHECKPOINT, "source"),
        ({"settings": {"n": 3}}, ErrorCode.INVALID_FIELD, "settings.n"),
        ({"lower_layers": -1}, ErrorCode.INVALID_FIELD, "settings.lower_layers"),
    ):
        refused(partial(register, tmp_path, **changes), code, param)


def test_a_decoder_takes_no_corpus_and_an_encoder_needs_one(tmp_path: Path, db: None) -> None:
    text = tree_factory.corpus(None, "prose")
    refused(lambda: register(tmp_path, corpus=text), ErrorCode.INVALID_FIELD, "corpus")
    bert = tree_factory.checkpoint(tmp_path / "bert")
    refused(lambda: register(tmp_path, kind="encoder", source=bert), ErrorCode.MISSING_FIELD, "corpus")


@pytest.mark.parametrize("task", ["generation", "chat"])
def test_a_generative_model_is_fine_tuned_and_evaluated_below_a_decoder(
    task: str, decoder: Version, acme: TenantFixture
) -> None:
    version = tree_factory.new_writer(decoder, acme, task=task)
    assert [job.kind for job in tree_factory.jobs_in_order(version)] == ["fine_tune", "evaluate"]
    ready = tree_factory.do_jobs(version)
    assert (ready.state, roles_of(ready), ready.policy) == ("ready", {"hplm"}, "")
    assert resolve_model(acme.tenant, "writer").task == task


def test_models_stand_on_the_kind_of_root_that_their_task_needs(
    decoder: Version, root: Version, acme: TenantFixture
) -> None:
    writes = tree_factory.dataset(acme.tenant, "texts", task="generation")
    reads = tree_factory.dataset(acme.tenant, "labels")
    for data, parent, wanted in ((writes, root, "needs a decoder"), (reads, decoder, "needs an encoder")):
        found = refused(
            partial(tree_factory.new_hplm, parent, "odd", acme, data),
            ErrorCode.INVALID_FIELD,
            "parent",
        )
        assert wanted in found.message


def test_postgresql_refuses_a_model_on_the_other_kind_of_root(
    decoder: Version, root: Version, acme: TenantFixture
) -> None:
    for task in ("classification", "generation"):
        parent = root if task == "generation" else decoder
        hplm = Hplm.unscoped.create(tenant=acme.tenant, name=task, task=task)
        with pytest.raises(IntegrityError, match="stand on"), transaction.atomic():
            Version.unscoped.create(
                kind="model", parent=parent, root=parent.root, hplm=hplm, tenant=acme.tenant, number=1
            )


def test_postgresql_refuses_another_kind_of_a_root_and_a_policy_below_a_decoder(writer: Version) -> None:
    with pytest.raises(IntegrityError, match="kind of a root never changes"), transaction.atomic():
        Root.objects.filter(pk=writer.root_id).update(kind="encoder")
    with pytest.raises(IntegrityError, match="has no policy"), transaction.atomic():
        Version.unscoped.filter(pk=writer.pk).update(policy="cascade")


def test_no_domain_stands_on_a_decoder(decoder: Version) -> None:
    text = tree_factory.corpus(None, "medicine")
    refused(
        lambda: domain_create(tenant=None, parent=decoder, name="medicine", corpus=text, actor=None),
        ErrorCode.INVALID_FIELD,
        "parent",
    )
    domain = Domain.unscoped.create(root=decoder.root, name="medicine")
    with pytest.raises(IntegrityError, match="a decoder has no domains"), transaction.atomic():
        Version.unscoped.create(
            kind="domain", parent=decoder, root=decoder.root, domain=domain, tenant=None, number=1
        )


def test_a_generative_model_takes_no_policy_and_no_settings_of_tables(
    writer: Version, decoder: Version, acme: TenantFixture
) -> None:
    for policy in ("table", "cascade"):
        found = refused(
            partial(version_set_policy, version=writer, policy=policy, actor=None),
            ErrorCode.INVALID_FIELD,
            "policy",
        )
        assert "is generative" in found.message
    hplm, more = tree_factory.hplm_of(writer), tree_factory.dataset(acme.tenant, "more", task="generation")
    settings = {"full_context_share": 0.5}
    refused(
        lambda: hplm_update(hplm=hplm, dataset=more, actor=None, settings=settings),
        ErrorCode.INVALID_FIELD,
        "settings.full_context_share",
    )


def test_every_address_of_encoders_says_where_generative_models_are_called(
    writer: Version, acme: TenantFixture
) -> None:
    for path, body in (
        ("/api/v1/infer", {"model": "writer", "inputs": ["A text"]}),
        ("/v1/embeddings", {"model": "writer", "input": "A text"}),
        ("/v2/models/writer/infer", {"inputs": []}),
        ("/v2/models/writer", None),
    ):
        client = with_key(acme, "infer")
        answer = client.get(path) if body is None else client.post(path, body, format="json")
        assert answer.status_code in (400, 422), path
        assert "/v1/chat/completions" in answer.content.decode(), path


@pytest.mark.parametrize(
    ("row", "task"),
    [
        ({"prompt": "Name {}: ", "completion": "It is {}."}, "generation"),
        (
            {
                "messages": [
                    {"role": "user", "content": "Name {}."},
                    {"role": "assistant", "content": "It is {}."},
                ]
            },
            "chat",
        ),
    ],
)
def test_a_fine_tuning_of_the_openai_api_keeps_conversations_below_a_decoder(
    row: dict[str, Any], task: str, decoder: Version, acme: TenantFixture, upload_root: Path
) -> None:
    lines = [json.dumps(row).replace("{}", str(number)) for number in range(60)]
    file = file_create(
        tenant=acme.tenant,
        purpose=FilePurpose.FINE_TUNE,
        filename="rows.jsonl",
        stream=stream("\n".join(lines)),
        actor=acme.developer,
    )
    made = fine_tuning_create(
        tenant=acme.tenant, model="smol", training_file=file.pk, actor=acme.developer, name="writer"
    )
    run_background_of(made.pk)
    made.refresh_from_db()
    assert made.error is None
    assert made.version is not None
    assert made.version.hplm is not None
    assert (made.version.hplm.task, made.version.root) == (task, decoder.root)


def test_the_playground_compares_generative_models_with_their_like(
    writer: Version, acme: TenantFixture
) -> None:
    assert callable_hplm(acme.tenant, "writer").input_kind == InputKind.PROMPT
    offered = {
        kind: [one.reference for one in callable_hplms(acme.tenant, input_kind=kind)] for kind in InputKind
    }
    assert offered.pop(InputKind.PROMPT) == ["writer@default"]
    assert not any(offered.values())


def test_nothing_is_measured_against_the_tables_of_a_decoder(decoder: Version, acme: TenantFixture) -> None:
    assert coverage_targets(acme.tenant) == []
    assert root_recommended(acme.tenant) is None


@pytest.mark.django_db(transaction=True)
def test_the_manifest_keeps_both_kinds_of_models_apart(
    decoder: Version, root: Version, acme: TenantFixture
) -> None:
    spam = tree_factory.ready_hplm(root, "spam", acme)
    writer = tree_factory.do_jobs(tree_factory.new_writer(decoder, acme))
    path = Path(settings.HMI_ARTIFACT_ROOT) / "manifest.json"
    published = json.loads(path.read_text())
    assert [*published["hplms"]] == ["acme/spam:1"]
    assert [*published["generative"]] == ["acme/writer:1"]
    manifest = Manifest.load(path)
    assert ([*manifest.roots], [*manifest.decoders]) == ([root.digest], [decoder.digest])
    assert manifest.decoders[decoder.digest].name == "smol"
    assert manifest.decoders[decoder.digest].files.keys() == {"root.json", "root.safetensors"}
    found = manifest.find_generative("acme", "writer", 1)
    assert found is not None
    assert (found.digest, found.root, found.task) == (writer.digest, decoder.digest, "generation")
    assert manifest.find("acme", "writer", 1) is None
    assert manifest.find("acme", "spam", 1) is not None
    below = manifest.below(["smol"])
    assert ([*below.decoders], [*below.roots]) == ([decoder.digest], [])
    assert ([*below.generative_hplms], [*below.hplms]) == ([("acme", "writer", 1), ("", "smol", 1)], [])
    assert manifest.below([spam.root.name]).decoders == {}
