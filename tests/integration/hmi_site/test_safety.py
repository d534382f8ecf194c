"""What browsers are told, and what a deployment is checked for."""

import os
import subprocess
import sys

import pytest
from django.conf import settings as django_settings
from django.test import Client

from tests.integration.world import World

pytestmark = pytest.mark.slow

PRODUCTION = {
    "HMI_HTTPS": "true",
    "HMI_HOST": "0.0.0.0",
    "HMI_ALLOWED_HOSTS": "hmi.example",
    "HMI_SITE_URL": "https://hmi.example",
    "HMI_TRUSTED_PROXIES": "1",
    "HMI_STAFF_TOTP": "true",
    "HMI_EMAIL_URL": "smtp://hmi:secret@mail.example:587",
    "HMI_EMAIL_FROM": "hmi@hmi.example",
}
"""What docs/operations.md tells to set behind a proxy that speaks HTTPS."""


def checked(service_env: dict[str, str], **more: str) -> subprocess.CompletedProcess[str]:
    """`manage.py check --deploy` of an installation with these settings."""
    environment = {"PATH": os.environ["PATH"], **service_env, "HMI_SECRET_KEY": "", **more}
    command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    return subprocess.run(
        command, cwd=django_settings.BASE_DIR, env=environment, capture_output=True, text=True, timeout=120
    )


def test_the_documented_production_settings_pass_the_deployment_check(service_env: dict[str, str]) -> None:
    done = checked(service_env, **PRODUCTION)
    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout


@pytest.mark.parametrize(
    "complaints",
    [{"HMI_ALLOWED_HOSTS": "hmi.E010"}, {"HMI_HTTPS": "hmi.W002", "HMI_EMAIL_URL": "hmi.W007"}],
)
def test_what_is_left_out_of_them_is_said(service_env: dict[str, str], complaints: dict[str, str]) -> None:
    done = checked(service_env, **{name: PRODUCTION[name] for name in PRODUCTION.keys() - complaints})
    assert done.returncode != 0
    for without, complaint in complaints.items():
        assert complaint in done.stderr, without


def test_no_page_may_run_or_be_styled_by_what_stands_in_it(client: Client, world: World) -> None:
    client.force_login(world.owner)
    for address in ("/login/", "/t/acme/", "/nothing-here/", "/api/docs/", "/api/v1/tenants"):
        policy = client.get(address)["Content-Security-Policy"]
        assert "default-src 'self'" in policy, address
        assert "unsafe" not in policy, address
        assert "frame-ancestors 'none'" in policy, address


def test_only_the_administration_may_make_functions_and_nothing_inline_is_allowed_there(
    client: Client, world: World
) -> None:
    client.force_login(world.staff)
    policy = client.get("/admin/")["Content-Security-Policy"]
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["script-src"] == "'self' 'unsafe-eval'"
    assert "unsafe-inline" not in policy


def test_pages_may_use_no_camera(client: Client) -> None:
    assert "camera=()" in client.get("/health/live")["Permissions-Policy"]
