"""What a check of files says of the roots, and which root is held against an upload first."""

from functools import partial
from pathlib import Path

import pytest
from django.conf import settings
from pytest_django import Settings

from tenants.datasets.formats import sampling
from tenants.datasets.models import UploadCheck
from tenants.datasets.services.checks import check_create, check_run
from tenants.datasets.services.uploads import upload_receive
from tests.integration.tenants.content import stream
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.test_fit import corpus, labelled, reader
from tests.integration.versiontree.tree_factory import TenantFixture
from tests.unit.tenants.files import jsonl
from versiontree.artifact_store import ArtifactStore
from versiontree.tree.models import Version
from versiontree.tree.selectors import recommended_root
from versiontree.tree.selectors.coverage import coverage_record, coverages_of
from versiontree.tree.selectors.recommended_root import root_recommended

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope", "upload_root")]
__all__ = ["reader"]


def looked_at(home: TenantFixture, kind: str, content: str, **options: str) -> UploadCheck:
    """A check of a file, which stores nothing."""
    name = "rows.txt" if kind == "corpus" else "rows.jsonl"
    upload = upload_receive(
        tenant=home.tenant, filename=name, size=len(content), stream=stream(content), actor=home.developer
    )
    files = {"file" if kind == "corpus" else "train": upload}
    return check_create(
        tenant=home.tenant, kind=kind, files=files, actor=home.developer, store=False, options=options
    )


def test_a_check_says_how_much_of_the_rows_the_root_would_cut_off(
    reader: Version, acme: TenantFixture
) -> None:
    check = looked_at(acme, "dataset", jsonl(labelled("cat", 20)), task="classification")
    fit = check.preview["fit"]
    assert (fit["root"], fit["why"]) == ("bert", "the only root that is ready")
    assert (fit["rows"], fit["rows_read"], fit["max_tokens"], fit["longest"]) == (20, 20, 6, 21)
    assert (fit["long_share"], fit["too_long"], fit["unknown_share"]) == (0.75, "cut", 0.0)
    assert "they are truncated" in fit["warnings"][0]
    texts = "".join(f"the cat {'the ' * n}\n" for n in range(20))
    assert looked_at(acme, "corpus", texts).preview["fit"]["too_long"] == "pieces"


def test_of_a_large_file_a_worker_reads_a_part_for_it_and_the_report_says_which(
    reader: Version, acme: TenantFixture, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HMI_CHECK_INLINE_BYTES = 100
    monkeypatch.setattr(sampling.sample, "__kwdefaults__", {"max_rows": 5, "max_bytes": 10**6})
    check = looked_at(acme, "dataset", jsonl(labelled("cat", 20)), task="classification")
    check_run(check.pk)
    check.refresh_from_db()
    fit = check.preview["fit"]
    assert fit["rows"] == 20
    assert fit["rows_read"] < 10
    assert "from a sample of" in fit["warnings"][0]


def test_a_root_that_cannot_be_asked_spoils_no_check_and_only_what_is_our_fault_is_logged(
    reader: Version, acme: TenantFixture, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT)).path("root", reader.digest) / "root.json").unlink()
    check = looked_at(acme, "corpus", "the cat\n" * 20)
    assert (check.state, "fit" in check.preview, caplog.messages) == ("passed", False, [])
    monkeypatch.setattr(recommended_root, "files_fit", lambda *_, **__: 1 / 0)
    check = looked_at(acme, "corpus", "the cat\n" * 20)
    assert (check.state, "fit" in check.preview) == ("passed", False)
    assert "division by zero" in caplog.text


def test_the_root_with_most_of_an_upload_comes_first_and_else_the_one_with_the_longest_texts(
    reader: Version, acme: TenantFixture, tmp_path: Path
) -> None:
    other = tree_factory.ready_root(tmp_path, "other")
    text = corpus(acme.tenant, ["the cat sat"] * 10)

    def told() -> tuple[str, str]:
        measured, _ = coverages_of(acme.tenant, text)
        found = root_recommended(acme.tenant, measured)
        assert found is not None
        return found.version.root.name, found.why

    assert told() == ("bert", "the only one that reads texts of 6 tokens")
    record = partial(coverage_record, tenant=acme.tenant, upload=text)
    record(version=other, error_message="It could not be read.")
    assert told() == ("bert", "the only one that reads texts of 6 tokens")
    record(version=reader, levels=(1, 5, 4))
    assert told() == ("bert", "whose tables cover most of it (10.0% of the fragments)")
    record(version=other, levels=(3, 0, 7))
    assert told() == ("other", "whose tables cover most of it (30.0% of the fragments)")
