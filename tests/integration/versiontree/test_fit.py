"""How well a root reads an upload, by the API and in checks of files; and which root is recommended."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from rest_framework.test import APIClient
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from tenants.accounts.models import Tenant
from tenants.datasets.models import Corpus, Dataset, UploadCheck
from tenants.datasets.services.checks import check_create
from tenants.datasets.services.corpora import corpus_upload
from tenants.datasets.services.datasets import dataset_upload
from tenants.datasets.services.uploads import upload_receive
from tenants.datasets.storage import stored_path
from tests.integration.tenants.content import stream
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.callers import V1, error, signed_in, with_key
from tests.integration.versiontree.tree_factory import TenantFixture
from tests.unit.tenants.files import jsonl
from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.jobs.services.lifecycle import job_succeed
from versiontree.tree.models import Version
from versiontree.tree.selectors import recommended_root
from versiontree.tree.selectors.coverage import coverage_record, coverages_of
from versiontree.tree.selectors.recommended_root import root_recommended
from versiontree.tree.services.roots import root_register
from versiontree.tree.tokenizer_fit import MAX_FITS_AT_ONCE, _in_progress

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope", "upload_root")]

KNOWN = ("the cat sat", "the cat sat on the mat")


@pytest.fixture
def reader(tmp_path: Path) -> Version:
    """A ready root, ``bert``, that knows five words and reads six tokens."""
    source = tree_factory.checkpoint(tmp_path / "ckpt")
    prose = tree_factory.corpus(None, "prose")
    version = root_register(name="bert", source=source, corpus=prose, actor=None)
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    with store.workspace("root") as folder:
        words = {word: place for place, word in enumerate(("[UNK]", "the", "cat", "sat", "on", "mat"))}
        made = Tokenizer(WordLevel(words, unk_token="[UNK]"))
        made.pre_tokenizer = Whitespace()
        made.save(str(folder / "tokenizer.json"))
        (folder / "root.json").write_text(json.dumps({"max_tokens": 6}))
        made_root = store.ingest("root", folder)
    convert = tree_factory.jobs_in_order(version)[0]
    artifacts = [("root", made_root), ("lower", tree_factory.stored("lower"))]
    job_succeed(job_id=convert.pk, worker=tree_factory.claim(convert), metrics={}, artifacts=artifacts)
    return tree_factory.do_jobs(version)


def corpus(tenant: Tenant | None, lines: list[str], name: str = "news") -> Corpus:
    content = "".join(f"{line}\n" for line in lines)
    return corpus_upload(tenant=tenant, name=name, stream=stream(content), filename="news.txt")


def dataset(
    home: TenantFixture, splits: dict[str, list[dict[str, Any]]], task: str = "classification"
) -> Dataset:
    files = {split: (f"{split}.jsonl", stream(jsonl(rows))) for split, rows in splits.items()}
    return dataset_upload(tenant=home.tenant, name="mood", task=task, files=files)


def labelled(start: str, rows: int) -> list[dict[str, Any]]:
    """Rows that all differ."""
    return [{"text": f"{start} {'the ' * row}cat", "label": ("bad", "good")[row % 2]} for row in range(rows)]


def test_a_corpus_in_another_language_is_noticed_before_a_job_is_queued(
    reader: Version, acme: TenantFixture, key: APIClient
) -> None:
    text = corpus(acme.tenant, [*KNOWN, "кошка сидела на коврике", "die Katze sass"] * 5)
    jobs = Job.unscoped.count()
    answer = key.get(f"{V1}/corpora/{text.pk}/fit", {"root": "bert"})
    assert answer.status_code == 200, answer.content
    found = answer.json()
    assert (found["rows"], found["rows_read"], found["tokens"], found["longest"]) == (20, 20, 80, 6)
    assert found["unknown_share"] == pytest.approx(35 / 80)
    assert found["unknown"]["rows"] == 10
    rows = [3, 4, 7, 8, 11, 12, 15, 16, 19, 20]
    assert found["unknown"]["first"] == [{"row": row, "split": None} for row in rows]
    assert (found["byte_level"], found["too_long"], found["long_share"]) == (False, "pieces", 0.0)
    (told,) = found["warnings"]
    assert told.startswith("43.8% of the tokens are unknown to the root's vocabulary (rows 3, 4, 7,")
    assert Job.unscoped.count() == jobs


def test_version_keeps_the_warnings_of_the_fit(reader: Version, acme: TenantFixture, key: APIClient) -> None:
    foreign = [{"text": f"Hund {'Katze ' * row}", "label": ("bad", "good")[row % 2]} for row in range(7)]
    data = dataset(acme, {"train": labelled("cat", 8), "dev": labelled("sat", 3), "test": foreign})
    found = key.get(f"{V1}/datasets/{data.pk}/fit", {"root": "bert"}).json()
    assert ["of test" in told for told in found["warnings"]] == [True, True], "every split is read"
    made = key.post(f"{V1}/models", {"name": "mood", "parent": reader.pk, "dataset": data.pk})
    assert made.status_code == 201, made.content
    assert made.json()["config"]["warnings"] == found["warnings"]


def test_long_contexts_of_questions_are_read_whole(
    reader: Version, acme: TenantFixture, key: APIClient
) -> None:
    rows = [
        {"question": "the cat", "context": "the cat sat " * n, "answers": [{"text": "cat", "start": 4}]}
        for n in range(1, 21)
    ]
    data = dataset(acme, {"train": rows}, task="question_answering")
    found = key.get(f"{V1}/datasets/{data.pk}/fit", {"root": "bert"}).json()
    assert (found["too_long"], found["warnings"]) == ("windows", [])
    assert found["long_share"] > 0.5


@pytest.fixture
def addresses(reader: Version, acme: TenantFixture) -> list[str]:
    text, data = corpus(acme.tenant, list(KNOWN)), dataset(acme, {"train": labelled("sat", 30)})
    return [f"corpora/{text.pk}/fit", f"datasets/{data.pk}/fit"]


def test_the_root_is_one_that_is_there_and_ready(
    addresses: list[str], key: APIClient, tmp_path: Path
) -> None:
    root_register(
        name="later",
        source=tree_factory.checkpoint(tmp_path / "b"),
        corpus=tree_factory.corpus(None, "b"),
        actor=None,
    )
    for at in addresses:
        assert error(key.get(f"{V1}/{at}")) == (422, "missing_field", "root")
        assert error(key.get(f"{V1}/{at}", {"root": "none"})) == (404, "not_found", "root")
        assert error(key.get(f"{V1}/{at}", {"root": "later"})) == (409, "model_not_ready", "root")


def test_an_upload_whose_file_is_gone_is_not_found(
    reader: Version, acme: TenantFixture, key: APIClient
) -> None:
    text = corpus(acme.tenant, [*KNOWN, "no fit of this is cached"])
    stored_path(text.sha256).unlink()
    assert error(key.get(f"{V1}/corpora/{text.pk}/fit", {"root": "bert"}))[:2] == (404, "not_found")


def test_a_fit_is_computed_once_and_one_at_a_time_for_each_tenant(
    reader: Version, acme: TenantFixture, globex: TenantFixture, key: APIClient
) -> None:
    text, data = corpus(acme.tenant, list(KNOWN)), dataset(acme, {"train": labelled("Hund", 30)})
    strangers = corpus(globex.tenant, ["Hund"] * 8)
    fits = [f"{V1}/corpora/{text.pk}/fit", f"{V1}/datasets/{data.pk}/fit"]
    first = key.get(fits[0], {"root": "bert"})
    for _ in range(MAX_FITS_AT_ONCE):
        assert _in_progress.acquire(acme.tenant.pk)
    try:
        assert key.get(fits[0], {"root": "bert"}).json() == first.json()
        refused = key.get(fits[1], {"root": "bert"})
        assert error(refused)[:2] == (429, "queue_full")
        assert int(refused["Retry-After"]) >= 1
        made = key.post(f"{V1}/models", {"name": "mood", "parent": reader.pk, "dataset": data.pk})
        assert error(made)[:2] == (429, "queue_full"), "without it the warnings would be missing"
        other = with_key(globex, "manage").get(f"{V1}/corpora/{strangers.pk}/fit", {"root": "bert"})
        assert other.status_code == 200
    finally:
        for _ in range(MAX_FITS_AT_ONCE):
            _in_progress.release(acme.tenant.pk)
    assert key.get(fits[1], {"root": "bert"}).status_code == 200


def test_corpora_of_the_platform_can_be_checked_by_any_tenant(
    reader: Version, acme: TenantFixture, key: APIClient, staff: APIClient
) -> None:
    shared, own = corpus(None, ["Hund"] * 8), corpus(acme.tenant, list(KNOWN))
    asked: list[tuple[Callable[..., Any], str]] = [(key.get, "corpora"), (staff.get, "platform/corpora")]
    for get, at in asked:
        assert get(f"{V1}/{at}/{shared.pk}/fit", {"root": "bert"}).json()["unknown_share"] == 1.0
    hidden = staff.get(f"{V1}/platform/corpora/{own.pk}/fit", {"root": "bert"})
    assert error(hidden)[:2] == (404, "not_found")
    assert error(signed_in(acme.owner).get(f"{V1}/platform/corpora/{shared.pk}/fit"))[0] == 403


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


def test_unreadable_root_fails_no_check_and_unexpected_errors_are_logged(
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
