"""Valkey is killed with requests in it, and comes back with its append-only file."""

import threading

import httpx
import pytest

from tenants.base.errors import ErrorCode
from tests.integration.serving_faults.installation import Installation, assert_refused
from tests.processes import wait_until

pytestmark = pytest.mark.slow

TEXTS = ("a good stone", "the river of the doctor", "poor patient", "copper city")


def test_requests_accepted_before_valkey_was_killed_are_answered_after_it_is_back(site: Installation) -> None:
    worker, web = site.worker, site.web.child.pid
    worker.pause()
    asked = site.asking(*TEXTS)
    site.valkey.kill()
    worker.resume()
    assert_refused(site.ask("nobody takes this"), ErrorCode.WORKER_UNAVAILABLE)
    wait_until(lambda: "cannot be reached" in worker.output(), worker)
    site.valkey.start()
    for text, waiting in asked.items():
        site.assert_right(waiting.result(), text)

    wait_until(lambda: site.get("/health/ready").status_code == 200, worker)
    site.assert_right(site.ask("a new one"), "a new one")
    assert site.waiting() == 0
    assert worker.process.poll() is None
    assert (site.web.child.pid, site.web.runs()) == (web, True)


def test_requests_while_valkey_is_killed_are_answered_or_told_to_come_back(site: Installation) -> None:
    answers: list[tuple[str, httpx.Response]] = []
    enough = threading.Event()

    def keep_asking(text: str) -> None:
        while not enough.is_set():
            answers.append((text, site.ask(text)))

    def seen(status: int, after: int) -> bool:
        return any(answer.status_code == status for _, answer in answers[after:])

    asking = [threading.Thread(target=keep_asking, args=[text]) for text in TEXTS]
    for thread in asking:
        thread.start()
    try:
        wait_until(lambda: seen(200, after=0), site.worker)
        site.valkey.kill()
        wait_until(lambda: seen(503, after=0), site.worker)
        site.valkey.start()
        again = len(answers)
        wait_until(lambda: seen(200, after=again), site.worker)
    finally:
        enough.set()
        for thread in asking:
            thread.join()
    for text, answer in answers:
        if answer.status_code == 200:
            site.assert_right(answer, text)
        else:
            assert_refused(answer, ErrorCode.WORKER_UNAVAILABLE)
    wait_until(lambda: site.waiting() == 0, site.worker)
