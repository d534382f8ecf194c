"""Kills the launcher's children, each in turn, and finds out when its work is done again."""

import os
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx

from benchmarks.product.hostile.figures import Killed, restarted
from benchmarks.product.hostile.product import Product, ProductEnded
from benchmarks.product.hostile.tenant import SteadyTenant
from benchmarks.product.hostile.watch import Watch
from benchmarks.product.hostile.webhook import Webhook

POLL_S, WORK_TIMEOUT_S, PATIENCE_S = 0.1, 45.0, 150.0
ENDED: Final = ("succeeded", "completed", "failed", "cancelled", "expired")


class NotDone(Exception):
    """The work was not done in time, or refused."""


class Kills:
    """The children's work as the well-behaved tenant sees it."""

    def __init__(
        self,
        product: Product,
        tenant: SteadyTenant,
        watch: Watch,
        http: httpx.Client,
        webhook: Webhook,
        hplm: str,
    ) -> None:
        self._product, self._tenant, self._watch = product, tenant, watch
        self._http, self._webhook, self._hplm = http, webhook, hplm

    def kill(self, child: str) -> Killed:
        """Kill it; what came of that. Starts the product again where it ended."""
        before, starts = self._product.children()[child], self._product.starts
        with self._tenant.phase() as phase, self._watch.phase() as seen:
            log = len(self._product.log(child)) if child in LOGGED else 0
            begun = time.monotonic()
            os.kill(before[0], signal.SIGKILL)
            recovered = self._recovered(child, before, log, until=begun + PATIENCE_S)
            recovery_s = time.monotonic() - begun
            time.sleep(1.0)
        again = dict(restarted(seen.moments))
        return Killed(
            child=child,
            recovery_s=recovery_s if recovered else None,
            failures=phase.failures,
            restarts=again.pop(child, 0),
            restarts_of_others=sum(again.values()),
            product_ended=self._product.starts > starts,
        )

    def _recovered(self, child: str, before: tuple[int, float], log: int, *, until: float) -> bool:
        """Wait until another process of the child does its work; whether that came to be."""
        while time.monotonic() < until:
            try:
                if not self._product.runs():
                    self._product.start()
                if self._product.children().get(child, before) != before:
                    self._work(child, log)
                    return True
            except (httpx.HTTPError, NotDone, OSError, ProductEnded):
                pass
            time.sleep(POLL_S)
        return False

    def _work(self, child: str, log: int) -> None:
        """Have the child do a piece of its work. Raises NotDone, httpx.HTTPError."""
        if child in LOGGED:
            self._wait(lambda: LOGGED[child] in self._product.log(child)[log:])
            return
        work: Mapping[str, Callable[[], object]] = {
            "training worker": self._evaluation,
            "long worker": self._long_work,
            "short worker": self._delivery,
        }
        work.get(child, self._answers)()

    def _answers(self) -> None:
        self._asked("POST", "infer", json={"model": self._hplm, "inputs": ["a text"]})
        self._asked("GET", "models")

    def _evaluation(self) -> None:
        job = self._asked("POST", f"models/{self._hplm}/versions/1/evaluate", json={})
        self._ends(f"jobs/{job['id']}")

    def _long_work(self) -> None:
        self._coverage()
        self._batch()

    def _batch(self) -> None:
        lines = {"file": ("lines.jsonl", b'"a text"\n')}
        batch = self._asked("POST", "batches", data={"model": self._hplm}, files=lines)
        self._ends(f"batches/{batch['id']}")

    def _coverage(self) -> None:
        name = f"after {time.monotonic_ns()}"
        text = {"file": ("a.txt", b"one line of a text\n" * 30 + name.encode())}
        corpus = self._asked("POST", "corpora", data={"name": name}, files=text)
        self._wait(lambda: not self._asked("GET", f"corpora/{corpus['id']}/coverage")["waiting"])

    def _delivery(self) -> None:
        self._webhook.send()
        if not self._webhook.arrives(within_s=WORK_TIMEOUT_S):
            raise NotDone

    def _ends(self, path: str) -> None:
        found: dict[str, Any] = {}

        def has_ended() -> bool:
            found.update(self._asked("GET", path))
            return found["state"] in ENDED

        self._wait(has_ended)
        if found["state"] not in ENDED[:2]:
            raise NotDone(f"{path}: {found['state']}")

    def _wait(self, happened: Callable[[], bool]) -> None:
        latest = time.monotonic() + WORK_TIMEOUT_S
        while not happened():
            if time.monotonic() > latest or not self._product.runs():
                raise NotDone
            time.sleep(POLL_S)

    def _asked(self, method: str, path: str, **content: Any) -> dict[str, Any]:
        answer = self._http.request(method, f"/api/v1/{path}", **content)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found


LOGGED: Final = {"beat": "Sending due task"}
"""Children whose work shows in their log alone, and a word of it that they write when they do some."""
