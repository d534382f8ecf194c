"""Tensors as JSON and in the binary data extension of the protocol.

The binary format of numbers is packed little-endian. A BYTES element is a four-byte length and the content.
"""

import struct
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal

from inference.api.validation import refusal
from tenants.base.errors import ErrorCode, HmiError

Datatype = Literal["BYTES", "BOOL", "INT64", "FP32", "FP64"]
STRUCT_FORMATS: Final[dict[Datatype, str]] = {"BOOL": "?", "INT64": "q", "FP32": "f", "FP64": "d"}
LENGTH: Final = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Tensor:
    """An output tensor. ``values`` are flat, in row-major order."""

    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    values: Sequence[Any]

    @property
    def metadata(self) -> dict[str, Any]:
        """The JSON object of the tensor, without its data."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}

    def to_bytes(self) -> bytes:
        """The values in the binary format."""
        if self.datatype != "BYTES":
            return struct.pack(f"<{len(self.values)}{STRUCT_FORMATS[self.datatype]}", *self.values)
        texts = [text.encode() for text in self.values]
        return b"".join(part for text in texts for part in (LENGTH.pack(len(text)), text))


def decode_texts(raw: memoryview, *, name: str, count: int) -> list[str]:
    """The texts of a binary BYTES tensor of ``count`` elements. Raises `invalid_field`, and
    `invalid_encoding` if one is not UTF-8."""
    elements = list(islice(_elements(raw, name), count + 1))
    if len(elements) != count:
        found = "more" if len(elements) > count else f"{len(elements)}"
        raise tensor_error(name, f"has {found} elements, and its shape has {count}")
    return [_decode(element, name, index) for index, element in enumerate(elements)]


def decode_base64(texts: Sequence[str], *, name: str) -> list[str]:
    """The texts that these base64 strings encode. Raises `invalid_field`, and `invalid_encoding` if one is
    not UTF-8."""
    decoded = []
    for index, text in enumerate(texts):
        try:
            element = b64decode(text, validate=True)
        except ValueError as error:
            raise tensor_error(name, f"has an element that is not base64 (element {index})") from error
        decoded.append(_decode(memoryview(element), name, index))
    return decoded


def tensor_error(name: str, problem: str) -> HmiError:
    """The error `invalid_field` of a tensor."""
    return refusal(ErrorCode.INVALID_FIELD, name, f"The tensor {name} {problem}.")


def _elements(raw: memoryview, name: str) -> Iterator[memoryview]:
    offset = 0
    while offset < len(raw):
        begin = offset + LENGTH.size
        if begin > len(raw):
            raise tensor_error(name, f"ends within the length of an element (byte {offset})")
        (length,) = LENGTH.unpack_from(raw, offset)
        offset = begin + length
        if offset > len(raw):
            left = len(raw) - begin
            raise tensor_error(
                name, f"has an element of {length:,} bytes where {left:,} are left (byte {begin})"
            )
        yield raw[begin:offset]


def _decode(element: memoryview, name: str, index: int) -> str:
    try:
        return str(element, "utf-8")
    except UnicodeDecodeError as error:
        message = f"Element {index} of the tensor {name} is not valid UTF-8 (byte {error.start})."
        raise refusal(ErrorCode.INVALID_ENCODING, name, message, index=index, byte=error.start) from None
