"""A worker under mixed traffic for minutes keeps its size (SOAK_SECONDS says for how many seconds), and
answers right while models come and go."""

import dataclasses
import itertools
import os
import random
import statistics
import time
from collections.abc import Callable

import msgspec
import numpy as np
import psutil
import pytest
from numpy.typing import NDArray
from redis import Redis

from inference.queueing.messages import InferReply, InferRequest, TokenSequence
from tests.integration.inference.worker.asking import assert_outputs, expected_outputs, request_for
from tests.integration.inference.worker.more_hplms import MIB, large_hplms, spoil_with_infinity, spoilt_hplm
from tests.integration.inference.worker.more_hplms import sizes as sizes_of
from tests.integration.inference.worker.traffic import Load
from tests.processes import InferenceWorker, wait_until
from tests.unit.tiny import tiny_texts
from tests.unit.tiny_world import TinyHplm, TinyWorld

SECONDS = float(os.environ.get("SOAK_SECONDS") or 120)
WARM_UP, WARM_REQUESTS, SAMPLES = 0.3, 4_000, 250
MAY_GROW = 12 * 1024**2
"""What caches take that still fill. A few kilobytes kept of each request would be more."""
MAY_PEAK = 128 * 1024**2
"""What requests in flight at once may have raised the heap by."""
PLAIN = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "131072"}
"""The allocator gives back what it is given back, so that the size is what the worker keeps."""
OUTSTANDING, TEXTS_OF_A_REQUEST = 48, 4
LONG_TEXT = "river " * 5_000
TEXTS = [*tiny_texts(40, seed=6, longest=24), LONG_TEXT]
REFUSED = {"unknown": "not_found", "spoilt": "inference_failed", "late": "deadline_exceeded"}


class References:
    """What every model of a world says alone, in plain PyTorch; each computed once."""

    def __init__(self, world: TinyWorld) -> None:
        self._world = world
        self._hplms = {hplm.digest: hplm for hplm in world.hplms}
        self._known: dict[tuple[str, TokenSequence], NDArray[np.float32]] = {}

    def expected(self, hplm: TinyHplm, sequence: TokenSequence) -> NDArray[np.float32]:
        """The outputs for one sequence, flat."""
        key = (hplm.digest, sequence)
        if key not in self._known:
            self._known[key] = expected_outputs(self._world, hplm, sequence)
        return self._known[key]

    def assert_right(self, request: InferRequest, reply: InferReply) -> None:
        """The reply names the version and digest that were asked for, and says what that model says alone."""
        hplm = self._hplms[request.digest]
        assert_outputs(request, reply, [self.expected(hplm, each) for each in request.sequences])


class Mixture:
    """Requests of every kind; every 200 the manifest is written anew, with a few models less or more.

    At first everybody sends as much as they ever will, at once, so that the heap is as large from then on as
    chance may make it later.
    """

    def __init__(self, world: TinyWorld) -> None:
        self._spoilt = spoilt_hplm(world, spoil_with_infinity)
        self._world = large_hplms(world, 12)
        self._references = References(self._world)
        self._draw = random.Random(11)
        self._refused: dict[str, str] = {}

    def make(self, number: int) -> InferRequest:
        """One in ten is of no use, but for the first."""
        if number % 200 == 0:
            served = self._world.hplms[: 10 + number // 200 % 3]
            self._world.publish(revision=2 + number, hplms=(*served, self._spoilt))
        if number < 2 * OUTSTANDING:
            return request_for(self._world.hplms[number % 10], *[LONG_TEXT] * TEXTS_OF_A_REQUEST)
        request = request_for(
            self._draw.choice(self._world.hplms[:10]),
            *self._draw.choices(TEXTS, k=self._draw.randint(1, TEXTS_OF_A_REQUEST)),
        )
        if number % 10:
            return request
        kind = self._draw.choice(list(REFUSED))
        self._refused[request.id] = REFUSED[kind]
        if kind == "spoilt":
            return msgspec.structs.replace(request_for(self._spoilt, "river"), id=request.id)
        if kind == "late":
            return msgspec.structs.replace(request, deadline=time.time() - 1)
        return msgspec.structs.replace(request, hplm="nobody")

    def check(self, request: InferRequest, reply: InferReply) -> None:
        """Right, or refused where it had to be."""
        code = self._refused.pop(request.id, None)
        if code is None:
            self._references.assert_right(request, reply)
        else:
            assert reply.error is not None
            assert reply.error.code == code


@dataclasses.dataclass(frozen=True)
class Size:
    """What a process takes of the machine."""

    rss: int
    threads: int
    files: int

    @classmethod
    def of(cls, process: psutil.Process) -> "Size":
        """Now."""
        return cls(process.memory_info().rss, process.num_threads(), process.num_fds())


FIELDS = dataclasses.fields(Size)


def go_on(load: Load, seconds: float) -> None:
    """Let time pass."""
    end = time.monotonic() + seconds
    load.until(lambda: time.monotonic() > end, within_s=seconds + 60)


def steady_growth(values: list[int]) -> float:
    """What the least values grow by from first to last, if each tenth grows as the median one does.

    What is kept of each request grows in every tenth. Many long texts at once raise the heap for good, by
    some 15 MB, but in one tenth or two. The least value of a tenth, taken between two batches, is the same
    to a megabyte; its median moves by several with what happens to be computed.
    """
    tenth = len(values) // 10
    floors = [min(values[at : at + tenth]) for at in range(0, tenth * 10, tenth)]
    return 9 * statistics.median(after - before for before, after in itertools.pairwise(floors))


@pytest.mark.thorough
@pytest.mark.timeout(SECONDS * 2 + 600)
def test_a_worker_keeps_its_size(
    redis: Redis, world: TinyWorld, start_worker: Callable[..., InferenceWorker]
) -> None:
    mixture, sizes = Mixture(world), list[Size]()
    worker = start_worker(HMI_MODEL_CACHE_MB="1", **PLAIN).wait_until_ready()
    process = psutil.Process(worker.process.pid)
    with Load(redis, mixture.make, mixture.check, outstanding=OUTSTANDING) as load:
        began = time.monotonic()
        load.until(
            lambda: load.answered > WARM_REQUESTS and time.monotonic() - began > SECONDS * WARM_UP,
            within_s=SECONDS + 120,
        )
        warm = load.answered
        while time.monotonic() - began < SECONDS or len(sizes) < 2 * SAMPLES:
            sizes.append(Size.of(process))
            go_on(load, SECONDS * (1 - WARM_UP) / (4 * SAMPLES))
        assert load.answered > warm + 500
    assert steady_growth([size.rss for size in sizes]) < MAY_GROW, f"after {load.answered} requests"
    before, after = (
        {field.name: statistics.median(getattr(size, field.name) for size in some) for field in FIELDS}
        for some in (sizes[:SAMPLES], sizes[-SAMPLES:])
    )
    assert after["rss"] - before["rss"] < MAY_PEAK
    assert (after["threads"], after["files"]) == (before["threads"], before["files"])
    status = worker.told()
    assert status.slot_mismatches == 0


REQUESTS, HPLMS, AT_FIRST = 10_000, 20, 8
CHURN_TEXTS = tiny_texts(30, seed=4, longest=24)


@pytest.mark.thorough
def test_ten_thousand_requests_under_churn_get_each_the_answer_of_its_own_hplm(
    redis: Redis, world: TinyWorld, start_worker: Callable[..., InferenceWorker]
) -> None:
    """Room for four models; every 500 requests another one is published."""
    world = large_hplms(world, HPLMS)
    by_size = sizes_of(world.hplms)
    assert sum(by_size[-4:]) <= MIB < sum(by_size[:5])
    references, draw = References(world), random.Random(9)
    alike = [hplm for hplm in world.hplms if hplm.model.task == "classification"]
    first = [references.expected(hplm, request_for(hplm, CHURN_TEXTS[0]).sequences[0]) for hplm in alike]
    assert len({str(outputs) for outputs in first}) == len(alike)

    def make(number: int) -> InferRequest:
        published = min(HPLMS, AT_FIRST + number // 500)
        if number % 500 == 0:
            world.publish(revision=1 + number, hplms=world.hplms[:published])
        hplm = draw.choice(world.hplms[:published])
        return request_for(hplm, *draw.choices(CHURN_TEXTS, k=draw.randint(1, 3)))

    worker = start_worker(HMI_MODEL_CACHE_MB="1").wait_until_ready()
    with Load(redis, make, references.assert_right, outstanding=100, most=REQUESTS) as load:
        load.finish(within_s=800)
    assert load.answered == REQUESTS

    def all_told() -> bool:
        status = worker.status()
        return status is not None and status.rows >= REQUESTS

    wait_until(all_told, worker)
    status = worker.told()
    assert (status.slot_mismatches, status.last_error) == (0, "")
