"""Read an adapter that `peft` or `adapters` saved, from a folder or a zip file of it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from tenants.base.disk import disk_full_errors
from versiontree.transfer.archive.layout import invalid_archive, json_object
from versiontree.transfer.archive.sources import Source, files_check, member_copy, source_open

CONFIG: Final = "adapter_config.json"
CONFIG_FILES: Final = (CONFIG, "head_config.json", "config.json")
WEIGHTS: Final = ("adapter_model.safetensors", "adapter.safetensors", "model_head.safetensors")
PICKLED: Final[Mapping[str, tuple[str, ...]]] = {
    "adapter_model.bin": ("adapter_model.safetensors",),
    "pytorch_adapter.bin": ("adapter.safetensors",),
    "pytorch_model_head.bin": ("model_head.safetensors",),
    "pytorch_model.bin": WEIGHTS,
}
"""Pickled weights, and the files that are read instead if they are beside them."""
MAX_CONFIG_BYTES: Final = 1024**2
"""The limit of each JSON file. They usually have some kilobytes."""
NUMBER_BYTES: Final = 4
MAX_RANK: Final = 256
MAX_WIDTH: Final = 1024
MAX_OUTPUTS: Final = 2048
"""The limits of a model, see `inference.hplm.hplm`."""
EXTRA_BYTES: Final = 4 * 1024**2
"""Allowed for names, and for biases and norms outside the layers."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """An open adapter. `names`: its files in the source. `size`: their declared size."""

    source: Source
    names: tuple[str, ...]
    size: int

    def unpack(self, folder: Path) -> None:
        """Write its files into a new `folder`.

        Raises ``invalid_archive`` if a file is larger than its declared size, ``out_of_disk``.
        """
        with disk_full_errors():
            folder.mkdir()
            for name in self.names:
                member_copy(self.source, name, folder / name)
        for name in CONFIG_FILES:
            if name in self.names:
                json_object((folder / name).read_bytes(), name)


@contextmanager
def adapter_open(archive: Path | IO[bytes], *, max_bytes: int) -> Iterator[Adapter]:
    """Find the files of an adapter without reading them, in whatever folder they are. Others are ignored.

    Raises ``invalid_archive`` (not an adapter, pickled weights, too high a compression ratio), and
    ``file_too_large`` for files of more than `max_bytes`.
    """
    with source_open(archive) as source:
        source.enter_folder_of(CONFIG)
        sizes = source.sizes
        names = tuple(name for name in (*CONFIG_FILES, *WEIGHTS) if name in sizes)
        for pickled, instead in PICKLED.items():
            if pickled in sizes and not sizes.keys() & instead:
                raise invalid_archive(
                    f"{pickled} is a pickle file, which can run code. Save it as safetensors."
                )
        for name in CONFIG_FILES:
            if sizes.get(name, 0) > MAX_CONFIG_BYTES:
                raise invalid_archive(
                    f"{name} is larger than {MAX_CONFIG_BYTES:,} bytes.", limit=MAX_CONFIG_BYTES
                )
        yield Adapter(source, names, files_check(source, names, max_bytes=max_bytes))


def largest_lora(decoder: Mapping[str, Any]) -> int:
    """Bytes of the largest LoRA for a decoder with this `decoder.json`: all projections, the highest rank."""
    shape = decoder["architecture"]
    hidden, inner, layers = (int(shape[name]) for name in ("hidden", "inner", "layers"))
    queries, keys = (int(shape[name]) * int(shape["head_size"]) for name in ("heads", "kv_heads"))
    attention = 2 * (hidden + queries) + 2 * (hidden + keys)
    return NUMBER_BYTES * layers * MAX_RANK * (attention + 3 * (hidden + inner)) + EXTRA_BYTES


def largest_adapter(root: Mapping[str, Any]) -> int:
    """Bytes of the largest adapter for an encoder with this `root.json`.

    It has the highest rank or the greatest width in all layers, and a head with the most outputs.
    """
    shape = root["architecture"]
    hidden, inner, layers = (int(shape[name]) for name in ("hidden", "inner", "layers"))
    lora = MAX_RANK * (4 * 2 * hidden + 2 * (hidden + inner))
    bottleneck = 2 * (2 * MAX_WIDTH * hidden + MAX_WIDTH + hidden)
    shifts = 10 * hidden + inner
    head = MAX_OUTPUTS * (hidden + 1) + 2 * (hidden + 1) * hidden
    return NUMBER_BYTES * (layers * (max(lora, bottleneck) + shifts) + head) + EXTRA_BYTES
