"""What the real `peft` and `adapters` save is uploaded, and what is downloaded they load again."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from pytest_django.live_server_helper import LiveServer

from inference.hplm.hplm import Hplm
from inference.hplm.root import Root
from tenants.accounts.services.api_keys import api_key_create
from tests.integration.versiontree.transfer.adapters.answers import answered
from tests.integration.versiontree.transfer.adapters.libraries import BEHIND, BUILDING_S, UPPER, Libraries
from tests.integration.versiontree.transfer.site import Site, store
from tests.unit.tiny import tiny_checkpoint
from tests.unit.versiontree.forging import zip_of
from versiontree.tree.models import Version

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(BUILDING_S), pytest.mark.usefixtures("redis_client")]
PATIENCE_S = 600
LORA = {**UPPER, "target_modules": ["query", "output.dense"], "modules_to_save": ["classifier", "pooler"]}
CASES: tuple[tuple[str, str, Mapping[str, Any], Mapping[str, Any]], ...] = (
    ("peft", "peft", {"task": "SEQ_CLS", "labels": 3, "lora": LORA}, {"labels": ["no", "perhaps", "yes"]}),
    (
        "adapters",
        "adapterhub",
        {"head": "tagging", "with": {"num_labels": 3}, "config": BEHIND},
        {"labels": ["O", "B-x", "I-x"]},
    ),
    (
        "adapters",
        "adapterhub",
        {"head": "classification", "with": {"num_labels": 3}, "config": BEHIND},
        {"labels": ["politics", "sport", "weather"], "task": "multilabel"},
    ),
)


@pytest.mark.parametrize(
    ("library", "form", "told", "fields"), CASES, ids=["peft", "adapters", "adapters-multilabel"]
)
def test_what_they_trained_goes_up_answers_as_theirs_and_comes_down_for_them_to_load(
    libraries: Libraries,
    site: Site,
    live_server: LiveServer,
    library: str,
    form: str,
    told: Mapping[str, Any],
    fields: Mapping[str, Any],
    tmp_path: Path,
) -> None:
    checkpoint = tiny_checkpoint(tmp_path / "checkpoint", lm_head=True)  # that of the site's root
    ids, logits = libraries.run(f"train-{library}", checkpoint, tmp_path / "theirs", **told)
    _, key = api_key_create(
        tenant=site.globex.tenant, name="wire", scopes=["manage"], created_by=site.globex.owner
    )
    with httpx.Client(
        base_url=f"{live_server.url}/api/v1",
        headers={"Authorization": f"Bearer {key}"},
        timeout=PATIENCE_S,
    ) as wire:
        made = wire.post(
            "/import/adapter",
            files={"archive": ("theirs.zip", zip_of(files_of(tmp_path / "theirs")))},
            data={"parent": site.domain.pk, "name": "theirs", **fields},
        )
        assert (made.status_code, made.json().get("state")) == (201, "ready"), made.text
        back = wire.get(f"/versions/{made.json()['id']}/export", params={"format": form})
        assert back.status_code == 200, back.text

    root = Root.load(store().path("root", site.root.digest))
    hplm = Hplm.load(store().path("hplm", Version.unscoped.get(pk=made.json()["id"]).digest))
    assert list(hplm.labels) == fields["labels"]
    torch.testing.assert_close(answered(root, hplm, ids), logits, atol=2e-5, rtol=1e-4)
    zipfile.ZipFile(io.BytesIO(back.content)).extractall(tmp_path / "back")
    again = libraries.run(f"load-{library}", checkpoint, tmp_path / "back", **told)
    torch.testing.assert_close(again, (ids, logits), atol=2e-5, rtol=1e-4)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
