"""Who takes part in a run, and what the attackers have before it begins."""

import json
import re
import string
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx
import numpy as np

from benchmarks.product.hostile.floods import CONTINUING, QUOTA
from benchmarks.product.hostile.hostile_root import smollm2_model, templated_model
from benchmarks.product.hostile.product import Product
from benchmarks.product.hostile.target import Target, sign_in
from benchmarks.product.hostile.traces import Marker

GOOD, BAD, WRITER, ADMIN = "acme", "umbrella", "hooli", "admin"
MODELS: Final = {
    GOOD: "language",
    BAD: "reading-ease",
    WRITER: "support-requests",
    "initech": "library",
}
WITH_SMALL_QUOTA: Final = {"initech": MODELS["initech"], "globex": CONTINUING}
ROOT: Final = "minilm"
FILE_BYTES, DATASET_ROWS, ROW_CHARACTERS = 16 * 1024**2, 400, 600
QUOTAS: Final = "/admin/usage/quota/"
INPUTS: Final = re.compile(r"<input[^>]*>")
ATTRIBUTE: Final = re.compile(r'\b(name|value)="([^"]*)"')


class Preparation:
    """Clients of everybody, as long as the block lasts."""

    def __init__(self, product: Product, logins: Mapping[str, Any]) -> None:
        self._product, self._logins = product, logins
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.good, bad, writer = (self._with_key(name) for name in (GOOD, BAD, WRITER))
        self.attackers: Sequence[httpx.Client] = (bad, writer)
        self.admin = self._client({})
        sign_in(self.admin, ADMIN, self._logins[ADMIN]["password"])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def target(self, marker: Marker) -> Target:
        """The attacker's files and ids, its second tenant, a hostile root, and tenants with a small quota.
        Raises httpx.HTTPError."""
        http, writer = self.attackers
        version, written = _latest(http, MODELS[BAD]), _latest(writer, MODELS[WRITER])
        with self._with_key("globex") as continuing:
            smollm2_model(continuing, written["parent"], CONTINUING)
        file = {"file": ("large.jsonl", b'{"custom_id": "%s"}\n' % (b"a" * FILE_BYTES))}
        sent = http.post("/v1/files", data={"purpose": "batch"}, files=file)
        sent.raise_for_status()
        for name in WITH_SMALL_QUOTA:
            self._set_quota(name, QUOTA)
        folder: Path = self._product.home.parent / "checkpoint"
        return Target(
            port=self._product.port,
            tenant=BAD,
            key=self._logins[BAD]["api_key"],
            password=self._logins[BAD]["password"],
            hplm=MODELS[BAD],
            hplm_version=version["id"],
            parent_version=version["parent"],
            file_id=sent.json()["id"],
            dataset_id=_long_dataset(http),
            root=ROOT,
            mark=marker.name("hostile"),
            words=" ".join(marker.words),
            writer={
                "tenant": WRITER,
                "key": self._logins[WRITER]["api_key"],
                "password": self._logins[WRITER]["password"],
                "hplm": MODELS[WRITER],
            },
            templated=templated_model(self.admin, writer, folder, "templated"),
            quotas={
                f"{name}/{model}": self._logins[name]["api_key"] for name, model in WITH_SMALL_QUOTA.items()
            },
        )

    def _set_quota(self, slug: str, requests: int) -> None:
        """Have a tenant send so many requests a day, as the administration's page does it."""
        listed = self.admin.get(QUOTAS, params={"q": slug})
        listed.raise_for_status()
        rows = listed.text[listed.text.index("result_list") :]  # above them, messages lead to other quotas
        found = re.search(rf"{QUOTAS}(\d+)/change/", rows)
        assert found, f"{QUOTAS} lists no quota of {slug}"
        page = self.admin.get(f"{QUOTAS}{found[1]}/change/")
        inputs = [dict(ATTRIBUTE.findall(field)) for field in INPUTS.findall(page.text)]
        form = {field["name"]: field.get("value", "") for field in inputs if "name" in field}
        fields = {name: value for name, value in form.items() if not name.startswith("_")}
        changed = {**fields, "max_requests_per_day": str(requests), "_save": "Save"}
        assert self.admin.post(page.url, data=changed).is_redirect, f"the quota of {slug} was not changed"

    def _with_key(self, name: str) -> httpx.Client:
        return self._client({"Authorization": f"Bearer {self._logins[name]['api_key']}"})

    def _client(self, headers: Mapping[str, str]) -> httpx.Client:
        client = httpx.Client(
            base_url=self._product.url, headers=dict(headers), timeout=30.0, trust_env=False
        )
        return self._stack.enter_context(client)


def rows_of(http: httpx.Client, path: str) -> list[dict[str, Any]]:
    """The rows of a list of the API. Raises httpx.HTTPError."""
    answer = http.get(path, params={"limit": 500} if path.startswith("/api") else {})
    answer.raise_for_status()
    found = answer.json()
    rows: list[dict[str, Any]] = found.get("results") or found.get("data") or []
    return rows


def _latest(http: httpx.Client, hplm: str) -> dict[str, Any]:
    """The latest version of a model."""
    return max(rows_of(http, f"/api/v1/models/{hplm}/versions"), key=lambda row: int(row["number"]))


def _long_dataset(http: httpx.Client) -> int:
    """A dataset of words of random letters, which take longest to tokenise: more than is read of it."""
    letters = np.random.default_rng(0).choice(
        [*f"{string.ascii_lowercase}  "], (DATASET_ROWS, ROW_CHARACTERS)
    )
    rows = [{"text": "".join(row), "label": "ab"[number % 2]} for number, row in enumerate(letters)]
    made = http.post(
        "/api/v1/datasets",
        data={"name": "long rows", "task": "classification"},
        files={"train": ("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())},
    )
    made.raise_for_status()
    identifier: int = made.json()["id"]
    return identifier
