"""The folder of an adapter that `peft` or `adapters` saved elsewhere, as a folder or a zip file of it."""

from pathlib import Path
from typing import IO, Any, Final

from tenants.errors import ErrorCode, HmiError
from versiontree.archive.layout import refused
from versiontree.archive.reader import CHUNK, room_left
from versiontree.archive.sources import Source, reading, source_open
from versiontree.archive.strict_json import MOST_BYTES, object_of

CONFIG: Final = "adapter_config.json"
SAID: Final = (CONFIG, "head_config.json", "config.json")
WEIGHTS: Final = ("adapter_model.safetensors", "adapter.safetensors", "model_head.safetensors")
PICKLED: Final = ("adapter_model.bin", "pytorch_adapter.bin", "pytorch_model_head.bin", "pytorch_model.bin")


def adapter_unpack(archive: Path | IO[bytes], folder: Path, *, most_bytes: int) -> dict[str, Any]:
    """Write the files that make the adapter into a new `folder`, and return its configuration. Other files
    are left where they are.

    Raises ``invalid_archive`` (it is none, or its weights are pickled), ``file_too_large`` for files of more
    than `most_bytes`, ``out_of_disk``.
    """
    with source_open(archive) as source:
        where = _where(source)
        found = {name: where + name for name in (*SAID, *WEIGHTS) if where + name in source.sizes}
        if pickled := [name for name in PICKLED if where + name in source.sizes]:
            raise refused(f"{pickled[0]} is a pickle, and reading one runs code: save it as safetensors.")
        if sum(source.sizes[name] for name in found.values()) > most_bytes:
            message = f"The adapter has more than the {most_bytes:,} bytes that are taken here."
            raise HmiError(ErrorCode.FILE_TOO_LARGE, message, param="archive", details={"limit": most_bytes})
        with room_left():
            folder.mkdir()
            for name, at in found.items():
                _copy(source, at, folder / name, MOST_BYTES if name in SAID else source.sizes[at])
    said = {name: object_of((folder / name).read_bytes(), name) for name in SAID if name in found}
    return said[CONFIG]


def _where(source: Source) -> str:
    """The folder of the configuration, with the slash: the archive's own, or the one folder in it."""
    places = [name.removesuffix(CONFIG) for name in source.sizes if f"/{name}".endswith(f"/{CONFIG}")]
    if len(places) != 1 or places[0].count("/") > 1:
        raise refused(f"This is no adapter's folder: {CONFIG} must be in it, once.")
    return places[0]


def _copy(source: Source, name: str, target: Path, most: int) -> None:
    """One file; a file can say that it is smaller than it is."""
    size = 0
    with reading(name):
        stream = source.open(name)
    with stream, target.open("xb") as out:
        while True:
            with reading(name):
                chunk = stream.read(CHUNK)
            if not chunk:
                return
            size += len(chunk)
            if size > most:
                raise refused(f"{name[:80]} is longer than it may be, or than it says.")
            out.write(chunk)
