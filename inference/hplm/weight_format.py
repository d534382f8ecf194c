"""The number formats of the upper layers' weights. Imports no PyTorch, which the web server does not load."""

from enum import StrEnum


class WeightFormat(StrEnum):
    """As HMI_WEIGHTS says it."""

    AUTO = "auto"
    """Float where the CPU multiplies bfloat16 natively; else int8, if it is faster and the root's conversion
    found little error."""
    FLOAT = "float"
    INT8 = "int8"
