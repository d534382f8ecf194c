"""Where the checkpoints of the demo's roots come from."""

from dataclasses import replace
from pathlib import Path

import pytest
from django.test import override_settings

from demo.checkpoints import DECODER, ENCODER, decoder_checkpoint, encoder_checkpoint
from demo.job_progress import DemoError


def test_the_packaged_weights_are_the_expected_ones() -> None:
    assert (Path(encoder_checkpoint()) / "model.safetensors").is_file()
    assert Path(decoder_checkpoint()).suffix == ".gguf"


def test_other_weights_under_that_name_are_refused() -> None:
    with pytest.raises(DemoError, match="has sha256 53aa51172d14"):
        replace(ENCODER, sha256="0" * 64).path()


def test_a_package_without_the_weights_is_refused() -> None:
    with pytest.raises(DemoError, match=r"other\.gguf cannot be read: No such file"):
        replace(DECODER, file="other.gguf").path()


def test_a_package_that_is_not_there_is_named() -> None:
    with pytest.raises(DemoError, match="no_such_weights is not installed"):
        replace(DECODER, package="no_such_weights").path()


def test_roots_of_one_s_own_may_be_named() -> None:
    with override_settings(HMI_DEMO_ROOT="someone/encoder", HMI_DEMO_DECODER="someone/decoder"):
        assert (encoder_checkpoint(), decoder_checkpoint()) == ("someone/encoder", "someone/decoder")
