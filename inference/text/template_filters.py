"""The filters and tests of chat templates: those of jinja2 that are named here, and some that check the size
of their result before they make it."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from jinja2 import pass_context
from jinja2.exceptions import SecurityError
from jinja2.nodes import EvalContext
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from inference.text.template_work import STEP_COST, charge, iterate, spend

CONSTANT_TIME_FILTERS: Final = ("attr", "length", "count", "first", "last", "default", "d")
FILTERS: Final = (
    *("abs", "capitalize", "dictsort", "filesizeformat", "float", "groupby", "int", "items", "list", "lower"),
    *("map", "max", "min", "reject", "rejectattr", "reverse", "select", "selectattr", "sort", "string"),
    *("title", "trim", "truncate", "unique", "upper", "wordcount"),
    *CONSTANT_TIME_FILTERS,
)
"""Those of jinja2 that templates have as they are. `random` is missing: an answer can be had again."""
LONGER: Final = {
    "e": 6,
    "escape": 6,
    "forceescape": 6,
    "pprint": 64,
    "urlencode": 12,
    "urlize": 64,
    "xmlattr": 8,
}
"""Those whose result may be so many times as long as what they are given."""
COMPARISONS: Final = (
    *("!=", "<", "<=", "==", ">", ">=", "eq", "equalto", "ge", "greaterthan", "gt", "in", "le", "lessthan"),
    *("lower", "lt", "ne", "upper"),
)
TESTS: Final = (
    *("boolean", "callable", "defined", "divisibleby", "escaped", "even", "false", "filter", "float"),
    *("integer", "iterable", "mapping", "none", "number", "odd", "sameas", "sequence", "string", "test"),
    *("true", "undefined", *COMPARISONS),
)
MAX_INDENT: Final = 64
MAX_DIGITS: Final = 64
"""Of a rounded number."""
MAX_WIDTH: Final = 1024
"""Of a formatted value."""
MAX_WIDTH_DIGITS: Final = 9
_JINJA: Final = ImmutableSandboxedEnvironment()
_EVALUATION: Final = EvalContext(_JINJA)


def metered_filters() -> dict[str, Callable[..., Any]]:
    """The filters by name."""
    own: dict[str, Callable[..., Any]] = {
        "batch": _batch,
        "center": _center,
        "format": lambda pattern, *args, **kwargs: format_text(pattern, kwargs or args),
        "indent": _indent,
        "join": join,
        "replace": replace,
        "round": _round,
        "safe": charge,
        "slice": _slice,
        "striptags": _striptags,
        "sum": _sum,
        "tojson": _to_json,
        "wordwrap": _wordwrap,
    }
    found = {name: without_context(function) for name, function in own.items()}
    return found | {name: _metered_filter(name) for name in (*FILTERS, *LONGER)}


def metered_tests() -> dict[str, Any]:
    """The tests by name."""
    tests: dict[str, Any] = {name: _JINJA.tests[name] for name in TESTS}
    return tests | {name: without_context(_metered_test(tests[name])) for name in COMPARISONS}


def without_context(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter or test that is never computed while the template is compiled, outside of `limited_work`."""

    @pass_context
    def run(_: Context, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return run


def _metered_filter(name: str) -> Callable[..., Any]:
    @pass_context
    def run(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
        spend(STEP_COST)
        if name not in CONSTANT_TIME_FILTERS:
            for _ in range(LONGER.get(name, 1)):
                charge([value, args, kwargs])
        result = _JINJA.call_filter(name, value, args, kwargs, context, context.eval_ctx)
        return iterate(result) if isinstance(result, Iterator) else result

    return run


def _metered_test(test: Callable[..., bool]) -> Callable[..., bool]:
    def run(*args: Any) -> bool:
        return test(*charge(args))

    return run


def join(values: Iterable[Any], separator: str = "", attribute: None = None) -> str:
    """The values as texts, one behind the other."""
    if attribute is not None:
        raise SecurityError("a template may not join attributes")
    texts = [str(charge(value)) for value in iterate(values)]
    spend(len(separator) * len(texts))
    return separator.join(texts)


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    """The text with ``new`` in the place of each ``old``."""
    charge([text, old, new])
    spend(text.count(old) * len(new))
    return text.replace(old, new, -1 if count is None else count)


def _indent(text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    margin = width if isinstance(width, str) else " " * min(width, MAX_INDENT)
    charge([text, margin])
    spend(text.count("\n") * len(margin))
    kwargs = {"width": margin, "first": first, "blank": blank}
    indented: str = _JINJA.call_filter("indent", text, (), kwargs)
    return indented


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as transformers' templates expect it: without HTML's escapes. It is charged while it is made."""
    if isinstance(indent, int):
        indent = min(indent, MAX_INDENT)
    charge([value, indent, separators])
    encoder = json.JSONEncoder(
        ensure_ascii=bool(ensure_ascii),
        indent=indent,
        separators=None if separators is None else (separators[0], separators[1]),
        sort_keys=bool(sort_keys),
    )
    return "".join(map(charge, encoder.iterencode(value)))


def format_text(pattern: str, values: Any) -> str:
    """The text with its `%` conversions replaced by the values."""
    check_format(pattern, "%", values)
    return str(pattern) % (tuple(values) if isinstance(values, list) else values)


def check_format(pattern: str, sign: str, values: Any) -> None:
    """Raises SecurityError for widths that are too large or are among the values. ``sign``: what begins the
    place of a value."""
    widths = _DIGITS.findall(pattern)
    if "*" in pattern or _NESTED.search(pattern) or any(map(_is_too_wide, widths)):
        raise SecurityError(f"a template may not format to more than {MAX_WIDTH:,} characters")
    charge([pattern, values])
    spend(pattern.count(sign) * (MAX_WIDTH + len(str(values))))


def _is_too_wide(digits: str) -> bool:
    return len(digits) > MAX_WIDTH_DIGITS or int(digits) > MAX_WIDTH


_NESTED: Final = re.compile(r":[^:{}]*\{")
_DIGITS: Final = re.compile(r"\d+")
"""`str.format` reads digits of any script."""


def _round(value: float, precision: int = 0, method: str = "common") -> float:
    if abs(precision) > MAX_DIGITS:
        raise SecurityError(f"a template may not round to more than {MAX_DIGITS} digits")
    rounded: float = _JINJA.call_filter("round", value, (precision, method))
    return rounded


def _center(value: Any, width: int = 80) -> str:
    spend(width)
    return str(charge(value)).center(width)


def _batch(value: Any, linecount: int, fill_with: Any = None) -> Iterator[Any]:
    spend(STEP_COST * linecount)
    return iterate(_JINJA.call_filter("batch", charge(value), (linecount, fill_with)))


def _slice(value: Any, slices: int, fill_with: Any = None) -> Iterator[Any]:
    spend(STEP_COST * slices)
    return iterate(_JINJA.call_filter("slice", charge(value), (slices, fill_with), None, None, _EVALUATION))


def _striptags(value: Any) -> str:
    text = str(charge(value))
    spend(len(text) * text.count("<"))
    stripped: str = _JINJA.call_filter("striptags", text)
    return stripped


def _sum(value: Any, attribute: str | int | None = None, start: Any = 0) -> Any:
    values = list(iterate(charge(value)))
    if isinstance(start, list) and attribute is None:  # each sum is a new list
        spend(len(values) * (len(start) + sum(map(len, values))))
    elif not isinstance(start, int | float):
        raise SecurityError("a template may only add numbers or lists")
    return _JINJA.call_filter("sum", values, (attribute, start))


def _wordwrap(text: str, width: int = 79, *args: Any, wrapstring: str | None = None, **kwargs: Any) -> str:
    charge([text, args, wrapstring])
    longest = max((len(each) for each in (*args, wrapstring) if isinstance(each, str)), default=1)
    spend(len(text) * (len(text) // max(width, 1) + longest))
    given = {**kwargs, "wrapstring": wrapstring} if wrapstring is not None else kwargs
    wrapped: str = _JINJA.call_filter("wordwrap", text, (width, *args), given)
    return wrapped
