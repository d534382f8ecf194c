"""The whole product, as `make up` starts it, for a benchmark: in a home of its own, with models to ask."""

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from benchmarks import harness
from benchmarks.result_cache import bench_dir
from benchmarks.serving.over_http.clients import TIMEOUT_S, Call, Clients
from benchmarks.serving.over_http.engine import POLICY, Engine
from benchmarks.serving.over_http.made import RandomModels, ServedModels
from benchmarks.serving.real_texts import RealTexts
from benchmarks.serving.world import DEFAULT_PET, DEMO, ENCODERS, PETS

TENANTS, CLIENTS = 16, 32


@dataclass(frozen=True, slots=True)
class Product:
    """It is running at ``url``; ``served`` has a call for each tenant's model, without inputs. ``engine`` has
    the same models in this process."""

    url: str
    clients: Clients
    engine: Engine
    served: Sequence[Call]
    texts: RealTexts


@dataclass(frozen=True, slots=True)
class Site:
    """The product runs at ``url``; ``served`` has a call for each tenant's model, without inputs."""

    url: str
    home: Path
    served: Sequence[Call]
    texts: RealTexts


def arguments(description: str) -> argparse.ArgumentParser:
    """What such benchmarks take."""
    parser = harness.arguments(description)
    parser.add_argument("--encoder", choices=sorted(ENCODERS), default=DEMO.name)
    parser.add_argument("--pet", choices=sorted(PETS), default=DEFAULT_PET, help="of every model")
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
    texts = RealTexts.collect()

    def models_of(scratch: Path, tokenizer_file: Path) -> ServedModels:
        return RandomModels(scratch, ENCODERS[options.encoder], options.pet, texts, tokenizer_file)

    with (
        started(models_of, options.tenants, texts, rows=rows) as site,
        Clients(site.url, options.clients, cpus) as clients,
        closing(Engine(site.home / "home" / "artifacts")) as engine,
    ):
        clients.wait_until_served([replace(call, inputs=["a text"]) for call in site.served])
        yield Product(site.url, clients, engine, site.served, site.texts)


@contextmanager
def started(
    models_of: Callable[[Path, Path], ServedModels],
    tenants: int,
    texts: RealTexts,
    *,
    rows: int | None = None,
) -> Iterator[Site]:
    """The product with a model for each of so many tenants. models_of: makes the models, in a folder, with a
    tokenizer's file. rows: of a batch at most, with tables that answer all fragments;
    None: as the product does by default. Ends the program when it is stopped before its end."""
    with tempfile.TemporaryDirectory(dir=bench_dir(), prefix="product-") as name:
        home = Path(name)
        harness.become_product(home, "HMI_WEIGHTS", **({} if rows is None else _table_only(rows)))
        import django

        django.setup()
        # These read the settings, which are known only now.
        from benchmarks.serving.over_http.site import fill, tokenizer_file
        from hmi_site.launcher.stack import Stack
        from tenants.base.scope import use_platform_scope

        use_platform_scope()
        texts.read_with(tokenizer_file())
        with Stack(Console(stderr=True)) as stack:
            scratch = home / "scratch"
            served = fill(scratch, models_of(scratch, tokenizer_file()), texts, tenants)
            yield Site(stack.url, home, served, texts)
            return
        raise SystemExit("It was stopped before its end.")


def _table_only(rows: int) -> dict[str, str]:
    return {
        "HMI_POLICY": POLICY.value,
        "HMI_BATCH_ROWS": str(rows),
        "HMI_INFER_DEADLINE_S": str(TIMEOUT_S),  # the calls of a large encoder wait for one another
    }


def settings_of_report(options: argparse.Namespace, product: Product) -> dict[str, object]:
    """What was measured, for the report."""
    engine = product.engine
    return {
        "device": str(engine.device),
        "dtype": str(engine.dtype),
        "int8_weights": engine.has_int8_weights,
        "encoder": options.encoder,
        "pet": options.pet,
        "texts": product.texts.source,
        "tenants": options.tenants,
        "clients": options.clients,
        "client_cpus": options.client_cpus or "those of the product",
        "repeats": options.repeats,
    }
