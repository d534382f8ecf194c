"""How every process of the product writes its log: each record as a line for people, or as a JSON object.

A record that belongs to a request names it. A process that answers one request in a thread binds
``request_id``, ``tenant`` and what else it learns by ``structlog.contextvars``; one that answers many at a
time says it in ``extra``. Of ``extra`` only what stands in FIELDS is written: frameworks put whole requests
there.
"""

import logging
import re
from typing import Any, Final

from structlog.contextvars import merge_contextvars
from structlog.processors import JSONRenderer, TimeStamper, format_exc_info
from structlog.stdlib import ExtraAdder, ProcessorFormatter, add_log_level, add_logger_name
from structlog.typing import EventDict, Processor

LEVELS: Final = ("debug", "info", "warning", "error")
FIELDS: Final = (
    *("request_id", "tenant", "model", "inputs", "tokens", "view", "status", "code"),
    *("queue_ms", "retrieval_ms", "adapter_load_ms", "compute_ms", "total_ms", "ms"),
)
TO_HIDE: Final = "to_hide"
HIDDEN: Final = "[hidden]"
API_KEY: Final = re.compile(r"\b[A-Za-z0-9]{8}\.[A-Za-z0-9]{32}\b")
OWN: Final = ("frontend", "hmi_site", "inference", "tenants", "versiontree", "workers")


def log_config(style: str, level: str) -> dict[str, Any]:
    """For ``logging.config.dictConfig``, as plain JSON: everything to stderr in this style. ``level`` is for
    the product's own records; of what libraries say at ``debug`` nobody knows what it tells."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"own": {"()": "inference.logs.formatter", "style": style}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "own"}},
        "root": {"handlers": ["stderr"], "level": "INFO"},
        "loggers": {name: {"level": level.upper()} for name in OWN},
    }


def formatter(style: str) -> logging.Formatter:
    """The formatter of one of STYLES."""
    return ProcessorFormatter(
        foreign_pre_chain=[
            TimeStamper(fmt="iso"),
            add_log_level,
            add_logger_name,
            merge_contextvars,
            ExtraAdder(FIELDS),
        ],
        processors=[
            ProcessorFormatter.remove_processors_meta,
            format_exc_info,
            _without_secrets,
            STYLES[style],
        ],
    )


def _without_secrets(_: Any, __: str, event: EventDict) -> EventDict:
    """API keys, wherever somebody put them, and what the process bound as TO_HIDE: the part of an address
    that opens something."""
    secret = event.pop(TO_HIDE, None)
    for name in ("event", "exception"):
        if isinstance(told := event.get(name), str):
            if secret:
                told = told.replace(secret, HIDDEN)
            event[name] = API_KEY.sub(HIDDEN, told)
    return event


def _line(_: Any, __: str, event: EventDict) -> str:
    """Time, level, logger and message as everywhere, then the fields, then the traceback."""
    head = f"{event['timestamp']} {event['level'].upper()} {event['logger']}: {event['event']}"
    shown = [f"{name}={event[name]}" for name in FIELDS if name in event]
    return "\n".join([" ".join([head, *shown]), *filter(None, [event.get("exception")])])


STYLES: Final[dict[str, Processor]] = {"line": _line, "json": JSONRenderer()}
