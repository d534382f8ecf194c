"""How long a new user waits: the product is started on an empty home, and its output is read as a person
would: the printed `curl` line is run until it is answered. Then a tenant saves a dataset of 1,000 texts of 60
tokens, and trains a model with it.

Times count from the start of the product, or of the training. The aims are for two cores with bfloat16; where
it is missing, computing takes twice as long, so these times are halved, and `settings` says so. Beside each
time stands the processor time of all of the product's processes.

--quick stops after the quick version, which is then fitted while the demo is still being built.

    python -m benchmarks.product.first_run --set-up --json FILE
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import httpx
import tokenizers
import torch

from benchmarks import harness
from benchmarks.accuracy.trained_branches import checkpoint_folder
from benchmarks.product.hostile.product import DEMO_ENDED, Product, ProductEnded, free_port
from benchmarks.result_cache import bench_dir
from benchmarks.serving.real_texts import docstrings
from hmi_client import Client, HmiError
from inference.hplm.devices import has_native_bfloat16

AIMS_S: Final = {
    "setup_s": 60,
    "address_s": 20,
    "first_answer_s": 90,
    "quick_version_s": 15,
    "trained_version_s": 180,
    "demo_s": 480,
}
COMPUTING: Final = ("first_answer_s", "quick_version_s", "trained_version_s", "demo_s")
"""Those that are halved without bfloat16."""
ROWS, TOKENS, LABELS = 1_000, 60, ("first", "second", "third", "fourth")
WITHIN_S: Final = 3600.0
POLL_S: Final = 0.25
NAME: Final = "first-model"


@dataclass(frozen=True, slots=True)
class Welcome:
    """What the product prints for a person to use it."""

    url: str
    api_key: str
    curl: str

    @classmethod
    def read(cls, output: str) -> "Welcome | None":
        """What stands in the output so far; None until all of it does."""
        patterns = (r"^HMI is running at (\S+)", r"^API key: (\S+)", r"^(curl .+)$")
        found = [re.search(pattern, output, re.M) for pattern in patterns]
        return cls(*(each[1] for each in found if each)) if all(found) else None


@dataclass
class Stopwatch:
    """Wall time and processor time since it was made, of what ``spent`` counts."""

    spent: Callable[[], float]
    rows: list[harness.Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._started, self._spent = time.monotonic(), self.spent()

    def take(self, figure: str) -> harness.Row:
        """What has passed, as a row of the report."""
        return {
            "figure": figure,
            "measured s": time.monotonic() - self._started,
            "processor s": self.spent() - self._spent,
        }


class FirstStart(Product):
    """`manage.py up` of a checkout, on an empty home."""

    def launch(self, checkout: Path, options: Sequence[str]) -> Stopwatch:
        """Start it without waiting for anything."""
        python = sys.executable if checkout == harness.ROOT else str(checkout / ".venv" / "bin" / "python")
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [python, "-W", "ignore", str(checkout / "manage.py"), "up", *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                cwd=checkout,
                start_new_session=True,
            )
        return Stopwatch(self.cpu_seconds)

    def until(self, what: str, found: Callable[[str], Any]) -> Any:
        """What `found` finds in the output, as soon as it does. Raises ProductEnded."""
        latest = time.monotonic() + WITHIN_S
        while not (result := found(self._told())):
            if not self.runs() or time.monotonic() > latest:
                raise ProductEnded(f"No {what}:\n{self._told()[-2000:]}")
            time.sleep(POLL_S)
        return result


def main(argv: Sequence[str] | None = None) -> int:
    """Set up if asked to, start, measure, print the table."""
    parser = harness.arguments(__doc__ or "")
    parser.add_argument(
        "--set-up",
        action="store_true",
        help="set two fresh clones up; the second finds the packages in the cache",
    )
    parser.add_argument("--demo-scale", default="1", help="size of the demo, as `make up` takes it")
    parser.add_argument("--rows", type=int, default=ROWS, help="of the tenant's dataset")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(dir=bench_dir(), prefix="first-run-") as folder:
        report = _measure(Path(folder), options)
    return harness.publish(report, options)


def _measure(folder: Path, options: argparse.Namespace) -> harness.Report:
    rows, checkout = _set_up(folder) if options.set_up else ([], harness.ROOT)
    product, gaps = FirstStart(folder, free_port()), list[float]()
    failures: list[str] = []
    try:
        watch = product.launch(checkout, ["--demo-scale", options.demo_scale])
        welcome: Welcome = product.until("address", Welcome.read)
        rows.append(watch.take("address_s"))
        product.until("first answer", lambda _: is_answered(welcome.curl))
        rows.append(watch.take("first_answer_s"))
        if not options.quick:
            end: re.Match[str] = product.until("end of the demo", DEMO_ENDED.search)
            rows.append(watch.take("demo_s"))
            failures += ["The demo is not complete."] if end[1] else []
            gaps = list(quick_gaps(welcome.url, product.home))
        rows += _first_model(product, welcome, folder, options)
    except (ProductEnded, HmiError) as error:
        failures.append(str(error))
    finally:
        product.stop()
    settings = {
        "rows": options.rows,
        "demo_scale": options.demo_scale,
        "beside_the_demo": options.quick,
        "halved": not has_native_bfloat16(torch.device("cpu")),
    }
    return report_of(rows, gaps, settings, failures)


def report_of(
    rows: Sequence[harness.Row], gaps: Sequence[float], settings: dict[str, Any], failures: list[str]
) -> harness.Report:
    """The rows with their figures and aims. Without bfloat16 the times of computing are halved."""
    figures = {
        row["figure"]: row["measured s"] / (2 if settings["halved"] and row["figure"] in COMPUTING else 1)
        for row in rows
    }
    told = [
        {"figure": row["figure"], "value": figures[row["figure"]], "aim": _aim(row["figure"]), **row}
        for row in rows
    ]
    if gaps:
        figures["quick_gap_points"] = fmean(gaps)
    return harness.Report("first_run", settings, told, figures, failures)


def _aim(figure: str) -> str:
    return f"≤ {AIMS_S[figure]}" if figure in AIMS_S else ""


def _set_up(folder: Path) -> tuple[list[harness.Row], Path]:
    """Times of setting up two clones, of which the second is kept."""
    rows = []
    for figure in ("setup_first_s", "setup_s"):
        checkout = folder / figure
        subprocess.run(["git", "clone", "--quiet", str(harness.ROOT), str(checkout)], check=True)  # noqa: S607
        watch = Stopwatch(_of_children)
        subprocess.run(["make", "setup"], cwd=checkout, env=harness.environment(), check=True)  # noqa: S607
        rows.append(watch.take(figure))
    return rows, checkout


def _of_children() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def is_answered(curl: str) -> bool:
    """Whether the printed line, run as it stands, gets an answer of a model."""
    ran = subprocess.run(["bash", "-c", curl], capture_output=True, text=True, check=False)  # noqa: S607
    try:
        return bool(json.loads(ran.stdout).get("results"))
    except (ValueError, AttributeError):
        return False


def quick_gaps(url: str, home: Path) -> Iterator[float]:
    """By how many points the trained version of each of the demo's models is better than its quick one."""
    for login in json.loads((home / "demo.json").read_text(encoding="utf-8")).values():
        if not login["api_key"]:
            continue
        with Client(url, login["api_key"]) as client:
            for model in client.list_models():
                values = {
                    bool(version.config.get("quick")): version.metrics["evaluate"]["value"]
                    for version in client.list_versions(model.name)
                    if "evaluate" in version.metrics
                }
                if len(values) == 2:
                    yield 100 * (values[False] - values[True])


def _first_model(
    product: FirstStart, welcome: Welcome, folder: Path, options: argparse.Namespace
) -> list[harness.Row]:
    """A tenant saves a dataset and trains a model. Raises HmiError."""
    file = folder / "rows.jsonl"
    rows = list(labelled_rows(options.rows))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with Client(welcome.url, welcome.api_key) as client:
        check = client.push_dataset({"train": file}, task="classification", name=NAME, allow_leaks=True)
        assert check.dataset is not None
        watch = Stopwatch(product.cpu_seconds)
        trained = client.create_model(NAME, dataset=check.dataset)
        taken = []
        product.until("quick version", lambda _: _answers(client, NAME, rows[0]["text"]))
        taken.append(watch.take("quick_version_s"))
        if not options.quick:
            client.wait_for_version(trained.id, poll_s=POLL_S)
            # By its number: the model's name leads there only if the trained version is the better one.
            numbered = f"{trained.tenant}/{NAME}:{trained.number}"
            product.until("trained version", lambda _: _answers(client, numbered, rows[0]["text"]))
            taken.append(watch.take("trained_version_s"))
    return taken


def _answers(client: Client, model: str, text: str) -> bool:
    """Whether the model answers."""
    try:
        client.infer(model, text)
    except (HmiError, httpx.HTTPError):
        return False
    return True


def labelled_rows(count: int) -> Iterator[dict[str, str]]:
    """So many texts of 60 tokens, all markers included, from the docstrings of the standard library. The
    label is the quarter of the library that a text is from."""
    tokenizer = tokenizers.Tokenizer.from_file(str(Path(checkpoint_folder()) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    whole = " ".join(docstrings())
    offsets = tokenizer.encode(whole, add_special_tokens=False).offsets
    length = TOKENS - tokenizer.num_special_tokens_to_add(is_pair=False)
    starts = range(0, len(offsets) - length, length)
    for number in range(count):
        at = number * len(starts) // count
        first, last = starts[at], starts[at] + length - 1
        text = whole[offsets[first][0] : offsets[last][1]]
        yield {"text": text, "label": LABELS[number * len(LABELS) // count]}


if __name__ == "__main__":
    sys.exit(main())
