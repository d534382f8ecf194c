"""The addresses that the requests of a batch may be for."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from inference.api.inputs import invalid
from inference.api.openai.embeddings import BASE64, numbers_of, read_asked, shortened
from versiontree.models.batch import ENDPOINTS

FIELDS: Final = {"model", "inputs"}


class Endpoint(Protocol):
    """What requests to one address say, and are answered with. ``embeds``: texts become vectors."""

    embeds: bool

    def read(self, body: Mapping[str, Any]) -> tuple[object, object]:
        """The inputs in the body of a request, and how it wants its answer. Raises HmiError."""
        ...

    def body(self, results: Sequence[dict[str, Any]], model: str, how: Any) -> dict[str, Any]:
        """The answer of the version that is called so. Raises HmiError where it cannot be as it is wanted."""
        ...


class Infer:
    """The product's own: ``{"model", "inputs"}``."""

    embeds = False

    def read(self, body: Mapping[str, Any]) -> tuple[object, object]:
        for name in body.keys() - FIELDS:
            raise invalid(None, f"The body of a request has the fields model and inputs, not {name[:64]!r}.")
        return body.get("inputs"), None

    def body(self, results: Sequence[dict[str, Any]], model: str, how: Any) -> dict[str, Any]:
        return {"model": model, "results": list(results)}


class Embeddings:
    """That of the OpenAI conventions; how many tokens each text had is not told."""

    embeds = True

    def read(self, body: Mapping[str, Any]) -> tuple[object, object]:
        asked = read_asked(body)
        return list(asked.texts), (asked.encoding, asked.dimensions)

    def body(self, results: Sequence[dict[str, Any]], model: str, how: Any) -> dict[str, Any]:
        encoding, dimensions = how
        vectors = [shortened(result["embedding"], dimensions) for result in results]
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": vector if encoding == BASE64 else numbers_of(vector),
            }
            for index, vector in enumerate(vectors)
        ]
        return {"object": "list", "data": data, "model": model}


ENDPOINT_OF: Final[dict[str, Endpoint]] = dict(zip(ENDPOINTS, (Infer(), Embeddings()), strict=True))
