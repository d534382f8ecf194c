"""Tenants that leave their words wherever a tenant can, are deleted through the product's door, and whether
anything of them stays behind."""

import json
import secrets
import string
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

import httpx

from benchmarks.product.hostile.product import Product
from benchmarks.product.hostile.target import Target
from benchmarks.product.hostile.traces import Marker, Walk, tokenizers_below

WORDS, LETTERS = 4, 16
POLL_S, SETTLES_WITHIN_S, DELETED_WITHIN_S = 0.5, 60.0, 120.0
TENANT_LIST: Final = "/admin/accounts/tenant/"
ENDED: Final = ("completed", "succeeded", "failed", "cancelled", "expired", "ready", "done")


class Leaving:
    """The tenants of the attacker, from before their words are left until nothing is found."""

    def __init__(self, product: Product, target: Target, marker: Marker) -> None:
        self._product, self._tenants = product, (target, target.writing())
        self._marker, self._since = marker, time.time()
        self._mark = marker.name("left")
        self.refused = Counter[str]()
        """What could not be left, with the answer: the words are not looked for there in earnest."""

    def leave_words(self) -> None:
        """Leave words in prompts, uploads, names, files, batches, kept answers, the request log and a
        takeout. Raises httpx.HTTPError."""
        for tenant, ask in zip(self._tenants, (_encoder_call, _chat_call), strict=True):
            with tenant.http() as http, closing(tenant.signed_in()) as person:
                own = f"/api/v1/tenants/{tenant.tenant}"
                self._done(person.patch(own, json={"keeps_request_texts": True}))
                self._uploads(http, tenant)
                for number in range(3):
                    path, body = ask(tenant)
                    key = {"Idempotency-Key": f"{self._mark}-{number}"}
                    self._done(http.post(path, json=body, headers=key))
                self._batch(http, tenant, ask)
                wanted = {"name": self._mark, "scopes": ["infer"]}
                self._done(person.post(f"{own}/api-keys", json=wanted))
                takeout = self._done(person.post(f"{own}/takeouts", json={}))
                self._wait_for(http_get(person, f"{own}/takeouts/{takeout.get('id')}"))

    def delete(self, admin: httpx.Client) -> float:
        """Delete all data of the tenants as their owners, and wait until the administration says that it is
        done; the seconds that took. Raises httpx.HTTPError."""
        begun = time.monotonic()
        for tenant in self._tenants:
            with closing(tenant.signed_in()) as person:
                page = f"/t/{tenant.tenant}/settings/delete/"
                answer = person.post(page, data={"name": tenant.tenant})
                assert answer.is_redirect, f"{page} answered {answer.status_code}"
        for tenant in self._tenants:
            while not _is_deleted(admin, tenant.tenant) and time.monotonic() < begun + DELETED_WITHIN_S:
                time.sleep(POLL_S)
        return time.monotonic() - begun

    def left_behind(self, *, within_s: float) -> tuple[Counter[str], float]:
        """The bytes that are still found, by file, and the seconds until nothing was; looks for so long."""
        patterns = self._marker.patterns(tokenizers_below(self._product.home / "artifacts"))
        walk = Walk([self._product.home, self._product.temporary], patterns, since=self._since)
        begun = time.monotonic()
        while (found := walk.traces()) and time.monotonic() < begun + within_s:
            time.sleep(POLL_S)
        return found, time.monotonic() - begun

    def _uploads(self, http: httpx.Client, tenant: Target) -> None:
        text = "".join(f"{tenant.words} in line {line} of a text\n" for line in range(40)).encode()
        rows = "".join(
            json.dumps({"text": f"{tenant.words} {row}", "label": "ab"[row % 2]}) + "\n" for row in range(60)
        )
        mark = self._mark
        self._done(
            http.post("/api/v1/corpora", data={"name": f"{mark} c"}, files={"file": ("c.txt", text)}),
        )
        self._done(
            http.post(
                "/api/v1/datasets",
                data={"name": f"{mark} d", "task": "classification"},
                files={"train": (f"{mark}.jsonl", rows.encode())},
            )
        )
        hook = {"url": f"https://example.org/{mark}", "kinds": ["job.failed"]}
        key = {"Idempotency-Key": f"{mark}-hook"}
        self._done(http.post("/api/v1/webhooks", json=hook, headers=key))
        about = {"description": tenant.words}
        self._done(http.patch(f"/api/v1/models/{tenant.hplm}", json=about))

    def _batch(
        self, http: httpx.Client, tenant: Target, ask: Callable[[Target], tuple[str, dict[str, Any]]]
    ) -> None:
        url, body = ask(tenant)
        line = {"custom_id": f"{self._mark}-1", "method": "POST", "url": url, "body": body}
        file = {"file": (f"{self._mark}-lines.jsonl", json.dumps(line).encode())}
        sent = self._done(http.post("/v1/files", data={"purpose": "batch"}, files=file))
        asked = {"input_file_id": sent.get("id"), "endpoint": url, "completion_window": "24h"}
        batch = self._done(http.post("/v1/batches", json=asked))
        self._wait_for(http_get(http, f"/v1/batches/{batch.get('id')}"))

    def _done(self, answer: httpx.Response) -> dict[str, Any]:
        """The answer's object; one that is refused is noted."""
        if answer.is_error:
            self.refused[f"{answer.request.url.path}: {answer.status_code} {answer.text[:120]}"] += 1
            return {}
        found: dict[str, Any] = answer.json()
        return found

    def _wait_for(self, get: Callable[[], httpx.Response]) -> None:
        """Wait until it has ended, or is not there."""
        latest = time.monotonic() + SETTLES_WITHIN_S
        while (answer := get()).is_success and time.monotonic() < latest:
            about = answer.json()
            if (about.get("state") or about.get("status")) in ENDED:
                return
            time.sleep(POLL_S)
        self.refused[f"{answer.request.url.path} did not end"] += 1


def random_marker() -> Marker:
    """Words of letters that no language has."""
    return Marker(["".join(map(secrets.choice, [string.ascii_lowercase] * LETTERS)) for _ in range(WORDS)])


def http_get(http: httpx.Client, path: str) -> Callable[[], httpx.Response]:
    """A function that asks for it."""
    return lambda: http.get(path)


def _encoder_call(tenant: Target) -> tuple[str, dict[str, Any]]:
    return "/api/v1/infer", {"model": tenant.hplm, "inputs": [f"a text of {tenant.words}"]}


def _chat_call(tenant: Target) -> tuple[str, dict[str, Any]]:
    said = [{"role": "user", "content": f"tell of {tenant.words}"}]
    return "/v1/chat/completions", {"model": tenant.hplm, "messages": said, "max_tokens": 8}


def _is_deleted(admin: httpx.Client, slug: str) -> bool:
    page = admin.get(TENANT_LIST, params={"q": slug})
    page.raise_for_status()
    return "Deleted on" in page.text
