"""The site hands its number format to the inference worker: what one takes the other must know."""

import os
import subprocess
import sys

import pytest
import torch

from inference.hplm.devices import pick_dtype
from tests.processes import CHECKOUT

TOLD = "from hmi_site import settings; print(settings.HMI_DTYPE)"


@pytest.mark.parametrize("name", ["auto", "bfloat16", "float16", "float32"])
def test_every_number_format_is_taken_by_the_site_and_by_the_worker(name: str) -> None:
    env = {**os.environ, "HMI_DTYPE": name}
    told = subprocess.run(
        [sys.executable, "-c", TOLD], cwd=CHECKOUT, env=env, capture_output=True, text=True, check=False
    )
    assert told.stdout.strip() == name, told.stderr
    assert pick_dtype(name, torch.device("cpu")).is_floating_point
