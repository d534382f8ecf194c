"""The one exception of the science modules."""


class HplmError(Exception):
    """Input or artifact that cannot be used; `code` is a word of the product's error table."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"
