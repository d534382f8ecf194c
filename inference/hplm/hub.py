"""Fetching a checkpoint by its hub id."""

from collections.abc import Collection
from pathlib import Path, PurePosixPath

from inference.hplm.errors import HplmError

_WANTED = ["config.json", "tokenizer.json", "*.safetensors", "*.safetensors.index.json"]
_UNWANTED = ["*/*"]


def fetch(hub_id: str, *, pickled: Collection[str]) -> Path:
    """The local folder of hub id `hub_id`: JSON and safetensors of its top level, downloaded when needed.

    Raises HplmError(pickled_checkpoint) before anything is downloaded when the weights come only in files
    with a suffix in `pickled`, and HplmError(checkpoint_not_found) when the hub has no such id, or cannot be
    reached and the id was never fetched before.
    """
    from huggingface_hub import snapshot_download  # slow to import, and rarely needed

    suffixes = _suffixes(hub_id)
    if ".safetensors" not in suffixes and suffixes & set(pickled):
        raise HplmError("pickled_checkpoint", f"{hub_id} has only pickled weights; reading them runs code")
    try:
        return Path(snapshot_download(hub_id, allow_patterns=_WANTED, ignore_patterns=_UNWANTED))
    except Exception as error:  # the client raises many types; each means it is not to be had
        message = f"there is no folder {hub_id!r}, and fetching it from the hub failed: {error}"
        raise HplmError("checkpoint_not_found", message) from error


def _suffixes(hub_id: str) -> set[str]:
    """The suffixes of the files at the hub; none when it cannot be asked, as a fetched copy may serve."""
    from huggingface_hub import list_repo_files
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        return {PurePosixPath(name).suffix for name in list_repo_files(hub_id) if "/" not in name}
    except (HfHubHTTPError, OfflineModeIsEnabled, OSError):
        return set()
