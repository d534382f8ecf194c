"""Numbers in messages and headers, as people write them."""


def plain_number(value: float) -> str:
    """At most three decimals and no exponent: `9.54e-07` is `0`, `1234.5` is `1234.5`."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def seconds_in_words(seconds: float) -> str:
    """`1.5 s`, `0.02 s`; `less than 0.001 s` of what would round to nothing."""
    return f"{plain_number(seconds)} s" if seconds >= 0.001 else "less than 0.001 s"
