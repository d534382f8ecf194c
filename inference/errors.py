"""The exceptions of everything that reads texts and artifacts and computes with them."""

from pathlib import Path


class HplmError(Exception):
    """An input or artifact that cannot be used. `code` is one of the product's error codes."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class DeviceUnavailableError(HplmError):
    """The device cannot be used now: it is lost, busy, or its driver does not fit. A process that is started
    later may find it."""

    def __init__(self, message: str) -> None:
        super().__init__("internal", message)


def reason(error: Exception) -> str:
    """What went wrong. An OSError names the file's whole path on the server: here only the file's name."""
    if not isinstance(error, OSError):
        return str(error)
    file = f"{Path(error.filename).name}: " if isinstance(error.filename, str) else ""
    return f"{file}{error.strerror or type(error).__name__}"


class DeviceLostError(Exception):
    """The device refuses everything from now on, as CUDA does after a fault in a kernel: only a new process
    can use it again."""
