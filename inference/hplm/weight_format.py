"""The number formats of the upper layers' weights. Imports no PyTorch, which the web server does not load."""

from enum import StrEnum


class WeightFormat(StrEnum):
    """As HMI_WEIGHTS says it."""

    AUTO = "auto"
    """Int8 where it is faster and a root's conversion found little error; else float."""
    FLOAT = "float"
    INT8 = "int8"
