"""Every route of the URL conf, and its address in the world of the walk."""

import re
from collections.abc import Iterator, Mapping

from django.urls import URLPattern, URLResolver, get_resolver, resolve

PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
NAMED_GROUP = re.compile(r"\(\?P(<\w+>)(?:[^()]|\([^()]*\))*\)")


def routes() -> Iterator[str]:
    """The whole pattern of each route, as `path()` writes it: `t/<slug:slug>/jobs/<uuid:pk>/`."""
    return _routes("", get_resolver().url_patterns)


def address(route: str, values: Mapping[str, object]) -> str:
    """The route with values for its parameters. A value is named by what stands before the parameter and
    by the parameter, `jobs/pk`, or by the parameter alone.
    """
    parts = route.split("/")
    for place, part in enumerate(parts):
        before = re.sub(PARAMETER, "", parts[place - 1]) if place else ""
        for name in PARAMETER.findall(part):
            value = values.get(f"{before}/{name}", values.get(name))
            parts[place] = PARAMETER.sub(str(value), parts[place], count=1)
    return "/" + "/".join(parts)


def route_of(path: str) -> str:
    """The route that leads to an address, as `routes` has it. Raises Resolver404."""
    return _plain(resolve(path).route)


def _plain(pattern: str) -> str:
    return NAMED_GROUP.sub(r"\1", pattern).replace("^", "").removesuffix("$")


def _routes(prefix: str, patterns: list[URLPattern | URLResolver]) -> Iterator[str]:
    for pattern in patterns:
        here = prefix + _plain(str(pattern.pattern))
        if isinstance(pattern, URLResolver):
            yield from _routes(here, pattern.url_patterns)
        else:
            yield here
