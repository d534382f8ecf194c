"""PostgreSQL is killed while requests are served: what those who asked are told, and that all recover."""

import httpx
import pytest

from tenants.base.errors import ErrorCode
from tests.integration.serving_faults.installation import PASSWORD, Installation, assert_refused
from tests.processes import wait_until

pytestmark = pytest.mark.slow

TEXTS = ("a good stone", "the river of the doctor", "poor patient", "copper city")


def test_computed_requests_are_answered_without_postgres(site: Installation) -> None:
    site.worker.pause()
    asked = site.asking(*TEXTS)
    site.postgres.kill()
    site.worker.resume()
    for text, waiting in asked.items():
        site.assert_right(waiting.result(), text)


def test_new_requests_are_told_to_come_back_and_all_recover_by_themselves(site: Installation) -> None:
    worker, web = site.worker, site.web.child.pid
    site.assert_right(site.ask("before"), "before")
    site.postgres.kill()
    for _ in range(3):
        assert_refused(site.ask("meanwhile"), ErrorCode.DATABASE_UNAVAILABLE)
    assert site.get("/health/live").status_code == 200
    health = site.get("/health/ready")
    assert (health.status_code, health.json()["database"]) == (503, "failed")
    assert health.json()["inference_worker"] == "ok"

    site.postgres.start()
    wait_until(lambda: site.get("/health/ready").status_code == 200, worker)
    site.assert_right(site.ask("after"), "after")
    assert worker.process.poll() is None
    assert (site.web.child.pid, site.web.runs()) == (web, True)


def test_a_page_of_somebody_signed_in_says_so_too(site: Installation) -> None:
    with httpx.Client(base_url=site.web.url, trust_env=False, timeout=60, follow_redirects=True) as person:
        person.get("/login/")
        token = next(value for name, value in person.cookies.items() if name.startswith("hmi_csrf"))
        form = {"login": "owner", "password": PASSWORD, "csrfmiddlewaretoken": token}
        page = person.post("/login/", data=form, headers={"Referer": site.web.url})
        # A wrong password is answered with 200 too, by the same page.
        assert (page.status_code, page.url.path) == (200, "/t/acme/")
        site.postgres.kill()
        page = person.get("/")
    assert page.status_code == 503
    assert int(page.headers["Retry-After"]) > 0
    assert "database" in page.text


def test_the_first_who_ask_after_a_restart_that_nobody_noticed_are_answered(site: Installation) -> None:
    """Connections that the web kept from before are of no use, and must not be tried on them."""
    site.worker.pause()
    asked = site.asking(*TEXTS)
    site.worker.resume()
    for text, waiting in asked.items():
        site.assert_right(waiting.result(), text)
    site.postgres.kill()
    site.postgres.start()
    for text in TEXTS:
        site.assert_right(site.ask(text), text)
