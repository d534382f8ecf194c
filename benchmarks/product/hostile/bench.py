"""A whole run: the well-behaved tenant alone, beside each attack, beside a harmless process, beside kills."""

import json
import math
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import httpx

from benchmarks.harness import ROOT
from benchmarks.product.hostile.attacks import ATTACKS
from benchmarks.product.hostile.figures import Attacked, Killed, figures, together
from benchmarks.product.hostile.kills import Kills
from benchmarks.product.hostile.product import CHILDREN, Product
from benchmarks.product.hostile.target import Target
from benchmarks.product.hostile.tenant import SteadyTenant
from benchmarks.product.hostile.watch import Watch, restarts, wait_until_idle
from benchmarks.product.hostile.webhook import Webhook

GOOD, BAD = "acme", "umbrella"
MODELS: Final = {GOOD: "package-of-docstring", BAD: "declared-types"}
RATE: Final = 15.0
"""Requests a second of the well-behaved tenant."""
WARM_UP_S, START_UP_S, LATE_S, SETTLED_WITHIN_S, WEBHOOK_WITHIN_S = 4.0, 1.0, 60.0, 20.0, 60.0
LOST: Final = "webhook: not delivered"
IDLE_CORES: Final = 0.15
"""More than without an attack, and the product counts as calm again."""
FILE_BYTES: Final = 16 * 1024**2


@dataclass(frozen=True, slots=True)
class Seconds:
    """How long the parts of a run take, and how often each attack comes."""

    quiet: float
    attack: float
    rounds: int


QUICK, WHOLE = Seconds(quiet=6.0, attack=5.0, rounds=1), Seconds(quiet=20.0, attack=10.0, rounds=2)


@dataclass(frozen=True, slots=True)
class Run:
    """What came of it. ``alone`` and ``memory`` are from before all attacks: latencies of the well-behaved
    tenant, and the memory of each child."""

    alone: Sequence[float]
    memory: Counter[str]
    attacks: Sequence[Attacked]
    kills: Sequence[Killed]
    figures: Mapping[str, float]


class Bench:
    """One run on a product that is ready."""

    def __init__(self, product: Product, seconds: Seconds, only: Sequence[str] = ()) -> None:
        self._product, self._seconds, self._only = product, seconds, only
        logins = json.loads((product.home / "demo.json").read_text(encoding="utf-8"))
        self._good, self._bad = logins[GOOD], logins[BAD]
        self._tenant = SteadyTenant(product.url, self._good["api_key"], f"{GOOD}/{MODELS[GOOD]}", rate=RATE)
        self._watch = Watch(product)
        self._cores = 0.0

    def run(self) -> Run:
        """All of it, in turn."""
        with (
            self._client(self._bad) as http,
            self._client(self._good) as good,
            Webhook(good) as webhook,
        ):
            target = self._prepared(http)
            with self._tenant, self._watch:
                time.sleep(WARM_UP_S)
                disk = self._product.disk_bytes()
                with self._tenant.phase() as alone, self._watch.phase() as seen:
                    self._cores = self._spent_during(self._seconds.quiet)
                attacks = []
                for name in filter(self._is_wanted, ATTACKS):
                    rounds = range(self._seconds.rounds)
                    attacks.append(together([self._attack(name, target, webhook) for _ in rounds]))
                    self._clean(http, target)
                wait_until_idle(self._product, cores=self._cores + IDLE_CORES, within_s=SETTLED_WITHIN_S)
                disk_growth = self._product.disk_bytes() - disk
                kills = self._kills(good, webhook)
        found = figures(attacks, kills, memory_before=seen.memory, disk_growth=disk_growth)
        return Run(alone.seconds, seen.memory, attacks, kills, found)

    def _attack(self, name: str, target: Target, webhook: Webhook) -> Attacked:
        _say(name)
        before, begun = self._product.cpu_seconds(), time.monotonic()
        with self._tenant.phase() as phase, self._watch.phase() as seen:
            attacker = self._begun(name, target)
            time.sleep(START_UP_S + self._seconds.attack / 2)
            webhook.send()
            told = _told(attacker, within_s=self._seconds.attack + LATE_S)
            spent = self._product.cpu_seconds() - before + told["cpu_s"]
            cores = max(0.0, spent / (time.monotonic() - begun) - self._cores)
        delivered = webhook.arrives(within_s=WEBHOOK_WITHIN_S)
        if has_ended := not self._product.runs():
            self._product.start()
        wait_until_idle(self._product, cores=self._cores + IDLE_CORES, within_s=SETTLED_WITHIN_S)
        with self._tenant.phase() as beside:
            _burn(cores, self._seconds.attack)
        return Attacked(
            name=name,
            seconds=phase.seconds,
            beside=beside.seconds,
            failures=[*phase.failures, *beside.failures, *([] if delivered else [LOST])],
            cores=cores,
            memory=seen.memory,
            webhook_s=webhook.last_s,
            restarts=restarts(seen),
            product_ended=has_ended,
            counted=told["counted"],
        )

    def _begun(self, name: str, target: Target) -> "subprocess.Popen[str]":
        """The process that attacks; it ends by itself."""
        attacker = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.product.hostile.attacks", name, str(self._seconds.attack)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert attacker.stdin is not None
        attacker.stdin.write(target.written())
        attacker.stdin.close()
        attacker.stdin = None
        return attacker

    def _kills(self, http: httpx.Client, webhook: Webhook) -> list[Killed]:
        kills = Kills(self._product, self._tenant, self._watch, http, webhook, MODELS[GOOD])
        found = []
        for child in filter(self._is_wanted, CHILDREN):
            _say(f"kill -9: {child}")
            found.append(kills.kill(child))
            within_s = self._seconds.attack
            wait_until_idle(self._product, cores=self._cores + IDLE_CORES, within_s=within_s)
        return found

    def _spent_during(self, seconds: float) -> float:
        """Processors that the product takes."""
        before = self._product.cpu_seconds()
        time.sleep(seconds)
        return (self._product.cpu_seconds() - before) / seconds

    def _prepared(self, http: httpx.Client) -> Target:
        """The attacker's file, and the ids of what it has."""
        [version] = _got(http, f"/api/v1/models/{MODELS[BAD]}/versions")["results"]
        mark = f"hostile-{uuid4().hex[:8]}"
        file = {"file": ("large.jsonl", b'{"custom_id": "%s"}\n' % (b"a" * FILE_BYTES))}
        sent = http.post("/v1/files", data={"purpose": "batch"}, files=file)
        sent.raise_for_status()
        return Target(
            port=self._product.port,
            tenant=BAD,
            key=self._bad["api_key"],
            password=self._bad["password"],
            hplm=MODELS[BAD],
            hplm_version=version["id"],
            parent_version=version["parent"],
            file_id=sent.json()["id"],
            mark=mark,
        )

    def _clean(self, http: httpx.Client, target: Target) -> None:
        """Delete whatever the attacks made, as far as the product answers."""
        for path, field, of in (
            ("/api/v1/webhooks", "id", "url"),
            ("/api/v1/corpora", "id", "name"),
            ("/api/v1/batches", "id", "filename"),
            ("/api/v1/models", "name", "name"),
            ("/v1/files", "id", "filename"),
        ):
            with suppress(httpx.HTTPError):
                rows = _got(http, path)
                for row in rows.get("results") or rows.get("data") or []:
                    if target.mark in str(row.get(of)):
                        http.delete(f"{path}/{row[field]}")

    def _client(self, login: Mapping[str, str]) -> httpx.Client:
        headers = {"Authorization": f"Bearer {login['api_key']}"}
        return httpx.Client(base_url=self._product.url, headers=headers, timeout=30.0, trust_env=False)

    def _is_wanted(self, name: str) -> bool:
        return not self._only or name in self._only


def _told(attacker: "subprocess.Popen[str]", *, within_s: float) -> dict[str, Any]:
    """What the attack says of itself when it is over."""
    try:
        said, complaint = attacker.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        attacker.kill()
        said, complaint = attacker.communicate()[0], "It did not end."
    if attacker.returncode:
        return {"counted": {f"broke off: {complaint.strip().splitlines()[-1][:200]}": 1}, "cpu_s": 0.0}
    found: dict[str, Any] = json.loads(said)
    return found


def _burn(cores: float, seconds: float) -> None:
    """Have harmless processes take so many processors for so long."""
    count = math.ceil(cores)
    command = [
        sys.executable,
        "-m",
        "benchmarks.product.hostile.burner",
        str(cores / max(1, count)),
        str(seconds),
    ]
    burners = [subprocess.Popen(command, cwd=ROOT) for _ in range(count)]
    if not burners:
        time.sleep(seconds)
    for burner in burners:
        burner.wait()


def _got(http: httpx.Client, path: str) -> dict[str, Any]:
    answer = http.get(path, params={"limit": 500} if path.startswith("/api") else {})
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
