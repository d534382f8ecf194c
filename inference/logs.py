"""Logging configuration of every process: records as text lines or as JSON objects.

The web process binds ``request_id``, ``tenant`` and other fields with ``structlog.contextvars``. An inference
worker, which handles many requests at a time, passes them as ``extra``. Only the FIELDS of ``extra`` are
written, since frameworks put whole requests there.
"""

import logging
from typing import Any, Final

from structlog.contextvars import merge_contextvars
from structlog.processors import JSONRenderer, TimeStamper, format_exc_info
from structlog.stdlib import ExtraAdder, ProcessorFormatter, add_log_level, add_logger_name
from structlog.typing import EventDict, Processor

from tenants.base.secrets import MASK, mask_secrets

LEVELS: Final = ("debug", "info", "warning", "error")
FIELDS: Final = (
    *("request_id", "tenant", "model", "inputs", "tokens", "generated", "view", "status", "code"),
    *("queue_ms", "retrieval_ms", "adapter_load_ms", "compute_ms", "total_ms", "ms"),
)
MASKED_TEXT: Final = "masked_text"
"""Context variable with a secret, such as a part of the URL, that is replaced by MASK."""
MAX_SHOWN_SETTING: Final = 16
"""An invalid setting of more characters is not quoted: it may be a secret in the wrong variable."""
PRODUCT_LOGGERS: Final = ("frontend", "hmi_site", "inference", "tenants", "versiontree", "workers")


def log_config(style: str, level: str) -> dict[str, Any]:
    """The configuration for ``logging.config.dictConfig``: all records to stderr in one of STYLES.

    ``level`` is that of the product's loggers. Libraries log at ``info``: debug records may hold secrets.
    """
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"default": {"()": "inference.logs.formatter", "style": style}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "default"}},
        "root": {"handlers": ["stderr"], "level": "INFO"},
        "loggers": {name: {"level": level.upper()} for name in PRODUCT_LOGGERS},
    }


def formatter(style: str) -> logging.Formatter:
    """The formatter for one of STYLES."""
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
            _mask_secrets,
            STYLES[style],
        ],
    )


def shown_setting(value: str) -> str:
    """The invalid value of a setting for an error message, quoted if it is short, else MASK."""
    return repr(value) if len(value) <= MAX_SHOWN_SETTING else MASK


def _mask_secrets(_: Any, __: str, event: EventDict) -> EventDict:
    """Replace secrets, and the text that the process has bound as one, by MASK."""
    secret = event.pop(MASKED_TEXT, None)
    for name in ("event", "exception"):
        if isinstance(text := event.get(name), str):
            if secret:
                text = text.replace(secret, MASK)
            event[name] = mask_secrets(text)
    return event


def _text_line(_: Any, __: str, event: EventDict) -> str:
    """Time, level, logger and message, then the fields, then the traceback."""
    head = f"{event['timestamp']} {event['level'].upper()} {event['logger']}: {event['event']}"
    shown = [f"{name}={event[name]}" for name in FIELDS if name in event]
    return "\n".join([" ".join([head, *shown]), *filter(None, [event.get("exception")])])


STYLES: Final[dict[str, Processor]] = {"line": _text_line, "json": JSONRenderer()}
