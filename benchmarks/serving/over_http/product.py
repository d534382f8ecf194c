"""The whole product, as `make up` starts it, for a benchmark: in a home of its own, with models to ask."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks import harness
from benchmarks.result_cache import bench_dir
from benchmarks.serving.over_http.clients import Call
from benchmarks.serving.over_http.made import ServedModels
from benchmarks.serving.real_texts import RealTexts


@dataclass(frozen=True, slots=True)
class Site:
    """The product runs at ``url``; ``served`` has a call for each tenant's model, without inputs."""

    url: str
    served: Sequence[Call]
    texts: RealTexts


@contextmanager
def started(
    models_of: Callable[[Path, Path], ServedModels], tenants: int, texts: RealTexts, **settings: str
) -> Iterator[Site]:
    """The product with a model for each of so many tenants. models_of: makes the models, in a folder, with a
    tokenizer's file. settings: of the product. Ends the program when it is stopped before its end."""
    with tempfile.TemporaryDirectory(dir=bench_dir(), prefix="product-") as name:
        home = Path(name)
        harness.become_product(home, **settings)
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
            yield Site(stack.url, served, texts)
            return
        raise SystemExit("It was stopped before its end.")
