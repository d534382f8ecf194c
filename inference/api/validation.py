"""What an infer request may say; everything else is a typed error that names the place."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from django.conf import settings
from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from inference.cascade.dispatcher import AnswerPolicy
from inference.text.encodings import InferInput
from inference.text.tasks import QUESTION_ANSWERING
from inference.text.token_levels import QUESTION, TEXTS
from tenants.base.api.inputs import unknown_field
from tenants.base.errors import ErrorCode, HmiError

MAX_REFERENCE_LENGTH = 256
REQUEST_ID_HEADER = "X-Request-Id"
REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
FORMS = 'a string, {"text": …, "text_pair": …} or {"question": …, "context": …}'
EXAMPLES = "tenant/model, tenant/model@alias or tenant/model:3"


Quality = Literal["fast", "balanced", "exact"]
QUALITIES: Final[tuple[Quality, ...]] = get_args(Quality)
BALANCED: Final[Quality] = "balanced"
POLICIES: Final[dict[Quality, AnswerPolicy]] = {
    "fast": AnswerPolicy.TABLE,
    BALANCED: AnswerPolicy.CASCADE,
    "exact": AnswerPolicy.FULL,
}


def default_policy(version: str) -> AnswerPolicy:
    """The policy for requests that choose none: the version's own, else (empty) HMI_POLICY."""
    return AnswerPolicy(version or settings.HMI_POLICY)


def _texts(*required: str, optional: str = "") -> dict[str, Any]:
    names = [*required, optional] if optional else required
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": list(required),
        "additionalProperties": False,
    }


INPUT: Final = Meta(
    extra_json_schema={"anyOf": [{"type": "string"}, _texts(TEXTS[0], optional=TEXTS[1]), _texts(*QUESTION)]}
)
"""The schema of an input, which `check_inputs` checks."""


class InferCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An infer request."""

    # ``parse_call`` checks all that the types say. The constructor checks the reference and the inputs, which
    # then are dicts of their texts by name, none empty.
    model: Annotated[
        str, Meta(min_length=1, description="`model`, `tenant/model`, with `@alias` or `:version`.")
    ]
    inputs: Annotated[
        Sequence[Annotated[Any, INPUT]],
        Meta(
            description="Each a text, or the object that the model's task takes: `text` and `text_pair`, or "
            "`question` and `context` (a long one is read in windows that overlap). Each has one result."
        ),
    ]
    timeout_s: Annotated[
        Annotated[float, Meta(gt=0)] | None, Meta(description="Seconds to wait at most.")
    ] = None
    quality: Annotated[
        Quality | None,
        Meta(
            description="`fast`: every text is answered from the tables. `exact`: every text is computed in "
            "full. `balanced`: the tables answer where the model is sure, and the other texts are computed. "
            "By default the policy of the version decides, or that of the deployment."
        ),
    ] = None
    target: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        Meta(
            description="With `balanced`: the model's metric on its dev split that is to be reached at least "
            "cost."
        ),
    ] = None
    explain: Annotated[bool, Meta(description="Each result says how each of its tokens was made.")] = False

    def __post_init__(self) -> None:
        force_setattr(self, "model", check_reference(self.model))
        force_setattr(self, "inputs", check_inputs(self.inputs))
        if self.target is not None and self.quality not in (None, BALANCED):
            raise invalid("target", f'A target requires the quality "{BALANCED}".')

    @property
    def policy(self) -> AnswerPolicy | None:
        """What the quality asks for; a target alone asks for the cascade. None if it has neither."""
        if self.quality is not None:
            return POLICIES[self.quality]
        return None if self.target is None else AnswerPolicy.CASCADE

    @property
    def seconds(self) -> float:
        """How long the client waits: at most HMI_INFER_DEADLINE_S, which is also the default."""
        longest = float(settings.HMI_INFER_DEADLINE_S)
        return longest if self.timeout_s is None else float(min(self.timeout_s, longest))


FIELDS: Final = InferCall.__struct_fields__
WRONG_TYPE: Final = {
    "model": f"The model must be a string such as {EXAMPLES}.",
    "inputs": f"The inputs must be a list; each is {FORMS}.",
    "timeout_s": "The timeout must be a number of seconds above 0.",
    "quality": f"The quality must be one of {', '.join(QUALITIES)}.",
    "target": "The target must be a number from 0 to 1.",
    "explain": "This must be true or false.",
}
"""By field: what its type is."""


def parse_call(body: object, *, timeout_header: str | None = None) -> InferCall:
    """The request that the JSON value `body` is; `timeout_header` counts when the body names no `timeout_s`.
    Raises HmiError."""
    if not isinstance(body, Mapping):
        raise invalid(None, 'The body must be a JSON object: {"model": "...", "inputs": ["..."]}.')
    for name in body:
        if name not in FIELDS:
            raise unknown_field(str(name), FIELDS)
    for name in ("model", "inputs"):
        if name not in body:
            raise HmiError(ErrorCode.MISSING_FIELD, f"The field {name!r} is missing.", param=name)
    if timeout_header is not None and body.get("timeout_s") is None:
        body = {**body, "timeout_s": _seconds(timeout_header)}
    try:
        return msgspec.convert(body, InferCall)
    except msgspec.ValidationError as error:
        name = str(error).rpartition("$.")[2].rstrip("`")
    except UnicodeEncodeError as error:  # half a surrogate pair in the place of something else
        name = next((name for name, value in body.items() if value == error.object), "")
    if name not in WRONG_TYPE:
        raise invalid(None, "A field of the body has an invalid value.")
    raise invalid(name, WRONG_TYPE[name])


def check_reference(value: str) -> str:
    """A model reference is a short printable string; whether it names anything is decided later."""
    if not value.strip():
        raise invalid("model", WRONG_TYPE["model"])
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


def _seconds(header: str) -> float:
    try:
        seconds = float(header)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise invalid("timeout_s", "The timeout header must be a number of seconds above 0.")
    return seconds


def check_inputs(value: Sequence[Any], *, may_be_blank: bool = False) -> tuple[dict[str, str], ...]:
    """A list of 1 to HMI_MAX_INPUTS inputs as their texts by name, each with something in it and encodable as
    UTF-8. ``may_be_blank``: white space is something, as in a prompt that is continued."""
    if not value:
        raise invalid("inputs", "The inputs must hold at least one text.")
    check_input_count(len(value))
    return tuple(_check_input(index, one, may_be_blank) for index, one in enumerate(value))


def fit_inputs(given: Sequence[Mapping[str, str]], *, task: str, pairs: bool) -> tuple[InferInput, ...]:
    """The inputs as the tokenizer reads them, each with exactly the texts that the model was trained on."""
    of_task = TEXTS if pairs else TEXTS[:1]
    wanted = QUESTION if task == QUESTION_ANSWERING else of_task
    return tuple(_fit(index, one, wanted) for index, one in enumerate(given))


def _fit(index: int, given: Mapping[str, str], wanted: tuple[str, ...]) -> InferInput:
    for name in given:
        if name not in wanted:
            message = f"Input {index} has {name!r}; this model takes {_all_of(wanted)}."
            raise invalid(f"inputs[{index}].{name}", message, index=index)
    for name in wanted:
        if name not in given:
            message = f"Input {index} has no {name!r}; this model takes {_all_of(wanted)}."
            raise refusal(ErrorCode.MISSING_FIELD, f"inputs[{index}].{name}", message, index=index)
    return InferInput(*(given[name] for name in wanted))


def _all_of(wanted: tuple[str, ...]) -> str:
    return " and ".join(map(repr, wanted))


def _check_input(index: int, value: object, may_be_blank: bool) -> dict[str, str]:
    where = f"inputs[{index}]"
    if isinstance(value, str):
        return {TEXTS[0]: _check_text(index, where, value, may_be_blank)}
    if not isinstance(value, Mapping):
        raise invalid(where, f"Input {index} is neither {FORMS}.", index=index)
    names = QUESTION if QUESTION[0] in value or QUESTION[1] in value else TEXTS
    for name in value:
        if name not in names:
            shown = str(name)[:64]
            message = f"Input {index} has an unknown field {shown!r}; it must be {FORMS}."
            raise invalid(f"{where}.{shown}", message, index=index)
    if TEXTS[0] not in value and names is TEXTS:
        raise refusal(ErrorCode.MISSING_FIELD, f"{where}.text", f"Input {index} has no 'text'.", index=index)
    given = {name: value[name] for name in names if name in value}
    return {name: _check_text(index, f"{where}.{name}", text, may_be_blank) for name, text in given.items()}


def _check_text(index: int, where: str, text: object, may_be_blank: bool) -> str:
    if not isinstance(text, str):
        raise invalid(where, f"Input {index} is not a string.", index=index)
    if not (text if may_be_blank else text.strip()):
        raise refusal(ErrorCode.EMPTY_TEXT, where, f"Input {index} is empty.", index=index)
    if (position := text.find("\0")) >= 0:
        message = f"Input {index} holds a NUL character (position {position})."
        raise refusal(ErrorCode.INVALID_ENCODING, where, message, index=index, position=position)
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        message = f"Input {index} holds half a surrogate pair (position {error.start})."
        raise refusal(ErrorCode.INVALID_ENCODING, where, message, index=index, position=error.start) from None
    check_input_size(size, index=index, where=where)
    return text


def check_body_size(size: int, *, limit: int | None = None) -> None:
    """Raises ``body_too_large`` beyond the limit, which is HMI_MAX_BODY_BYTES by default."""
    limit = int(settings.HMI_MAX_BODY_BYTES) if limit is None else limit
    if size > limit:
        message = f"The body is larger than {limit:,} bytes."
        raise HmiError(ErrorCode.BODY_TOO_LARGE, message, details={"max_bytes": limit})


def check_input_count(given: int) -> None:
    """Raises ``too_many_inputs`` beyond HMI_MAX_INPUTS."""
    limit: int = settings.HMI_MAX_INPUTS
    if given > limit:
        message = f"{given} inputs were given; at most {limit} are allowed in one request."
        details = {"given": given, "max": limit}
        raise HmiError(ErrorCode.TOO_MANY_INPUTS, message, param="inputs", details=details)


def check_input_size(size: int, *, index: int, where: str) -> None:
    """Raises ``body_too_large`` for one text of more than HMI_MAX_INPUT_BYTES."""
    limit: int = settings.HMI_MAX_INPUT_BYTES
    if size > limit:
        message = f"Input {index} has {size:,} bytes; at most {limit:,} are allowed."
        details = {"index": index, "max_bytes": limit}
        raise HmiError(ErrorCode.BODY_TOO_LARGE, message, param=where, details=details)


def invalid(param: str | None, message: str, **details: int) -> HmiError:
    """An `invalid_field` at the place."""
    return refusal(ErrorCode.INVALID_FIELD, param, message, **details)


def refusal(code: ErrorCode, param: str | None, message: str, **details: int) -> HmiError:
    """An error that names its place, to be raised."""
    return HmiError(code, message, param=param, details=details or None)
