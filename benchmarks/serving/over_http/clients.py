"""Clients that call the infer API, and what the processes behind it took."""

import json
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from types import TracebackType
from typing import Any, Final, Self

import httpx
import psutil

PATIENCE_S, POLL_S, TIMEOUT_S = 120.0, 0.25, 300.0
PROGRAMS: Final = {
    "web_server": "web",
    "inference.worker": "inference_worker",
    "valkey": "valkey",
    "postgres": "postgresql",
}
OTHERS, CLIENT = "others", "client"
COMPUTE: Final = re.compile(r"\bcompute;dur=([\d.]+)")


class NotServed(Exception):
    """A call was not answered well."""


@dataclass(frozen=True)
class Call:
    """A call of the infer API: with whose key, for which of its models, and the inputs. quality: as in the
    request; "" for the deployment's own."""

    tenant: str
    hplm: str
    api_key: str
    inputs: Sequence[str] = ()
    quality: str = ""

    @cached_property
    def body(self) -> bytes:
        """What is sent."""
        body: dict[str, Any] = {"model": f"{self.tenant}/{self.hplm}", "inputs": list(self.inputs)}
        return json.dumps(body | ({"quality": self.quality} if self.quality else {})).encode()


@dataclass(frozen=True, slots=True)
class Timed:
    """How long a call took, whether it was answered well, and the part of it in which the server computed: 0
    if its answer does not say."""

    seconds: float
    good: bool
    compute_s: float = 0.0


class Clients:
    """So many clients on connections that stay open; each sends its next call when it has the answer to the
    one before."""

    def __init__(self, url: str, count: int) -> None:
        limits = httpx.Limits(max_connections=count, max_keepalive_connections=count)
        self._http = httpx.Client(base_url=url, limits=limits, timeout=TIMEOUT_S, trust_env=False)
        self._pool = ThreadPoolExecutor(count)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown()
        self._http.close()

    def send(self, calls: Sequence[Call]) -> list[dict[str, Any] | None]:
        """The answers to all calls; None for one that was not answered well."""
        return list(self._pool.map(self._answer, calls))

    def time(self, calls: Sequence[Call], starts: Sequence[float] = ()) -> list[Timed]:
        """How long each of the calls takes, whatever is answered. starts: in how many seconds each of them is
        due, in ascending order; its time counts from then, also while all clients wait. Without: when a
        client is free."""
        begun = time.perf_counter()
        due = [begun + start for start in starts]
        return list(self._pool.map(self._time, calls, due or repeat(None)))

    def wait_until_served(self, calls: Sequence[Call]) -> None:
        """Return once each is answered well: a version is ready before the inference worker has it."""
        latest = time.monotonic() + PATIENCE_S
        for call in calls:
            while (response := self._post(call)).status_code != httpx.codes.OK:
                if time.monotonic() > latest:
                    raise NotServed(response.text)
                time.sleep(POLL_S)

    def _time(self, call: Call, due: float | None) -> Timed:
        started = due or time.perf_counter()
        time.sleep(max(0.0, started - time.perf_counter()))
        response = self._post(call)
        seconds = time.perf_counter() - started
        return Timed(seconds, response.status_code == httpx.codes.OK, compute_seconds(response))

    def _answer(self, call: Call) -> dict[str, Any] | None:
        response = self._post(call)
        return response.json() if response.status_code == httpx.codes.OK else None

    def _post(self, call: Call) -> httpx.Response:
        headers = {"Authorization": f"Bearer {call.api_key}", "Content-Type": "application/json"}
        return self._http.post("/api/v1/infer", content=call.body, headers=headers)


def compute_seconds(response: httpx.Response) -> float:
    """The seconds of the stage `compute` in the header Server-Timing; 0 without one."""
    found = COMPUTE.search(response.headers.get("Server-Timing", ""))
    return float(found[1]) / 1000 if found else 0.0


def cpu_seconds() -> dict[str, float]:
    """Processor seconds so far of what this process started, by program, and of itself."""
    found = dict.fromkeys([*PROGRAMS.values(), OTHERS], 0.0)
    for process in psutil.Process().children(recursive=True):
        try:
            command, times = " ".join(process.cmdline()), process.cpu_times()
        except psutil.Error:  # it has just ended
            continue
        name = next((name for word, name in PROGRAMS.items() if word in command), OTHERS)
        found[name] += times.user + times.system + times.children_user + times.children_system
    return {**found, CLIENT: time.process_time()}
