"""How long the server takes for each page and each list of the API in a large tenant: 10,000 models, 1,000
jobs and 100,000 rows of usage, all of one tenant, and 20,000 stored answers of one version; and for each list
of the administration.

The product is started in a home of its own, as `make up` does it; the pages are asked for in this process, by
Django's test client, with all of the middleware but without a network, round by round. Ids in addresses are
those of what is there; what an address does besides (a download, a search) is in its name.

    python -m benchmarks.product.pages
"""

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from rich.console import Console

from benchmarks import harness
from benchmarks.result_cache import bench_dir

HPLMS, JOBS, USAGE, DATA = 10_000, 1_000, 100_000, 1_000
QUICK = 20
REPEATS, QUICK_REPEATS = 15, 5
SLOW_MS: Final = 200.0
KEPT = ("HMI_BENCH_DIR", "HMI_POSTGRES_BIN", "HMI_REDIS_BIN")
OURS = ("HMI_", "DATABASE_URL", "REDIS_URL", "DJANGO_")
PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
ADMINS = ("/admin/", "/serving/")
ADMIN_PAGES = ("admin/", "serving/")
ADMIN_LIST = re.compile(r"admin/\w+/\w+/")
SEARCHES = (
    "tree/?q=crowd",
    "models/?q=crowd-09",
    "models/?page=400",
    "models/?health=failing",
    "models/?sort=newest&task=classification",
    "data/?q=crowd&sort=largest",
    "jobs/?q=crowd",
    "usage/?by=model",
    "domains/new/?find_corpus=crowd",
)


@dataclass(frozen=True, slots=True)
class Spent:
    """Milliseconds of one answer: from request to response, and those of them that Python computed for, which
    others who use the machine disturb less; the rest is PostgreSQL's."""

    whole: float
    python: float


def main(argv: Sequence[str] | None = None) -> int:
    """Start the product, fill it, measure, print the table."""
    parser = harness.arguments(__doc__ or "")
    parser.add_argument("--repeats", type=int, help="of every page")
    parser.add_argument("--only", default="", help="addresses with this in them")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(dir=bench_dir(), prefix="pages-") as home:
        _surround(Path(home))
        report = _measure(Path(home), options)
    print(harness.markdown_table(report.rows))
    print({name: round(value, 1) for name, value in report.figures.items()})
    if options.json:
        harness.write_json(report, options.json)
    return 0


def _surround(home: Path) -> None:
    """Let nothing of this installation's own environment into the product that is started."""
    for name in [name for name in os.environ if name.startswith(OURS) and name not in KEPT]:
        del os.environ[name]
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "hmi_site.settings",
        "HMI_HOME": str(home / "home"),
        "HMI_CORPUS_MIN_WORDS": "0",
        "HMI_ALLOWED_HOSTS": "testserver,localhost,127.0.0.1",
    }


def _measure(home: Path, options: argparse.Namespace) -> harness.Report:
    import django

    django.setup()
    # These read the settings, which are known only now.
    from benchmarks.serving.over_http.large import fill_large
    from hmi_site.launcher.stack import Stack

    share = QUICK if options.quick else 1
    sizes = {"hplms": HPLMS, "jobs": JOBS, "usage": USAGE, "data": DATA}
    sizes = {name: count // share for name, count in sizes.items()}
    repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    with Stack(Console(stderr=True)):
        world = fill_large(home / "scratch", **sizes)
        pages, left_out = _addresses(world.places)
        print("Not asked for, as nothing stands for a parameter of theirs:", *left_out or ["none"])
        asked = {page: world.admin if page.startswith(ADMINS) else world.owner for page in pages}
        found = _times({page: who for page, who in asked.items() if options.only in page}, repeats)
        return harness.Report("pages", {"repeats": repeats, **sizes}, _rows(found), _figures(found))
    raise SystemExit("It was stopped before its end.")


def _times(pages: Mapping[str, Any], repeats: int) -> Mapping[str, list[Spent]]:
    """What each page took, asked for by its client, after a first round that is not counted; those left out
    that were none then: buttons, and files of which there was nothing yet."""
    found: dict[str, list[Spent]] = {page: [] for page, client in pages.items() if _answer(client, page)}
    for _ in range(repeats):
        for page, times in found.items():
            before, computed = time.perf_counter(), time.thread_time()
            _answer(pages[page], page)
            times.append(Spent(1000 * (time.perf_counter() - before), 1000 * (time.thread_time() - computed)))
    return found


def _answer(client: Any, page: str) -> bool:
    """Whether there is such a page; of a stream its beginning is awaited."""
    answer = client.get(page)
    if answer.streaming:
        next(iter(answer.streaming_content), b"")
    answer.close()
    return bool(answer.status_code == 200)


def _rows(found: Mapping[str, Sequence[Spent]]) -> list[dict[str, Any]]:
    """The slowest first."""
    rows = [
        {
            "page": page,
            "median ms": median(one.whole for one in times),
            "p95 ms": quantiles([one.whole for one in times], n=20)[-1],
            "Python ms": median(one.python for one in times),
        }
        for page, times in found.items()
    ]
    return sorted(rows, key=lambda row: -row["median ms"])


def _figures(found: Mapping[str, Sequence[Spent]]) -> dict[str, float]:
    medians = [median(one.whole for one in times) for times in found.values()]
    return {
        "pages": len(medians),
        "median_ms": median(medians),
        "slowest_ms": max(medians),
        "over_200_ms": sum(one > SLOW_MS for one in medians),
    }


def _addresses(places: Mapping[str, object]) -> tuple[list[str], list[str]]:
    """Every route of a tenant's pages and of its API, with ids of what is there, some searches, and the lists
    of the administration; and the routes that have a parameter without a value."""
    from django.urls import URLPattern, URLResolver, get_resolver

    def routes(prefix: str, patterns: Sequence[URLPattern | URLResolver]) -> Iterator[str]:
        for pattern in patterns:
            here = prefix + str(pattern.pattern)
            if isinstance(pattern, URLResolver):
                yield from routes(here, pattern.url_patterns)
            else:
                yield here

    every = list(routes("", get_resolver().url_patterns))
    ours = [route for route in every if route.startswith(("t/<slug:slug>/", "api/v1/tenants/<slug:tenant>"))]
    searches = [f"t/<slug:slug>/{search}" for search in SEARCHES]
    lists = [route for route in every if route in ADMIN_PAGES or ADMIN_LIST.fullmatch(route)]
    filled = {route: _filled(route, places) for route in [*ours, *searches, *lists]}
    left_out = [route for route, address in filled.items() if not address]
    return list(dict.fromkeys(address for address in filled.values() if address)), left_out


def _filled(route: str, places: Mapping[str, object]) -> str:
    """The route with a value for each parameter, by what stands before it and its name or by the name alone;
    nothing where one has none."""
    parts = route.split("/")
    for place, part in enumerate(parts):
        before = PARAMETER.sub("", parts[place - 1]) if place else ""
        for name in PARAMETER.findall(part):
            value = places.get(f"{before}/{name}", places.get(name))
            if value is None:
                return ""
            parts[place] = PARAMETER.sub(str(value), parts[place], count=1)
    return "/" + "/".join(parts)


if __name__ == "__main__":
    sys.exit(main())
