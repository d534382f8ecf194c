"""Many arrays reach a device in one copy that nobody waits for."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from inference.hplm.upload import Upload
from tests.pretended_cuda import pretended_cuda

ARRAYS: list[NDArray[Any]] = [
    np.arange(5, dtype=np.int64),
    np.arange(3, dtype=np.int32),
    np.zeros((0, 1), np.float32),
    np.array([0.1, np.inf]),
    np.arange(12, dtype=np.float32).reshape(3, 4).T,
    np.array([True, False, True]),
]


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_tensors_on_the_device_equal_the_arrays(device: str) -> None:
    with pretended_cuda() as cuda:
        upload = Upload(torch.device(device))
        added = [upload.add(array) for array in ARRAYS]
        for array, tensor in zip(ARRAYS, [one.tensor for one in added], strict=True):
            assert str(tensor.device) == device
            assert torch.equal(tensor.cpu(), torch.from_numpy(array))
            assert tensor.cpu().dtype == torch.from_numpy(array).dtype
        to_device = [note for note in cuda.copies if "to the device" in note]
        assert len(to_device) == (device != "cpu")
        assert not any("to the device" in note for note in cuda.waits)


def test_arrays_that_are_added_later_are_copied_later() -> None:
    with pretended_cuda() as cuda:
        upload = Upload(torch.device("cuda:0"))
        first = upload.add(np.arange(3))
        assert first.tensor is first.tensor
        second = upload.add(np.arange(4))
        assert second.tensor.tolist() == [0, 1, 2, 3]
        assert sum("pinned" in note for note in cuda.copies) == 2
