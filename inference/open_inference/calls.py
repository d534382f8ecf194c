"""What an infer request of the Open Inference Protocol asks for; everything else is a typed error that says
where."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from inference.api.admission import check_input_count
from inference.api.inputs import invalid, refusal
from inference.api.validation import check_miss_policy
from inference.open_inference.bodies import Body
from inference.open_inference.signatures import Signature
from inference.open_inference.tensors import read_texts, wrong
from tenants.base.api.inputs import MAX_FIELD_SHOWN
from tenants.base.errors import ErrorCode

Json = Mapping[str, Any]

MAX_ID: Final = 256
MICROSECONDS: Final = 1_000_000
NAME: Final = "model_name"
"""The client of KServe says it in the body, too."""
FIELDS: Final = ("id", NAME, "inputs", "outputs", "parameters")
OF_INPUT: Final = ("name", "shape", "datatype", "data", "parameters")
OF_OUTPUT: Final = ("name", "parameters")
PARAMETERS: Final = ("timeout", "miss_policy", "binary_data_output")
SIZE, AS_BYTES = "binary_data_size", "binary_data"
PARAMETERS_OF_INPUT: Final = (SIZE, "content_type")
"""Clients of MLServer say that a text is a text."""


@dataclass(frozen=True, slots=True)
class OipCall:
    """A well-formed request: inputs as the infer API takes them, and which outputs, whether as bytes; all of
    them, if none are ``wanted``. ``id`` is the caller's own name for the request."""

    inputs: Sequence[Mapping[str, str]]
    wanted: Mapping[str, bool] = field(default_factory=dict)
    all_as_bytes: bool = False
    timeout_s: float | None = None
    miss_policy: str | None = None
    id: str | None = None


def read_call(body: Body, signature: Signature, *, model: str = "") -> OipCall:
    """What the body asks of a model with these tensors, which the address calls so. Raises `missing_field`,
    `invalid_field`, `invalid_encoding` and `too_many_inputs`."""
    if body.value is None:
        raise invalid(None, "The body must be a JSON object.")
    request = _object(body.value, "The body", None, FIELDS)
    if request.get(NAME, model) != model:
        raise invalid(NAME, f"The address asks another model than the {NAME} of the body.")
    parameters = _object(request.get("parameters"), "parameters", "parameters", PARAMETERS)
    as_bytes = _flag(parameters, "binary_data_output", default=False)
    return OipCall(
        inputs=_rows(request, body.tensors, signature),
        wanted=_wanted(request, signature, as_bytes),
        all_as_bytes=as_bytes,
        timeout_s=_seconds(parameters.get("timeout")),
        miss_policy=check_miss_policy(parameters.get("miss_policy")),
        id=_id(request.get("id")),
    )


def _rows(request: Json, raw: memoryview, signature: Signature) -> list[Mapping[str, str]]:
    given = _tensors(request, "inputs", OF_INPUT)
    for name in given:
        if name not in signature.inputs:
            raise wrong(name, f"is not one of this model, which takes {_listed(signature.inputs)}")
    for name in signature.inputs:
        if name not in given:
            message = f"The tensor {name} is missing; this model takes {_listed(signature.inputs)}."
            raise refusal(ErrorCode.MISSING_FIELD, name, message)
    counts = {name: _count(tensor, name) for name, tensor in given.items()}
    if len(set(counts.values())) > 1:
        raise invalid("inputs", f"The tensors must have equally many elements; they have {counts}.")
    check_input_count(next(iter(counts.values())))
    columns: dict[str, list[str]] = {}
    for name, tensor in given.items():
        size = _size(tensor, name)
        if size is None:
            columns[name] = _listed_texts(tensor, name, counts[name])
            continue
        if size > len(raw):
            raise wrong(name, f"has {size:,} bytes of data, of which {len(raw):,} are there")
        columns[name] = read_texts(raw[:size], name=name, count=counts[name])
        raw = raw[size:]
    if len(raw):
        raise invalid("inputs", f"The body has {len(raw):,} bytes behind its last tensor.")
    in_order = (columns[name] for name in signature.inputs)
    return [dict(zip(signature.fields, row, strict=True)) for row in zip(*in_order, strict=True)]


def _count(tensor: Json, name: str) -> int:
    """How many elements the tensor has: the shape is [n] or [n, 1]."""
    if tensor.get("datatype") != "BYTES":
        raise wrong(name, "must have the datatype BYTES")
    shape = tensor.get("shape")
    if not isinstance(shape, list) or not all(type(size) is int for size in shape):
        raise wrong(name, "must have a shape, a list of whole numbers")
    if len(shape) not in (1, 2) or shape[1:] not in ([], [1]) or shape[0] < 1:
        raise wrong(name, "must have the shape [n] or [n, 1], with n texts of which there is at least one")
    return int(shape[0])


def _size(tensor: Json, name: str) -> int | None:
    """How many bytes behind the JSON are the tensor's; None where its data is in the JSON."""
    parameters = _object(tensor.get("parameters"), f"parameters of {name}", name, PARAMETERS_OF_INPUT)
    size = parameters.get(SIZE)
    if (size is None) is (tensor.get("data") is None):
        raise wrong(name, f"must have either data or the parameter {SIZE}")
    if size is not None and (type(size) is not int or size < 0):
        raise wrong(name, f"must have a number of bytes as {SIZE}")
    return size


def _listed_texts(tensor: Json, name: str, count: int) -> list[str]:
    data = tensor["data"]
    if not isinstance(data, list):
        raise wrong(name, "must have a list as data")
    # Rows of one element may stand in lists of their own.
    flat = [part for row in data for part in (row if isinstance(row, list) else [row])]
    if not all(isinstance(text, str) for text in flat):
        raise wrong(name, "must have strings as data")
    if len(flat) != count:
        raise wrong(name, f"has {len(flat)} elements, and its shape has {count}")
    return flat


def _wanted(request: Json, signature: Signature, as_bytes: bool) -> dict[str, bool]:
    if request.get("outputs") in (None, []):
        return {}
    known = [output.name for output in signature.outputs]
    wanted = {}
    for name, output in _tensors(request, "outputs", OF_OUTPUT).items():
        if name not in known:
            raise wrong(name, f"is not one of this model, which gives {_listed(known)}")
        parameters = _object(output.get("parameters"), f"parameters of {name}", name, (AS_BYTES,))
        wanted[name] = _flag(parameters, AS_BYTES, default=as_bytes)
    return wanted


def _tensors(request: Json, which: str, fields: Sequence[str]) -> dict[str, Json]:
    """The request's inputs or outputs, by their names."""
    listed = request.get(which)
    if not isinstance(listed, list) or not listed:
        raise invalid(which, f"There must be a list of {which}.")
    named: dict[str, Json] = {}
    for place, value in enumerate(listed):
        where = f"{which}[{place}]"
        tensor = _object(value, where, where, fields)
        name = tensor.get("name")
        if not isinstance(name, str) or not name.isprintable() or len(name) > MAX_FIELD_SHOWN:
            raise invalid(where, f"{where} must have a name.")
        if name in named:
            raise wrong(name, "is there twice")
        named[name] = tensor
    return named


def _object(value: object, what: str, param: str | None, fields: Sequence[str]) -> Json:
    """The value with nothing in it but these; some clients send null for what they leave out."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise invalid(param, f"{what} must be a JSON object.")
    for name in value:
        if name not in fields:
            shown = ascii(name[:MAX_FIELD_SHOWN])
            raise invalid(param, f"{what}: {shown} is not known here; known are {_listed(fields)}.")
    return value


def _flag(parameters: Json, name: str, *, default: bool) -> bool:
    value = parameters.get(name, default)
    if isinstance(value, bool):
        return value
    raise invalid(name, f"The parameter {name} is true or false.")


def _seconds(timeout: object) -> float | None:
    """Of microseconds, which is what clients of Triton count in; 0 stands for no limit of one's own."""
    if timeout is None:
        return None
    if type(timeout) is not int or timeout < 0:
        raise invalid("timeout", "The parameter timeout is a whole number of microseconds.")
    return min(timeout, 10**15) / MICROSECONDS or None


def _id(value: object) -> str | None:
    if value is None or (isinstance(value, str) and len(value) <= MAX_ID):
        return value
    raise invalid("id", f"The id must be a string of at most {MAX_ID} characters.")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
