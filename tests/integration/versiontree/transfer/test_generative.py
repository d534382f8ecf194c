"""Archives of decoder roots and generative models: they answer elsewhere as here, and forged ones are
refused."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from safetensors.torch import load, save

from tenants.accounts.services.tenant_deletion import tenant_delete
from tenants.base.errors import ErrorCode, HmiError
from tests.integration.versiontree.transfer.conftest import zipped
from tests.integration.versiontree.transfer.generative_site import (
    NUMBER,
    PROMPT,
    TOKENS,
    GenerativeSite,
    completion,
    make_generative_site,
)
from tests.integration.versiontree.transfer.site import artifacts_of, branch_of, store
from tests.unit.inference.generation.decoder_world import generated
from tests.unit.versiontree.forging import Members, beside, members_of, told, with_part, zip_of
from versiontree.transfer.services.tenant_deletion import tenant_delete_step
from versiontree.transfer.services.version_import import version_import
from versiontree.transfer.takeout.tree_parts import tree_parts
from versiontree.tree.models import Artifact, Version
from versiontree.tree.serving_manifest import manifest_content

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tried_here")]
Move = Callable[[], None]
Change = Callable[[Members], Members]


@pytest.fixture
def site(db: None, artifact_root: Path, tmp_path: Path) -> GenerativeSite:
    return make_generative_site(tmp_path)


def brought(content: bytes, site: GenerativeSite, **more: Any) -> Version:
    asked = {"tenant": site.globex.tenant, "actor": site.staff, **more}
    return version_import(archive=io.BytesIO(content), **asked)


def test_imported_branch_generates_the_same_tokens(site: GenerativeSite, another_site: Move) -> None:
    expected = generated("llama", str(NUMBER), PROMPT, TOKENS)
    assert completion(site.hplm) == expected
    archive, held = zipped(site.hplm, branch=True), artifacts_of(site.hplm)
    another_site()
    version = brought(archive, site)
    assert artifacts_of(version) == held
    assert completion(version) == expected
    (hplm, root) = branch_of(version)
    assert (hplm.hplm and hplm.hplm.task, root.root.kind, root.name) == ("generation", "decoder", "smol")
    assert (hplm.metrics, root.metrics) == (site.hplm.metrics, site.root.metrics)
    assert root.root.source_url == "https://huggingface.co/acme/smol"


def weights(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Change:
    """Other tensors in the LoRA's file."""
    ending = "lora.safetensors"

    def forge(members: Members) -> Members:
        (name,) = (name for name in members if name.endswith(ending))
        return with_part(members, ending, save(change(load(members[name]))))

    return forge


def of_decoder(**changes: Any) -> Change:
    """Another decoder.json."""

    def forge(members: Members) -> Members:
        (name,) = (name for name in members if name.endswith("decoder.json"))
        return with_part(members, "decoder.json", json.dumps(json.loads(members[name]) | changes).encode())

    return forge


FORGERIES: dict[str, tuple[Change, str]] = {
    "a pickle": (lambda m: beside(m, "lora.safetensors", "lora.bin", b"x"), "'lora.bin' is not part"),
    "files of an encoder": (
        lambda m: beside(m, "decoder.json", "root.json", b"{}"),
        "'root.json' is not part",
    ),
    "NaN": (weights(lambda t: t | {"row": t["row"] * float("nan")}), "NaN"),
    "a short row": (weights(lambda t: t | {"row": t["row"][:-1]}), "row has shape"),
    "a rank beyond all": (weights(lambda t: t | {"ranks": t["ranks"] + 10**6}), "they must be between 0 and"),
    "another task": (lambda m: told(m, lambda c: c.update(task="chat")), "not trained for what"),
    "a domain": (
        lambda m: told(m, lambda c: c["lineage"].insert(0, {**c["lineage"][0], "kind": "domain"})),
        "different lineages",
    ),
    "a table": (
        lambda m: told(m, lambda c: c["lineage"][0]["digests"].update(plot="0" * 64)),
        "The root is an encoder. A model for generation cannot be built on it",
    ),
    "a cascade": (
        lambda m: told(m, lambda c: c["digests"].update(cascade="0" * 64)),
        "does not have the artifacts",
    ),
    "a context longer than the decoder's": (of_decoder(max_tokens=10**6), "context of 1000000 tokens"),
    "stop tokens of no vocabulary": (of_decoder(stop_ids=[10**6]), "outside the vocabulary"),
    "samples that are no texts": (
        lambda m: told(m, lambda c: c["metrics"]["evaluate"].update(samples=[3]), "config.json"),
        "samples in the metrics",
    ),
    "a chat template that fails": (
        lambda m: with_part(m, "chat_template.jinja", b"{{ 1 / 0 }}"),
        "the chat template fails for 1 messages (user)",
    ),
}


def test_forged_archives_are_refused_and_leave_nothing(site: GenerativeSite, another_site: Move) -> None:
    sound = members_of(zipped(site.hplm, branch=True))
    another_site()
    for name, (change, reason) in FORGERIES.items():
        with pytest.raises(HmiError) as caught:
            brought(zip_of(change(sound)), site)
        assert (caught.value.code, caught.value.param) == (ErrorCode.INVALID_ARCHIVE, "archive"), name
        assert reason in caught.value.message, name
        assert not Version.unscoped.exists(), name
        assert not Artifact.objects.exists(), name


def test_a_takeout_holds_an_archive_of_a_generative_model(site: GenerativeSite) -> None:
    archives = [part for part in tree_parts(site.acme.tenant) if part.name.endswith(".zip")]
    assert [part.name for part in archives] == ["models/writer/v1.zip"]
    version = brought(b"".join(archives[0].chunks), site)
    assert completion(version) == completion(site.hplm)


def test_tenant_deletion_removes_generative_models_and_keeps_the_decoder(
    site: GenerativeSite, redis_client: Redis, upload_root: Path, tmp_path: Path, settings: Any
) -> None:
    settings.HMI_EXPORT_ROOT = tmp_path / "exports"
    settings.HMI_EXPORT_ROOT.mkdir()
    assert manifest_content()["generative"].keys() == {"acme/writer:1"}
    tenant_delete(tenant=site.acme.tenant, typed="acme", actor=site.staff)
    assert tenant_delete_step(tenant=site.acme.tenant)
    after = manifest_content()
    assert (after["generative"], [*after["decoders"]]) == ({}, [site.root.digest]), "a base model"
    assert not store().path("hplm", site.hplm.digest).exists()
    store().verify("root", site.root.digest)
