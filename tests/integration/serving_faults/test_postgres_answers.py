"""PostgreSQL is killed while requests are served: what those who asked are told."""

import httpx
import pytest

from tenants.base.errors import ErrorCode
from tests.integration.serving_faults.installation import PASSWORD, Installation, assert_refused

pytestmark = pytest.mark.slow

TEXTS = ("a good stone", "the river of the doctor", "poor patient", "copper city")


def test_what_was_computed_is_answered_though_it_cannot_be_counted(site: Installation) -> None:
    site.worker.pause()
    asked = site.asking(*TEXTS)
    site.postgres.kill()
    site.worker.resume()
    for text, waiting in asked.items():
        site.assert_right(waiting.result(), text)


def test_a_new_request_is_told_to_come_back(site: Installation) -> None:
    site.assert_right(site.ask("before"), "before")
    site.postgres.kill()
    for _ in range(3):
        assert_refused(site.ask("meanwhile"), ErrorCode.DATABASE_UNAVAILABLE)


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
