"""Keys with white space or odd characters, and errors and logs that repeat no secret."""

import json
import logging
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from rest_framework.test import APIClient

from hmi_client import AsyncClient, Client, Retries
from hmi_client.cli.profiles import Profile
from hmi_client.errors import AuthenticationFailed, HmiError
from hmi_client.responses import Webhook
from hmi_site import env
from hmi_site.server_urls import checked_redis_url, database_from_url, mail_server
from inference.logs import formatter
from inference.serving.environment import SettingError, WorkerSettings
from tests.integration.conftest import world
from tests.integration.hmi_client.conftest import Hmi, config, hmi, script, server
from tests.integration.hmi_client.scripted import Reply, Script
from tests.integration.world import World
from workers.failures import trimmed_traceback

__all__ = ["config", "hmi", "script", "server", "world"]
CANARY = "canary5Xq.0123456789abcdef0123456789abcdef"
"""A secret that nothing may print."""
TENANT = {"slug": "acme", "name": "Acme"}
PLACES = ["environment", "profile", "login", "client"]
"""Where a key is read."""


def save_key(config: Path, key: str, url: str) -> None:
    """A profile as an editor of Windows saves it."""
    config.mkdir(parents=True)
    (config / "profiles.json").write_text(json.dumps({"default": {"url": url, "key": key}}), "utf-8-sig")


@pytest.mark.parametrize("place", PLACES)
def test_a_key_may_have_white_space_around_it(
    server: Script, hmi: Hmi, config: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    around = ["{}\n", " {}", "{}\r\n", "\ufeff{}", "\u00a0{}\t"]
    server.replies = [Reply(body={"next": None, "results": [TENANT]}), Reply(body=TENANT)]
    if place == "client":
        server.replies = server.replies[:1] * len(around)
        for form in around:
            with Client(server.url, form.format(CANARY)) as client:
                client.whoami()
    elif place == "login":
        assert hmi("login", "--api-key", "-", stdin=f"\ufeff{CANARY}\r\n".encode()).code == 0
        assert json.loads((config / "profiles.json").read_text())["default"]["key"] == CANARY
    else:
        monkeypatch.setenv("HMI_API_KEY", f"{CANARY}\n" if place == "environment" else " ")
        save_key(config, f" {CANARY}\n", server.url)
        assert hmi("whoami").code == 0
    assert {asked.headers["Authorization"] for asked in server.asked} == {f"Bearer {CANARY}"}


@pytest.mark.parametrize("place", PLACES)
def test_a_key_with_a_character_of_no_key_is_refused_at_once_and_not_quoted(
    server: Script, hmi: Hmi, config: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    prefix, secret = CANARY.split(".")
    if place == "client":
        for inside in ("\n", "\r\nX-Evil: 1", "\x00", "\x7f", "\u201c", "\u200b", "\u00e9"):
            for kind in (Client, AsyncClient):
                with pytest.raises(AuthenticationFailed) as caught:
                    kind(server.url, f"{prefix}{inside}.{secret}")
                assert secret not in "".join(traceback.format_exception(caught.value))
        return
    bad = f"{prefix}.\n{secret}"
    if place == "environment":
        monkeypatch.setenv("HMI_API_KEY", bad)
    else:
        monkeypatch.delenv("HMI_API_KEY")
        save_key(config, bad, server.url)
    refused = hmi(*(["login", "--api-key", bad] if place == "login" else ["whoami"]), "--json")
    assert (refused.code, server.asked) == (3, [])
    assert secret not in refused.out + refused.err
    assert json.loads(refused.err)["error"]["code"] == "unauthenticated"


@pytest.mark.parametrize(
    "arguments",
    [
        ["login", CANARY],
        ["login", "short-secret"],
        ["whoami", CANARY],
        [CANARY],
        ["models", CANARY],
        ["login", f"--api_key={CANARY}"],
        ["login", f"-k{CANARY}"],
        ["--key", CANARY, "whoami"],
    ],
    ids=lambda arguments: " ".join(arguments).replace(CANARY, "KEY"),
)
def test_wrong_usage_does_not_quote_a_key(server: Script, hmi: Hmi, arguments: list[str]) -> None:
    refused = hmi(*arguments)
    assert (refused.code, server.asked) == (2, [])
    assert not any(secret in refused.out + refused.err for secret in (CANARY, "short-secret"))


@pytest.mark.parametrize(
    "address",
    [
        f"http://user:{CANARY}@127.0.0.1:9",
        f"http://{CANARY}@127.0.0.1:9",
        f"http://user:{CANARY}/x@127.0.0.1:9",
        f"user:{CANARY}@127.0.0.1",
        f"http://127.0.0.1:9/?token={CANARY}",
        f"http://127.0.0.1:9/#{CANARY}",
        f"http://127.0.0.1:{CANARY}",
        f"postgres://user:{CANARY}@127.0.0.1/hmi",
    ],
)
def test_an_address_with_a_secret_is_refused_and_not_quoted(address: str) -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(HmiError, match="address") as caught:
            kind(address, "a.b")
        assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_the_command_quotes_no_address_with_a_secret(
    server: Script, hmi: Hmi, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"http://user:{CANARY}@127.0.0.1:9"
    said = [hmi("login", "--url", address, "--api-key", "a.b")]
    monkeypatch.setenv("HMI_URL", address)
    said.append(hmi("whoami"))
    monkeypatch.delenv("HMI_URL")
    save_key(config, "a.b", address)
    said.append(hmi("whoami", "--json"))
    for ran in said:
        assert (ran.code, "address" in ran.err) == (1, True)
        assert CANARY not in ran.out + ran.err


def test_no_other_error_of_the_client_prints_a_secret(
    server: Script, hmi: Hmi, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hmi_client.retries.Retries.delay_s", lambda *_: 0.0)
    monkeypatch.setenv("HMI_API_KEY", CANARY)
    config.mkdir(parents=True)
    (config / "profiles.json").write_text(f'{{"default": {{"url": "x", "key": "{CANARY}"')
    said = [hmi("whoami")]
    (config / "profiles.json").unlink()
    server.replies = [Reply(hangs_up=True)] * 5 + [Reply(body=b"<html>")]
    said += [hmi("whoami"), hmi("whoami"), hmi("infer", "mood", "--jsonl", stdin=f'{{"text": "{CANARY}')]
    monkeypatch.setenv("HTTP_PROXY", f"gopher://user:{CANARY}@127.0.0.1:9")
    said.append(hmi("whoami"))
    monkeypatch.setenv("HTTP_PROXY", f"http://user:{CANARY}@127.0.0.1:9")
    said.append(hmi("--profile", "p", "models", "list"))
    assert [ran.code for ran in said] == [1, 7, 7, 1, 1, 7]
    for ran in said:
        assert CANARY not in ran.out + ran.err
    assert CANARY not in repr(Profile("x", CANARY)) + repr(Webhook("1", "https://x", secret=CANARY))


def test_a_header_that_http_cannot_send_is_an_error_at_once_without_its_value(server: Script) -> None:
    with Client(server.url, "a.b", retries=Retries(initial_delay_s=60.0)) as client:
        for key in (f"{CANARY}\n", f"{CANARY}\u00e9"):
            with pytest.raises(HmiError) as caught:
                client.infer("mood", "a text", idempotency_key=key)
            assert CANARY not in "".join(traceback.format_exception(caught.value))
        with pytest.raises(HmiError, match="surrogate"):
            client.infer("mood", "half an emoji: \ud83d")
    assert server.asked == []


# The server's errors


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", f"postgres://hmi:{CANARY}%zz@127.0.0.1/hmi"),
        ("DATABASE_URL", f"postgres://hmi:{CANARY}/x@127.0.0.1/hmi"),
        ("DATABASE_URL", f"mysql://hmi:{CANARY}@127.0.0.1/hmi"),
        ("REDIS_URL", f"redis://:{CANARY}/x@127.0.0.1:6379"),
        ("REDIS_URL", f"http://:{CANARY}@127.0.0.1:6379"),
        ("HMI_EMAIL_URL", f"smtp://user:{CANARY}@[example.org"),
        ("HMI_PORT", CANARY),
        ("HMI_HTTPS", CANARY),
        ("HMI_POLICY", CANARY),
        ("HMI_WEBHOOK_NETWORKS", CANARY),
    ],
)
def test_a_wrong_variable_stops_the_start_without_its_secret(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    readers: dict[str, Callable[[], object]] = {
        "DATABASE_URL": lambda: database_from_url(env.text(name)),
        "REDIS_URL": lambda: checked_redis_url(env.text(name)),
        "HMI_EMAIL_URL": lambda: mail_server(env.text(name)),
        "HMI_PORT": lambda: env.integer(name, 1),
        "HMI_HTTPS": lambda: env.flag(name, False),
        "HMI_POLICY": lambda: env.choice(name, "cascade", ("cascade", "full")),
        "HMI_WEBHOOK_NETWORKS": lambda: env.networks(name),
    }
    monkeypatch.setenv(name, value)
    monkeypatch.setattr(env, "in_use", env.in_use.copy())  # other tests read it
    with pytest.raises(ImproperlyConfigured, match=name) as caught:
        readers[name]()
    assert CANARY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("name", ["HMI_BATCH_ROWS", "HMI_DEVICE_MB"])
def test_an_inference_worker_names_a_wrong_variable_without_its_secret(name: str) -> None:
    given = {"REDIS_URL": f" redis://:{CANARY}@127.0.0.1\n", "HMI_ARTIFACT_ROOT": "/tmp"}
    settings = WorkerSettings.from_env(given)
    assert settings.redis_url == given["REDIS_URL"].strip()
    assert CANARY not in repr(settings)
    with pytest.raises(SettingError, match=name) as caught:
        WorkerSettings.from_env(given | {name: CANARY})
    assert CANARY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "text",
    [
        f"Bearer {CANARY}",
        "Authorization: Basic dXNlcjpwYXNzd29yZC1jYW5hcnk=",
        "redis://:sec:ret/x@127.0.0.1:6379/0",
        "redis://:sec@ret@127.0.0.1:6379/0",
        "https://user:secret@example.org",
        "the key whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
        "the token hf_aVeryLongTokenOfThirtyFourLetters",
    ],
)
def test_a_log_and_the_traceback_of_a_job_hide_secrets(text: str) -> None:
    secret = text.rpartition("@")[0].rpartition("//")[2] or text.rpartition(" ")[2].removeprefix("whsec_")
    record = logging.LogRecord("hmi_site", logging.ERROR, "", 0, f"It failed: {text}", (), None)
    for style in ("line", "json"):
        assert secret not in formatter(style).format(record)
    try:
        raise RuntimeError(text)
    except RuntimeError as error:
        shown = trimmed_traceback(error)
    assert "RuntimeError" in shown
    assert secret not in shown


SECRET_HEADERS: list[dict[str, str]] = [
    {"Authorization": f"Bearer {CANARY}"},
    {"Authorization": f"Basic {CANARY}"},
    {"Authorization": CANARY},
    {"X-Api-Key": CANARY},
    {"X-Api-Key": f"{CANARY} x"},
    {"Idempotency-Key": CANARY * 20},
    {"Content-Type": CANARY},
    {"Accept": CANARY},
    {"Cookie": f"sessionid={CANARY}"},
    {"Tus-Resumable": CANARY, "Upload-Length": CANARY, "Upload-Metadata": CANARY},
    {"X-Request-Id": f"{CANARY} {CANARY}"},
]
SECRET_BODIES: list[str] = [
    f'{{"password": "{CANARY}',
    json.dumps({"api_key": CANARY, "model": {"token": CANARY}}),
    json.dumps({"model": "mood", "inputs": [{"text": 1, "secret": CANARY}]}),
    json.dumps({"name": {"secret": CANARY}, "parent": CANARY, "dataset": CANARY, "settings": CANARY}),
    json.dumps({"url": f"https://user:{CANARY}@example.org", "kinds": [CANARY]}),
    json.dumps(CANARY),
]


@pytest.mark.parametrize("path", ["v1/infer", "v1/models", "v1/webhooks", "v1/uploads", "v1/estimate"])
def test_the_server_repeats_no_secret_of_a_header_or_a_body(
    world: World, redis_url: str, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    key = world.key()[1]
    client = world.client(key=key)
    kind = "application/json"
    answers = [client.generic("POST", f"/api/{path}", body, content_type=kind) for body in SECRET_BODIES]
    for headers in SECRET_HEADERS:
        sent = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"} | headers
        kind = sent.pop("Content-Type")
        answers.append(APIClient().generic("POST", f"/api/{path}", "{}", content_type=kind, headers=sent))
    for answer in answers:
        assert 400 <= answer.status_code < 500
        assert CANARY not in answer.content.decode()
    log = "".join(formatter("line").format(record) for record in caplog.records)
    assert CANARY not in log
