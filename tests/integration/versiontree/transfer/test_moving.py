"""What is exported here imports there: the same bytes, the same digest, the same answers."""

import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks

from tenants.audit.models import AuditEvent
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.transfer.conftest import zipped
from tests.integration.versiontree.transfer.site import (
    CONVERTED,
    MEASURED,
    Site,
    artifacts_of,
    branch_of,
    build,
    files_below,
    make_hplm,
    predictions,
    store,
)
from tests.integration.versiontree.transfer.test_trial import keep_cascade
from versiontree.transfer.services.version_export import version_export
from versiontree.transfer.services.version_import import version_import
from versiontree.tree.models import Artifact, Version
from versiontree.tree.resolution import resolve_model
from versiontree.tree.selectors.lineage import build_inputs
from versiontree.tree.services.compaction import domain_compact
from versiontree.tree.services.domains import domain_create, domain_update
from versiontree.tree.services.garbage_collection import artifacts_collect
from versiontree.tree.services.hplms import hplm_delete, hplm_set_description, hplm_update
from versiontree.tree.services.roots import root_convert
from versiontree.tree.services.version_completion import artifacts_attach

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tried_here")]
Move = Callable[[], None]


def update(site: Site) -> Version:
    """A second version of the domain."""
    domain, corpus = tree_factory.domain_of(site.domain), tree_factory.corpus(None, "more")
    return build(domain_update(domain=domain, corpus=corpus, actor=None), site.models.domain)


def test_a_folder_and_a_zip_file_hold_the_same_and_the_bytes_of_the_store(site: Site, tmp_path: Path) -> None:
    for branch in (False, True):
        out = tmp_path / f"out-{branch}"
        version_export(version=site.hplm, out=out / "folder", actor=site.acme.owner, branch=branch)
        version_export(version=site.hplm, out=out / "file.zip", actor=site.acme.owner, branch=branch)
        with zipfile.ZipFile(out / "file.zip") as archive:
            assert archive.testzip() is None
            inside = {name: archive.read(name) for name in archive.namelist()}
        assert inside == files_below(out / "folder")
        assert inside.keys() >= {"manifest.json", "README.md", "config.json"}
        artifacts = {name: content for name, content in inside.items() if name.startswith("artifacts/")}
        steps = branch_of(site.hplm) if branch else [site.hplm]
        links = Artifact.objects.filter(version_links__version__in=steps)
        assert artifacts == {
            f"artifacts/{artifact.kind}/{artifact.digest}/{name}": content
            for artifact in links
            for name, content in files_below(store().path(artifact.kind, artifact.digest)).items()
        }
        assert sorted(path.name for path in out.iterdir()) == ["file.zip", "folder"]


def test_a_branch_grows_on_an_empty_site(site: Site, another_site: Move) -> None:
    assert site.hplm.hplm is not None
    hplm_set_description(hplm=site.hplm.hplm, description="Sorts mail.", actor=site.staff)
    archive, said, held = zipped(site.hplm, branch=True), predictions(site.hplm), artifacts_of(site.hplm)
    digests = [version.digest for version in branch_of(site.hplm)]
    another_site()
    version = version_import(archive=io.BytesIO(archive), tenant=site.globex.tenant, actor=site.staff)
    assert (version.state, version.tenant, version.number) == ("ready", site.globex.tenant, 1)
    assert [step.digest for step in branch_of(version)] == digests
    assert [str(step.tenant or "") for step in branch_of(version)] == [str(site.globex.tenant)] * 2 + [""]
    assert artifacts_of(version) == held
    assert predictions(version) == said
    assert version.metrics == MEASURED
    root = branch_of(version)[-1].root
    assert (root.name, root.license, root.source_url) == ("tiny", "apache-2.0", "https://hub.example/tiny")
    assert version.hplm is not None
    assert (version.hplm.license, version.hplm.description) == ("cc-by-4.0", "Sorts mail.")
    assert resolve_model(site.globex.tenant, "spam").digest == version.digest
    assert [job for step in branch_of(version) for job in step.jobs.all()] == []


def test_a_root_with_int8_ranges_of_an_earlier_version_moves(
    site: Site, another_site: Move, tmp_path: Path
) -> None:
    """What lies in them is not read: it may be anything."""
    folder = shutil.copytree(site.models.root["root"], tmp_path / "root")
    (folder / "int8.safetensors").write_bytes(b"ranges")
    converted = {**CONVERTED, "convert": {**CONVERTED["convert"], "int8": {"unexplained": 0.006}}}
    assert site.root.root is not None
    planted = root_convert(root=site.root.root, actor=site.staff)
    root = build(planted, site.models.root | {"root": folder}, converted)
    archive, held = zipped(root), artifacts_of(root)
    another_site()
    version = version_import(archive=io.BytesIO(archive), tenant=None, actor=site.staff)
    assert artifacts_of(version) == held
    assert version.metrics == root.metrics
    assert ("root/root", "int8.safetensors") in held


def test_the_profile_of_an_evaluation_moves_with_the_version(
    site: Site, another_site: Move, tmp_path: Path
) -> None:
    folder = tmp_path / "fitted"
    folder.mkdir()
    keep_cascade(folder, "classes")
    fitted = store().ingest("cascade", folder)
    artifacts_attach(version=site.hplm, artifacts=[("cascade", fitted)])
    archive, held = zipped(site.hplm, branch=True), artifacts_of(site.hplm)
    assert ("model/cascade", "cascade.json") in held
    another_site()
    version = version_import(archive=io.BytesIO(archive), tenant=site.globex.tenant, actor=site.staff)
    assert artifacts_of(version) == held
    assert resolve_model(site.globex.tenant, "spam").cascade == fitted.digest


def test_quick_version_stays_one_where_it_is_imported(site: Site, another_site: Move) -> None:
    trained = tree_factory.new_hplm(site.domain, "ham", site.acme, quick=True)
    quick = Version.unscoped.get(hplm=trained.hplm, number=1)
    suspects = {"suspects": [{"row": 3, "label": "no", "suggested": "yes", "confidence": 0.9}]}
    build(quick, site.models.hplm, {"quick": {**MEASURED, "quick": suspects}})
    archive = zipped(Version.unscoped.get(pk=quick.pk), branch=True)
    with zipfile.ZipFile(io.BytesIO(archive)) as members:
        assert "A quick version: a head on the frozen root." in members.read("README.md").decode()
    another_site()
    version = version_import(archive=io.BytesIO(archive), tenant=site.globex.tenant, actor=site.staff)
    assert version.is_quick
    assert version.metrics == MEASURED, "the rows are those of a dataset of the other site"


def test_an_imported_branch_exports_as_it_came(site: Site, another_site: Move) -> None:
    archive = zipped(site.hplm, branch=True)
    another_site()
    version = version_import(archive=io.BytesIO(archive), tenant=site.globex.tenant, actor=None)
    with (
        zipfile.ZipFile(io.BytesIO(archive)) as first,
        zipfile.ZipFile(io.BytesIO(zipped(version, branch=True))) as second,
    ):
        assert first.namelist() == second.namelist()
        one, other = (json.loads(archive.read("manifest.json")) for archive in (first, second))
    for manifest in (one, other):
        manifest["files"] = {name: e for name, e in manifest["files"].items() if name != "config.json"}
        manifest["files"].pop("README.md")
    assert one == other


def test_an_hplm_moves_to_another_tenant_of_the_site(site: Site) -> None:
    artifacts, said = Artifact.objects.count(), predictions(site.hplm)
    for branch, name in ((False, "ham"), (True, "jam")):
        version = version_import(
            archive=io.BytesIO(zipped(site.hplm, branch=branch)),
            tenant=site.globex.tenant,
            actor=site.globex.developer,
            name=name,
        )
        assert (version.digest, version.parent, version.name) == (site.hplm.digest, site.domain, name)
        assert predictions(version) == said, branch
        assert Artifact.objects.count() == artifacts, branch
        assert site.hplm.config["dataset"]["splits"] == version.config["dataset"]["splits"], branch
        assert "id" not in version.config["dataset"], branch
        assert version.config["imported"] == {"name": "spam", "number": 1}, branch


def test_an_hplm_comes_back_after_it_was_deleted_and_collected(site: Site, tmp_path: Path) -> None:
    said, digest = predictions(site.hplm), site.hplm.digest
    version_export(version=site.hplm, out=tmp_path / "kept", actor=None)
    hplm_delete(hplm=tree_factory.hplm_of(site.hplm), actor=None)
    artifacts_collect(grace_s=0)
    assert not store().path("hplm", digest).exists()
    version = version_import(archive=tmp_path / "kept", tenant=site.acme.tenant, actor=site.acme.developer)
    assert (version.digest, version.name) == (digest, "spam")
    assert predictions(version) == said


def test_a_damaged_artifact_in_the_store_is_mended_by_an_import(site: Site) -> None:
    archive = zipped(site.hplm)
    weights = store().path("hplm", site.hplm.digest) / "hplm.safetensors"
    weights.chmod(0o644)
    weights.write_bytes(b"damaged")
    version_import(archive=io.BytesIO(archive), tenant=site.globex.tenant, actor=None)
    store().verify("hplm", site.hplm.digest)


def test_imported_model_is_in_the_manifest(
    site: Site, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        version_import(
            archive=io.BytesIO(zipped(site.hplm)), tenant=site.globex.tenant, actor=site.globex.owner
        )
    served = json.loads((store().root / "manifest.json").read_text())["hplms"]
    one, other = served["acme/spam:1"], served["globex/spam:1"]
    assert {**one, "tenant": "globex"} == other


def test_domains_of_several_versions_keep_their_order(site: Site, another_site: Move) -> None:
    archive = zipped(update(site), branch=True)
    another_site()
    version = version_import(archive=io.BytesIO(archive), tenant=None, actor=site.staff)
    older = version.parent
    assert older is not None
    assert (version.number, older.number, version.domain) == (2, 1, older.domain)
    assert (version.tenant, version.domain and version.domain.name) == (None, "medicine")


def test_a_later_version_of_an_hplm_moves_without_the_earlier_one(site: Site, another_site: Move) -> None:
    planted = hplm_update(hplm=tree_factory.hplm_of(site.hplm), dataset=site.acme.dataset, actor=None)
    newer = build(planted, site.models.hplm, MEASURED)
    assert newer.parent == site.hplm
    archive = zipped(newer, branch=True)
    another_site()
    version = version_import(archive=io.BytesIO(archive), tenant=site.globex.tenant, actor=None)
    assert (version.number, [step.kind for step in branch_of(version)]) == (1, ["model", "domain", "root"])
    assert version.config["imported"] == {"name": "spam", "number": 2}


def test_a_compacted_table_stands_for_the_same_versions(site: Site, another_site: Move) -> None:
    update(site)
    compacted = build(
        domain_compact(domain=tree_factory.domain_of(site.domain), actor=site.staff), site.models.domain
    )
    hplm = make_hplm(site.acme, compacted, site.models, "after")
    read = [plot.digest for plot in build_inputs(hplm).plots]
    assert len(read) == 2 < len(branch_of(compacted))
    said = predictions(hplm)
    archive = zipped(hplm, branch=True)
    another_site()
    version = version_import(archive=io.BytesIO(archive), tenant=site.globex.tenant, actor=None)
    assert [plot.digest for plot in build_inputs(version).plots] == read
    assert predictions(version) == said


def test_imported_version_gets_the_chosen_parent_among_several(site: Site) -> None:
    twin = build(
        domain_create(
            tenant=None, parent=site.root, name="twin", corpus=tree_factory.corpus(None, "twin"), actor=None
        ),
        site.models.domain,
    )
    archive = zipped(site.hplm)
    first = version_import(archive=io.BytesIO(archive), tenant=site.globex.tenant, actor=None)
    told = version_import(
        archive=io.BytesIO(archive), tenant=site.globex.tenant, actor=None, name="told", parent=twin
    )
    assert (first.parent, told.parent) == (site.domain, twin)


def test_taken_name_gets_a_number_unless_it_was_chosen(site: Site, another_site: Move) -> None:
    archive = zipped(site.domain, branch=True)
    another_site()
    tree_factory.ready_root(store().root.parent, "tiny")
    version = version_import(archive=io.BytesIO(archive), tenant=None, actor=None)
    assert (version.root.name, version.name) == ("tiny-2", "medicine")


def test_exports_and_imports_are_written_down(site: Site, another_site: Move) -> None:
    archive = zipped(site.hplm)
    version_export(version=site.hplm, out=io.BytesIO(), actor=site.acme.owner, branch=True)
    version = version_import(
        archive=io.BytesIO(archive), tenant=site.globex.tenant, actor=site.globex.developer, name="ham"
    )
    exported = AuditEvent.unscoped.filter(verb="version.export").order_by("pk")
    assert [(event.tenant, event.actor, event.detail["branch"]) for event in exported] == [
        (site.acme.tenant, None, False),
        (site.acme.tenant, site.acme.owner, True),
    ]
    (imported,) = AuditEvent.unscoped.filter(verb="version.import")
    assert (imported.tenant, imported.actor) == (site.globex.tenant, site.globex.developer)
    assert imported.subject == "globex/ham:1"
    assert imported.detail == {
        "version": version.pk,
        "digest": site.hplm.digest,
        "was": "spam:1",
        "created": 1,
    }
