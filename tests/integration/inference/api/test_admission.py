"""Admission: requests are refused only if they would be late, with the time to retry after."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pytest_django import Settings
from redis import Redis

from inference.api.admission import (
    AdmissionRequest,
    ServingState,
    admit,
    close_gateway,
    expected_wait_s,
    no_room,
)
from inference.queueing.heartbeat import Heartbeat
from inference.queueing.status import Recently, State, WorkerStatus
from inference.queueing.transport import QueueFull, RequestQueue
from tenants.base.errors import HmiError
from tests.integration.inference.api.conftest import Ask, Served, root_of
from tests.integration.inference.queueing.requests import OTHER_ROOT, ROOT, a_request, depth

TOKENS = 5
"""Of each request here, as of `a_request`."""
TENANTS = ("acme", "globex", "initech")
tenants = st.sampled_from(TENANTS)
rates = st.floats(0.01, 1000.0)
seconds = st.floats(0.001, 1000.0)
counts = st.dictionaries(tenants, st.integers(0, 500))


def worker(rate: float = 0.0, *, state: State = "ready", root: str = ROOT, name: str = "w") -> WorkerStatus:
    recently = Recently(behind_per_s=rate, behind_tokens_per_s=rate * TOKENS)
    return WorkerStatus(name, state, "cpu", "float32", ("mini",), (root,), recently=recently)


def asking(tenant: str = "acme", within_s: float = 5.0, weight: float = 1.0) -> AdmissionRequest:
    return AdmissionRequest(tenant, ROOT, "mini", within_s, weight)


def standing(workers: Sequence[WorkerStatus], outstanding: Mapping[str, int] | None = None) -> ServingState:
    """With so many requests of each tenant."""
    return ServingState(workers, {ROOT: outstanding or {}}, {ROOT: tokens_of(outstanding or {})})


def tokens_of(outstanding: Mapping[str, int]) -> dict[str, int]:
    return {tenant: TOKENS * count for tenant, count in outstanding.items()}


def refusal(
    asked: AdmissionRequest, *workers: WorkerStatus, outstanding: Mapping[str, int] | None = None
) -> HmiError:
    with pytest.raises(HmiError) as refused:
        admit(asked, standing(workers, outstanding))
    return refused.value


@given(tenants, seconds, st.lists(rates | st.just(0.0), min_size=1))
def test_empty_queue_refuses_nobody(tenant: str, within_s: float, measured: list[float]) -> None:
    admit(asking(tenant, within_s), standing([worker(rate) for rate in measured]))


@given(seconds, st.dictionaries(st.sampled_from(TENANTS[1:]), st.integers(0, 500)), rates)
def test_tenant_with_nothing_outstanding_is_admitted_whatever_waits(
    within_s: float, others: dict[str, int], rate: float
) -> None:
    admit(asking("acme", within_s), standing([worker(rate)], others))


@given(counts, seconds, st.lists(rates))
def test_worker_that_keeps_up_admits_everybody(
    outstanding: dict[str, int], within_s: float, measured: list[float]
) -> None:
    workers = [worker(rate) for rate in [*measured, 0.0]]
    admit(asking(within_s=within_s), standing(workers, outstanding))


@given(counts, tenants, tenants, rates)
def test_the_wait_grows_with_what_is_outstanding_and_falls_with_the_rate(
    outstanding: dict[str, int], tenant: str, more: str, rate: float
) -> None:
    asked = asking(tenant)
    wait = expected_wait_s(asked, tokens_of(outstanding), [worker(rate)])
    deeper = {**outstanding, more: outstanding.get(more, 0) + 1}
    assert expected_wait_s(asked, tokens_of(deeper), [worker(rate)]) >= wait
    assert expected_wait_s(asked, tokens_of(outstanding), [worker(rate), worker(rate)]) == pytest.approx(
        wait / 2
    )


@given(counts, tenants, rates, st.floats(1.0, 100.0))
def test_a_heavier_tenant_waits_no_longer(
    outstanding: dict[str, int], tenant: str, rate: float, weight: float
) -> None:
    heavy, usual = (
        expected_wait_s(asking(tenant, weight=w), tokens_of(outstanding), [worker(rate)])
        for w in (weight, 1.0)
    )
    assert heavy <= usual


@given(counts, tenants, seconds, rates)
def test_request_is_refused_only_if_its_wait_exceeds_its_timeout(
    outstanding: dict[str, int], tenant: str, within_s: float, rate: float
) -> None:
    asked = asking(tenant, within_s)
    wait = expected_wait_s(asked, tokens_of(outstanding), [worker(rate)])
    if wait <= within_s:
        admit(asked, standing([worker(rate)], outstanding))
        return
    refused = refusal(asked, worker(rate), outstanding=outstanding)
    assert (refused.code, refused.status) == ("queue_full", 429)
    assert 1 <= (refused.retry_after or 0) <= 60


@given(st.integers(0, 500), st.integers(0, 500), rates | st.just(0.0))
def test_full_queue_says_when_to_retry(depth: int, own: int, rate: float) -> None:
    error = no_room(QueueFull(depth, own), asking(), standing([worker(rate)]))
    assert (error.code, error.status) == ("queue_full", 429)
    assert 1 <= (error.retry_after or 0) <= 60


def test_retry_after_follows_from_the_measured_rate(settings: Settings) -> None:
    settings.HMI_INFER_CAPACITY = 4
    late = refusal(asking(within_s=2.0), worker(0.5), outstanding={"acme": 3, "globex": 90})
    assert late.details == {"expected_wait_s": 12.0, "waiting": 93, "yours": 3}
    assert late.retry_after == 10
    full = no_room(QueueFull(depth=4, own=3), asking(), standing([worker(0.5)]))
    assert full.retry_after == 4
    unmeasured = no_room(QueueFull(depth=4, own=3), asking(), standing([worker()]))
    assert unmeasured.retry_after == 1
    unserved = no_room(QueueFull(depth=4, own=3), asking(), ServingState([], {}, {}, served_lately={ROOT}))
    assert unserved.retry_after == 5


def test_expected_wait_is_of_tokens_not_of_requests() -> None:
    """Ten requests of 2,000 tokens each were answered in five seconds; now 50 short ones wait."""
    behind = worker(2.0)
    recently = Recently(behind_per_s=2.0, behind_tokens_per_s=4000.0)
    serving = [replace(behind, recently=recently)]
    waiting = ServingState(serving, {ROOT: {"acme": 50}}, {ROOT: {"acme": 1000}})
    admit(asking(within_s=1.0), waiting)
    long = ServingState(serving, {ROOT: {"acme": 50}}, {ROOT: {"acme": 100_000}})
    with pytest.raises(HmiError) as refused:
        admit(asking(within_s=20.0), long)
    assert refused.value.details == {"expected_wait_s": 25.0, "waiting": 50, "yours": 50}


@pytest.mark.parametrize(
    ("workers", "reason"),
    [
        ([], "none"),
        ([worker(state="draining")], "none"),
        ([worker(state="loading")], "loading"),
        ([worker(state="draining"), worker(state="loading")], "loading"),
        ([worker(root=OTHER_ROOT)], "root"),
        ([worker(root=OTHER_ROOT), worker(state="loading")], "root"),
    ],
)
def test_root_without_a_worker_is_refused_with_the_reason(workers: list[WorkerStatus], reason: str) -> None:
    refused = refusal(asking(), *workers)
    assert (refused.code, refused.status, refused.details) == (
        "worker_unavailable",
        503,
        {"reason": reason},
    )
    assert (refused.retry_after or 0) > 0


@pytest.mark.parametrize("left", [[], [worker(state="loading")], [worker(root=OTHER_ROOT)]])
def test_root_served_a_moment_ago_is_admitted_without_a_worker(left: list[WorkerStatus]) -> None:
    admit(asking(), ServingState(left, {}, {}, served_lately={ROOT}))
    with pytest.raises(HmiError):
        admit(asking(), ServingState(left, {}, {}, served_lately={OTHER_ROOT}))


@pytest.fixture
def announce(empty_queue: Redis, served: Served) -> Iterator[Any]:
    """Has the API see one worker: ``announce("ready", root=..., rate=...)``."""

    def beat(state: State, *, root: str = root_of(served), rate: float = 0.0) -> None:
        Heartbeat(empty_queue, "w", worker(rate, state=state, root=root).encode).beat()

    yield beat
    empty_queue.flushall()
    close_gateway()


def test_request_that_would_be_late_is_not_queued(
    ask: Ask, announce: Any, empty_queue: Redis, served: Served
) -> None:
    announce("ready", rate=2.0)
    for serial in range(10):
        RequestQueue(empty_queue, capacity=100).submit(a_request(f"r{serial}", root=root_of(served)))
    late = ask("mood", timeout_s=1.5)
    assert (late.status_code, late.json()["error"]["code"]) == (429, "queue_full")
    assert late.json()["error"]["details"] == {"expected_wait_s": 5.0, "waiting": 10, "yours": 10}
    assert int(late["Retry-After"]) == 4
    assert depth(empty_queue) == 10
    announce("ready", rate=1000.0)
    assert ask("mood", timeout_s=0.1).status_code == 504  # nobody answers here
    assert depth(empty_queue) == 11


def test_requests_of_other_roots_do_not_count_as_waiting(ask: Ask, announce: Any, empty_queue: Redis) -> None:
    announce("ready", rate=2.0)
    for serial in range(10):
        RequestQueue(empty_queue, capacity=100).submit(a_request(f"r{serial}", root=OTHER_ROOT))
    assert ask("mood", timeout_s=0.1).status_code == 504  # nobody answers here
    assert depth(empty_queue) == 11


def test_stale_state_of_workers_refuses_nobody(ask: Ask, announce: Any, empty_queue: Redis) -> None:
    announce("loading")
    assert ask("mood").status_code == 503
    announce("ready")
    assert ask("mood", timeout_s=0.05).status_code == 504
