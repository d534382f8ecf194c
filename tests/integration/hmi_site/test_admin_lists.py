"""Every list of the administration costs as many queries for hundreds of rows as for few, and has no list of
choices that is as long as a table."""

import hashlib
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from axes.models import AccessAttempt
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from demo.history import jobs_create
from demo.populate import hplms_register, statistics_gather
from tenants.accounts.models import Tenant, User
from tenants.accounts.services.api_keys import api_key_create
from tenants.datasets.models import Dataset
from tenants.datasets.services.checks import check_create
from tenants.datasets.services.uploads import upload_create
from tenants.usage.services.usage import usage_record
from tests.integration.hmi_site.copies import Copies
from tests.integration.versiontree import tree_factory
from versiontree.artifact_store import StoredArtifact
from versiontree.jobs.models import Job
from versiontree.tree.models import Alias, Domain, Hplm, Root, Version
from versiontree.tree.services.domains import domain_create

pytestmark = pytest.mark.slow

PAGE = 20
CHOICES = 60
"""More than any list of choices has that does not grow with a table."""
MOST = 24
"""Queries of any list, those of the session and of who asks among them."""
OF_KINDS = 'permissions"'
"""In the name of choices that do not grow with any table: there are four for each kind of row."""
OWNERS = (Group, User, Tenant)
"""What other rows refer to, and so is copied before them."""
IN_A_TREE = {
    *("Root", "Domain", "Hplm", "Version", "Alias", "Artifact", "Job"),
}


@pytest.fixture
def version(staff: Client, tmp_path: Any) -> Version:
    """A model's, with at least one row of everything else beside it."""
    home = tree_factory.create_tenant("acme")
    version = tree_factory.ready_hplm(
        tree_factory.ready_domain(tree_factory.ready_root(tmp_path), "medicine"), "spam", home
    )
    tenant = home.tenant
    api_key_create(tenant=tenant, name="a key", scopes=["infer"], created_by=home.owner)
    upload = upload_create(tenant=tenant, filename="a.txt", size=0, actor=home.owner)
    check_create(tenant=tenant, kind="corpus", files={"file": upload}, actor=home.owner, store=False)
    upload_create(tenant=tenant, filename="b.txt", size=0, actor=home.owner)
    usage_record(tenant=tenant, model_name="spam", inputs=1, tokens=9)
    Group.objects.create(name="people")
    EmailAddress.objects.create(user=home.owner, email="owner@example.org", verified=False, primary=False)
    Authenticator.objects.create(user=home.owner, type="totp", data={})
    AccessAttempt.objects.create(username="x", ip_address="192.0.2.1", failures_since_start=1)
    return version


def crowd(like: Version, count: int, serial: str) -> None:
    """So many further rows of every model that has pages."""
    copies = Copies(count, serial)
    for owner in OWNERS:
        copies.of(owner)
    _tree(like, copies)
    copies.of(Dataset)
    done = {
        *copies.made,
        *(model for model in admin.site._registry if model.__name__ in IN_A_TREE or model._meta.proxy),
    }
    rest = [model for model in admin.site._registry if model not in done]
    for model in rest:
        if model._base_manager.exists():
            copies.of(model)


def _tree(like: Version, copies: Copies) -> None:
    like.refresh_from_db()
    serials = [f"{copies.serial}{number}" for number in range(copies.count)]
    tenants = copies.made[Tenant]
    made = [StoredArtifact("hplm", hashlib.sha256(one.encode()).hexdigest(), 1, {}) for one in serials]
    hplms_register(like, tenants, serials, made)
    hplms = Hplm.unscoped.filter(tenant__in=tenants).select_related("tenant").order_by("pk")
    copies.made[Hplm] = list(hplms)
    copies.made[Version] = list(Version.unscoped.filter(hplm__in=hplms).order_by("pk"))
    jobs_create(versions=copies.made[Version], count=copies.count)
    copies.made[Job] = list(Job.unscoped.filter(version__in=copies.made[Version]).order_by("pk"))
    copies.add(Root, [Root(name=f"root-{one}", source="x") for one in serials])
    roots = copies.made[Root]
    Version.unscoped.bulk_create(Version(kind="root", root=root, number=1) for root in roots)
    top = Version.unscoped.get(kind="root", root=like.root_id)
    copies.add(Domain, [Domain(root=top.root, name="d", tenant=owner) for owner in tenants])
    Version.unscoped.bulk_create(
        Version(kind="domain", root=top.root, domain=domain, parent=top, number=1, tenant=domain.tenant)
        for domain in copies.made[Domain]
    )


def lists() -> dict[str, str]:
    """The address of each list by the name of its rows."""
    return {
        model._meta.label: reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        for model in admin.site._registry
    }


def costs(staff: Client) -> dict[str, int]:
    """How many queries each list takes, with all its pages and filters drawn."""
    found = {}
    for name, address in lists().items():
        with CaptureQueriesContext(connection) as seen:
            answer = staff.get(address)
        assert answer.status_code == 200, name
        shown = len(answer.context["cl"].result_list)
        assert shown == min(PAGE, apps.get_model(name)._base_manager.count()), name
        content = answer.content.decode()
        choices = max(content.count("<option"), content.count('href="?'))
        assert choices < CHOICES, f"{name} has a list of {choices} choices"
        found[name] = len(seen)
    return found


def test_a_list_costs_as_many_queries_with_hundreds_of_rows_of_everything(
    staff: Client, version: Version
) -> None:
    staff.get(reverse("admin:index"))
    crowd(version, CHOICES, "f")
    before = costs(staff)
    assert {name: cost for name, cost in before.items() if cost > MOST} == {}
    crowd(version, 300, "m")
    statistics_gather()
    assert costs(staff) == before


def pages_of_forms(version: Version) -> list[str]:
    """Where a row of each kind is added and changed; a tenant's domain, its model and the alias of that."""
    crowded = [(Domain, _tenants_domain(version).pk), (Hplm, version.hplm_id)]
    crowded.append((Alias, Alias.unscoped.get(hplm=version.hplm_id).pk))
    pages = [(model, "change", pk) for model, pk in crowded]
    for model in admin.site._registry:
        row = model._base_manager.order_by("pk").first()
        pages += [(model, "add", None), *([(model, "change", row.pk)] if row else [])]
    return [
        reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{name}", args=[pk] if pk else [])
        for model, name, pk in pages
    ]


def _tenants_domain(version: Version) -> Domain:
    """With many corpora of the tenant's and of the platform's to go on from, and a model of many versions."""
    version.refresh_from_db()
    ready = {"kind": "model", "state": "ready", "digest": version.digest, "ready_at": version.ready_at}
    of = {"tenant": version.tenant, "root": version.root, "hplm": version.hplm, "parent": version.parent}
    Version.unscoped.bulk_create(Version(**ready, **of, number=number) for number in range(2, 3 * PAGE + 1))
    for owner in (None, version.tenant):
        corpora = [tree_factory.corpus(owner, f"more-{number}") for number in range(CHOICES)]
    parent = Version.unscoped.get(kind="root", root=version.root_id)
    made = domain_create(tenant=version.tenant, parent=parent, name="own", corpus=corpora[0], actor=None)
    return tree_factory.domain_of(tree_factory.do_jobs(made))


def test_no_form_has_a_list_of_choices_as_long_as_a_table(staff: Client, version: Version) -> None:
    crowd(version, CHOICES, "f")
    for address in pages_of_forms(version):
        answer = staff.get(address)
        if answer.status_code == 200:
            content = answer.content.decode()
            selects = [part for part in content.split("<select") if OF_KINDS not in part[:80]]
            longest = max(part.count("<option") for part in selects)
            rows = content.count('<tr class="form-row')
            assert longest < CHOICES, f"{address} has a list of {longest} choices"
            assert rows < 2 * PAGE, f"{address} has {rows} rows"


def test_what_is_searched_for_a_form_is_what_it_takes(staff: Client, version: Version) -> None:
    domain, tenant = _tenants_domain(version), version.tenant
    foreign = tree_factory.create_tenant("globex").corpus
    asked = {"app_label": "tree", "model_name": "version", "field_name": "corpus"}

    def found(term: str, **more: str) -> list[str]:
        rows = staff.get(reverse("admin:autocomplete"), {**asked, "term": term, **more}).json()["results"]
        return [row["text"] for row in rows]

    page = staff.get(reverse("admin:tree_domain_change", args=[domain.pk])).content.decode()
    assert tenant is not None
    assert f'data-ajax--url="/admin/autocomplete/?owner={tenant.pk}"' in page
    assert found("more-9", owner=str(tenant.pk)) == ["more-9", "more-9"], "the platform's, and the tenant's"
    assert found("more-9", owner="platform") == ["more-9"]
    assert found(foreign.name) == [str(foreign)]
    assert found(foreign.name, owner=str(tenant.pk)) == []
    asked |= {"model_name": "alias", "field_name": "version"}
    assert f"acme/spam:{3 * PAGE}" in found("spam", to_serve=str(version.hplm_id))
    assert found("spam", to_serve="0") == found("spam", to_serve="\u00b2") == []
    asked |= {"model_name": "version", "field_name": "parent"}
    assert found("own", fit="parents") == [str(Version.unscoped.get(domain=domain))]
    assert found("own", fit="parents", owner="platform") == []
