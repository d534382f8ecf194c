"""What a tenant reads of a job that failed."""

import errno
import subprocess
import sys
from pathlib import Path

import duckdb
import lmdb
import pytest
import torch
from safetensors import SafetensorError

from inference.errors import HplmError
from tenants.base.errors import ErrorCode, HmiError
from workers.failures import failure_from


def raised_from(cause: BaseException) -> BaseException:
    """An error of our own that came from another."""
    try:
        try:
            raise cause
        except BaseException as error:
            raise RuntimeError("the batch failed") from error
    except RuntimeError as error:
        return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "out_of_disk"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "out_of_disk"),
        (lmdb.DiskError("/x: No space left on device"), "out_of_disk"),
        (duckdb.IOException("IO Error: Could not write: No space left on device"), "out_of_disk"),
        (SafetensorError(f"I/O error: it did not work (os error {errno.EDQUOT})"), "out_of_disk"),
        (raised_from(OSError(errno.ENOSPC, "No space left on device")), "out_of_disk"),
        (MemoryError(), "out_of_memory"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "out_of_memory"),
        (torch.OutOfMemoryError("CUDA out of memory"), "out_of_memory"),
        (duckdb.OutOfMemoryException("Out of Memory Error: failed to pin block"), "out_of_memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "out_of_memory"),
        (
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
            "out_of_memory",
        ),
        (raised_from(MemoryError()), "out_of_memory"),
        (HplmError("training_diverged", ""), "training_diverged"),
        (HplmError("corpus_too_small", "The corpus has 3 texts; at least 8 are needed."), "corpus_too_small"),
        (HmiError(ErrorCode.NOT_FOUND, "gone"), "not_found"),
        (ValueError("No space left on device"), "job_crashed"),
        (HplmError("something_new", "what is this"), "job_crashed"),
    ],
)
def test_causes_are_told_apart(error: BaseException, code: str) -> None:
    assert failure_from(error).code == code


def test_a_tenant_reads_what_to_do_and_no_internals() -> None:
    for error in (MemoryError(), OSError(errno.ENOSPC, "x"), HplmError("training_diverged", "")):
        message = failure_from(error).message
        assert message.endswith(".")
        assert not {"errno", "Error", "NaN", "CUDA"} & set(message.split())
    assert failure_from(HplmError("corpus_too_small", "It has 3 texts.")).message == "It has 3 texts."


def test_unexpected_error_shows_no_content_and_its_traceback_can_be_stored() -> None:
    failure = failure_from(ValueError("a tenant's text \0 \ud83d"))
    assert "tenant's text" not in failure.message
    assert "\0" not in failure.traceback
    failure.traceback.encode()


def test_long_traceback_is_trimmed() -> None:
    def deeper(depth: int) -> None:
        if depth == 0:
            raise ValueError("x" * 20_000)
        deeper(depth - 1)

    with pytest.raises(ValueError, match="x") as caught:
        deeper(200)
    assert len(failure_from(caught.value).traceback) <= 8_000


def test_memory_error_of_torch_is_out_of_memory() -> None:
    """The real error, of asking for more than any machine has."""
    program = (
        "import torch\n"
        "from workers.failures import failure_from\n"
        "try:\n    torch.empty(2**46)\n"
        "except Exception as error:\n    print(failure_from(error).code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    assert done.stdout.strip() == "out_of_memory"
