"""Validates infer requests. An HmiError names the tensor or field that is wrong.

Clients of other servers send parameters that this server does not have. Those without an effect on the answer
are ignored and listed in it; any others are refused by name.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from inference.api.validation import check_input_count, invalid, refusal
from inference.open_inference.parsers import Body
from inference.open_inference.signatures import Signature
from inference.open_inference.tensors import decode_base64, decode_texts, tensor_error
from tenants.base.api.inputs import MAX_FIELD_SHOWN
from tenants.base.errors import ErrorCode

Json = Mapping[str, Any]

MAX_ID_LENGTH: Final = 256
MICROSECONDS_PER_SECOND: Final = 1_000_000
MODEL_NAME, MODEL_VERSION = "model_name", "model_version"
"""KServe's client repeats them in the body."""
FIELDS: Final = ("id", MODEL_NAME, MODEL_VERSION, "inputs", "outputs", "parameters")
INPUT_FIELDS: Final = ("name", "shape", "datatype", "data", "parameters")
OUTPUT_FIELDS: Final = ("name", "parameters")
BINARY_SIZE, BINARY_DATA, BINARY_OUTPUT = "binary_data_size", "binary_data", "binary_data_output"
PARAMETERS: Final = ("timeout", "quality", "target", BINARY_OUTPUT)
IGNORED_PARAMETERS: Final = frozenset(
    {"headers", "priority", "sequence_id", "sequence_start", "sequence_end"}
)
"""Of Triton's and MLServer's clients. Models here have no state, so a sequence of requests needs no name."""
CONTENT_TYPE: Final = "content_type"
TEXT_TYPES: Final = ("str", "np", "pd")
"""What MLServer's clients call tensors whose elements are the texts themselves."""
BASE64: Final = "base64"


@dataclass(frozen=True, slots=True)
class OipRequest:
    """A well-formed infer request; its values are checked by `parse_call`.

    ``inputs`` are those of the infer API. ``outputs`` says of each requested output whether it is binary; if
    it is empty, all outputs are requested, binary if ``binary_default``. ``id`` is the client's.
    """

    inputs: Sequence[Mapping[str, str]]
    outputs: Mapping[str, bool] = field(default_factory=dict)
    binary_default: bool = False
    timeout_s: float | None = None
    quality: object = None
    target: object = None
    id: str | None = None
    ignored: Sequence[str] = ()


def parse_request(
    body: Body, signature: Signature, *, models: Collection[str] = (), versions: Collection[str] = ()
) -> OipRequest:
    """Validate the body of a request to a model with this signature.

    ``models`` and ``versions`` are the names of the model and the version that the body may repeat.

    Raises `missing_field`, `invalid_field`, `invalid_encoding` and `too_many_inputs`.
    """
    if body.value is None:
        raise invalid(None, "The body must be a JSON object.")
    request = _object(body.value, "The body", None, FIELDS)
    for name, known in ((MODEL_NAME, models), (MODEL_VERSION, versions)):
        if name in request and request[name] not in known:
            raise invalid(name, f"The {name} in the body is not that of the URL.")
    ignored: set[str] = set()
    parameters = _parameters(request, "", PARAMETERS, ignored)
    _content_type(parameters, TEXT_TYPES)
    binary_default = _flag(parameters, BINARY_OUTPUT, default=False)
    return OipRequest(
        inputs=_inputs(request, body.tensors, signature, ignored),
        outputs=_requested_outputs(request, signature, binary_default, ignored),
        binary_default=binary_default,
        timeout_s=_seconds(parameters.get("timeout")),
        quality=parameters.get("quality"),
        target=parameters.get("target"),
        id=_id(request.get("id")),
        ignored=sorted(ignored),
    )


def _inputs(
    request: Json, raw: memoryview, signature: Signature, ignored: set[str]
) -> list[Mapping[str, str]]:
    tensors = _tensors(request, "inputs", INPUT_FIELDS)
    for name in tensors:
        if name not in signature.inputs:
            raise tensor_error(name, f"is not one of this model, which takes {_join(signature.inputs)}")
    for name in signature.inputs:
        if name not in tensors:
            message = f"The tensor {name} is missing; this model takes {_join(signature.inputs)}."
            raise refusal(ErrorCode.MISSING_FIELD, name, message)
    counts = {name: _count(tensor, name) for name, tensor in tensors.items()}
    if len(set(counts.values())) > 1:
        raise invalid("inputs", f"The tensors must have equally many elements; they have {counts}.")
    check_input_count(next(iter(counts.values())))
    columns: dict[str, list[str]] = {}
    for name, tensor in tensors.items():
        parameters = _parameters(tensor, name, (BINARY_SIZE,), ignored)
        content_type = _content_type(parameters, (*TEXT_TYPES, BASE64), name)
        size = _binary_size(tensor, parameters, name)
        if size is None:
            texts = _json_texts(tensor, name, counts[name])
        else:
            if size > len(raw):
                raise tensor_error(name, f"has {size:,} bytes of data, of which {len(raw):,} are there")
            texts = decode_texts(raw[:size], name=name, count=counts[name])
            raw = raw[size:]
        columns[name] = decode_base64(texts, name=name) if content_type == BASE64 else texts
    if len(raw):
        raise invalid("inputs", f"The body has {len(raw):,} bytes behind its last tensor.")
    in_order = (columns[name] for name in signature.inputs)
    return [dict(zip(signature.fields, row, strict=True)) for row in zip(*in_order, strict=True)]


def _count(tensor: Json, name: str) -> int:
    """The number of elements of a tensor of the shape [n] or [n, 1]."""
    if tensor.get("datatype") != "BYTES":
        raise tensor_error(name, "must have the datatype BYTES")
    shape = tensor.get("shape")
    if not isinstance(shape, list) or not all(type(size) is int for size in shape):
        raise tensor_error(name, "must have a shape, a list of whole numbers")
    if len(shape) not in (1, 2) or shape[1:] not in ([], [1]) or shape[0] < 1:
        raise tensor_error(name, "must have the shape [n] or [n, 1], with n at least 1")
    return int(shape[0])


def _binary_size(tensor: Json, parameters: Json, name: str) -> int | None:
    """The number of bytes of a binary tensor. None if its data is in the JSON."""
    size = parameters.get(BINARY_SIZE)
    if (size is None) is (tensor.get("data") is None):
        raise tensor_error(name, f"must have either data or the parameter {BINARY_SIZE}")
    if size is not None and (type(size) is not int or size < 0):
        raise tensor_error(name, f"must have a number of bytes as {BINARY_SIZE}")
    return size


def _json_texts(tensor: Json, name: str, count: int) -> list[str]:
    data = tensor["data"]
    if not isinstance(data, list):
        raise tensor_error(name, "must have a list as data")
    # The shape [n, 1] may be sent as nested lists.
    flat = [part for row in data for part in (row if isinstance(row, list) else [row])]
    if not all(isinstance(text, str) for text in flat):
        raise tensor_error(name, "must have strings as data")
    if len(flat) != count:
        raise tensor_error(name, f"has {len(flat)} elements, and its shape has {count}")
    return flat


def _requested_outputs(
    request: Json, signature: Signature, binary_default: bool, ignored: set[str]
) -> dict[str, bool]:
    if request.get("outputs") in (None, []):
        return {}
    known = [output.name for output in signature.outputs]
    requested = {}
    for name, output in _tensors(request, "outputs", OUTPUT_FIELDS).items():
        if name not in known:
            raise tensor_error(name, f"is not one of this model, which gives {_join(known)}")
        parameters = _parameters(output, name, (BINARY_DATA,), ignored)
        _content_type(parameters, TEXT_TYPES, name)
        requested[name] = _flag(parameters, BINARY_DATA, default=binary_default)
    return requested


def _tensors(request: Json, which: str, fields: Sequence[str]) -> dict[str, Json]:
    """The request's inputs or outputs, by name."""
    values = request.get(which)
    if not isinstance(values, list) or not values:
        raise invalid(which, f"There must be a list of {which}.")
    named: dict[str, Json] = {}
    for place, value in enumerate(values):
        where = f"{which}[{place}]"
        tensor = _object(value, where, where, fields)
        name = tensor.get("name")
        if not isinstance(name, str) or not name.isprintable() or len(name) > MAX_FIELD_SHOWN:
            raise invalid(where, f"{where} must have a name.")
        if name in named:
            raise tensor_error(name, "is sent twice")
        named[name] = tensor
    return named


def _object(value: object, what: str, param: str | None, fields: Collection[str]) -> Json:
    """The value, an object of these fields, without those that are null. Null is an empty object."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise invalid(param, f"{what} must be a JSON object.")
    for name in value:
        if name not in fields:
            shown = ascii(name[:MAX_FIELD_SHOWN])
            raise invalid(param, f"{what}: {shown} is unknown; the fields are {_join(fields)}.")
    return {name: each for name, each in value.items() if each is not None}


def _parameters(holder: Json, tensor: str, names: Collection[str], ignored: set[str]) -> Json:
    """The parameters of a request (``tensor`` is empty) or of a tensor. Adds those without an effect to
    ``ignored``."""
    what, param = (f"parameters of {tensor}", tensor) if tensor else ("parameters", "parameters")
    known = (*names, CONTENT_TYPE, *IGNORED_PARAMETERS)
    parameters = _object(holder.get("parameters"), what, param, known)
    ignored |= parameters.keys() & IGNORED_PARAMETERS
    return parameters


def _content_type(parameters: Json, known: Collection[str], tensor: str = "") -> str | None:
    content_type = parameters.get(CONTENT_TYPE)
    if content_type is None or content_type in known:
        return content_type
    where = f" of {tensor}" if tensor else ""
    raise invalid(tensor or CONTENT_TYPE, f"The {CONTENT_TYPE}{where} must be one of {_join(known)}.")


def _flag(parameters: Json, name: str, *, default: bool) -> bool:
    value = parameters.get(name, default)
    if isinstance(value, bool):
        return value
    raise invalid(name, f"The parameter {name} is true or false.")


def _seconds(timeout: object) -> float | None:
    """The timeout in seconds, from microseconds, which Triton's clients send. 0 is no timeout."""
    if timeout is None:
        return None
    if type(timeout) is not int or timeout < 0:
        raise invalid("timeout", "The parameter timeout is a whole number of microseconds.")
    return min(timeout, 10**15) / MICROSECONDS_PER_SECOND or None


def _id(value: object) -> str | None:
    if value is None or (isinstance(value, str) and len(value) <= MAX_ID_LENGTH):
        return value
    raise invalid("id", f"The id must be a string of at most {MAX_ID_LENGTH} characters.")


def _join(names: Collection[str]) -> str:
    return ", ".join(names)
