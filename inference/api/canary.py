"""Which version answers a request to an alias with a canary."""

from collections.abc import Sequence
from hashlib import blake2b

from inference.cascade.dispatcher import HASH_BYTES, draw
from inference.text.encodings import InferInput
from versiontree.tree.resolution import ResolvedModel


def version_for(model: ResolvedModel, inputs: Sequence[InferInput]) -> ResolvedModel:
    """The canary of the model for its share of the requests, else the model itself.

    The inputs of the request and the canary alone decide, so that the same request is always answered by the
    same version. A larger share keeps the requests of a smaller one.
    """
    if model.canary is None:
        return model
    is_drawn = draw(_request_hash(inputs, salt=model.canary.digest)) < model.canary_percent / 100
    return model.canary if is_drawn else model


def _request_hash(inputs: Sequence[InferInput], *, salt: str) -> bytes:
    """HASH_BYTES of all the inputs. With its salt the draw does not depend on that of the dispatcher."""
    parts = [salt.encode(), *(given.digest(HASH_BYTES) for given in inputs)]
    return blake2b(b"".join(parts), digest_size=HASH_BYTES).digest()
