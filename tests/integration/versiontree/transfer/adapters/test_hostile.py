"""Adapters that were made to take a machine's time, memory or disk are refused before they do."""

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from pytest_django import Settings
from rest_framework.test import APIClient
from safetensors.torch import save

from inference.hplm.adapter_io.adapter_folder import MAX_TENSORS
from inference.hplm.hplm import MAX_ADAPTER_WIDTH, MAX_OUTPUTS, MAX_RANK
from inference.hplm.pets.kinds import tensor_shapes
from inference.hplm.pets.spec import PLACES, PetSpec, UpperShape
from inference.hplm.root import Root
from tenants.datasets.selectors.uploads import storage_used
from tenants.usage.models import Quota
from tests.integration.versiontree.callers import error
from tests.integration.versiontree.transfer.adapters.made import (
    PREFIX,
    bottleneck_members,
    draw,
    lora_members,
    lora_weights,
)
from tests.integration.versiontree.transfer.adapters.test_imports import globex, root, send
from tests.integration.versiontree.transfer.site import Site, everything, store
from tests.unit.versiontree.forging import Members, zip_of
from versiontree.transfer.archive import adapter
from versiontree.transfer.archive.adapter import largest_adapter
from versiontree.tree.selectors.versions import artifact_bytes
from versiontree.tree.tokenizer_fit import root_config

__all__ = ["globex", "root"]
pytestmark = pytest.mark.django_db
HOSTILE = "(?R)"
"""It never ends."""
MIB = 1024**2


@pytest.mark.timeout(60)
@pytest.mark.usefixtures("tried_here")
def test_adapters_of_unbounded_time_or_memory_are_refused_with_the_reason(
    site: Site, root: Root, globex: APIClient
) -> None:
    endless = f"bert.encoder.layer.2.output.adapters.a.adapter_{'a' * 300_000}\n"
    many = {f"{PREFIX}{number}": torch.zeros(0) for number in range(MAX_TENSORS + 1)}
    wide = {f"{PREFIX}classifier.weight": draw(MAX_OUTPUTS + 1, root.config.hidden, seed=3),
            f"{PREFIX}classifier.bias": draw(MAX_OUTPUTS + 1, seed=4)}  # fmt: skip
    nested, long = b'{"a": [' + b"{}," * 300_000 + b"{}]}", json.dumps({"a": "x" * 2 * MIB}).encode()
    config = "adapter_config.json"
    hostile: list[tuple[Members, list[str]]] = [
        (lora_members(root, None, rank_pattern={HOSTILE: 4}), ["rank_pattern", HOSTILE]),
        (lora_members(root, None, alpha_pattern={HOSTILE: 4}), ["alpha_pattern", HOSTILE]),
        ({**bottleneck_members(root), "adapter.safetensors": save({endless: torch.zeros(1)})}, ["tensor"]),
        (lora_members(root, many), ["tensor"]),
        (lora_members(root, {**lora_weights(root), **wide}), ["outputs"]),
        ({**lora_members(root), config: nested}, [config]),
        ({**lora_members(root), config: long}, [config]),
    ]
    for content, words in hostile:
        answer = send(globex, site, content)
        assert error(answer) == (422, "invalid_archive", "archive"), answer.content
        assert all(word in answer.json()["error"]["message"] for word in words), answer.content
        if words == [config]:
            assert set(answer.json()["error"]["details"]) == {"limit"}


@pytest.mark.usefixtures("tried_here")
def test_a_small_zip_file_that_unpacks_to_a_large_adapter_is_refused_by_its_directory(
    site: Site, root: Root, globex: APIClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zeros = {f"{PREFIX}bert.encoder.layer.0.attention.self.query.lora_A.weight": torch.zeros(16 * MIB)}
    bomb = zip_of(lora_members(root, zeros), compressed=True)
    assert len(bomb) < 100_000
    before = everything(tmp_path)
    too_large = send(globex, site, bomb)
    assert error(too_large)[:2] == (413, "file_too_large")
    assert too_large.json()["error"]["details"]["limit"] < 32 * MIB
    monkeypatch.setattr(adapter, "MAX_OUTPUTS", 10**6)  # a root as large as that
    refused = send(globex, site, bomb)
    assert error(refused)[:2] == (422, "invalid_archive")
    assert refused.json()["error"]["details"] == {"limit": 100}
    assert everything(tmp_path) == before


def allow(site: Site, size: int) -> None:
    """So many bytes more for globex."""
    tenant = site.globex.tenant
    taken = storage_used(tenant) + artifact_bytes(tenant)
    Quota.unscoped.update_or_create(tenant=tenant, defaults={"max_storage_bytes": taken + size})


@pytest.mark.usefixtures("tried_here")
def test_quota_and_disk_are_checked_by_the_claimed_sizes_before_unpacking(
    site: Site, root: Root, globex: APIClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = lora_members(root)
    size = len(members["adapter_model.safetensors"])
    allow(site, size)
    monkeypatch.setattr(adapter.Adapter, "unpack", pytest.fail)
    answer = send(globex, site, members)
    assert error(answer)[:2] == (429, "quota_exceeded")
    assert answer.json()["error"]["details"]["asked"] > size
    allow(site, 10**9)
    whole = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: whole._replace(free=size))
    assert error(send(globex, site, members))[:2] == (422, "out_of_disk")


@pytest.mark.usefixtures("tried_here")
def test_an_hplm_that_grows_beyond_the_quota_is_not_stored(site: Site, root: Root, globex: APIClient) -> None:
    narrow = lora_weights(root, rank=1)
    wide = {
        name: draw(*((MAX_RANK, value.shape[1]) if "lora_A" in name else (value.shape[0], MAX_RANK)),
                   seed=1)
        for name, value in narrow.items()
        if "layer.3.output" in name
    }  # fmt: skip
    pattern = {"layer.3.output.dense": MAX_RANK}
    members = lora_members(root, {**narrow, **wide}, r=1, rank_pattern=pattern)
    size = sum(len(content) for name, content in members.items() if name != "README.md")
    allow(site, size)
    before = everything(store().root)
    answer = send(globex, site, members)
    assert error(answer)[:2] == (429, "quota_exceeded")
    assert answer.json()["error"]["details"]["asked"] > size
    assert everything(store().root) == before


def test_the_largest_hplm_of_a_root_is_no_larger_than_the_bound(site: Site, root: Root) -> None:
    assert (adapter.MAX_RANK, adapter.MAX_WIDTH, adapter.MAX_OUTPUTS) == (
        MAX_RANK,
        MAX_ADAPTER_WIDTH,
        MAX_OUTPUTS,
    )
    config = root.config
    shape = UpperShape(config.layers, config.hidden, config.architecture.inner)
    for spec in (
        PetSpec(lora=MAX_RANK, lora_places=PLACES, biases=True, norms=True),
        PetSpec(adapter=MAX_ADAPTER_WIDTH, output_adapter=MAX_ADAPTER_WIDTH),
    ):
        numbers = sum(torch.Size(size).numel() for _, size in tensor_shapes(spec, shape))
        head = MAX_OUTPUTS * (config.hidden + 1) + 2 * config.hidden * (config.hidden + 1)
        bound = largest_adapter(root_config(site.root))
        assert 4 * (numbers + head) < bound < 4 * (numbers + head) * 2 + 5 * MIB


def test_a_process_that_computes_on_and_on_is_ended_by_its_processor_time(
    site: Site, root: Root, globex: APIClient, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("versiontree.transfer.archive.sandboxed_check.CPU_LIMIT_S", 1)
    monkeypatch.setattr("versiontree.transfer.archive.sandboxed_check.AdapterImportRequest.max_cpu_s", 1)
    settings.HMI_ARTIFACT_CHECK = (sys.executable, "-c", "while True: pass")
    answer = send(globex, site, lora_members(root))
    assert error(answer)[:2] == (422, "invalid_archive")
    assert answer.json()["error"]["details"] == {"limit": 1}
