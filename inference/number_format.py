"""Formats numbers for messages and headers."""


def format_number(value: float) -> str:
    """The number with at most three decimals and no exponent: `9.54e-07` is `0`, `1234.5` is `1234.5`."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def format_seconds(seconds: float) -> str:
    """`1.5 s`, `0.02 s`, or `less than 0.001 s`."""
    return f"{format_number(seconds)} s" if seconds >= 0.001 else "less than 0.001 s"
