"""Attacks by what is sent: large forms, JSON that grows in memory, archives that do harm, work that costs."""

import io
import json
import socket
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Final

import httpx
import numpy as np
from safetensors.numpy import save

from benchmarks.product.hostile.connections import FORM, JSON
from benchmarks.product.hostile.target import Target, head, status

MIB: Final = 1024**2
FORM_BYTES, JSON_BYTES, BOMB_BYTES = 64 * MIB, 16 * MIB - 1024, 64 * MIB
PIECE: Final = b"a" * (256 * 1024)
AT_ONCE, EXPORTS_AT_ONCE = 4, 8
MOST_REQUESTS: Final = 2000
PAUSE_S: Final = 0.05
"""Between two requests of one sender."""
HIDDEN: Final = 384
"""Of the demo's root."""
MODULE: Final = "base_model.model.bert.encoder.layer.5.attention.self.query"
PATTERN: Final = "([a-z0-9.]+)+X"
LORA: Final[dict[str, Any]] = {
    "peft_type": "LORA",
    "task_type": "SEQ_CLS",
    "r": 4,
    "lora_alpha": 8,
    "bias": "none",
    "target_modules": ["query"],
}
ENDPOINTS, REPLAYS = 20, 10


def forms(target: Target, until: float) -> Counter[str]:
    """Forms of 64 MiB from strangers, to pages and to the API. Each has the cookie that any visitor of a page
    gets; whoever looks for its counterpart in the form has to read that."""
    pages = ["/login/", f"/t/{target.tenant}/data/corpora/new/", "/api/v1/corpora", "/v1/files"]
    pages += [f"/t/{target.tenant}/models/import/adapter/", "/api/v1/import/adapter"]
    with target.http(key=False) as http:
        http.get("/login/")
        cookie = "; ".join(f"{name}={value}" for name, value in http.cookies.items())

    def send(number: int) -> str:
        return str(_form(target, pages[number % len(pages)], cookie))

    return repeated(send, until, AT_ONCE)


def json_bodies(target: Target, until: float) -> Counter[str]:
    """16 MiB of small objects, with the tenant's key: in memory they take many times as much."""
    many = b"[" + b"{}," * (JSON_BYTES // 3) + b"{}]"
    model = f"{target.tenant}/{target.hplm}".encode()
    bodies = [
        ("/api/v1/webhooks", many),
        ("/api/v1/infer", b'{"model": "%s", "inputs": %s}' % (model, many)),
        ("/api/v1/models", b'{"settings": %s}' % many),
        ("/v1/embeddings", b'{"model": "%s", "input": %s}' % (model, many)),
        (f"/v2/models/{target.hplm}/infer", b'{"inputs": %s}' % many),
        ("/v1/batches", b'{"metadata": %s}' % many),
    ]
    with target.http() as http:

        def send(number: int) -> str:
            path, body = bodies[number % len(bodies)]
            return str(http.post(path, content=body, headers={"Content-Type": JSON}).status_code)

        return repeated(send, until, AT_ONCE)


def adapter_bombs(target: Target, until: float) -> Counter[str]:
    """Archives of 64 KB whose weights unpack to 64 MB."""
    rows = BOMB_BYTES // (4 * HIDDEN)
    weights = {
        f"{MODULE}.lora_A.weight": np.zeros((rows, HIDDEN), np.float32),
        f"{MODULE}.lora_B.weight": np.zeros((HIDDEN, 4), np.float32),
    }
    return _imports(target, until, archive({**LORA, "r": rows}, save(weights)), AT_ONCE)


def endless_patterns(target: Target, until: float) -> Counter[str]:
    """Adapters whose configuration has a regular expression that takes for ever."""
    weights = {
        f"{MODULE}.lora_A.weight": np.zeros((4, HIDDEN), np.float32),
        f"{MODULE}.lora_B.weight": np.zeros((HIDDEN, 4), np.float32),
    }
    said = {
        **LORA,
        "target_modules": PATTERN,
        "rank_pattern": {PATTERN: 4},
        "alpha_pattern": {PATTERN: 8},
    }
    return _imports(target, until, archive(said, save(weights)), 2)


def exports(target: Target, until: float) -> Counter[str]:
    """Downloads of the tenant's model as an adapter of other libraries, many at a time."""
    with target.http() as http:

        def send(number: int) -> str:
            form = ("peft", "adapterhub")[number % 2]
            path = f"/api/v1/versions/{target.hplm_version}/export"
            return str(http.get(path, params={"format": form}).status_code)

        return repeated(send, until, EXPORTS_AT_ONCE)


def webhook_tarpits(target: Target, until: float) -> Counter[str]:
    """As many webhooks as a tenant may have, to a receiver that never answers, and their events over and over
    again."""
    found = Counter[str]()
    with closing(socket.create_server(("127.0.0.1", 0), backlog=256)) as receiver, target.http() as http:
        url = f"http://127.0.0.1:{receiver.getsockname()[1]}/{target.mark}"
        wanted = {"url": url, "kinds": ["job.failed"]}
        made = [http.post("/api/v1/webhooks", json=wanted) for _ in range(ENDPOINTS)]
        places = [f"/api/v1/webhooks/{one.json()['id']}" for one in made if one.is_success]
        found["webhooks"] = len(places)
        tests = [http.post(f"{place}/test") for place in places]
        replays = REPLAYS * [
            f"{place}/deliveries/{test.json()['id']}/replay"
            for place, test in zip(places, tests, strict=True)
            if test.is_success
        ]
        while replays and time.monotonic() < until:
            found[f"replays answered {http.post(replays.pop()).status_code}"] += 1
        time.sleep(max(0.0, until - time.monotonic()))
    return found


def _imports(target: Target, until: float, content: bytes, at_once: int) -> Counter[str]:
    with target.http() as http:

        def send(number: int) -> str:
            fields = {"parent": str(target.parent_version), "name": f"{target.mark}-{number}", "labels": "a"}
            answer = http.post(
                "/api/v1/import/adapter",
                data=fields,
                files={"archive": ("a.zip", content, "application/zip")},
            )
            return str(answer.status_code)

        return repeated(send, until, at_once)


def archive(config: dict[str, Any], weights: bytes) -> bytes:
    """The zip file of a PEFT adapter's folder, compressed."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("adapter_config.json", json.dumps(config))
        file.writestr("adapter_model.safetensors", weights)
    return out.getvalue()


def _form(target: Target, path: str, cookie: str) -> int:
    """The status of the answer, which may come before all is sent."""
    lead = b'--hostile\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    with target.connect() as connection:
        about = {"Content-Type": FORM, "Content-Length": FORM_BYTES, "Cookie": cookie}
        connection.sendall(head("POST", path, about) + lead)
        left = FORM_BYTES - len(lead)
        try:
            while left > 0:
                connection.sendall(PIECE[:left])
                left -= len(PIECE)
        except OSError:  # it is refused, and the connection closed
            pass
        return status(connection)


def repeated(send: Callable[[int], str], until: float, at_once: int) -> Counter[str]:
    """Send so many at a time until then, one after the other; how often each answer came. One that comes too
    late is not waited for: it is among those without an answer."""

    def go_on(first: int) -> None:
        for number in range(first, MOST_REQUESTS, at_once):
            if time.monotonic() >= until:
                return
            found["sent"] += 1
            try:
                answer = send(number)
            except (OSError, httpx.HTTPError) as error:
                answer = type(error).__name__
            found[f"answered {answer}"] += 1
            time.sleep(PAUSE_S)

    found = Counter[str]()
    pool = ThreadPoolExecutor(at_once)
    for first in range(at_once):
        pool.submit(go_on, first)
    time.sleep(max(0.0, until - time.monotonic()))
    pool.shutdown(wait=False, cancel_futures=True)
    return found
