"""The whole product, as `make up` starts it, for a benchmark: in a home of its own, with models to ask."""

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from rich.console import Console

from benchmarks import harness
from benchmarks.result_cache import bench_dir
from benchmarks.serving.options import add_shape
from benchmarks.serving.over_http.clients import Call, Clients
from benchmarks.serving.over_http.engine import Engine
from benchmarks.serving.over_http.made import ServedTexts, Texts
from benchmarks.serving.over_http.surroundings import surround
from benchmarks.serving.real_texts import RealTexts
from benchmarks.serving.world import DEMO, ENCODERS, Encoder

TENANTS, CLIENTS = 16, 32
AnyTexts = TypeVar("AnyTexts", bound=ServedTexts)


@dataclass(frozen=True, slots=True)
class Product:
    """It is running at ``url``; ``served`` has a call for each tenant's model, without inputs. ``engine`` has
    the same models in this process."""

    url: str
    clients: Clients
    engine: Engine
    served: Sequence[Call]
    texts: ServedTexts


@dataclass(frozen=True, slots=True)
class Site(Generic[AnyTexts]):
    """The product runs at ``url``; ``served`` has a call for each tenant's model, without inputs. The
    checkpoint that they were made from lies in ``home / "scratch" / "checkpoint"``."""

    url: str
    home: Path
    served: Sequence[Call]
    texts: AnyTexts


def arguments(description: str) -> argparse.ArgumentParser:
    """What such benchmarks take."""
    parser = harness.arguments(description)
    parser.add_argument("--encoder", choices=sorted(ENCODERS), default=DEMO.name)
    add_shape(parser)
    parser.add_argument("--repeats", type=int, help="of every measurement")
    parser.add_argument("--clients", type=int, default=CLIENTS, help="that call at the same time")
    parser.add_argument("--tenants", type=int, default=TENANTS, help="of a model each, called in turn")
    parser.add_argument(
        "--client-cpus", help="processors for the clients alone, such as 2,3 (default: as the product)"
    )
    return parser


@contextmanager
def running(options: argparse.Namespace, *, rows: int) -> Iterator[Product]:
    """The product, with batches of so many rows. Ends the program when it is stopped before its end."""
    cpus = [int(cpu) for cpu in (options.client_cpus or "").split(",") if cpu]
    # Collected first: the product is started without this installation's settings, HMI_DATA_DIR among them.
    texts_of: Callable[[Path], ServedTexts] = Texts if options.tokens else RealTexts.collect().read_with
    with (
        started(ENCODERS[options.encoder], options.pet, options.tenants, texts_of, rows=rows) as site,
        Clients(site.url, options.clients, cpus) as clients,
        closing(Engine(site.home / "home" / "artifacts")) as engine,
    ):
        clients.wait_until_served([replace(call, inputs=["a text"]) for call in site.served])
        yield Product(site.url, clients, engine, site.served, site.texts)


@contextmanager
def started(
    encoder: Encoder,
    pet: str,
    tenants: int,
    texts_of: Callable[[Path], AnyTexts],
    *,
    rows: int | None = None,
) -> Iterator["Site[AnyTexts]"]:
    """The product with a model for each of so many tenants. texts_of: makes the texts, of a tokenizer's file.
    rows: see `surround`. Ends the program when it is stopped before its end."""
    with tempfile.TemporaryDirectory(dir=bench_dir(), prefix="product-") as name:
        home = Path(name)
        surround(home, rows)
        import django

        django.setup()
        # These read the settings, which are known only now.
        from benchmarks.serving.over_http.site import fill, tokenizer_file
        from hmi_site.launcher.stack import Stack
        from tenants.base.scope import use_platform_scope

        use_platform_scope()
        texts = texts_of(tokenizer_file())
        with Stack(Console(stderr=True)) as stack:
            served = fill(home / "scratch", encoder, pet, texts, tenants)
            yield Site(stack.url, home, served, texts)
            return
        raise SystemExit("It was stopped before its end.")


def settings_of_report(options: argparse.Namespace, engine: Engine) -> dict[str, object]:
    """What was measured, for the report."""
    return {
        "device": str(engine.device),
        "dtype": str(engine.dtype),
        "int8_weights": engine.has_int8_weights,
        "encoder": options.encoder,
        "pet": options.pet,
        "texts": f"random, of {options.tokens} tokens" if options.tokens else "real",
        "tenants": options.tenants,
        "clients": options.clients,
        "client_cpus": options.client_cpus or "those of the product",
        "repeats": options.repeats,
    }


def print_and_save(report: harness.Report, options: argparse.Namespace) -> int:
    """Print the tables, write them where that was asked for."""
    print(harness.markdown_table(report.rows))
    print({name: round(value, 3) for name, value in report.figures.items()})
    if options.json:
        harness.write_json(report, options.json)
    return 0
