"""The folder of an adapter that `peft` or `adapters` saved elsewhere, as a folder or a zip file of it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from tenants.base.disk import disk_full_errors
from versiontree.transfer.archive.layout import refused
from versiontree.transfer.archive.reader import CHUNK
from versiontree.transfer.archive.sources import Source, reading, sizes_check, source_open
from versiontree.transfer.archive.strict_json import object_of

CONFIG: Final = "adapter_config.json"
SAID: Final = (CONFIG, "head_config.json", "config.json")
WEIGHTS: Final = ("adapter_model.safetensors", "adapter.safetensors", "model_head.safetensors")
PICKLED: Final = ("adapter_model.bin", "pytorch_adapter.bin", "pytorch_model_head.bin", "pytorch_model.bin")
SAID_BYTES: Final = 1024**2
"""Of each of the files of JSON: they have some kilobytes."""
NUMBER_BYTES: Final = 4
MAX_RANK: Final = 256
MAX_WIDTH: Final = 1024
MAX_OUTPUTS: Final = 2048
"""What a model can have, see `inference.hplm.hplm`."""
BESIDE_BYTES: Final = 4 * 1024**2
"""For names, and for biases and normalisations that belong to no layer."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """One that is open: `places` of its files in the source by their plain names, and the bytes that they
    claim to have."""

    source: Source
    places: Mapping[str, str]
    size: int

    def unpack(self, folder: Path) -> None:
        """Write its files into a new `folder`. Raises ``invalid_archive`` for one that is not what it claims,
        ``out_of_disk``."""
        with disk_full_errors():
            folder.mkdir()
            for name, at in self.places.items():
                _copy(self.source, at, folder / name, self.source.sizes[at])
        for name in SAID:
            if name in self.places:
                object_of((folder / name).read_bytes(), name)


@contextmanager
def adapter_open(archive: Path | IO[bytes], *, most_bytes: int) -> Iterator[Adapter]:
    """Find the files that make the adapter, without reading any. Others are left where they are.

    Raises ``invalid_archive`` (it is none, its weights are pickled, or it would unpack to many times its
    size), ``file_too_large`` for files of more than `most_bytes`.
    """
    with source_open(archive) as source:
        where = _where(source)
        places = {name: where + name for name in (*SAID, *WEIGHTS) if where + name in source.sizes}
        if pickled := [name for name in PICKLED if where + name in source.sizes]:
            raise refused(f"{pickled[0]} is a pickle, and reading one runs code: save it as safetensors.")
        for name in SAID:
            if source.sizes.get(where + name, 0) > SAID_BYTES:
                raise refused(f"{name} is longer than {SAID_BYTES:,} bytes.", limit=SAID_BYTES)
        yield Adapter(source, places, sizes_check(source, places.values(), most_bytes=most_bytes))


def largest_adapter(root: Mapping[str, Any]) -> int:
    """Bytes of the largest adapter for a root of this configuration (the content of `root.json`): the highest
    rank, or the greatest width, in all layers, and a head of the most outputs with a layer before it."""
    shape = root["architecture"]
    hidden, inner, layers = (int(shape[name]) for name in ("hidden", "inner", "layers"))
    lora = MAX_RANK * (4 * 2 * hidden + 2 * (hidden + inner))
    bottleneck = 2 * (2 * MAX_WIDTH * hidden + MAX_WIDTH + hidden)
    shifts = 10 * hidden + inner
    head = MAX_OUTPUTS * (hidden + 1) + 2 * (hidden + 1) * hidden
    return NUMBER_BYTES * (layers * (max(lora, bottleneck) + shifts) + head) + BESIDE_BYTES


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
                raise refused(f"{name[:80]} is longer than it says.")
            out.write(chunk)
