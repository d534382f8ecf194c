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

import httpx

from benchmarks.harness import ROOT
from benchmarks.product.hostile.attacks import ATTACKS
from benchmarks.product.hostile.deletion import Leaving, random_marker
from benchmarks.product.hostile.figures import Attacked, Deleted, Killed, figures, together
from benchmarks.product.hostile.kills import Kills
from benchmarks.product.hostile.preparation import GOOD, MODELS, Preparation, rows_of
from benchmarks.product.hostile.probe import Probe
from benchmarks.product.hostile.product import CHILDREN, Product
from benchmarks.product.hostile.target import Target
from benchmarks.product.hostile.tenant import SteadyTenant
from benchmarks.product.hostile.watch import Watch, restarts, wait_until_idle
from benchmarks.product.hostile.webhook import Webhook

RATE: Final = 15.0
"""Requests a second of the well-behaved tenant."""
WARM_UP_S, START_UP_S, LATE_S, SETTLED_WITHIN_S, WEBHOOK_WITHIN_S = 4.0, 1.0, 60.0, 20.0, 60.0
DELETION: Final = "deletion"
LOST: Final = "webhook: not delivered"
IDLE_CORES: Final = 0.15
"""More than without an attack, and the product counts as calm again."""


@dataclass(frozen=True, slots=True)
class Seconds:
    """How long the parts of a run take, how often each attack comes, and how long traces of deleted tenants
    are waited for to vanish."""

    quiet: float
    attack: float
    rounds: int
    vanish: float


QUICK = Seconds(quiet=6.0, attack=4.0, rounds=1, vanish=120.0)
WHOLE = Seconds(quiet=20.0, attack=10.0, rounds=2, vanish=600.0)


@dataclass(frozen=True, slots=True)
class Run:
    """What came of it. ``alone``, ``pause_s`` and ``memory`` are from before all attacks: latencies of the
    well-behaved tenant, the longest pause of the web server, and the memory of each child."""

    alone: Sequence[float]
    pause_s: float
    memory: Counter[str]
    attacks: Sequence[Attacked]
    kills: Sequence[Killed]
    deletion: Deleted | None
    figures: Mapping[str, float]


class Bench:
    """One run on a product that is ready."""

    def __init__(self, product: Product, seconds: Seconds, only: Sequence[str] = ()) -> None:
        self._product, self._seconds, self._only = product, seconds, only
        self._logins = json.loads((product.home / "demo.json").read_text(encoding="utf-8"))
        key = self._logins[GOOD]["api_key"]
        self._tenant = SteadyTenant(product.url, key, f"{GOOD}/{MODELS[GOOD]}", rate=RATE)
        self._watch, self._probe = Watch(product), Probe(product.port)
        self._cores = 0.0

    def run(self) -> Run:
        """All of it, in turn."""
        with Preparation(self._product, self._logins) as prepared, Webhook(prepared.good) as webhook:
            marker = random_marker()
            target = prepared.target(marker)
            leaving = Leaving(self._product, target, marker) if self._is_wanted(DELETION) else None
            if leaving:
                _say("words of tenants that will be deleted")
                leaving.leave_words()
            with self._tenant, self._watch, self._probe:
                time.sleep(WARM_UP_S)
                disk = self._product.disk_bytes()
                begun = time.monotonic()
                with self._tenant.phase() as alone, self._watch.phase() as seen:
                    self._cores = self._spent_during(self._seconds.quiet)
                pause_s = self._probe.longest_pause_s(begun, time.monotonic())
                attacks = []
                for name in filter(self._is_wanted, ATTACKS):
                    rounds = range(self._seconds.rounds)
                    attacks.append(together([self._attack(name, target, webhook) for _ in rounds]))
                    _clean(prepared.attackers, target)
                wait_until_idle(self._product, cores=self._cores + IDLE_CORES, within_s=SETTLED_WITHIN_S)
                disk_growth = self._product.disk_bytes() - disk
                kills = self._kills(prepared.good, webhook)
            deletion = self._deletion(leaving, prepared.admin) if leaving else None
        found = figures(attacks, kills, deletion, memory_before=seen.memory, disk_growth=disk_growth)
        return Run(alone.seconds, pause_s, seen.memory, attacks, kills, deletion, found)

    def _deletion(self, leaving: Leaving, admin: httpx.Client) -> Deleted:
        _say(DELETION)
        deleted_s = leaving.delete(admin)
        found, vanished_s = leaving.left_behind(within_s=self._seconds.vanish)
        return Deleted(deleted_s, vanished_s, found, leaving.refused)

    def _attack(self, name: str, target: Target, webhook: Webhook) -> Attacked:
        _say(name)
        before, begun = self._product.cpu_seconds(), time.monotonic()
        with self._tenant.phase() as phase, self._watch.phase() as seen:
            attacker = self._begun(name, target)
            time.sleep(START_UP_S + self._seconds.attack / 2)
            webhook.send()
            told = _told(attacker, within_s=self._seconds.attack + LATE_S)
            spent = self._product.cpu_seconds() - before + told["cpu_s"]
            ended = time.monotonic()
            cores = max(0.0, spent / (ended - begun) - self._cores)
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
            pause_s=self._probe.longest_pause_s(begun, ended),
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


def _clean(attackers: Sequence[httpx.Client], target: Target) -> None:
    """Delete whatever the attacks made, as far as the product answers."""
    for http in attackers:
        for path, field, of in (
            ("/api/v1/webhooks", "id", "url"),
            ("/api/v1/corpora", "id", "name"),
            ("/api/v1/batches", "id", "filename"),
            ("/api/v1/models", "name", "name"),
            ("/v1/files", "id", "filename"),
        ):
            with suppress(httpx.HTTPError):
                for row in rows_of(http, path):
                    if target.mark in str(row.get(of)):
                        http.delete(f"{path}/{row[field]}")


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
