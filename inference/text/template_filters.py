"""The filters and tests of chat templates: those of jinja2 that are named here, and some that check the size
of their result before they make it."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from jinja2 import pass_context
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from inference.text.template_work import STEP_COST, charge, iterate, spend

CONSTANT_TIME_FILTERS: Final = ("length", "count", "first", "last", "default", "d")
FILTERS: Final = (
    *(
        "abs",
        "capitalize",
        "dictsort",
        "float",
        "int",
        "items",
        "list",
        "lower",
        "map",
        "reject",
        "rejectattr",
    ),
    *("reverse", "select", "selectattr", "sort", "string", "title", "trim", "unique", "upper"),
    *CONSTANT_TIME_FILTERS,
)
"""Those of jinja2 that templates have."""
COMPARISONS: Final = ("!=", "==", "eq", "equalto", "in", "ne")
TESTS: Final = (
    *(
        "boolean",
        "defined",
        "divisibleby",
        "even",
        "false",
        "float",
        "integer",
        "iterable",
        "mapping",
        "none",
    ),
    *("number", "odd", "sequence", "string", "true", "undefined", *COMPARISONS),
)
MAX_INDENT: Final = 64
_JINJA: Final = ImmutableSandboxedEnvironment()


def metered_filters() -> dict[str, Callable[..., Any]]:
    """The filters by name."""
    own: dict[str, Callable[..., Any]] = {
        "join": join,
        "replace": replace,
        "indent": _indent,
        "tojson": _to_json,
        "safe": charge,
    }
    found = {name: without_context(function) for name, function in own.items()}
    return found | {name: _metered_filter(name) for name in FILTERS}


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


def _to_json(value: Any, ensure_ascii: bool = False, sort_keys: bool = False) -> str:
    """JSON as transformers' templates expect it: without HTML's escapes."""
    written = json.dumps(charge(value), ensure_ascii=ensure_ascii, sort_keys=sort_keys)
    return str(charge(written))
