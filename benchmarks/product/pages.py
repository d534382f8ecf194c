"""How long the server takes for each page and each list of the API in a large tenant: 10,000 models, 1,000
jobs and 100,000 rows of usage, all of one tenant, and 20,000 stored answers of one version; and for each page
of the administration. Then each page is opened in headless Chromium, where axe-core looks for serious faults.

The product is started in a home of its own, as `make up` does it; the pages are asked for in this process, by
Django's test client, with all of the middleware but without a network, round by round. Addresses come from
the routes, with ids of what is there; what an address does besides (a download, a search) is in its name.

    python -m benchmarks.product.pages
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from rich.console import Console

from benchmarks import harness
from benchmarks.product.page_faults import AxeBrowser
from benchmarks.result_cache import bench_dir

HPLMS, JOBS, USAGE, DATA = 10_000, 1_000, 100_000, 1_000
QUICK = 20
REPEATS, QUICK_REPEATS = 15, 5
SLOW_MS: Final = 200.0
NO_PAGES: Final = (HTTPStatus.FOUND, HTTPStatus.FORBIDDEN, HTTPStatus.METHOD_NOT_ALLOWED)
"""What leads on, what administrators cannot do either, and buttons."""


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
    parser.add_argument("--no-axe", action="store_true", help="do not open the pages in Chromium")
    options = parser.parse_args(argv)
    browser = None if options.no_axe else AxeBrowser.find()
    with tempfile.TemporaryDirectory(dir=bench_dir(), prefix="pages-") as home:
        harness.become_product(Path(home), HMI_ALLOWED_HOSTS="testserver,localhost,127.0.0.1")
        report = _measure(Path(home), options, browser)
    harness.publish(report, options)
    return 0


def _measure(home: Path, options: argparse.Namespace, browser: AxeBrowser | None) -> harness.Report:
    import django

    django.setup()
    # These read the settings, which are known only now.
    from benchmarks.product.page_addresses import needs_admin, page_addresses
    from benchmarks.serving.over_http.large import fill_large
    from hmi_site.launcher.stack import Stack

    share = QUICK if options.quick else 1
    sizes = {"hplms": HPLMS, "jobs": JOBS, "usage": USAGE, "data": DATA}
    sizes = {name: count // share for name, count in sizes.items()}
    repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    with Stack(Console(stderr=True)) as stack:
        world = fill_large(home / "scratch", **sizes)
        addresses, left_out = page_addresses(world.places)
        print("Not asked for, as nothing stands for a parameter of theirs:", *left_out or ["none"])
        clients = {
            address: world.admin if needs_admin(address) else world.owner
            for address in addresses
            if options.only in address
        }
        spent, pages = _times(clients, repeats)
        faults = {} if browser is None else _faults(browser, stack.url, clients, pages)
        found = [f"{page}: {fault}" for page, some in faults.items() for fault in some]
        figures = _figures(spent) | ({} if browser is None else {"serious_axe": len(found)})
        return harness.Report("pages", {"repeats": repeats, **sizes}, _rows(spent), figures, found)
    raise SystemExit("It was stopped before its end.")


def _times(clients: Mapping[str, Any], repeats: int) -> tuple[Mapping[str, list[Spent]], list[str]]:
    """What each address took, asked for by its client, after a first round that is not counted, and those of
    whole pages. Files of which there is nothing yet are left out and named."""
    first = {address: _answer(client, address) for address, client in clients.items()}
    others = [
        f"{address} ({status})"
        for address, (status, _) in first.items()
        if status not in (HTTPStatus.OK, *NO_PAGES)
    ]
    print("Not measured, for the status of their answers:", *others or ["none"])
    found: dict[str, list[Spent]] = {
        address: [] for address, (status, _) in first.items() if status == HTTPStatus.OK
    }
    for _ in range(repeats):
        for address, times in found.items():
            before, computed = time.perf_counter(), time.thread_time()
            _answer(clients[address], address)
            times.append(Spent(1000 * (time.perf_counter() - before), 1000 * (time.thread_time() - computed)))
    return found, [address for address in found if first[address][1]]


def _answer(client: Any, address: str) -> tuple[int, bool]:
    """The status, and whether it is a whole page; of a stream its beginning is awaited."""
    answer = client.get(address)
    if answer.streaming:
        next(iter(answer.streaming_content), b"")
    is_page = not answer.streaming and b"<html" in answer.content[:1000]
    answer.close()
    return answer.status_code, is_page


def _faults(
    browser: AxeBrowser, url: str, clients: Mapping[str, Any], pages: Sequence[str]
) -> dict[str, list[str]]:
    """What axe-core finds in each page, as its client sees it."""
    from django.conf import settings

    sessions = {page: clients[page].cookies[settings.SESSION_COOKIE_NAME].value for page in pages}
    by_session = {
        session: [page for page in pages if sessions[page] == session] for session in set(sessions.values())
    }
    return browser.faults(url, by_session)


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


if __name__ == "__main__":
    sys.exit(main())
