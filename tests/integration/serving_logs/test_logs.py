"""What a web server and an inference worker really write while they are used, well and badly."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.integration.serving_faults.installation import PASSWORD, Installation
from tests.processes import wait_until

TEXT = "the quince jelly of a patient"
WRONG_PASSWORD = "sloe and hawthorn"
FAKE_KEY = "abcdefgh." + "Z9" * 16
Line = dict[str, Any]


def lines_of(program: Any) -> list[Line]:
    """Everything it has written: nothing but JSON objects, one on a line."""
    return [json.loads(line) for line in program.output().splitlines()]


def about(program: Any, request_id: str) -> list[Line]:
    return [line for line in lines_of(program) if line.get("request_id") == request_id]


def id_of(answer: httpx.Response) -> str:
    return answer.headers["X-Request-Id"]


def post(site: Installation, path: str, **more: Any) -> httpx.Response:
    return httpx.post(f"{site.web.url}{path}", trust_env=False, timeout=60, **more)


def test_an_answered_request_is_one_line_on_either_side_with_the_same_figures(site: Installation) -> None:
    answer = site.ask(TEXT)
    assert answer.status_code == 200
    body = answer.json()
    assert body["id"] == id_of(answer)
    [line] = about(site.web, body["id"])
    assert (line["event"], line["level"], line["logger"]) == ("infer", "info", "hmi_site.http.request_log")
    assert (line["tenant"], line["model"], line["inputs"]) == ("acme", "acme/mood:1", 1)
    assert (line["status"], line["code"], line["view"]) == (200, "ok", "inference_api:infer")
    assert line["tokens"] == body["usage"]["tokens"]
    stages = {f"{stage}_ms": ms for stage, ms in body["timings_ms"].items()}
    assert len(stages) == 5
    assert {name: line[name] for name in stages} == stages
    assert line["ms"] > 0
    [told] = about(site.worker, body["id"])
    assert (told["event"], told["level"], told["code"]) == ("answered", "debug", "ok")
    assert {name: told[name] for name in stages} == stages
    assert (told["tenant"], told["model"], told["tokens"]) == ("acme", "acme/mood:1", line["tokens"])


@pytest.mark.parametrize(
    ("ask", "status", "code", "tenant"),
    [
        (lambda site: site.ask(TEXT, key=FAKE_KEY), 401, "unauthenticated", None),
        (lambda site: site.ask(TEXT, model="acme/nobody"), 404, "not_found", "acme"),
        (
            lambda site: post(site, "/api/v1/infer", content=b"x" * 17 * 1024**2),
            413,
            "body_too_large",
            None,
        ),
    ],
    ids=["wrong key", "unknown model", "too large"],
)
def test_a_refused_request_is_a_line_too(
    site: Installation,
    ask: Callable[[Installation], httpx.Response],
    status: int,
    code: str,
    tenant: str | None,
) -> None:
    answer = ask(site)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    lines = about(site.web, id_of(answer))
    [line] = [line for line in lines if line["logger"] == "hmi_site.http.request_log"]
    assert (line["status"], line["code"], line.get("tenant")) == (status, code, tenant)
    assert any(line["logger"] == "django.request" for line in lines)  # what Django says of it has the id too


def test_a_request_that_came_too_late_is_told_by_both(site: Installation) -> None:
    site.worker.pause()
    answer = site.ask(TEXT, timeout_s=0.2)
    site.worker.resume()
    assert answer.status_code == 504
    line = about(site.web, id_of(answer))[0]
    assert (line["code"], line["tenant"], line["model"]) == ("deadline_exceeded", "acme", "acme/mood:1")
    assert line["tokens"] > 0
    assert "compute_ms" not in line
    wait_until(lambda: about(site.worker, id_of(answer)), site.worker)
    [told] = about(site.worker, id_of(answer))
    assert (told["level"], told["code"], told["tenant"]) == ("info", "deadline_exceeded", "acme")


def test_no_key_password_or_text_is_ever_written(site: Installation) -> None:
    """After everything above, at the level where most is told. Nothing runs any more after it."""
    site.ask(TEXT)
    site.ask(TEXT, inputs={"text": TEXT})
    site.get(f"/nowhere?key={site.key}&text={TEXT}")
    assert post(site, "/login/", data={"login": "owner", "password": PASSWORD}).status_code == 403
    token = ""
    for password, status in ((WRONG_PASSWORD, 200), (PASSWORD, 302)):
        cookies = dict(site.get("/login/").cookies)
        token = next(value for name, value in cookies.items() if name.startswith("hmi_csrf"))
        form = {"login": "owner", "password": password, "csrfmiddlewaretoken": token}
        assert post(site, "/login/", data=form, cookies=cookies).status_code == status
    site.web.stop()
    site.worker.terminate()
    for program in (site.web, site.worker):
        assert len(lines_of(program)) > 2
        written = program.output()
        for secret in (site.key, site.key.split(".")[1], FAKE_KEY, PASSWORD, WRONG_PASSWORD, "quince", token):
            assert secret not in written
