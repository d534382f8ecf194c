"""The text codec of each model, from the artifacts of its root and its version, which never change."""

from pathlib import Path
from typing import Final

from django.conf import settings

from inference.errors import HplmError
from inference.text.codec import TextCodec
from inference.text.results import OutputNames
from inference.text.tokenization import TextTokenizer
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.ttl_cache import cached
from versiontree.artifact_store import ArtifactStore

KEPT_S: Final = 86_400.0


def text_codec(*, root: str, version: str, embed: bool) -> TextCodec:
    """The codec of a model, by the digests of its root and its version. Raises HmiError(inference_failed)
    where an artifact cannot be read, and CacheMiss within ``cached_only``."""
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    try:
        tokenizer = cached(
            f"tokenizer:{root}", lambda: TextTokenizer.of_root(store.path("root", root)), KEPT_S
        )
        if embed:
            return TextCodec(tokenizer, None)
        names = cached(f"outputs:{version}", lambda: OutputNames.load(store.path("hplm", version)), KEPT_S)
    except HplmError as error:
        raise HmiError(ErrorCode.INFERENCE_FAILED, error.message) from error
    return TextCodec(tokenizer, names)
