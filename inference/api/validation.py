"""What an infer request may say; everything else is a typed error that names the place."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings

from inference.api.inputs import GivenInput, check_inputs, invalid
from inference.queueing.messages import MISS_POLICIES, MissPolicyName
from tenants.base.api.inputs import unknown_field
from tenants.base.errors import ErrorCode, HmiError

FIELDS = ("model", "inputs", "timeout_s", "miss_policy", "explain")
MAX_REFERENCE_LENGTH = 256
REQUEST_ID_HEADER = "X-Request-Id"
REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
EXAMPLES = "tenant/model, tenant/model@alias or tenant/model:3"


@dataclass(frozen=True, slots=True)
class InferCall:
    """A well-formed request: a model reference, inputs that are not empty, seconds to wait at most, a miss
    policy where the request names one, and whether it asks how each token was made."""

    model: str
    inputs: tuple[GivenInput, ...]
    timeout_s: float
    miss_policy: MissPolicyName | None = None
    explain: bool = False


def parse_call(body: object, *, timeout_header: str | None = None) -> InferCall:
    """Check the JSON value `body`; `timeout_header` counts when the body names no `timeout_s`."""
    if not isinstance(body, Mapping):
        raise invalid(None, 'The body must be a JSON object: {"model": "...", "inputs": ["..."]}.')
    for name in body:
        if name not in FIELDS:
            raise unknown_field(str(name), FIELDS)
    for name in ("model", "inputs"):
        if name not in body:
            raise HmiError(ErrorCode.MISSING_FIELD, f"The field {name!r} is missing.", param=name)
    timeout = body.get("timeout_s")
    return InferCall(
        model=check_reference(body["model"]),
        inputs=check_inputs(body["inputs"]),
        timeout_s=check_timeout(_number(timeout_header) if timeout is None else timeout),
        miss_policy=check_miss_policy(body.get("miss_policy")),
        explain=check_explain(body.get("explain", False)),
    )


def check_reference(value: object) -> str:
    """A model reference is a short printable string; whether it names anything is decided later."""
    if not isinstance(value, str) or not value.strip():
        raise invalid("model", f"The model must be a string such as {EXAMPLES}.")
    if len(value) > MAX_REFERENCE_LENGTH or not value.isprintable():
        raise invalid("model", f"The model is not a reference such as {EXAMPLES}.")
    return value.strip()


def usable_request_id(value: str | None) -> str | None:
    """The name that a caller gives its request, if it has 1 to 64 letters, digits, - and _; else None, and
    the request gets another name. It appears in logs and addresses."""
    return value if value is not None and REQUEST_ID.fullmatch(value) else None


def tenant_in(reference: str) -> str | None:
    """The tenant that a reference names, if it names one."""
    tenant, slash, _ = reference.partition("/")
    return tenant if slash else None


def check_timeout(value: object) -> float:
    """Seconds the client waits: above 0, at most HMI_INFER_DEADLINE_S, which is also the default."""
    longest = float(settings.HMI_INFER_DEADLINE_S)
    if value is None:
        return longest
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise invalid("timeout_s", "The timeout must be a number of seconds above 0.")
    return float(min(value, longest))


def check_miss_policy(value: object) -> MissPolicyName | None:
    """One of the policies, or None for the deployment's own."""
    if value is None:
        return None
    for policy in MISS_POLICIES:
        if value == policy:
            return policy
    raise invalid("miss_policy", f"The miss policy must be one of {', '.join(MISS_POLICIES)}.")


def check_explain(value: object) -> bool:
    """True or false."""
    if isinstance(value, bool):
        return value
    raise invalid("explain", "This is true or false.")


def _number(header: str | None) -> float | None:
    if header is None:
        return None
    try:
        return float(header)
    except ValueError:
        raise invalid("timeout_s", "The timeout header must be a number of seconds above 0.") from None
