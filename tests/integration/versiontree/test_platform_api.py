"""The manage API of the platform's own roots and domains: for staff."""

from pathlib import Path

import pytest
from rest_framework.test import APIClient

from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.callers import V1, error, signed_in, with_key
from tests.integration.versiontree.refusals import rows_of_all
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.tree.models import Version

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]


def test_staff_look_after_the_platforms_tree(staff: APIClient, tmp_path: Path) -> None:
    prose = tree_factory.corpus(None, "prose")
    source = tree_factory.checkpoint(tmp_path / "ckpt")
    made = staff.post(f"{V1}/platform/roots", {"name": "bert", "source": source, "corpus": prose.pk})
    assert made.status_code == 201, made.content
    root = tree_factory.do_jobs(Version.unscoped.get(pk=made.json()["id"]))
    body = {"name": "medicine", "parent": root.pk, "corpus": prose.pk}
    domain = staff.post(f"{V1}/platform/domains", body)
    assert (domain.status_code, domain.json()["tenant"]) == (201, None)
    tree_factory.do_jobs(Version.unscoped.get(pk=domain.json()["id"]))
    listed = staff.get(f"{V1}/platform/domains").json()["results"][0]["id"]
    again = staff.post(f"{V1}/platform/domains/{listed}/versions", {"corpus": prose.pk})
    job = again.json()["jobs"][0]["id"]
    assert staff.get(f"{V1}/platform/jobs/{job}").json()["version_name"] == "medicine"
    assert staff.post(f"{V1}/platform/jobs/{job}/cancel").json()["state"] == "cancelled"
    assert staff.post(f"{V1}/platform/jobs/{job}/retry").json()["state"] == "queued"
    assert len(staff.get(f"{V1}/platform/jobs/{job}/events").json()) == 3
    assert len(staff.get(f"{V1}/platform/jobs").json()["results"]) == 6


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"config.json": '{"model_type": "bert"}', "pytorch_model.bin": "\x80"}, "pickled_checkpoint"),
        ({"tokenizer.json": "{}", "weights.pt": "\x80"}, "pickled_checkpoint"),
        ({"config.json": '{"model_type": "bert"}'}, "unsupported_checkpoint"),
    ],
)
def test_a_checkpoint_that_cannot_be_used_is_refused_and_leaves_nothing(
    files: dict[str, str], code: str, staff: APIClient, tmp_path: Path, artifact_root: Path
) -> None:
    prose = tree_factory.corpus(None, "prose")
    folder = tmp_path / "published"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(content)
    before = rows_of_all()
    answer = staff.post(f"{V1}/platform/roots", {"name": "bert", "source": str(folder), "corpus": prose.pk})
    assert error(answer) == (422, code, "source")
    assert rows_of_all() == before
    assert list(artifact_root.iterdir()) == []


@pytest.mark.parametrize("address", ["roots", "domains", "jobs"])
def test_the_platforms_addresses_are_for_staff(address: str, acme: TenantFixture) -> None:
    at = f"{V1}/platform/{address}"
    assert error(signed_in(acme.owner).get(at))[:2] == (403, "forbidden")
    assert error(APIClient().get(at))[:2] == (401, "unauthenticated")
    assert error(with_key(acme, "manage").get(at))[0] in (401, 403)
