"""The exceptions of everything that reads texts and artifacts and computes with them."""


class HplmError(Exception):
    """An input or artifact that cannot be used. `code` is one of the product's error codes."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class DeviceLostError(Exception):
    """The device refuses everything from now on, as CUDA does after a fault in a kernel: only a new process
    can use it again."""
