"""What an infer request may say; everything else is a typed error that names the place."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings

from tenants.errors import ErrorCode, HmiError

FIELDS = frozenset({"model", "inputs", "timeout_s"})
MAX_REFERENCE_LENGTH = 256
MAX_FIELD_SHOWN = 64
EXAMPLES = "tenant/hplm, tenant/hplm@alias or tenant/hplm:3"


@dataclass(frozen=True, slots=True)
class InferCall:
    """A well-formed request: a model reference, texts that are not empty, seconds to wait at most."""

    model: str
    inputs: tuple[str, ...]
    timeout_s: float


def parse_call(body: object, *, timeout_header: str | None = None) -> InferCall:
    """Check the JSON value `body`; `timeout_header` counts when the body names no `timeout_s`."""
    if not isinstance(body, Mapping):
        raise _invalid(None, 'The body must be a JSON object: {"model": "...", "inputs": ["..."]}.')
    for name in body:
        if name not in FIELDS:
            raise _unknown_field(str(name))
    for name in ("model", "inputs"):
        if name not in body:
            raise HmiError(ErrorCode.MISSING_FIELD, f"The field {name!r} is missing.", param=name)
    timeout = body.get("timeout_s")
    return InferCall(
        model=check_reference(body["model"]),
        inputs=check_inputs(body["inputs"]),
        timeout_s=check_timeout(_number(timeout_header) if timeout is None else timeout),
    )


def check_reference(value: object) -> str:
    """A model reference is a short printable string; whether it names anything is decided later."""
    if not isinstance(value, str) or not value.strip():
        raise _invalid("model", f"The model must be a string such as {EXAMPLES}.")
    if len(value) > MAX_REFERENCE_LENGTH or not value.isprintable():
        raise _invalid("model", f"The model is not a reference such as {EXAMPLES}.")
    return value.strip()


def tenant_in(reference: str) -> str | None:
    """The tenant that a reference names, if it names one."""
    tenant, slash, _ = reference.partition("/")
    return tenant if slash else None


def check_inputs(value: object) -> tuple[str, ...]:
    """A list of 1 to HMI_MAX_INPUTS texts, each with something in it and encodable as UTF-8."""
    if not isinstance(value, list | tuple):
        raise _invalid("inputs", "The inputs must be a list of strings.")
    if not value:
        raise _invalid("inputs", "The inputs must hold at least one text.")
    limit: int = settings.HMI_MAX_INPUTS
    if len(value) > limit:
        message = f"{len(value)} inputs were given; at most {limit} are allowed in one request."
        details = {"given": len(value), "max": limit}
        raise HmiError(ErrorCode.TOO_MANY_INPUTS, message, param="inputs", details=details)
    return tuple(_check_text(index, text) for index, text in enumerate(value))


def check_timeout(value: object) -> float:
    """Seconds the client waits: above 0, at most HMI_INFER_DEADLINE_S, which is also the default."""
    longest = float(settings.HMI_INFER_DEADLINE_S)
    if value is None:
        return longest
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise _invalid("timeout_s", "The timeout must be a number of seconds above 0.")
    return float(min(value, longest))


def _check_text(index: int, text: object) -> str:
    where = f"inputs[{index}]"
    if not isinstance(text, str):
        raise _invalid(where, f"Input {index} is not a string.", index=index)
    if not text.strip():
        raise _refuse(ErrorCode.EMPTY_TEXT, where, f"Input {index} is empty.", index=index)
    if (position := text.find("\0")) >= 0:
        message = f"Input {index} holds a NUL character (position {position})."
        raise _refuse(ErrorCode.INVALID_ENCODING, where, message, index=index, position=position)
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        message = f"Input {index} holds half a surrogate pair (position {error.start})."
        raise _refuse(ErrorCode.INVALID_ENCODING, where, message, index=index, position=error.start) from None
    limit: int = settings.HMI_MAX_INPUT_BYTES
    if size > limit:
        message = f"Input {index} has {size:,} bytes; at most {limit:,} are allowed."
        raise _refuse(ErrorCode.BODY_TOO_LARGE, where, message, index=index, max_bytes=limit)
    return text


def _number(header: str | None) -> float | None:
    if header is None:
        return None
    try:
        return float(header)
    except ValueError:
        raise _invalid("timeout_s", "The timeout header must be a number of seconds above 0.") from None


def _unknown_field(name: str) -> HmiError:
    # A name that cannot be printed may not be encodable either, and the answer has to be.
    param = name if name.isprintable() and len(name) <= MAX_FIELD_SHOWN else None
    shown = repr(name[:MAX_FIELD_SHOWN])
    return _invalid(param, f"Unknown field {shown}; the fields are model, inputs and timeout_s.")


def _invalid(param: str | None, message: str, **details: int) -> HmiError:
    return _refuse(ErrorCode.INVALID_FIELD, param, message, **details)


def _refuse(code: ErrorCode, param: str | None, message: str, **details: int) -> HmiError:
    return HmiError(code, message, param=param, details=details or None)
