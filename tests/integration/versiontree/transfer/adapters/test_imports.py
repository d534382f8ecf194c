"""Adapters that other programs trained become models, over HTTP and in the browser."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient
from safetensors.torch import save

from inference.engine.adapters import PackedHplm
from inference.hplm.heads import apply_heads
from inference.hplm.hplm import Hplm
from inference.hplm.pets.batch import SegmentPets
from inference.hplm.root import Root
from inference.hplm.sequences import PackedSequences
from inference.text.predictions import predict
from tests.integration.versiontree.callers import V1, error, with_key
from tests.integration.versiontree.transfer.adapters.made import (
    TAGS,
    bottleneck_members,
    draw,
    lora_members,
    lora_weights,
    merged_answers,
)
from tests.integration.versiontree.transfer.conftest import zipped
from tests.integration.versiontree.transfer.site import Site, everything, store
from tests.reference_hplm import outputs_from_states
from tests.unit.versiontree.forging import Members, members_of, symlink, zip_of, zip_with
from versiontree.tree.models import Version

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tried_here")]


@pytest.fixture
def root(site: Site) -> Root:
    return Root.load(store().path("root", site.root.digest))


@pytest.fixture
def globex(site: Site) -> APIClient:
    return with_key(site.globex, "manage")


def send(client: APIClient, site: Site, content: Members | bytes, **more: Any) -> Any:
    packed = content if isinstance(content, bytes) else zip_of(content)
    told = {
        "archive": SimpleUploadedFile("a.zip", packed),
        "parent": site.domain.pk,
        "name": "theirs",
        **more,
    }
    return client.post(f"{V1}/import/adapter", told, format="multipart")


def test_imported_lora_has_the_outputs_of_the_original(site: Site, root: Root, globex: APIClient) -> None:
    members = {f"my-lora/{name}": content for name, content in lora_members(root).items()}
    answer = send(globex, site, members, labels=["no", "perhaps", "yes"], license="mit")
    assert answer.status_code == 201, answer.content
    assert (answer.json()["state"], answer.json()["parent"]) == ("ready", site.domain.pk)
    version = Version.unscoped.get(pk=answer.json()["id"])
    hplm = Hplm.load(store().path("hplm", version.digest))
    assert (hplm.task, hplm.labels) == ("classification", ("no", "perhaps", "yes"))

    states = draw(2, 9, root.config.hidden, seed=99)
    alone = torch.stack([torch.from_numpy(outputs_from_states(root, hplm, row)) for row in states])
    packed = PackedHplm.of(hplm, torch.float32)
    sequences = PackedSequences((9, 9))
    cut = states.flatten(0, 1)
    last = root.upper(cut, sequences, SegmentPets.of([packed.pet] * 2, sequences.lengths))
    served = apply_heads([packed.head] * 2, last, sequences, cut)
    expected = merged_answers(root, states)
    torch.testing.assert_close(alone, expected, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(torch.from_numpy(np.stack(served)), expected, atol=2e-5, rtol=1e-4)


def test_adapter_becomes_a_further_version_with_a_card_of_dropped_tensors(
    site: Site, root: Root, globex: APIClient
) -> None:
    assert send(globex, site, lora_members(root)).status_code == 201
    assert error(send(globex, site, lora_members(root))) == (409, "conflict", "name")
    whole = lora_members(root, lora_weights(root, first=0))
    refused = send(globex, site, whole, new_version=True)
    assert error(refused) == (422, "invalid_archive", "archive")
    told = refused.json()["error"]
    assert "encoder.layer.0.attention.self.query" in told["message"]
    assert "drop_lower" in told["message"]
    answer = send(globex, site, whole, new_version=True, drop_lower=True)
    assert (answer.status_code, answer.json()["number"]) == (201, 2)
    card = members_of(zipped(Version.unscoped.get(pk=answer.json()["id"])))["README.md"].decode()
    assert "encoder.layer.1.output.dense" in card
    assert "Trained elsewhere: base_model_name_or_path hub/tiny, format peft" in card
    other = send(globex, site, bottleneck_members(root), new_version=True)
    assert error(other) == (422, "invalid_field", "archive")


def test_adapterhub_adapter_keeps_its_tags(site: Site, root: Root, globex: APIClient) -> None:
    answer = send(globex, site, bottleneck_members(root))
    assert answer.status_code == 201, answer.content
    version = Version.unscoped.get(pk=answer.json()["id"])
    hplm = Hplm.load(store().path("hplm", version.digest))
    assert (hplm.task, hplm.labels, hplm.pet.spec.output_adapter) == ("tagging", TAGS, 4)
    assert error(send(globex, site, bottleneck_members(root, first=1), name="more"))[1] == "invalid_archive"


def test_adapterhub_adapter_with_one_output_is_a_regression(
    site: Site, root: Root, globex: APIClient
) -> None:
    head = {"heads.tags.1.weight": draw(1, root.config.hidden, seed=7), "heads.tags.1.bias": draw(1, seed=8)}
    about = {"head_type": "classification", "layers": 1, "use_pooler": False, "label2id": {"LABEL_0": 0}}
    members = {
        **bottleneck_members(root),
        "head_config.json": json.dumps({"config": about}).encode(),
        "model_head.safetensors": save(head),
    }
    answer = send(globex, site, members)
    assert answer.status_code == 201, answer.content
    version = Version.unscoped.select_related("hplm").get(pk=answer.json()["id"])
    assert version.hplm is not None
    assert (version.hplm.task, version.config["labels"]) == ("regression", ["value"])


def text_members(root: Root, kind: str, **told: Any) -> Members:
    """A bottleneck adapter with a head of this type for whole texts: a hidden layer, and three outputs."""
    hidden = root.config.hidden
    head = {
        f"heads.tags.{place}.{part}": draw(*shape, seed=place + len(part))
        for place, rows in ((1, hidden), (4, 3))
        for part, shape in (("weight", (rows, hidden)), ("bias", (rows,)))
    }
    about = {"head_type": kind, "layers": 2, "activation_function": "tanh", "use_pooler": False, **told}
    return {
        **bottleneck_members(root),
        "head_config.json": json.dumps({"config": about}).encode(),
        "model_head.safetensors": save(head),
    }


NEWS = ("politics", "sport", "weather")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("multilabel_classification", {"label2id": {label: at for at, label in enumerate(NEWS)}}),
        ("classification", {}),
    ],
    ids=["the folder says so", "who imports it says so"],
)
def test_multilabel_adapter_of_adapterhub_is_imported_and_exported(
    site: Site, root: Root, globex: APIClient, kind: str, said: Any
) -> None:
    asked = {} if said else {"task": "multilabel", "labels": list(NEWS)}
    members = text_members(root, kind, **said)
    answer = send(globex, site, members, **asked)
    assert answer.status_code == 201, answer.content
    version = Version.unscoped.select_related("hplm").get(pk=answer.json()["id"])
    assert version.hplm is not None
    assert (version.hplm.task, version.config["labels"]) == ("multilabel", list(NEWS))
    hplm = Hplm.load(store().path("hplm", version.digest))
    told = predict(hplm.task, hplm.labels, [np.array([3.0, -3.0, 2.0])], [], "").to_json()
    assert told["labels"] == ["politics", "weather"]
    assert sum(told["scores"].values()) > 1.5

    export: Any = globex.get(f"{V1}/versions/{version.pk}/export?format=adapterhub")
    back = members_of(b"".join(export.streaming_content))
    about = json.loads(back["head_config.json"])["config"]
    assert about["head_type"] == "multilabel_classification"
    again = send(globex, site, back, name="again")
    assert again.status_code == 201, again.content
    same = Hplm.load(store().path("hplm", Version.unscoped.get(pk=again.json()["id"]).digest))
    assert (same.task, same.labels) == (hplm.task, NEWS)
    states = draw(5, root.config.hidden, seed=9)
    ours, theirs = (torch.from_numpy(outputs_from_states(root, one, states)) for one in (hplm, same))
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_task_that_does_not_fit_the_head_is_refused(site: Site, root: Root, globex: APIClient) -> None:
    tokens = lora_members(root, task_type="TOKEN_CLS")
    for members, words in (
        (bottleneck_members(root), "each token"),
        (tokens, "each token"),
        (text_members(root, "classification"), "3 outputs"),
    ):
        task = "regression" if words == "3 outputs" else "multilabel"
        refused = send(globex, site, members, task=task, labels=TAGS)
        assert error(refused)[:2] == (422, "invalid_archive"), refused.content
        assert words in refused.json()["error"]["message"]


def without(weights: dict[str, Any], end: str) -> dict[str, Any]:
    return {name: value for name, value in weights.items() if not name.endswith(end)}


def test_unsupported_adapter_is_refused_and_leaves_nothing(
    site: Site, root: Root, globex: APIClient, tmp_path: Any
) -> None:
    weights, sound = lora_weights(root), lora_members(root)
    query = "base_model.model.bert.encoder.layer.2.attention.self.query"
    config = json.loads(sound["adapter_config.json"])
    cases: list[tuple[Members | bytes, str]] = [
        (lora_members(root, use_dora=True), "DoRA"),
        (lora_members(root, task_type=None), "head"),
        (lora_members(root, r=8), "shapes"),
        (lora_members(root, r=100_000), "rank"),
        (
            lora_members(root, without(weights, "layer.2.attention.self.query.lora_B.weight")),
            "layer.2.attention.self.query.lora_B.weight is missing",
        ),
        (lora_members(root, without(weights, "classifier.weight")), "classifier"),
        (lora_members(root, without(without(weights, "pooler.dense.weight"), "pooler.dense.bias")), "pooler"),
        (lora_members(root, {**weights, f"{query}.lora_A.weight": draw(4, 31, seed=1)}), "shapes"),
        (lora_members(root, {**weights, f"{query}.lora_A.weight": draw(4, 32, seed=1) / 0}), "infinite"),
        (lora_members(root, {**weights, f"{query}.weight": draw(32, 32, seed=1)}), "fully trained"),
        (
            lora_members(root, {**weights, "base_model.model.gpt.h.0.lora_A.weight": draw(1, 1, seed=1)}),
            "gpt",
        ),
        (bottleneck_members(root, non_linearity="swish"), "non_linearity"),
        (bottleneck_members(root, original_ln_after=True), "original_ln_after"),
        (bottleneck_members(root, prompt_length=3), "prompt_length"),
        ({**without(sound, "adapter_model.safetensors"), "adapter_model.bin": b"x"}, "pickle"),
        ({**without(sound, "adapter_model.safetensors"), "pytorch_model.bin": b"x"}, "pickle"),
        ({**sound, "pytorch_model_head.bin": b"x"}, "pickle"),
        ({**sound, "adapter_model.safetensors": b"x" * 64}, "safetensors"),
        ({**sound, "adapter_config.json": b"[1]"}, "JSON object"),
        ({**sound, "adapter_config.json": b"[" * 100_000}, "nested"),
        ({f"{top}/{name}": sound[name] for name in sound for top in "ab"}, "exactly one"),
        ({"README.md": b"A card."}, "adapter_config.json is missing"),
        ({"adapter_config.json": json.dumps(config).encode()}, "missing"),
        (zip_with(sound, symlink("config.json", "/etc/passwd")), "plain file"),
        (b"no zip", "cannot be read"),
        (save({"x": torch.zeros(1)}), "cannot be read"),
    ]
    before = everything(tmp_path)
    for content, word in cases:
        answer = send(globex, site, content)
        assert error(answer)[:2] == (422, "invalid_archive"), (word, answer.content)
        assert word in answer.json()["error"]["message"], answer.content
    labels = send(globex, site, sound, labels=["a", "a", "b"])
    assert "different" in labels.json()["error"]["message"]
    assert error(send(globex, site, sound, parent=site.hplm.pk))[0] == 404
    assert error(send(globex, site, sound, name="No Name"))[::2] == (422, "name")
    assert everything(tmp_path) == before


def test_an_adapter_is_imported_in_the_browser(site: Site, root: Root, client: Client) -> None:
    client.force_login(site.globex.owner)
    at = reverse("frontend:adapter_import", args=["globex"])
    told = {"name": "theirs", "parent": site.domain.pk, "labels": "no\nperhaps\n\nyes\n"}
    whole = zip_of(lora_members(root, lora_weights(root, first=0)))
    refused = client.post(at, {**told, "archive": SimpleUploadedFile("a.zip", whole)})
    assert "encoder.layer.0.attention.self.query" in refused.content.decode()
    kept = {**told, "archive": SimpleUploadedFile("a.zip", whole), "drop_lower": "on"}
    page = client.post(at, kept, follow=True).content.decode()
    version = Version.unscoped.get(hplm__name="theirs")
    assert version.config["labels"] == ["no", "perhaps", "yes"]
    assert "were dropped" in page


def test_imported_adapter_is_exported_with_the_same_outputs(
    site: Site, root: Root, globex: APIClient
) -> None:
    for name, members, form in (
        ("lora", lora_members(root), "peft"),
        ("bottleneck", bottleneck_members(root), "adapterhub"),
    ):
        made = send(globex, site, members, name=name).json()["id"]
        answer: Any = globex.get(f"{V1}/versions/{made}/export?format={form}")
        assert answer.status_code == 200, answer.content
        assert answer["Content-Disposition"] == f'attachment; filename="{name}-v1-{form}.zip"'
        back = members_of(b"".join(answer.streaming_content))
        assert b"\n## Usage\n" in back["README.md"]
        if form == "peft":  # by the names of modules of the checkpoint, each of which PEFT then saves whole
            told = json.loads(back["adapter_config.json"])
            assert told["modules_to_save"] == ["classifier", "pooler"]
        again = send(globex, site, back, name=f"{name}-again")
        assert again.status_code == 201, again.content
        first, second = (
            Hplm.load(store().path("hplm", Version.unscoped.get(pk=pk).digest))
            for pk in (made, again.json()["id"])
        )
        assert (first.task, first.labels, first.pet.spec) == (second.task, second.labels, second.pet.spec)
        states = draw(5, root.config.hidden, seed=9)
        ours, theirs = (torch.from_numpy(outputs_from_states(root, hplm, states)) for hplm in (first, second))
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
        other = {"peft": "adapterhub", "adapterhub": "peft"}[form]
        refused = globex.get(f"{V1}/versions/{made}/export?format={other}")
        assert error(refused) == (422, "invalid_field", "format")
