"""Where the demo's root comes from."""

from pathlib import Path

import pytest
from django.test import override_settings

from demo import tree
from demo.job_progress import DemoError


def test_the_packaged_weights_are_the_expected_ones() -> None:
    assert (Path(tree.demo_checkpoint()) / "model.safetensors").is_file()


def test_other_weights_under_that_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "CHECKPOINT_SHA256", "0" * 64)
    with pytest.raises(DemoError, match="has sha256 53aa51172d14"):
        tree.demo_checkpoint()


def test_a_root_of_one_s_own_may_be_named() -> None:
    with override_settings(HMI_DEMO_ROOT="someone/some-checkpoint"):
        assert tree.demo_checkpoint() == "someone/some-checkpoint"
