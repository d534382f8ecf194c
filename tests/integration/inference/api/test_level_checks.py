"""Checks of served answers: what the tables answered is computed in full by a real worker."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import connection
from pytest_django import Settings
from redis import Redis

from inference.api.level_checks import (
    MAX_WAITING,
    LevelCheck,
    LevelChecker,
    check_sample,
    close_level_checks,
    run_check,
    sampled_checks,
)
from inference.api.prepared_request import PreparedRequest, prepare_request
from inference.api.validation import Quality, parse_call
from inference.cascade.dispatcher import HASH_BYTES, is_sampled
from inference.queueing.replies import InferClient
from inference.queueing.transport import RequestQueue
from inference.text.encodings import InferInput
from tenants.accounts.models import Tenant
from tenants.base.scope import platform_scope
from tenants.usage.models import AnswerDay, UsageDay
from tests.integration.inference.api.conftest import Ask, Served
from tests.integration.inference.api.waiting import infer
from tests.processes import InferenceWorker, wait_until
from tests.unit.tiny import tiny_texts

TEXTS = [*tiny_texts(30), "zebra quixotic", "x"]
Results = list[dict[str, Any]]


@pytest.fixture
def client(redis_url: str) -> Iterator[InferClient]:
    """What checks are sent with."""
    made = InferClient(django_settings.REDIS_URL, capacity=8, background=True)
    yield made
    made.close()


def answered(served: Served, model: str, quality: Quality) -> tuple[PreparedRequest, Results]:
    """A request and its results."""
    call = parse_call({"model": model, "inputs": TEXTS, "quality": quality})
    prepared = prepare_request(call, tenant=Tenant.objects.get(pk=served.world.tenant.pk))
    return prepared, infer(prepared)["results"]


def counted(model: str) -> tuple[int, int]:
    """Checked and agreed texts."""
    rows = AnswerDay.unscoped.filter(model_name=model)
    return sum(row.checked_texts for row in rows), sum(row.agreed_texts for row in rows)


def test_a_check_counts_whether_the_level_full_gives_the_same_answer(
    db: None, served: Served, worker: InferenceWorker, client: InferClient, settings: Settings, ask: Ask
) -> None:
    prepared, results = answered(served, "graded", "fast")
    exact = ask("graded", TEXTS, quality="exact").json()["results"]
    agreed = sum(one["label"] == other["label"] for one, other in zip(results, exact, strict=True))
    assert 0 < agreed < len(TEXTS)
    usage = list(UsageDay.unscoped.order_by("pk").values())
    settings.HMI_CHECK_SHARE = 1.0
    for check in sampled_checks(prepared, results):
        run_check(check, client)
    assert counted("graded") == (len(TEXTS), agreed)
    assert list(UsageDay.unscoped.order_by("pk").values()) == usage, "nobody is charged"


def test_sample_of_answers_of_the_tables_is_deterministic(
    db: None, served: Served, worker: InferenceWorker, settings: Settings
) -> None:
    prepared, results = answered(served, "graded", "balanced")
    assert sampled_checks(prepared, results) == []
    settings.HMI_CHECK_SHARE = 0.3
    found = [check.encoded.given.text for check in sampled_checks(prepared, results)]
    assert found == [
        text
        for text, result in zip(TEXTS, results, strict=True)
        if result["level"] == "table" and is_sampled(InferInput(text).digest(HASH_BYTES), 0.3)
    ]
    assert 0 < len(found) < len([result for result in results if result["level"] == "table"])
    shares: dict[Quality, int] = {"exact": 0, "fast": len(TEXTS)}
    for quality, share in shares.items():
        settings.HMI_CHECK_SHARE = 0.0
        prepared, results = answered(served, "graded", quality)
        settings.HMI_CHECK_SHARE = 1.0
        assert len(sampled_checks(prepared, results)) == share


def test_a_tenant_may_turn_the_checks_off(
    db: None, served: Served, worker: InferenceWorker, settings: Settings
) -> None:
    Tenant.objects.filter(pk=served.world.tenant.pk).update(checks_answers=False)
    prepared, results = answered(served, "graded", "fast")
    settings.HMI_CHECK_SHARE = 1.0
    assert sampled_checks(prepared, results) == []


def test_check_that_times_out_is_not_counted_and_leaves_the_queue(
    db: None,
    served: Served,
    busy: InferenceWorker,
    client: InferClient,
    queue: Redis,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inference.api.level_checks.CHECK_S", 0.1)
    check = a_check(served, settings)
    run_check(check, client)
    assert counted("graded") == (0, 0)
    assert RequestQueue(queue, capacity=8, background=True).depth() == 0


def a_check(served: Served, settings: Settings) -> LevelCheck:
    """One check, of an answer that is made up."""
    call = parse_call({"model": "graded", "inputs": TEXTS[:1], "quality": "fast"})
    prepared = prepare_request(call, tenant=served.world.tenant)
    settings.HMI_CHECK_SHARE = 1.0
    (check,) = sampled_checks(prepared, [{"level": "table", "label": "none of them"}])
    return check


def test_checks_beyond_the_waiting_places_are_dropped(db: None, served: Served, settings: Settings) -> None:
    check, checker = a_check(served, settings), LevelChecker()
    checker._thread = threading.current_thread()  # nobody takes what waits
    checker.add([check] * 1000)
    assert checker._waiting.qsize() == MAX_WAITING


@pytest.fixture
def committed_counts(db: None) -> Iterator[None]:
    """Threads write outside of the test's transaction; what they wrote is removed."""
    yield
    close_level_checks()

    @platform_scope()
    def remove() -> None:
        AnswerDay.unscoped.all().delete()
        connection.close()

    thread = threading.Thread(target=remove)
    thread.start()
    thread.join()


@pytest.mark.usefixtures("committed_counts")
def test_sampled_answers_are_checked_in_a_thread(
    served: Served, worker: InferenceWorker, settings: Settings
) -> None:
    call = parse_call({"model": "graded", "inputs": TEXTS[:3], "quality": "fast"})
    prepared = prepare_request(call, tenant=served.world.tenant)
    settings.HMI_CHECK_SHARE = 1.0
    # Made up: a request would count its results in the test's own transaction, for which the thread waits.
    check_sample(prepared, [{"level": "table", "label": "none of them"}] * 3)
    wait_until(lambda: counted("graded") == (3, 0), worker)
