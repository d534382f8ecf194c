"""The system checks: each complaint has a number and a hint."""

import os
import sys
from pathlib import Path

import pytest
import redis
from pytest_django import Settings

from hmi_site import checks


@pytest.mark.parametrize(
    ("name", "value", "check", "number"),
    [
        ("HMI_DEVICE", "gpu", checks.check_compute, "hmi.E001"),
        ("HMI_HOME", Path("/dev/null/nothing"), checks.check_folders, "hmi.E003"),
        ("HMI_ARTIFACT_ROOT", Path("/dev/null/nothing"), checks.check_folders, "hmi.E004"),
        ("HMI_UPLOAD_ROOT", Path("/dev/null/nothing"), checks.check_folders, "hmi.E005"),
        ("HMI_EXPORT_ROOT", Path("/dev/null/nothing"), checks.check_folders, "hmi.E011"),
        ("HMI_POSTGRES_BIN", Path("/nowhere"), checks.check_programs, "hmi.E006"),
        ("HMI_REDIS_BIN", Path("/nowhere"), checks.check_programs, "hmi.E007"),
        ("SECRET_KEY", "short", checks.check_secret_key, "hmi.W001"),
        ("HMI_HOST", "0.0.0.0", checks.check_exposure, "hmi.W002"),
        ("HMI_PORT", 443, checks.check_exposure, "hmi.W003"),
    ],
)
def test_a_wrong_setting_is_named_with_a_hint(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, name: str, value: object, check: object, number: str
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    setattr(settings, name, value)
    assert callable(check)
    found = {message.id: message for message in check()}
    assert number in found
    assert found[number].hint


def test_unknown_variables_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks.check_unknown_variables() == []
    monkeypatch.setenv("HMI_SLAB_MB", "24576")
    monkeypatch.setenv("HMI_PORT", "8000")
    [warning] = checks.check_unknown_variables()
    assert (warning.id, warning.msg) == ("hmi.W011", "HMI_SLAB_MB is not a setting.")
    assert warning.hint


@pytest.mark.parametrize("device", ["auto", "cuda:1", "cuda:GPU-8932f937-d72c-4106"])
def test_known_devices_pass(settings: Settings, device: str) -> None:
    settings.HMI_DEVICE = device
    assert checks.check_compute() == []


def test_a_gpu_without_a_compiler_for_triton_is_a_warning(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(checks, "has_gpu", lambda: True)
    monkeypatch.setattr(checks, "_python_headers", lambda: tmp_path)
    settings.HMI_DEVICE = "auto"
    monkeypatch.setenv("CC", sys.executable)
    assert checks.check_compiler() == []
    monkeypatch.setattr(checks, "_python_headers", lambda: tmp_path / "Python.h")
    [warning] = checks.check_compiler()
    assert warning.id == "hmi.W012"
    assert warning.hint
    settings.HMI_DEVICE = "cpu"
    assert checks.check_compiler() == []


def test_root_may_use_any_port(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    settings.HMI_PORT = 443
    assert checks.check_exposure() == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HMI_BATCH_ROWS", "0"),
        ("HMI_DEVICE_MB", "many"),
        ("HMI_METRICS_ADDRESS", "http"),
    ],
)
def test_settings_that_the_inference_worker_refuses_fail_the_check(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    assert checks.check_inference_worker() == []
    monkeypatch.setenv(name, value)
    (found,) = checks.check_inference_worker()
    assert found.id == "hmi.E009"
    assert f"{name}={value!r}" in found.msg
    assert found.hint


def test_an_external_redis_that_is_away_is_a_warning(settings: Settings) -> None:
    settings.HMI_EMBEDDED_REDIS, settings.REDIS_URL = False, "redis://127.0.0.1:1/0"
    assert [message.id for message in checks.check_redis()] == ["hmi.W004"]


@pytest.mark.parametrize(("version", "numbers"), [("6.2.14", ["hmi.W005"]), ("7.0.0", []), ("9.1.2", [])])
def test_an_external_redis_that_is_too_old_is_a_warning(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, version: str, numbers: list[str]
) -> None:
    settings.HMI_EMBEDDED_REDIS, settings.REDIS_URL = False, "redis://127.0.0.1:1/0"
    monkeypatch.setattr(redis.Redis, "info", lambda *_: {"redis_version": version})
    found = checks.check_redis()
    assert [message.id for message in found] == numbers
    assert all(message.hint for message in found)
