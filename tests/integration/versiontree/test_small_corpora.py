"""A corpus of which no job could make anything is refused before one is queued."""

from pathlib import Path

import pytest
from pytest_django import Settings
from rest_framework.test import APIClient

from tenants.accounts.models import Tenant
from tenants.datasets.models import Corpus
from tenants.datasets.services.corpora import corpus_upload
from tests.integration.tenants.content import stream
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.callers import V1, error, signed_in
from tests.integration.versiontree.refusals import rows_of_all
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.tree.models import Version

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope", "upload_root")]


def uploaded(tenant: Tenant | None, *, rows: int, words_per_row: int) -> Corpus:
    content = "".join(f"{row} {'word ' * (words_per_row - 1)}\n" for row in range(rows))
    return corpus_upload(tenant=tenant, name=f"{rows} rows", stream=stream(content), filename="text.txt")


def test_one_long_line_is_no_corpus(
    root: Version, acme: TenantFixture, staff: APIClient, tmp_path: Path
) -> None:
    own = tree_factory.ready_domain(root, "law", home=acme)
    line = uploaded(acme.tenant, rows=1, words_per_row=25_000)
    shared = uploaded(None, rows=7, words_per_row=4_000)
    source = tree_factory.checkpoint(tmp_path / "another")
    member, before = signed_in(acme.developer), rows_of_all()
    answers = [
        member.post(f"{V1}/tenants/acme/domains", {"name": "art", "parent": root.pk, "corpus": line.pk}),
        member.post(f"{V1}/tenants/acme/domains/{own.domain_id}/versions", {"corpus": line.pk}),
        staff.post(f"{V1}/platform/roots", {"name": "late", "source": source, "corpus": shared.pk}),
        staff.post(f"{V1}/platform/domains", {"name": "art", "parent": root.pk, "corpus": shared.pk}),
    ]
    assert [error(answer) for answer in answers] == [(422, "corpus_too_small", "corpus")] * 4
    assert rows_of_all() == before


def test_eight_texts_are_enough_for_a_root_and_with_their_words_for_a_domain(
    staff: APIClient, tmp_path: Path, settings: Settings
) -> None:
    settings.HMI_CORPUS_MIN_WORDS = 80
    few, enough = (uploaded(None, rows=rows, words_per_row=8) for rows in (8, 10))
    body = {"name": "bert", "source": tree_factory.checkpoint(tmp_path / "ckpt"), "corpus": few.pk}
    made = staff.post(f"{V1}/platform/roots", body)
    assert made.status_code == 201, made.content
    root = tree_factory.do_jobs(Version.unscoped.get(pk=made.json()["id"]))
    body = {"name": "law", "parent": root.pk}
    refused = staff.post(f"{V1}/platform/domains", body | {"corpus": few.pk})
    assert error(refused) == (422, "corpus_too_small", "corpus")
    assert refused.json()["error"]["details"] == {"words": 64, "minimum": 80}
    assert staff.post(f"{V1}/platform/domains", body | {"corpus": enough.pk}).status_code == 201
