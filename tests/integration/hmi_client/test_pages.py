"""Every example of the other pages of the API is run as it stands there, against a real product."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from hmi_client.responses import RebaseOffer
from tenants.accounts.services.tenants import tenant_create
from tenants.datasets.models import Dataset, Split
from tenants.datasets.selectors.previews import dataset_first_rows
from tenants.webhooks.http_client import signed_headers
from tests.integration.hmi_client.conftest import Product, key_of
from tests.integration.hmi_client.documented import CHECKOUT, blocks, differences, shown, values
from tests.integration.jobs.generative_world import home_of, ready_writer
from tests.integration.jobs.world import mood_rows
from tests.integration.versiontree.transfer.adapters.made import PREFIX, lora_members, lora_weights
from tests.processes import wait_until
from tests.unit.tenants.files import jsonl
from tests.unit.tiny import tiny_hplm, tiny_root
from tests.unit.versiontree.forging import zip_of
from versiontree.tree.models import Version

ADDRESS = "http://127.0.0.1:8000"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
DEMO = '"acme/language"'
SHELL = ["bash", "-eu", "-o", "pipefail", "-s"]


@dataclass(frozen=True)
class Reader:
    """Who types what a page shows."""

    folder: Path
    env: Mapping[str, str]

    def types(self, block: str, shown: Mapping[str, Any] | None = None, *, python: bool = False) -> str:
        """What comes of it, with what stands here in the place of what the page shows."""
        for there, here in (shown or {}).items():
            assert there in block, f"{there} is not in\n{block}"
            block = block.replace(there, str(here))
        ran = subprocess.run(
            [sys.executable, "-"] if python else SHELL,
            input=block if python else f"{block}\nwait",
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
        assert ran.returncode == 0, f"{block}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout

    def asks(self, at: str, **body: Any) -> Any:
        """What the product says there, to a POST if there is a body."""
        return self.fetches(at, **body).json()

    def fetches(self, at: str, **body: Any) -> httpx.Response:
        """The product's answer there, to a POST if there is a body."""
        return httpx.request(
            "POST" if body else "GET",
            f"{self.env['HMI_URL']}{at}",
            headers={"X-Api-Key": self.env["KEY"]},
            trust_env=False,
            timeout=300,
            **body,
        )

    def lines(self, file: str) -> list[Any]:
        """What a file of JSON lines has."""
        return [json.loads(line) for line in (self.folder / file).read_text().splitlines()]


def alike(told: Any, got: Any) -> None:
    """An answer is as the page tells it."""
    assert list(differences(told, got)) == []


def newest_version() -> int:
    """The id of the version that was made last."""
    return Version.unscoped.latest("pk").pk


@pytest.fixture
def reader(product: Product, tmp_path: Path) -> Reader:
    """One with a key, a model `tickets`, and the files that pages speak of."""
    root = tiny_root(tmp_path / "tiny")
    product.world.ready_hplm(product.root, tiny_hplm(root), tmp_path, name="tickets")
    folder = tmp_path / "reader"
    folder.mkdir()
    (folder / "train.jsonl").write_text(jsonl(mood_rows()))
    (folder / "texts.jsonl").write_text('{"id": "a", "text": "It will not start"}\n')
    weights = lora_weights(root)
    weights |= {
        f"{PREFIX}classifier.{name}": weights[f"{PREFIX}classifier.{name}"][:2] for name in ("weight", "bias")
    }
    (folder / "my-lora.zip").write_bytes(zip_of(lora_members(root, weights)))
    globex = tenant_create(slug="globex", name="Globex", owner=product.world.owner)
    key, api = product.key, f"{product.url}/api/v1"
    ready = f"{product.url}/v2/models/tickets/ready"
    asks: dict[str, Any] = {"headers": {"X-Api-Key": key}, "trust_env": False, "timeout": 60}
    wait_until(lambda: httpx.get(ready, **asks).status_code == 200)
    return Reader(
        folder,
        {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(CHECKOUT),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "HMI_URL": product.url,
            "HMI_API_KEY": key,
            "KEY": key,
            "OTHER": key_of(globex, "manage"),
            "api": api,
            "other": api,
            "auth": f"Authorization: Bearer {key}",
        },
    )


def test_the_examples_of_all_pages_do_what_they_show(
    product: Product, reader: Reader, tmp_path: Path
) -> None:
    """One after the other, with one product. That of batches comes while there is but one model."""
    page_of_batches(reader)
    pages_of_webhooks_and_the_open_protocol(product, reader)
    page_of_the_api(product, reader, tmp_path)


def page_of_the_api(product: Product, reader: Reader, tmp_path: Path) -> None:
    [pieces] = blocks("docs/api.md", "python")
    ask, take_back, once, logged, hook, check, fit, labels, correct, *others = blocks("docs/api.md", "sh")
    rebase, canary, travel, adapter, lora = others
    asked = {ADDRESS: product.url, DEMO: '"acme/tickets"'}
    answer, escalated, explained, cancelled, fitting, estimated, doubted, *last = shown("docs/api.md")
    [offered], refused = last
    [readme] = [block for block in blocks("README.md", "sh") if "curl" in block]
    for block in (ask, readme):
        told = json.loads(reader.types(block, asked))
        assert (told["model"]["name"], told["model"]["version"]) == ("acme/tickets", 1)
        alike(answer, told)
    one: dict[str, Any] = {"model": "tickets", "inputs": ["a good stone"]}
    [result] = reader.asks("/api/v1/infer", json={**one, "explain": True})["results"]
    alike(explained, {"tokens": result["tokens"]})
    # Its few dev rows let it compute every text: an escalated one has the answers of both levels.
    [computed], [looked_up] = (
        reader.asks("/api/v1/infer", json={**one, "quality": quality})["results"]
        for quality in ("exact", "fast")
    )
    table = escalated.pop("table")
    alike(escalated, computed)
    alike(table, {name: looked_up[name] for name in table})
    assert reader.asks("/api/v1/infer", json={**one, "inputs": [""]}) == refused
    met = values(said := reader.types(take_back))  # of the request, and where it came too late of the other
    assert met
    for got in met:
        alike(cancelled if "error" in got else answer, got)
    assert re.search(r"\b(204|404)\b", said)
    first, again = re.findall(r'"id":"(\w+)"', reader.types(once))
    assert first == again

    assert json.loads(reader.types(logged))["results"][0]["error_code"] == "empty_text"
    assert '"secret":"whsec_' in reader.types(hook)
    assert "There is no newer one" in reader.types(rebase)
    assert offered.keys() == {field.name for field in fields(RebaseOffer)}
    assert "@default points to version 1 already" in reader.types(canary, {'"version": 2': '"version": 1'})

    given = f'api = "{product.url}/api/v1"; key = "{product.key}"\n'
    url = reader.types(f"{given}{pieces}\nprint(upload.url)", {'"corpus.txt"': '"train.jsonl"'}, python=True)
    stored = reader.types(check, {"<upload id>": url.strip().rpartition("/")[2]})
    dataset = re.findall(r'"state":"stored".*"dataset":(\d+)', stored)[0]
    alike(fitting, json.loads(reader.types(fit, {"datasets/1/": f"datasets/{dataset}/", "minilm": "tiny"})))
    wanted = {"name": "new", "parent": product.root.pk, "dataset": int(dataset)}
    alike(estimated, reader.asks("/api/v1/estimate", json=wanted))

    tickets = Version.unscoped.get(hplm__name="tickets")
    with doubting(tickets) as doubts:
        alike(doubted, json.loads(reader.types(labels, {"datasets/1/": f"datasets/{doubts.pk}/"})))
    rows = {"datasets/1/": f"datasets/{dataset}/", '41, "label": "delivery"': '0, "label": "bad"', "57": "1"}
    assert json.loads(reader.types(correct, rows))["report"]["corrected"]["left_out"] == 1
    arrived = json.loads(reader.types(travel, {"versions/12/": f"versions/{tickets.pk}/"}))
    assert (arrived["tenant"], arrived["digest"]) == ("globex", tickets.digest)
    places = {"parent=3": f"parent={product.root.pk}", "versions/14/": f"versions/{arrived['id'] + 1}/"}
    assert '"name":"theirs"' in reader.types(adapter, places)
    assert (reader.folder / "theirs.zip").read_bytes().startswith(b"PK")

    writer = ready_writer(home_of(product.world), tmp_path)
    assert writer.parent is not None
    (reader.folder / "decoder-lora.zip").write_bytes(
        reader.fetches(f"/api/v1/versions/{writer.pk}/export?format=peft").content
    )
    ids = {"parent=7": f"parent={writer.parent.pk}", "versions/21/": f"versions/{newest_version() + 1}/"}
    assert '"name":"explain"' in reader.types(lora, {**ids, "task=chat": "task=generation"})
    assert (reader.folder / "explain.zip").read_bytes().startswith(b"PK")


@contextmanager
def doubting(version: Version) -> Iterator[Dataset]:
    """Meanwhile the version doubts the first label of its dataset, as a quick one may."""
    assert version.dataset is not None
    label = dataset_first_rows(version.dataset, Split.TRAIN)[0]["label"]
    doubt = {"row": 0, "label": label, "suggested": "bad", "confidence": 0.97}
    row = Version.unscoped.filter(pk=version.pk)
    row.update(metrics={"quick": {"suspects": [doubt]}})
    yield version.dataset
    row.update(metrics=version.metrics)


def pages_of_webhooks_and_the_open_protocol(product: Product, reader: Reader) -> None:
    [hook], [verify] = blocks("docs/webhooks.md", "sh"), blocks("docs/webhooks.md", "python")
    assert '"secret":"whsec_' in reader.types(hook, {ADDRESS: product.url})
    body = '{"type": "job.succeeded"}'
    headers = signed_headers(event_id="evt_1", at=datetime.now(UTC), body=body, with_secrets=[SECRET])
    given = f"secret, body, headers = {SECRET!r}, {body.encode()!r}, {headers!r}\n"
    assert "job.succeeded" in reader.types(f"{given}{verify}\nprint(event)", python=True)

    [infer], [told] = blocks("docs/open_inference.md", "sh"), shown("docs/open_inference.md")
    from_tables = {"]}]}'": ']}], "parameters": {"quality": "fast"}}\''}
    alike(told, json.loads(reader.types(infer, {ADDRESS: product.url, **from_tables})))


def page_of_batches(reader: Reader) -> None:
    """The files of batches are as they are shown."""
    [commands], [result, error, *requests] = blocks("docs/batches.md", "sh"), shown("docs/batches.md")
    table, batch = commands.splitlines()
    (reader.folder / "tickets.csv").write_text("number,message\n7,It will not start\n")
    reader.types(table)
    header, answered = (reader.folder / "answers.csv").read_text("utf-8-sig").splitlines()
    assert header == "number,message,answer,confidence,error"
    assert answered.startswith("7,It will not start,")
    reader.types(batch)
    [line] = reader.lines("texts-results.jsonl")
    alike(result, line)
    (reader.folder / "texts-results.jsonl").unlink()
    (reader.folder / "texts.jsonl").write_text('"It will not start"\nIt will not start\n')
    reader.types(f"set +e\n{batch}\ntrue")
    [line] = reader.lines("texts-errors.jsonl")
    alike(error, line)
    assert line["error"] == error["error"]
    for asked in requests:
        assert batch_answer(reader, asked)["custom_id"] == "a"


def batch_answer(reader: Reader, asked: dict[str, Any]) -> Any:
    """The line with the answer to a file of this one request."""
    form = {"file": ("requests.jsonl", json.dumps(asked).encode()), "purpose": (None, "batch")}
    file = reader.asks("/v1/files", files=form)["id"]
    sent = {"input_file_id": file, "endpoint": asked["url"], "completion_window": "24h"}
    at = f"/v1/batches/{reader.asks('/v1/batches', json=sent)['id']}"
    wait_until(lambda: reader.asks(at)["status"] == "completed")
    answered = reader.asks(f"/v1/files/{reader.asks(at)['output_file_id']}/content")
    assert answered["response"]["status_code"] == 200
    return answered
