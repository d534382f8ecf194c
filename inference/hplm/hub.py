"""Fetching a checkpoint by its hub id."""

from collections.abc import Collection
from pathlib import Path, PurePosixPath

from inference.hplm.errors import HplmError

_WANTED = ["config.json", "tokenizer.json", "*.safetensors", "*.safetensors.index.json"]
_UNWANTED = ["*/*"]


def fetch(hub_id: str, *, pickled: Collection[str]) -> Path:
    """The local folder of hub id `hub_id`, downloaded when needed: JSON and safetensors of its top level
    only.

    Raises HplmError(pickled_checkpoint) before anything is downloaded when the weights come only in files
    with a suffix in `pickled`, and HplmError(checkpoint_not_found) when the hub has no such id or cannot be
    reached.
    """
    from huggingface_hub import list_repo_files, snapshot_download  # slow to import, and rarely needed

    try:
        names = [PurePosixPath(name) for name in list_repo_files(hub_id) if "/" not in name]
        suffixes = {name.suffix for name in names}
        if ".safetensors" not in suffixes and suffixes & set(pickled):
            raise HplmError(
                "pickled_checkpoint", f"{hub_id} has only pickled weights; reading them runs code"
            )
        return Path(snapshot_download(hub_id, allow_patterns=_WANTED, ignore_patterns=_UNWANTED))
    except HplmError:
        raise
    except Exception as error:  # the hub's client raises many types; each means it is not to be had
        raise HplmError(
            "checkpoint_not_found",
            f"there is no folder {hub_id!r}, and fetching it from the hub failed: {error}",
        ) from error
