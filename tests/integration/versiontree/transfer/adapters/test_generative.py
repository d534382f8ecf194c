"""LoRA of decoders over HTTP and in the browser: what PEFT saved answers here as there, and goes back."""

import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from django.core.files.uploadedfile import SimpleUploadedFile
from rest_framework.test import APIClient
from safetensors.torch import load, save
from torch import Tensor

from tests.integration.versiontree.callers import V1, error, with_key
from tests.integration.versiontree.transfer.conftest import zipped
from tests.integration.versiontree.transfer.generative_site import (
    PROMPT,
    TOKENS,
    GenerativeSite,
    completion,
    make_generative_site,
)
from tests.integration.versiontree.transfer.site import everything
from tests.unit.tiny_decoder import tiny_decoder_model
from tests.unit.versiontree.forging import Members, members_of, zip_of
from versiontree.transfer.services.version_import import version_import
from versiontree.tree.models import Version

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tried_here")]
PREFIX = "base_model.model."
QUERY, DOWN = "model.layers.{}.self_attn.q_proj", "model.layers.{}.mlp.down_proj"
LORA: Mapping[str, Any] = {
    "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 8, "bias": "none",
    "base_model_name_or_path": "acme/smol", "peft_version": "0.21.2", "target_modules": ["q_proj"],
}  # fmt: skip


@pytest.fixture
def site(db: None, artifact_root: Path, tmp_path: Path) -> GenerativeSite:
    return make_generative_site(tmp_path)


@pytest.fixture
def globex(site: GenerativeSite) -> APIClient:
    return with_key(site.globex, "manage")


def pair(module: str, rank: int) -> dict[str, Tensor]:
    """Random factors of a module, as PEFT saves them."""
    weight = tiny_decoder_model().get_submodule(module).weight
    assert isinstance(weight, Tensor)
    generator = torch.Generator().manual_seed(len(module) + rank)
    return {
        f"{PREFIX}{module}.lora_A.weight": torch.randn(rank, weight.shape[1], generator=generator) / 8,
        f"{PREFIX}{module}.lora_B.weight": torch.randn(weight.shape[0], rank, generator=generator) / 2,
    }


QUERY_0 = pair(QUERY.format(0), 4)
A, B = sorted(QUERY_0)


def members(tensors: Mapping[str, Tensor] = QUERY_0, **config: Any) -> Members:
    """A folder as PEFT saves it."""
    return {
        "lora/adapter_config.json": json.dumps({**LORA, **config}).encode(),
        "lora/adapter_model.safetensors": save({name: value.contiguous() for name, value in tensors.items()}),
        "lora/README.md": b"A card.",
    }


def send(client: APIClient, site: GenerativeSite, content: Members, **more: Any) -> Any:
    asked = {
        "archive": SimpleUploadedFile("a.zip", zip_of(content)),
        "parent": site.root.pk,
        "name": "theirs",
        **more,
    }
    return client.post(f"{V1}/import/adapter", asked, format="multipart")


def version_of(answer: Any) -> Version:
    assert answer.status_code == 201, answer.content
    return Version.unscoped.select_related("hplm", "tenant").get(pk=answer.json()["id"])


def merged_completion(tensors: Mapping[str, Tensor], scalings: Mapping[str, float]) -> tuple[int, ...]:
    """What transformers generates greedily with the updates added to the checkpoint's weights."""
    model: Any = tiny_decoder_model()
    with torch.no_grad():
        for module, scaling in scalings.items():
            a, b = (tensors[f"{PREFIX}{module}.lora_{factor}.weight"] for factor in "AB")
            model.get_submodule(module).weight += scaling * b @ a
    ids = torch.tensor([PROMPT])
    mask = torch.ones_like(ids)
    result = model.generate(ids, attention_mask=mask, max_new_tokens=TOKENS, do_sample=False, pad_token_id=0)
    return tuple(result[0, len(PROMPT) :].tolist())


def exported(client: APIClient, version: Version) -> Members:
    answer: Any = client.get(f"{V1}/versions/{version.pk}/export?format=peft")
    assert answer.status_code == 200, answer.content
    return members_of(b"".join(answer.streaming_content))


def test_a_lora_below_the_cut_too_generates_what_the_merged_model_generates(
    site: GenerativeSite, globex: APIClient
) -> None:
    query, down = QUERY.format(0), DOWN.format(2)
    tensors = pair(query, 4) | pair(down, 7)
    patterns = {"rank_pattern": {"down_proj": 7}, "alpha_pattern": {down: 3}}
    folder = members(tensors, target_modules=["q_proj", "down_proj"], **patterns)
    version = version_of(send(globex, site, folder, task="generation", license="mit"))
    expected = merged_completion(tensors, {query: 2.0, down: 3 / 7})
    assert completion(version) == expected
    assert expected != merged_completion(tensors, {}), "the LoRA shows"
    assert (version.state, version.parent_id) == ("ready", site.root.pk)
    assert version.hplm is not None
    assert (version.hplm.task, version.hplm.license) == ("generation", "mit")
    about = version.config["imported"]
    assert (about["ranks"], about["layers"], about["projections"]) == ("4 to 7", "0 to 2", "query, down")
    assert "below the cut" in version.config["warnings"][0]
    assert "Trained elsewhere" in members_of(zipped(version))["README.md"].decode()


def test_a_lora_is_for_chat_where_the_root_has_a_template_and_becomes_a_further_version(
    site: GenerativeSite, globex: APIClient
) -> None:
    first = version_of(send(globex, site, members()))
    assert first.hplm is not None
    assert first.hplm.task == "chat"
    second = version_of(send(globex, site, members(pair(QUERY.format(2), 4)), new_version=True))
    assert (second.number, second.hplm, "warnings" in second.config) == (2, first.hplm, False)
    other = send(globex, site, members(), new_version=True, task="generation")
    assert error(other) == (422, "invalid_field", "archive")


def test_another_checkpoint_of_the_same_shape_is_named_in_a_warning(
    site: GenerativeSite, globex: APIClient
) -> None:
    tensors = pair(QUERY.format(2), 4)
    for base, is_warned in {"acme/other": True, "mirror/smol": False, "/home/me/smol-2": False}.items():
        folder = members(tensors, base_model_name_or_path=base)
        version = version_of(send(globex, site, folder, name=base.strip("/").replace("/", "-")))
        told = " ".join(version.config.get("warnings", []))
        assert (f"trained on {base}" in told) == is_warned


def test_a_model_of_this_site_goes_to_peft_and_comes_back_with_the_same_answers(
    site: GenerativeSite, globex: APIClient
) -> None:
    back = exported(with_key(site.acme, "manage"), site.hplm)
    card = back["README.md"].decode()
    assert 'AutoModelForCausalLM.from_pretrained("acme/smol")' in card
    assert "PeftModel.from_pretrained(base" in card
    config = json.loads(back["adapter_config.json"])
    assert (config["peft_type"], config["task_type"]) == ("LORA", "CAUSAL_LM")
    tensors = load(back["adapter_model.safetensors"])
    assert {name.rsplit(".", 2)[0].removeprefix(PREFIX) for name in tensors} == set(config["target_modules"])
    assert merged_completion(tensors, dict.fromkeys(config["target_modules"], 1.0)) == completion(site.hplm)
    version = version_of(send(globex, site, back, task="generation"))
    assert completion(version) == completion(site.hplm)


def test_no_bottleneck_adapter_is_made_of_a_lora(site: GenerativeSite) -> None:
    client = with_key(site.acme, "manage")
    answer = client.get(f"{V1}/versions/{site.hplm.pk}/export?format=adapterhub")
    assert error(answer) == (422, "invalid_field", "format")
    assert "Use the peft format" in answer.json()["error"]["message"]


def test_a_model_with_adapters_goes_out_as_an_archive_and_not_for_peft(
    db: None, artifact_root: Path, tmp_path: Path
) -> None:
    site = make_generative_site(tmp_path, number=5)
    answer = with_key(site.acme, "manage").get(f"{V1}/versions/{site.hplm.pk}/export?format=peft")
    assert error(answer) == (422, "invalid_field", "format")
    assert "bottleneck adapters" in answer.json()["error"]["message"]
    archive = io.BytesIO(zipped(site.hplm))
    moved = version_import(archive=archive, tenant=site.globex.tenant, actor=None, name="moved")
    assert moved.digest == site.hplm.digest
    assert completion(moved) == completion(site.hplm) != merged_completion({}, {})


CONFIG_ALONE: Members = {name: value for name, value in members().items() if name.endswith(".json")}
REFUSED: dict[str, tuple[Members, str]] = {
    "another decoder": (
        members({name.replace("model.layers", "transformer.h"): value for name, value in QUERY_0.items()}),
        "transformer.h.0.self_attn.q_proj is not a projection of this decoder (llama, 3 layers)",
    ),
    "NaN": (members({**QUERY_0, B: QUERY_0[B] * math.nan}), f"{B} holds NaN"),
    "an absurd rank": (members(r=10**9), "the rank is 1000000000"),
    "AdapterHub": ({"adapter_config.json": b'{"config": {}}', "adapter.safetensors": b"x"}, "no peft_type"),
    "a pickle": ({**CONFIG_ALONE, "lora/adapter_model.bin": b"x"}, "pickle"),
}


def test_invalid_lora_of_a_decoder_is_refused_and_leaves_nothing(
    site: GenerativeSite, globex: APIClient, tmp_path: Path
) -> None:
    before = everything(tmp_path)
    for name, (content, reason) in REFUSED.items():
        answer = send(globex, site, content)
        assert error(answer) == (422, "invalid_archive", "archive"), (name, answer.content)
        assert reason in answer.json()["error"]["message"], (name, answer.content)
    assert everything(tmp_path) == before


def test_options_of_encoders_are_refused_below_a_decoder(site: GenerativeSite, globex: APIClient) -> None:
    options = {"labels": ["yes", "no"], "pairs": True, "drop_lower": True, "task": "multilabel"}
    for name, value in options.items():
        assert error(send(globex, site, members(), **{name: value})) == (422, "invalid_field", name)
