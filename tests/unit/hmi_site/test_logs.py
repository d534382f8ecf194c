"""How records of the log look, whoever writes them."""

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from structlog.contextvars import bound_contextvars, clear_contextvars

from inference.logs import STYLES, formatter

log = logging.getLogger("tests.written")


@pytest.fixture(autouse=True)
def no_request() -> None:
    """Nothing is left of what other tests asked."""
    clear_contextvars()


@contextmanager
def written(style: str) -> Iterator[io.StringIO]:
    """What the log has in this style."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter(style))
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        yield stream
    finally:
        log.removeHandler(handler)


def objects(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_record_is_a_json_object_on_one_line() -> None:
    with written("json") as stream:
        log.warning("no %s\nfor %d", "room", 3)
    [said] = objects(stream)
    timestamp = said.pop("timestamp")
    assert timestamp.endswith("Z")
    assert said == {"event": "no room\nfor 3", "level": "warning", "logger": "tests.written"}


@pytest.mark.parametrize("style", STYLES)
def test_a_line_of_a_request_names_it_and_the_next_one_does_not(style: str) -> None:
    with written(style) as stream:
        with bound_contextvars(request_id="ab12"):
            log.info("within")
        log.info("beyond")
    within, beyond = stream.getvalue().splitlines()
    assert "ab12" in within
    assert "request_id" not in beyond


@pytest.mark.parametrize("style", STYLES)
def test_a_traceback_is_told_without_the_values_of_variables(style: str) -> None:
    secret = chr(109) + "edlar"
    with written(style) as stream:
        try:
            assert len(secret) / 0
        except ZeroDivisionError:
            log.exception("failed")
    assert "ZeroDivisionError: division by zero" in stream.getvalue()
    assert "medlar" not in stream.getvalue()
    assert style == "line" or len(stream.getvalue().splitlines()) == 1


@pytest.mark.parametrize("style", STYLES)
def test_what_frameworks_attach_to_records_is_not_written(style: str) -> None:
    """Django attaches the request, whose text has the whole address."""
    with written(style) as stream:
        log.info("refused", extra={"request": "<WSGIRequest: GET '/?key=medlar'>", "code": "not_found"})
    assert "medlar" not in stream.getvalue()
    assert "not_found" in stream.getvalue()


def test_the_level_is_that_of_our_own_records_alone() -> None:
    code = """
import logging, logging.config
from inference.logs import log_config
logging.config.dictConfig(log_config("line", "debug"))
for name in ("inference.serving", "httpcore", "redis"):
    logging.getLogger(name).debug("from %s", name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [line.split(": ", 1)[1] for line in done.stderr.splitlines()] == ["from inference.serving"]
