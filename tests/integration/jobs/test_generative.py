"""Jobs below a decoder root, on a tiny decoder."""

from pathlib import Path

import pytest

from inference.decoder.root import DecoderRoot
from tests.integration.jobs.world import World, store
from tests.integration.versiontree.tree_factory import jobs_in_order
from tests.unit.tiny_decoder import tiny_decoder_folder
from versiontree.tree.models import RootKind, Version
from versiontree.tree.services.roots import root_register
from workers.runner import run_job


@pytest.fixture
def decoder(world: World, tmp_path: Path) -> Version:
    """A decoder whose job has run."""
    source = tiny_decoder_folder(tmp_path / "decoder")
    version = root_register(
        name="smol", kind=RootKind.DECODER, source=str(source), lower_layers=1, actor=world.staff
    )
    run_job(jobs_in_order(version)[0].pk)
    version.refresh_from_db()
    return version


def test_a_decoder_is_copied_to_a_root_that_can_be_loaded(decoder: Version) -> None:
    (convert,) = jobs_in_order(decoder)
    assert (convert.state, convert.progress, decoder.state) == ("succeeded", 1.0, "ready")
    found = convert.metrics
    assert (found["family"], found["layers"], found["lower_layers"]) == ("llama", 3, 1)
    store().verify("root", decoder.digest)
    root = DecoderRoot.load(store().path("root", decoder.digest))
    assert (root.config.name, root.config.lower_layers) == ("smol", 1)
    assert root.chat_template


def test_a_cut_above_all_layers_fails_the_job_with_the_reason(world: World, tmp_path: Path) -> None:
    source = str(tiny_decoder_folder(tmp_path / "decoder"))
    version = root_register(
        name="deep", kind=RootKind.DECODER, source=source, lower_layers=3, actor=world.staff
    )
    (convert,) = jobs_in_order(version)
    run_job(convert.pk)
    convert.refresh_from_db()
    assert (convert.state, convert.error_code) == ("failed", "unsupported_checkpoint")
    assert "at least one must be above the cut" in convert.error_message
