"""A Jinja environment for templates of unknown origin: what they may use is listed, and what it costs is
counted, so that no template takes unbounded time or memory."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from jinja2 import Template, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace
from jinja2.visitor import NodeTransformer
from markupsafe import Markup

from inference.text.template_filters import (
    check_format,
    format_text,
    join,
    metered_filters,
    metered_tests,
    replace,
    without_context,
)
from inference.text.template_work import STEP_COST, VALUE_COST, WorkExceeded, charge, iterate, length, spend

MAX_INTEGER: Final = 2**63
_CHARGE: Final = "_charge"
_ITERATE: Final = "_iterate"
REFUSED_NODES: Final = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends, nodes.Block)
TEXT_METHODS: Final = frozenset(
    {
        *("capitalize", "casefold", "count", "endswith", "find", "index", "isalnum", "isalpha", "isascii"),
        *("isdecimal", "isdigit", "islower", "isnumeric", "isspace", "istitle", "isupper", "join", "lower"),
        *("lstrip", "partition", "removeprefix", "removesuffix", "replace", "rfind", "rindex", "rpartition"),
        *("rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "swapcase", "title", "upper"),
    }
)
WIDENING_METHODS: Final = frozenset({"center", "ljust", "rjust", "zfill"})
METHODS: Final[Mapping[type, frozenset[str]]] = {
    str: TEXT_METHODS | WIDENING_METHODS,
    Markup: TEXT_METHODS,
    Cycler: frozenset({"next", "reset"}),
    dict: frozenset({"copy", "get", "items", "keys", "values"}),
    list: frozenset({"copy", "count", "index"}),
    LoopContext: frozenset({"changed", "cycle"}),
}


class Refused(Exception):
    """The template itself refuses what it is given."""


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """Compiles templates that are rendered within `limited_work`."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        """``functions``: what templates may call besides those that transformers gives them."""
        extensions = ["jinja2.ext.loopcontrols", _GenerationTag]
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=extensions, finalize=_output)
        self.filters = metered_filters()
        self.filters |= {_CHARGE: without_context(charge), _ITERATE: without_context(iterate)}
        self.tests = metered_tests()
        self.globals = {
            "range": _range,
            "dict": _dict,
            "cycler": Cycler,
            "joiner": Joiner,
            "namespace": _Variables,
            "raise_exception": _raise_exception,
            **functions,
        }

    def compile_metered(self, source: str) -> Template:
        """The template. Raises whatever jinja2 and Python raise for a source that cannot be compiled."""
        tree = _Meter().visit(self.parse(source))
        return self.from_string(tree.set_environment(self))

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a macro, one of the functions, or one of METHODS."""
        spend(STEP_COST)
        if isinstance(obj, Macro | Joiner) or any(obj is function for function in self.globals.values()):
            return super().call(context, obj, *args, **kwargs)
        method = getattr(obj, "__wrapped__", None)  # of jinja2's own str.format
        if getattr(method, "__name__", "") == "format":
            check_format(getattr(method, "__self__", ""), "{", args or kwargs)
            return super().call(context, obj, *args, **kwargs)
        receiver: Any = getattr(obj, "__self__", None)
        name = getattr(obj, "__name__", "")
        if name not in METHODS.get(type(receiver), ()):
            raise SecurityError(f"a template may not call {name or type(obj).__name__}")
        if isinstance(receiver, LoopContext | Cycler):
            return super().call(context, obj, *args, **kwargs)
        charge([args, kwargs] if isinstance(receiver, dict) else [receiver, args, kwargs])
        if name in WIDENING_METHODS:
            spend(int(args[0]))
        if name == "join":
            return join(args[0] if args else (), receiver)
        if name == "replace":
            return replace(receiver, *args, **kwargs)
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Numbers of a bounded size, and sums and multiples of texts and lists."""
        spend(VALUE_COST + length(left) + length(right))
        if operator == "*" and (count := left if isinstance(left, int) else right):
            spend(max(length(left), length(right)) * max(int(count), 0))
        elif operator == "**":
            raise SecurityError(f"a template may not use {operator} here")
        elif operator == "%" and isinstance(left, str):
            return format_text(left, right)
        result = super().call_binop(context, operator, left, right)
        if isinstance(result, int) and abs(result) > MAX_INTEGER:
            raise WorkExceeded
        return result


class _Variables(Namespace):
    """A namespace without names that begin with an underscore: those mean something to Python and jinja2."""

    def __init__(self, /, *args: Any, **variables: Any) -> None:
        super().__init__({_public(name): value for name, value in _dict(*args, **variables).items()})

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(_public(name), value)


def _public(name: str) -> str:
    if name.startswith("_"):
        raise SecurityError(f"a template may not name a variable {name[:64]}")
    return name


class _GenerationTag(Extension):
    """``{% generation %}`` marks what a training learns; a rendering gives its body as it is."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


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
            node.expr = _through(_CHARGE, node.expr)
            for operand in node.ops:
                operand.expr = _through(_CHARGE, operand.expr)
        return node


def _through(name: str, expression: nodes.Node) -> nodes.Filter:
    return nodes.Filter(expression, name, [], [], None, None, lineno=expression.lineno)


@pass_context
def _output(_: Context, value: Any) -> Any:
    return charge(value)


def _dict(*args: Any, **items: Any) -> dict[str, Any]:
    return dict(*charge(args), **items)


def _range(*bounds: int) -> range:
    values = range(*bounds)
    spend(min(len(values), MAX_INTEGER))
    return values


def _raise_exception(message: object) -> NoReturn:
    raise Refused(str(message))
