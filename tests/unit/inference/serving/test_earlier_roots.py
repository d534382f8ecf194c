"""A root with what earlier versions measured for int8 weights is served like any other."""

import shutil
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file

from inference.manifest import ManifestWatcher
from inference.serving.encoder_catalogue import EncoderCatalogue, identity_of
from tests.unit.tiny_world import place, tiny_world


def test_a_root_with_int8_ranges_is_verified_and_served(tmp_path: Path) -> None:
    plain = tiny_world(tmp_path / "artifacts", hplms=2)
    folder = shutil.copytree(plain.folder("root", plain.root_digest), tmp_path / "measured")
    plain.root.save(folder, {"int8": {"unexplained": 0.006}})
    save_file({"unexplained": torch.tensor([0.006])}, folder / "int8.safetensors")
    world = replace(plain, root_digest=place(plain.artifact_root, "root", folder))
    watcher = ManifestWatcher(world.publish())
    catalogue = EncoderCatalogue(watcher, device=torch.device("cpu"), dtype=torch.float32)
    catalogue.refresh()
    assert world.root_digest != plain.root_digest
    assert [*catalogue.executors] == [world.root_digest]
    for served in catalogue.manifest.hplms.values():
        assert catalogue.route(identity_of(served)).executor.root.number_format == "float32"
