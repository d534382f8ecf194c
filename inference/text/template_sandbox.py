"""A Jinja environment for templates of unknown origin: what they may use is listed, and what it costs is
counted, so that no template takes unbounded time or memory."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NoReturn

from jinja2 import Template, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

STEP_COST: Final = 64
"""Of an iteration or a call, in characters that could be copied instead."""
VALUE_COST: Final = 32
MAX_INTEGER: Final = 2**63

CONSTANT_TIME_FILTERS: Final = frozenset({"length", "count", "first", "last", "default", "d"})
FILTERS: Final = CONSTANT_TIME_FILTERS | {
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
    *("reverse", "round", "select", "selectattr", "sort", "string", "title", "trim", "unique", "upper"),
}
COMPARISONS: Final = frozenset({"!=", "==", "eq", "equalto", "in", "ne"})
TESTS: Final = COMPARISONS | {
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
    *("number", "odd", "sequence", "string", "true", "undefined"),
}
TEXT_METHODS: Final = frozenset(
    {
        *(
            "capitalize",
            "count",
            "endswith",
            "find",
            "isdigit",
            "isspace",
            "join",
            "lower",
            "lstrip",
            "partition",
        ),
        *("removeprefix", "removesuffix", "replace", "rfind", "rpartition", "rsplit", "rstrip", "split"),
        *("splitlines", "startswith", "strip", "title", "upper"),
    }
)
METHODS: Final[Mapping[type, frozenset[str]]] = {
    str: TEXT_METHODS,
    dict: frozenset({"get", "items", "keys", "values"}),
    list: frozenset({"count", "index"}),
    LoopContext: frozenset({"changed", "cycle"}),
}


class WorkExceeded(Exception):
    """The template does more than it may."""


class Refused(Exception):
    """The template itself refuses what it is given."""


class _Work:
    """What a rendering may still do."""

    def __init__(self, limit: int) -> None:
        self.left = limit

    def spend(self, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            raise WorkExceeded


_work: ContextVar[_Work] = ContextVar("_work")


@contextmanager
def limited_work(limit: int) -> Iterator[None]:
    """In here templates may do so much work together: as much as copying so many characters. Beyond it they
    raise WorkExceeded."""
    token = _work.set(_Work(limit))
    try:
        yield
    finally:
        _work.reset(token)


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """Compiles templates that are rendered within `limited_work`."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        """``functions``: what templates may call besides ``range``, ``namespace`` and ``raise_exception``."""
        extensions = ["jinja2.ext.loopcontrols", _GenerationTag]
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=extensions, finalize=_output)
        own = {"join": _join, "replace": _replace, "indent": _indent, "tojson": _to_json, "safe": _charge}
        self.filters = {name: _metered_filter(name) for name in FILTERS}
        self.filters |= {name: _without_context(function) for name, function in own.items()}
        self.filters |= {_CHARGE: _without_context(_charge), _ITERATE: _without_context(_iterate)}
        self.tests = {name: self.tests[name] for name in TESTS}
        self.tests |= {name: _metered_test(self.tests[name]) for name in COMPARISONS}
        self.globals = {
            "range": _range,
            "namespace": Namespace,
            "raise_exception": _raise_exception,
            **functions,
        }

    def compile_metered(self, source: str) -> Template:
        """The template. Raises whatever jinja2 and Python raise for a source that cannot be compiled."""
        tree = _Meter().visit(self.parse(source))
        return self.from_string(tree.set_environment(self))

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a macro, one of the functions, or one of METHODS."""
        _spend(STEP_COST)
        if isinstance(obj, Macro) or any(obj is function for function in self.globals.values()):
            return super().call(context, obj, *args, **kwargs)
        receiver, name = getattr(obj, "__self__", None), getattr(obj, "__name__", "")
        if name not in METHODS.get(type(receiver), ()):
            raise SecurityError(f"a template may not call {name or type(obj).__name__}")
        if isinstance(receiver, LoopContext):
            return super().call(context, obj, *args, **kwargs)
        _charge([args, kwargs] if isinstance(receiver, dict) else [receiver, args, kwargs])
        if name == "join":
            return _join(*args, receiver, **kwargs)
        if name == "replace":
            return _replace(receiver, *args, **kwargs)
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Numbers of a bounded size, and sums and multiples of texts and lists."""
        _spend(VALUE_COST + _length(left) + _length(right))
        if operator == "*" and (count := left if isinstance(left, int) else right):
            _spend(max(_length(left), _length(right)) * max(int(count), 0))
        elif operator == "**" or (operator == "%" and isinstance(left, str)):
            raise SecurityError(f"a template may not use {operator} here")
        result = super().call_binop(context, operator, left, right)
        if isinstance(result, int) and abs(result) > MAX_INTEGER:
            raise WorkExceeded
        return result


class _GenerationTag(Extension):
    """``{% generation %}`` marks what a training learns; a rendering gives its body as it is."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


_CHARGE: Final = "_charge"
_ITERATE: Final = "_iterate"


REFUSED_NODES: Final = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends, nodes.Block)


class _Meter(NodeTransformer):
    """Has the values that the compiled code copies, compares or iterates over go through the sandbox."""

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        """The node that takes its place."""
        self.generic_visit(node, *args, **kwargs)
        if isinstance(node, REFUSED_NODES) or (isinstance(node, nodes.For) and node.recursive):
            raise SecurityError(f"line {node.lineno}: a template may not use {type(node).__name__} here")
        if isinstance(node, nodes.TemplateData):
            return nodes.Const(node.data, lineno=node.lineno)
        if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice):
            return _through(_CHARGE, node)
        if isinstance(node, nodes.For):
            node.iter = _through(_ITERATE, node.iter)
        elif isinstance(node, nodes.Concat):
            node.nodes = [_through(_CHARGE, part) for part in node.nodes]
        elif isinstance(node, nodes.Compare):
            for operand in (node, *node.ops):
                operand.expr = _through(_CHARGE, operand.expr)
        return node


def _through(name: str, expression: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(expression, name, [], [], None, None, lineno=expression.lineno)


def _spend(cost: int) -> None:
    _work.get().spend(cost)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str | list | tuple | dict) else 0


def _charge(value: Any) -> Any:
    """Spend what copying the value as a text costs; the value."""
    pending = [value]
    while pending:
        one = pending.pop()
        _spend(VALUE_COST + _length(one))
        if isinstance(one, Namespace):
            raise SecurityError("a namespace is not text")
        if isinstance(one, range):
            _spend(len(one))
        elif isinstance(one, Mapping):
            pending += [*one.keys(), *one.values()]
        elif isinstance(one, Iterable) and not isinstance(one, str | Iterator | LoopContext):
            pending += one
    return value


def _iterate(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        _spend(STEP_COST)
        yield value


@pass_context
def _output(_: Context, value: Any) -> Any:
    return _charge(value)


def _without_context(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that is never computed while the template is compiled, outside of `limited_work`."""

    @pass_context
    def run(_: Context, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return run


def _metered_filter(name: str) -> Callable[..., Any]:
    """jinja2's own filter of this name."""

    @pass_context
    def run(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
        _spend(STEP_COST)
        if name not in CONSTANT_TIME_FILTERS:
            _charge([value, args, kwargs])
        result = _PLAIN.call_filter(name, value, args, kwargs, context, context.eval_ctx)
        return _iterate(result) if isinstance(result, Iterator) else result

    return run


def _metered_test(test: Callable[..., bool]) -> Callable[..., bool]:
    @pass_context
    def run(_: Context, *args: Any) -> bool:
        return test(*_charge(args))

    return run


_PLAIN: Final = ImmutableSandboxedEnvironment()


def _join(values: Iterable[Any], separator: str = "", attribute: None = None) -> str:
    if attribute is not None:
        raise SecurityError("a template may not join attributes")
    texts = [str(_charge(value)) for value in _iterate(values)]
    _spend(len(separator) * len(texts))
    return separator.join(texts)


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    _charge([text, old, new])
    _spend(text.count(old) * len(new))
    return text.replace(old, new, -1 if count is None else count)


def _indent(text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    margin = width if isinstance(width, str) else " " * min(width, MAX_INDENT)
    _charge([text, margin])
    _spend(text.count("\n") * len(margin))
    kwargs = {"width": margin, "first": first, "blank": blank}
    indented: str = _PLAIN.call_filter("indent", text, (), kwargs)
    return indented


MAX_INDENT: Final = 64


def _to_json(value: Any, ensure_ascii: bool = False, sort_keys: bool = False) -> str:
    """JSON as transformers' templates expect it: without HTML's escapes."""
    written = json.dumps(_charge(value), ensure_ascii=ensure_ascii, sort_keys=sort_keys)
    return str(_charge(written))


def _range(*bounds: int) -> range:
    values = range(*bounds)
    _spend(min(len(values), MAX_INTEGER))
    return values


def _raise_exception(message: object) -> NoReturn:
    raise Refused(str(message))
