"""The command `hmi` against the web server."""

import json
import random
import stat
from pathlib import Path

import pytest
from pytest_django import Settings

from hmi_client import Client
from tenants.datasets.models import Corpus, Dataset, Upload
from tenants.usage.services.request_log import RequestEntry
from tenants.usage.services.usage import request_record
from tests.integration.hmi_client.conftest import Hmi, Product, key_of
from tests.integration.jobs.world import mood_rows
from tests.integration.versiontree.tree_factory import corpus, do_jobs
from tests.unit.tenants.files import jsonl
from tests.unit.tiny import tiny_hplm, tiny_root
from versiontree.tree.models import Version
from versiontree.tree.services.roots import root_convert
from versiontree.tree.training_settings import rows_of


@pytest.fixture
def moods(tmp_path: Path) -> Path:
    """A dataset's file."""
    file = tmp_path / "moods.jsonl"
    file.write_text(jsonl(mood_rows()))
    return file


def test_login_keeps_a_key_that_works_for_nobody_else_to_read(hmi: Hmi, site: Product, config: Path) -> None:
    assert hmi("whoami").code == 3
    refused = hmi("login", "--url", site.url, "--api-key", "-", stdin="wrong\n")
    assert (refused.code, "unauthenticated" in refused.err, config.exists()) == (3, True, False)
    ran = hmi("login", "--url", site.url, "--api-key", "-", stdin=f"{site.key}\n")
    assert (ran.code, "Acme" in ran.err) == (0, True)
    file = config / "profiles.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert site.key not in ran.out + ran.err
    me = json.loads(hmi("whoami", "--json").out)
    assert (me["slug"], me["url"], me["usage"]["requests_today"]) == ("acme", site.url, 0)
    assert "Acme (acme)" in hmi("whoami").out
    infers = key_of(site.world.tenant, "infer")
    assert hmi("--profile", "b", "login", "--url", site.url, "--api-key", "-", stdin=infers).code == 0
    assert json.loads(hmi("--profile", "b", "whoami", "--json").out)["usage"] is None
    assert hmi("--profile", "b", "models", "list").code == 3
    assert hmi("logout").code == 0
    assert hmi("whoami").code == 3
    assert hmi("--profile", "b", "whoami").code == 0


def test_data_is_pushed_checked_and_listed(logged_in: Hmi, moods: Path, tmp_path: Path) -> None:
    checked = logged_in("data", "push", moods, "--task", "classification", "--check-only", "--json")
    assert (checked.code, json.loads(checked.out)["state"]) == (0, "passed"), checked.err
    assert not Dataset.unscoped.filter(name="again").exists()
    pushed = logged_in("data", "push", moods, "--task", "classification", "--name", "again", "--json")
    assert json.loads(pushed.out)["dataset"] == Dataset.unscoped.get(name="again").pk
    assert not Upload.unscoped.exists()
    assert "again" in logged_in("data", "list").out
    table = tmp_path / "t.csv"
    table.write_text("body,kind\n" + "".join(f"text {n},{'ab'[n % 2]}\n" for n in range(40)))
    mapped = logged_in(
        "data", "push", table, "--task", "classification", "--column", "text=body", "--column", "label=kind"
    )
    assert (mapped.code, Dataset.unscoped.get(name="t").labels) == (0, ["a", "b"]), mapped.err
    texts = tmp_path / "lines.txt"
    texts.write_text("".join(f"a line of text number {n}\n" for n in range(50)))
    assert logged_in("data", "push", texts, "--corpus").code == 0
    assert Corpus.unscoped.get(name="lines").rows == 50
    listed = json.loads(logged_in("data", "list", "--corpora", "--json").out)
    assert "lines" in [one["name"] for one in listed]


def test_bad_rows_are_shown_with_their_places(logged_in: Hmi, moods: Path) -> None:
    lines = moods.read_text().splitlines()
    lines[4] = '{"text": "no label"}'
    moods.write_text("\n".join(lines) + "\n")
    refused = logged_in("data", "push", moods, "--task", "classification")
    assert refused.code == 1
    assert "moods.jsonl:5" in refused.err
    told = json.loads(logged_in("data", "push", moods, "--task", "classification", "--json").err)["error"]
    assert [fault["line"] for fault in told["row_errors"]] == [5]
    assert not Dataset.unscoped.filter(name="moods", created_by=None).exists()


def test_an_upload_goes_on_where_another_ended_and_finds_its_place_by_itself(
    client: Client, site: Product, tmp_path: Path
) -> None:
    file = tmp_path / "big.txt"
    file.write_bytes(random.Random(1).randbytes(250_000))
    told: list[int] = []

    class Enough(Exception):
        """The person pressed Ctrl-C."""

    def stop_later(path: Path, arrived: int, size: int) -> None:
        told.append(arrived)
        if arrived == 120_000:
            raise Enough

    with pytest.raises(Enough):
        client.upload_file(file, on_progress=stop_later, chunk_bytes=60_000)
    assert told == [0, 60_000, 120_000]
    upload = client.upload_file(
        file, on_progress=lambda _, arrived, __: told.append(arrived), chunk_bytes=100_000
    )
    assert told[3:] == [120_000, 220_000, 250_000]
    assert upload.is_complete
    assert Upload.unscoped.get().filename == "big.txt"


def test_models_are_promoted_and_rolled_back(logged_in: Hmi, site: Product, tmp_path: Path) -> None:
    made = tiny_hplm(tiny_root(tmp_path / "same"), "classification")
    site.world.ready_hplm(site.root, made, tmp_path / "models", name="mood")
    [listed] = json.loads(logged_in("models", "list", "--json").out)
    assert (listed["name"], listed["aliases"][0]["version"]) == ("mood", 1)
    assert "default:1" in logged_in("models", "list").out
    assert [one["number"] for one in json.loads(logged_in("models", "versions", "mood", "--json").out)] == [1]
    assert logged_in("models", "policy", "mood", "1", "table").code == 0
    assert json.loads(logged_in("models", "versions", "mood", "--json").out)[0]["policy"] == "table"
    reset = json.loads(logged_in("models", "policy", "mood", "1", "default", "--json").out)
    assert (reset["number"], reset["policy"]) == (1, None)
    assert logged_in("models", "rollback", "mood").code == 5
    assert logged_in("models", "promote", "mood", "1", "--alias", "canary").code == 0
    same = logged_in("models", "canary", "start", "mood", "1", "--percent", "20", "--json")
    assert (same.code, json.loads(same.err)["error"]["param"]) == (1, "version")
    assert logged_in("models", "canary", "end", "mood").code == 5
    site.world.ready_update(Version.unscoped.get(kind="model"), made, tmp_path / "models")
    assert logged_in("models", "canary", "start", "mood", "2", "--percent", "20").code == 0
    assert "default:1 (20% :2)" in logged_in("models", "list").out
    assert logged_in("models", "canary", "end", "mood").code == 0
    started = logged_in("models", "canary", "start", "mood", "2", "--percent", "5", "--json")
    assert json.loads(started.out)["canary"]["percent"] == 5
    promoted = json.loads(logged_in("models", "canary", "promote", "mood", "--json").out)
    assert (promoted["version"], promoted["canary"]) == (2, None)
    assert logged_in("models", "rollback", "mood").code == 0
    missing = logged_in("models", "promote", "mood", "3", "--json")
    assert (missing.code, json.loads(missing.err)["error"]["code"]) == (4, "not_found")
    tree = json.loads(logged_in("domains", "tree", "--json").out)
    assert [(node["kind"], node["name"]) for node in tree] == [
        ("root", "tiny"),
        ("model", "mood"),
        ("model", "mood"),
    ]
    assert logged_in("domains", "list").code == 0
    assert logged_in("models", "delete", "mood", "--yes").code == 0
    assert json.loads(logged_in("models", "list", "--json").out) == []


def test_a_domain_is_made_of_a_corpus(
    logged_in: Hmi, site: Product, tmp_path: Path, settings: Settings
) -> None:
    settings.HMI_CORPUS_MIN_WORDS = 100
    text = tmp_path / "law.txt"
    text.write_text("".join(f"a line of text number {n}\n" for n in range(50)))
    assert logged_in("data", "push", text, "--corpus").code == 0
    made = logged_in("domains", "create", "law", "--corpus", "law", "--parent", "tiny", "--json")
    assert made.code == 0, made.err
    told = json.loads(made.out)
    assert (told["name"], told["number"], told["state"]) == ("law", 1, "building")
    assert Version.unscoped.get(pk=told["id"]).corpus == Corpus.unscoped.get(name="law")
    assert "law" in logged_in("domains", "list").out
    assert logged_in("domains", "create", "law", "--corpus", "law", "--parent", "tiny").code == 5
    assert logged_in("domains", "create", "other", "--corpus", "lore", "--parent", "tiny").code == 4
    assert logged_in("domains", "create", "other", "--corpus", "law", "--parent", "tinny").code == 4
    done = json.loads(logged_in("domains", "rebase", "tiny/law", "--json").out)
    assert done == {"versions": [], "refused": []}
    assert logged_in("domains", "rebase", "lore").code == 4


def test_a_table_has_a_size_or_a_coverage_which_an_update_keeps(logged_in: Hmi, site: Product) -> None:
    corpus(site.world.tenant, "law")

    def made(*command: str) -> Version:
        ran = logged_in("domains", *command, "--corpus", "law", "--json")
        assert ran.code == 0, ran.err
        return do_jobs(Version.unscoped.get(pk=json.loads(ran.out)["id"]))

    assert rows_of(made("create", "law", "--parent", "tiny", "--budget-mb", "8").config) == {"budget_mb": 8}
    assert rows_of(made("update", "tiny/law").config) == {"budget_mb": 8}
    assert rows_of(made("update", "law", "--alpha", "30").config) == {"alpha": 30}
    both = logged_in("domains", "update", "law", "--corpus", "law", "--alpha", "30", "--budget-mb", "8")
    assert (both.code, "not both" in both.err) == (1, True)


def test_models_follow_their_root(logged_in: Hmi, site: Product, tmp_path: Path) -> None:
    made = tiny_hplm(tiny_root(tmp_path / "same"), "classification")
    site.world.ready_hplm(site.root, made, tmp_path / "models", name="mood")
    assert json.loads(logged_in("models", "rebase", "--json").out) == []
    assert "There is no newer one" in logged_in("models", "rebase", "mood").err
    do_jobs(root_convert(root=site.root.root, actor=None))
    [offer] = json.loads(logged_in("models", "rebase", "--json").out)
    assert (offer["model"], offer["base"], offer["onto"]) == ("mood", "tiny:1", "tiny:2")
    assert "tiny:2" in logged_in("models", "rebase").out
    ran = logged_in("models", "rebase", "mood", "--no-promote")
    assert (ran.code, ran.err.strip()) == (0, "mood:2 is building, on tiny:2.")


def test_jobs_are_listed_and_cancelled(logged_in: Hmi, site: Product) -> None:
    site.world.create_hplm(site.root)
    jobs = json.loads(logged_in("jobs", "list", "--state", "queued", "--json").out)
    [fine_tune] = [job["id"] for job in jobs if job["kind"] == "fine_tune"]
    assert logged_in("jobs", "cancel", fine_tune).code == 0
    tailed = logged_in("jobs", "tail", fine_tune)
    assert (tailed.code, "cancel" in tailed.out) == (1, True)
    assert logged_in("jobs", "cancel", fine_tune).code == 5
    assert "fine_tune" in logged_in("jobs", "retry", fine_tune).err
    assert logged_in("jobs", "tail", "no-such-job").code == 4
    assert logged_in("jobs", "tail", "../jobs").code == 1


def test_requests_are_listed_by_filters(logged_in: Hmi, client: Client, site: Product) -> None:
    for name, code in (("good", ""), ("bad", "rate_limited"), ("worse", "rate_limited")):
        status = 429 if code else 200
        request_record(RequestEntry(site.world.tenant.pk, name, "infer", status, error_code=code))
    listed = logged_in("requests")
    assert (listed.code, "good" in listed.out, "rate_limited" in listed.out) == (0, True, True)
    refused = json.loads(logged_in("requests", "--status", "refused", "--json").out)
    assert [(one["request_id"], one["error_code"]) for one in refused] == [
        ("worse", "rate_limited"),
        ("bad", "rate_limited"),
    ]
    assert [one["request_id"] for one in json.loads(logged_in("requests", "--limit", "1", "--json").out)] == [
        "worse"
    ]
    assert [one.request_id for one in client.list_requests(request_id="g")] == ["good"]
    wrong = logged_in("requests", "--status", "broken")
    assert (wrong.code, "answered" in wrong.err) == (2, True)


def test_what_is_asked_wrongly_is_said_in_a_sentence(logged_in: Hmi, moods: Path, config: Path) -> None:
    assert logged_in("data", "push", moods).code == 2
    assert logged_in("train", "mood", "--data", "nothing-of-this-name").code == 4
    unknown = logged_in("train", "mood", "--data", "moods", "--parent", "nowhere")
    assert (unknown.code, "(tiny:1)" in unknown.err) == (4, True)
    assert logged_in("infer", "nobody", "a text").code == 4
    assert logged_in("infer", "mood", "--jsonl", stdin="[1]\n").code == 1
    (config / "profiles.json").write_text("[]")
    broken = logged_in("whoami")
    assert (broken.code, "hmi login" in broken.err) == (1, True)


def test_a_server_that_is_away_has_its_own_exit_code(hmi: Hmi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmi_client.retries.Retries.delay_s", lambda *_: 0.0)
    monkeypatch.setenv("HMI_API_KEY", "a.b")
    monkeypatch.setenv("HMI_URL", "http://127.0.0.1:9")
    away = hmi("models", "list", "--json")
    assert (away.code, json.loads(away.err)["error"]["code"]) == (7, "connection")
