"""The system checks: each complaint has a number and a hint."""

from pathlib import Path

import pytest
from pytest_django import Settings

from hmi_site import checks


@pytest.mark.parametrize(
    ("name", "value", "check", "number"),
    [
        ("HMI_DEVICE", "gpu", checks.check_compute, "hmi.E001"),
        ("HMI_DEVICE", "cuda:x", checks.check_compute, "hmi.E001"),
        ("HMI_DTYPE", "int8", checks.check_compute, "hmi.E002"),
        ("HMI_HOME", Path("/dev/null/nothing"), checks.check_folders, "hmi.E003"),
        ("HMI_ARTIFACT_ROOT", Path("/dev/null/nothing"), checks.check_folders, "hmi.E004"),
        ("HMI_UPLOAD_ROOT", Path("/dev/null/nothing"), checks.check_folders, "hmi.E005"),
        ("HMI_POSTGRES_BIN", Path("/nowhere"), checks.check_programs, "hmi.E006"),
        ("HMI_REDIS_BIN", Path("/nowhere"), checks.check_programs, "hmi.E007"),
        ("SECRET_KEY", "short", checks.check_secret_key, "hmi.W001"),
        ("HMI_HOST", "0.0.0.0", checks.check_exposure, "hmi.W002"),
    ],
)
def test_a_wrong_setting_is_named_with_a_hint(
    settings: Settings, name: str, value: object, check: object, number: str
) -> None:
    setattr(settings, name, value)
    assert callable(check)
    found = {message.id: message for message in check()}
    assert number in found
    assert found[number].hint


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "cuda:1"])
def test_known_devices_pass(settings: Settings, device: str) -> None:
    settings.HMI_DEVICE = device
    assert checks.check_compute() == []


def test_debug_pages_are_refused_where_others_can_see_them(settings: Settings) -> None:
    settings.HMI_HOST, settings.DEBUG = "0.0.0.0", True
    assert "hmi.E008" in {message.id for message in checks.check_exposure()}


def test_an_external_redis_that_is_away_is_a_warning(settings: Settings) -> None:
    settings.HMI_EMBEDDED_REDIS, settings.REDIS_URL = False, "redis://127.0.0.1:1/0"
    assert [message.id for message in checks.check_redis()] == ["hmi.W004"]
