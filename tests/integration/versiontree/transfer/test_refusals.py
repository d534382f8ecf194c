"""What an import refuses although the archive is sound: it says why, and nothing has changed."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from pytest_django import Settings

from tenants.accounts.models import User
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.selectors.uploads import storage_used
from tenants.usage.models import Quota
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.transfer.conftest import zipped
from tests.integration.versiontree.transfer.site import Site, build, everything, make_hplm, store
from versiontree.transfer.archive.reader import Archive
from versiontree.transfer.services import import_plan as import_plans
from versiontree.transfer.services.version_import import version_import
from versiontree.tree.models import Version
from versiontree.tree.services.domains import domain_create, domain_update
from versiontree.tree.services.version_completion import version_finish

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tried_here")]
Move = Callable[[], None]


@pytest.fixture
def refuses(tmp_path: Path) -> Callable[..., HmiError]:
    """``refuses(code, archive, tenant=…)``: the import ends with this code, and leaves no trace."""

    def act(code: ErrorCode, archive: bytes, **arguments: object) -> HmiError:
        before = everything(tmp_path)
        with pytest.raises(HmiError) as caught:
            version_import(archive=io.BytesIO(archive), **{"actor": None, **arguments})  # type: ignore[arg-type]
        assert caught.value.code == code, caught.value.message
        assert everything(tmp_path) == before
        return caught.value

    return act


Refuses = Callable[..., HmiError]


def details_of(error: HmiError) -> dict[str, Any]:
    assert error.details is not None
    return error.details


def test_import_names_missing_parents(site: Site, another_site: Move, refuses: Refuses) -> None:
    alone, root = zipped(site.hplm), zipped(site.root)
    another_site()
    error = refuses(ErrorCode.MISSING_BRANCH, alone, tenant=site.globex.tenant)
    assert f"the root tiny v1 ({site.root.digest[:12]})" in error.message
    assert f"the domain medicine v1 ({site.domain.digest[:12]})" in error.message
    told = [(node["kind"], node["name"], node["digest"]) for node in details_of(error)["missing"]]
    assert told == [("domain", "medicine", site.domain.digest), ("root", "tiny", site.root.digest)]
    version_import(archive=io.BytesIO(root), tenant=None, actor=site.staff)
    error = refuses(ErrorCode.MISSING_BRANCH, alone, tenant=site.globex.tenant)
    assert "root" not in error.message
    assert [node["name"] for node in details_of(error)["missing"]] == ["medicine"]


def test_a_branch_of_another_tenant_is_not_there(site: Site, refuses: Refuses) -> None:
    planted = domain_create(
        tenant=site.acme.tenant, parent=site.root, name="own", corpus=site.acme.corpus, actor=None
    )
    private = build(planted, {role: site.models.root[role] for role in ("lower", "plot")})
    archive = zipped(private)
    refuses(ErrorCode.CONFLICT, archive, tenant=site.acme.tenant)
    hplm = zipped(make_hplm(site.acme, private, site.models, "ham"))
    refuses(ErrorCode.MISSING_BRANCH, hplm, tenant=site.globex.tenant)
    refuses(ErrorCode.INVALID_FIELD, hplm, tenant=site.globex.tenant, parent=private)
    version = version_import(archive=io.BytesIO(archive), tenant=site.globex.tenant, actor=None)
    assert (version.tenant, version.parent) == (site.globex.tenant, site.root)


def test_archive_of_an_existing_model_or_without_a_tenant_is_refused(site: Site, refuses: Refuses) -> None:
    for version in (site.root, site.domain):
        error = refuses(ErrorCode.CONFLICT, zipped(version, branch=True), tenant=None)
        assert version.name in error.message
    archive = zipped(site.hplm)
    refuses(ErrorCode.CONFLICT, archive, tenant=site.acme.tenant)
    assert refuses(ErrorCode.CONFLICT, archive, tenant=site.acme.tenant, name="spam").param == "name"
    refuses(ErrorCode.INVALID_FIELD, archive, tenant=site.acme.tenant, name="../evil")
    assert refuses(ErrorCode.MISSING_FIELD, archive, tenant=None).param == "tenant"


def test_a_conflict_deep_in_a_branch_leaves_no_file_of_it(
    site: Site, another_site: Move, refuses: Refuses
) -> None:
    archive, other = zipped(site.hplm, branch=True), zipped(site.root)
    another_site()
    version_import(archive=io.BytesIO(other), tenant=None, actor=None)
    parent = Version.unscoped.get()
    tree_factory.new_hplm(parent, "spam", site.globex)
    assert refuses(ErrorCode.CONFLICT, archive, tenant=site.globex.tenant).param == "name"


def test_only_staff_bring_roots(site: Site, another_site: Move, refuses: Refuses) -> None:
    branch, root = zipped(site.hplm, branch=True), zipped(site.root)
    another_site()
    for actor in (site.globex.owner, site.acme.developer):
        error = refuses(ErrorCode.FORBIDDEN, branch, tenant=site.globex.tenant, actor=actor)
        assert "the root tiny v1" in error.message
        refuses(ErrorCode.FORBIDDEN, root, tenant=None, actor=actor)
        refuses(ErrorCode.FORBIDDEN, root, tenant=site.globex.tenant, actor=actor)
    site.staff.is_active = False
    refuses(ErrorCode.FORBIDDEN, root, tenant=None, actor=site.staff)


def test_staff_need_the_permission_to_import_a_root(site: Site, another_site: Move, refuses: Refuses) -> None:
    root = zipped(site.root)
    another_site()
    curator = User.objects.create_user("curator", is_staff=True)
    refuses(ErrorCode.FORBIDDEN, root, tenant=None, actor=curator)
    curator.user_permissions.add(Permission.objects.get(codename="add_root"))
    curator = User.objects.get(pk=curator.pk)
    version_import(archive=io.BytesIO(root), tenant=None, actor=curator)
    assert Version.unscoped.filter(kind="root", state="ready").count() == 1


def test_only_staff_import_into_the_platform(site: Site, refuses: Refuses) -> None:
    private = build(
        domain_create(
            tenant=site.acme.tenant, parent=site.domain, name="own", corpus=site.acme.corpus, actor=None
        ),
        site.models.domain,
    )
    archive = zipped(private)
    refuses(ErrorCode.FORBIDDEN, archive, tenant=None, actor=site.acme.owner)
    version = version_import(archive=io.BytesIO(archive), tenant=None, actor=site.staff)
    assert version.tenant is None


def test_parent_other_than_that_of_the_archive_is_refused(
    site: Site, another_site: Move, refuses: Refuses
) -> None:
    archive, root = zipped(site.hplm), zipped(site.root)
    error = refuses(ErrorCode.INVALID_FIELD, archive, tenant=site.globex.tenant, parent=site.root)
    assert error.param == "parent"
    another_site()
    other = tree_factory.ready_root(store().root.parent, "other")
    refuses(ErrorCode.INVALID_FIELD, root, tenant=None, parent=other)


def test_the_quotas_hold_before_an_archive_is_unpacked(
    site: Site, another_site: Move, refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = zipped(site.hplm, branch=True)
    another_site()
    monkeypatch.setattr(Archive, "unpack", lambda *_: pytest.fail("it was unpacked"))
    for limits, quota in (
        ({"max_models": 0}, "models"),
        ({"max_domains": 0}, "domains"),
        ({"max_storage_bytes": 1000}, "bytes of storage"),
    ):
        Quota.unscoped.update_or_create(tenant=site.globex.tenant, defaults=limits)
        error = refuses(ErrorCode.QUOTA_EXCEEDED, archive, tenant=site.globex.tenant)
        assert details_of(error)["quota"] == quota
        Quota.unscoped.filter(tenant=site.globex.tenant).delete()


def private_domain(site: Site, parent: Version, name: str) -> Version:
    """One of acme's, of other artifacts than the platform's."""
    home = site.acme
    planted = domain_create(tenant=home.tenant, parent=parent, name=name, corpus=home.corpus, actor=None)
    return build(planted, {role: site.models.root[role] for role in ("lower", "plot")})


def test_every_domain_of_a_branch_counts(site: Site, refuses: Refuses) -> None:
    top = site.root
    for name in ("one", "two", "three"):
        top = private_domain(site, top, name)
    archive, tenant = zipped(top, branch=True), site.globex.tenant
    Quota.unscoped.update_or_create(tenant=tenant, defaults={"max_domains": 5})
    for number in range(4):
        tree_factory.ready_domain(site.root, f"own-{number}", home=site.globex)
    error = refuses(ErrorCode.QUOTA_EXCEEDED, archive, tenant=tenant)
    assert details_of(error)["quota"] == "domains"
    Quota.unscoped.filter(tenant=tenant).update(max_domains=7)
    assert version_import(archive=io.BytesIO(archive), tenant=tenant, actor=None).name == "three"


def test_versions_of_one_domain_count_once(site: Site) -> None:
    tenant, domain = site.globex.tenant, tree_factory.domain_of(private_domain(site, site.root, "one"))
    second = build(domain_update(domain=domain, corpus=site.acme.corpus, actor=None), site.models.domain)
    Quota.unscoped.update_or_create(tenant=tenant, defaults={"max_domains": 1})
    version = version_import(archive=io.BytesIO(zipped(second, branch=True)), tenant=tenant, actor=None)
    assert version.number == 2


def test_a_root_is_on_nobodys_account(site: Site, another_site: Move) -> None:
    archive = zipped(site.hplm, branch=True)
    own = sum(
        link.artifact.size
        for version in (site.hplm, site.domain)
        for link in version.artifact_links.select_related("artifact")
    )
    another_site()
    limit = storage_used(site.globex.tenant) + own
    Quota.unscoped.update_or_create(tenant=site.globex.tenant, defaults={"max_storage_bytes": limit})
    version_import(archive=io.BytesIO(archive), tenant=site.globex.tenant, actor=site.staff)


def test_an_archive_larger_than_the_limit_is_refused_before_it_is_unpacked(
    site: Site, settings: Settings, refuses: Refuses
) -> None:
    archive = zipped(site.hplm)
    settings.HMI_IMPORT_MAX_BYTES = 2000
    error = refuses(ErrorCode.FILE_TOO_LARGE, archive, tenant=site.globex.tenant)
    assert error.details == {"limit": 2000}


def test_a_failure_while_rows_are_written_takes_them_all_back(
    site: Site, another_site: Move, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = zipped(site.hplm, branch=True)
    another_site()
    before, _ = everything(tmp_path)
    planted: list[Version] = []

    def break_at_last(*, version: Version, metrics: Mapping[str, Any]) -> None:
        planted.append(version)
        if len(planted) == 3:
            raise RuntimeError("the power is gone")
        version_finish(version=version, metrics=metrics)

    monkeypatch.setattr(import_plans, "version_finish", break_at_last)
    with pytest.raises(RuntimeError):
        version_import(archive=io.BytesIO(archive), tenant=site.globex.tenant, actor=None)
    assert len(planted) == 3
    assert everything(tmp_path)[0] == before
    assert list((store().root / ".incoming").iterdir()) == []
