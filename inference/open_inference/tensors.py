"""Tensors of the Open Inference Protocol, as JSON and as the bytes of its binary data extension.

As bytes, numbers are little-endian one after the other; a BYTES element is its length, in four bytes, and its
content.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from inference.api.inputs import refusal
from tenants.base.errors import ErrorCode, HmiError

Datatype = Literal["BYTES", "BOOL", "INT64", "FP32", "FP64"]


NUMBERS: Final[dict[Datatype, str]] = {"BOOL": "?", "INT64": "q", "FP32": "f", "FP64": "d"}


LENGTH: Final = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Tensor:
    """An output: ``values`` row after row, as many as the shape has places."""

    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    values: Sequence[Any]

    @property
    def about(self) -> dict[str, Any]:
        """What JSON says of it beside the values."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}

    def to_bytes(self) -> bytes:
        """The values as the binary data extension writes them."""
        if self.datatype != "BYTES":
            return struct.pack(f"<{len(self.values)}{NUMBERS[self.datatype]}", *self.values)
        texts = [text.encode() for text in self.values]
        return b"".join(part for text in texts for part in (LENGTH.pack(len(text)), text))


def read_texts(raw: memoryview, *, name: str, count: int) -> list[str]:
    """The ``count`` texts that a BYTES tensor holds and nothing else, or `invalid_field`; `invalid_encoding`
    where one is not UTF-8."""
    texts = [_decoded(element, name, index) for index, element in enumerate(_elements(raw, name))]
    if len(texts) != count:
        raise wrong(name, f"has {len(texts)} elements, and its shape has {count}")
    return texts


def wrong(name: str, what: str) -> HmiError:
    """An `invalid_field` of the tensor."""
    return refusal(ErrorCode.INVALID_FIELD, name, f"The tensor {name} {what}.")


def _elements(raw: memoryview, name: str) -> Iterator[memoryview]:
    place = 0
    while place < len(raw):
        begin = place + LENGTH.size
        if begin > len(raw):
            raise wrong(name, f"ends within the length of an element (byte {place})")
        (length,) = LENGTH.unpack_from(raw, place)
        place = begin + length
        if place > len(raw):
            left = len(raw) - begin
            raise wrong(name, f"has an element of {length:,} bytes where {left:,} are left (byte {begin})")
        yield raw[begin:place]


def _decoded(element: memoryview, name: str, index: int) -> str:
    try:
        return str(element, "utf-8")
    except UnicodeDecodeError as error:
        message = f"Element {index} of the tensor {name} is not valid UTF-8 (byte {error.start})."
        raise refusal(ErrorCode.INVALID_ENCODING, name, message, index=index, byte=error.start) from None
