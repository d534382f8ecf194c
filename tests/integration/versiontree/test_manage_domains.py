"""Registering roots, creating and updating domains: what it makes and what it refuses."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings
from rest_framework.test import APIClient

from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode
from tenants.datasets.models import Corpus
from tenants.datasets.services.corpora import corpus_upload
from tests.integration.tenants.content import stream
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.callers import V1, error, signed_in
from tests.integration.versiontree.refusals import refused, rows_of_all
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.tree.models import Version
from versiontree.tree.services.domains import domain_create, domain_update
from versiontree.tree.services.hplms import hplm_create
from versiontree.tree.services.roots import root_register
from versiontree.tree.training_settings import rows_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]


def register(tmp_path: Path, **changes: Any) -> Version:
    asked: dict[str, Any] = {
        "name": "bert",
        "source": tree_factory.checkpoint(tmp_path / "ckpt"),
        "corpus": Corpus.unscoped.filter(tenant=None).first() or tree_factory.corpus(None, "prose"),
        "actor": None,
    }
    return root_register(**(asked | changes))


def test_registering_a_root_plans_a_conversion_and_its_plot(tmp_path: Path, db: None) -> None:
    version = register(tmp_path, lower_layers=2, alpha=80, settings={"distil_tokens": 1000})
    convert, build = tree_factory.jobs_in_order(version)
    assert (version.kind, version.number, version.parent, version.tenant) == ("root", 1, None, None)
    assert convert.params["source"] == str(tmp_path / "ckpt")
    assert convert.params["settings"] == {"distil_tokens": 1000, "lower_layers": 2}
    assert build.after == convert
    assert (build.params["alpha"], build.params["all_unigrams"]) == (80.0, True)
    assert "budget_mb" not in build.params
    assert tree_factory.do_jobs(version).state == "ready"


def test_a_root_that_cannot_be_registered_is_refused(
    root: Version, acme: TenantFixture, tmp_path: Path
) -> None:
    folder = tmp_path / "pickled"
    folder.mkdir()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04")
    refusals: list[tuple[dict[str, Any], ErrorCode, str]] = [
        ({"source": str(folder)}, ErrorCode.PICKLED_CHECKPOINT, "source"),
        ({"name": root.root.name}, ErrorCode.CONFLICT, "name"),
        ({"corpus": acme.corpus}, ErrorCode.NOT_FOUND, "corpus"),
        *(({"name": name}, ErrorCode.INVALID_FIELD, "name") for name in ("", "b" * 64, "../bert")),
        ({"settings": {"lower_layers": 0}}, ErrorCode.INVALID_FIELD, "settings.lower_layers"),
        ({"settings": {"device": "cuda"}}, ErrorCode.INVALID_FIELD, "settings.device"),
        ({"settings": [1]}, ErrorCode.INVALID_FIELD, "settings"),
        ({"alpha": 101}, ErrorCode.INVALID_FIELD, "alpha"),
        ({"alpha": float("nan")}, ErrorCode.INVALID_FIELD, "alpha"),
        ({"budget_mb": 0}, ErrorCode.INVALID_FIELD, "budget_mb"),
        ({"alpha": 50, "budget_mb": 64}, ErrorCode.INVALID_FIELD, "budget_mb"),
    ]
    for changes, code, param in refusals:
        refused(partial(register, tmp_path, **({"name": "another"} | changes)), code, param)


def test_a_domain_grows_from_a_root_and_learns_its_corpus(root: Version, acme: TenantFixture) -> None:
    version = domain_create(
        tenant=acme.tenant, parent=root, name="law", corpus=acme.corpus, actor=acme.developer, alpha=40
    )
    pretrain, build = tree_factory.jobs_in_order(version)
    assert (version.kind, version.parent, version.tenant) == ("domain", root, acme.tenant)
    assert pretrain.params["corpus"]["sha256"] == acme.corpus.sha256
    assert (build.params["alpha"], build.params["all_unigrams"]) == (40.0, False)
    assert version.created_by == acme.developer
    assert {job.tenant for job in (pretrain, build)} == {acme.tenant}


def test_an_update_stands_below_the_newest_ready_version_and_keeps_how_its_rows_were_chosen(
    domain: Version,
) -> None:
    more, parent = tree_factory.corpus(None, "more"), domain
    updates: list[tuple[dict[str, float], dict[str, float]]] = [
        ({}, {"budget_mb": 64.0}),
        ({"alpha": 10}, {"alpha": 10.0}),
        ({}, {"alpha": 10.0}),
    ]
    for number, (asked, expected) in enumerate(updates, start=2):
        version = domain_update(domain=tree_factory.domain_of(domain), corpus=more, actor=None, **asked)
        build = tree_factory.jobs_in_order(version)[-1]
        assert (version.number, version.parent) == (number, parent)
        assert rows_of(version.config) == rows_of(build.params) == expected
        parent = tree_factory.do_jobs(version)


def test_a_domain_is_not_updated_while_a_version_of_it_is_built(domain: Version) -> None:
    more = tree_factory.corpus(None, "more")
    domain_update(domain=tree_factory.domain_of(domain), corpus=more, actor=None)
    refused(
        lambda: domain_update(domain=tree_factory.domain_of(domain), corpus=more, actor=None),
        ErrorCode.CONFLICT,
        "domain",
    )


def test_a_domain_name_is_given_once_per_owner(domain: Version, root: Version, acme: TenantFixture) -> None:
    text = tree_factory.corpus(None, "text")
    refused(
        lambda: domain_create(tenant=None, parent=root, name="biomedicine", corpus=text, actor=None),
        ErrorCode.CONFLICT,
        "name",
    )
    own = domain_create(tenant=acme.tenant, parent=root, name="biomedicine", corpus=text, actor=None)
    assert own.tenant == acme.tenant


def test_platform_domain_cannot_use_a_tenants_corpus_or_domain(root: Version, globex: TenantFixture) -> None:
    private, text = tree_factory.ready_domain(root, "secret", home=globex), tree_factory.corpus(None, "text")
    create = partial(domain_create, tenant=None, name="law", actor=None)
    refused(lambda: create(parent=root, corpus=globex.corpus), ErrorCode.NOT_FOUND, "corpus")
    refused(lambda: create(parent=private, corpus=text), ErrorCode.NOT_FOUND, "parent")


def test_an_unfinished_parent_is_not_ready(root: Version, acme: TenantFixture) -> None:
    text = tree_factory.corpus(None, "text")
    unfinished = domain_create(tenant=None, parent=root, name="law", corpus=text, actor=None)
    refused(
        lambda: hplm_create(
            tenant=acme.tenant, name="spam", parent=unfinished, dataset=acme.dataset, actor=None
        ),
        ErrorCode.MODEL_NOT_READY,
        "parent",
    )


def test_the_quota_of_domains_is_kept(root: Version, acme: TenantFixture) -> None:
    for name in ("a", "b", "c"):
        domain_create(tenant=acme.tenant, parent=root, name=name, corpus=acme.corpus, actor=None)
    refused(
        lambda: domain_create(tenant=acme.tenant, parent=root, name="d", corpus=acme.corpus, actor=None),
        ErrorCode.QUOTA_EXCEEDED,
    )


def uploaded(tenant: Tenant | None, *, rows: int, words_per_row: int) -> Corpus:
    content = "".join(f"{row} {'word ' * (words_per_row - 1)}\n" for row in range(rows))
    return corpus_upload(tenant=tenant, name=f"{rows} rows", stream=stream(content), filename="text.txt")


@pytest.mark.usefixtures("upload_root")
def test_corpus_of_one_long_line_is_refused(
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


@pytest.mark.usefixtures("upload_root")
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
