"""What every benchmark shares: its options, the JSON it writes and the Markdown table it prints."""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OF_PRODUCT = ("HMI_", "DATABASE_URL", "REDIS_URL", "DJANGO_")
PASSED_ON = ("HMI_BENCH_DIR", "HMI_POSTGRES_BIN", "HMI_REDIS_BIN")
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Report:
    """One benchmark's result: the rows of its table and the figures that other tools read."""

    benchmark: str
    settings: dict[str, Any]
    rows: list[Row]
    figures: dict[str, float]
    failures: list[str] = field(default_factory=list)


def arguments(description: str) -> argparse.ArgumentParser:
    """The options that every benchmark takes; a benchmark may add its own.

    description: its lines are kept.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a smaller run of the same shape")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write rows and figures to FILE")
    return parser


def output_file(name: str) -> Path:
    """The file that an option names. Its folder is made now, not when the run has ended."""
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def publish(report: Report, options: argparse.Namespace) -> int:
    """Print ``report``, and write it where `--json` says; returns the exit status, 1 for failures."""
    show(report)
    if options.json:
        write_json(report, options.json)
    return 1 if report.failures else 0


def show(report: Report) -> None:
    """Print the table and the figures, and the failures to stderr."""
    print(markdown_table(report.rows))
    print({name: round(value, 3) for name, value in report.figures.items()})
    for failure in report.failures:
        print(failure, file=sys.stderr)


def write_json(report: Report, path: Path) -> None:
    """Write ``report`` with the commit and the machine it was measured on."""
    path.write_text(json.dumps(document(report), indent=2) + "\n", encoding="utf-8")


def document(report: Report) -> dict[str, Any]:
    """``report`` with the commit and the machine it was measured on, as it is written."""
    return {
        "benchmark": report.benchmark,
        "commit": commit(),
        "machine": machine(),
        "settings": report.settings,
        "rows": report.rows,
        "figures": report.figures,
    }


def commit() -> str:
    """The commit of the checkout, with ``+changes`` when files differ from it; empty outside git."""
    described = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--exclude=*", "--dirty=+changes"],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip()


def environment() -> dict[str, str]:
    """This process's variables for a product of the benchmark's own: without the settings of this
    installation, but for PASSED_ON."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in PASSED_ON or not name.startswith(OF_PRODUCT)
    }


def become_product(home: Path, **settings: str) -> None:
    """Let this process read the settings of a product whose home is in this folder; see `environment`."""
    for name in os.environ.keys() - environment().keys():
        del os.environ[name]
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "hmi_site.settings",
        "HMI_HOME": str(home / "home"),
        **settings,
    }
    from django.conf import settings as product_settings  # the variables are set now

    product_settings.HMI_CORPUS_MIN_WORDS = 0


def machine() -> dict[str, str | int]:
    """The processor, its usable cores, the memory in GiB, and the Python that ran."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "python": platform.python_version(),
    }


def available_memory() -> int:
    """Bytes of main memory that a process can take without swapping."""
    for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("MemAvailable"):
            return 1024 * int(line.split()[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def markdown_table(rows: Sequence[Row]) -> str:
    """The rows as an aligned Markdown table; numbers stand to the right."""
    if not rows:
        return ""
    titles = list(rows[0])
    cells = [[_cell(row[title]) for title in titles] for row in rows]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    right = [isinstance(rows[0][title], int | float) for title in titles]
    ruler = [
        "-" * (width - 1) + ":" if number else "-" * width
        for width, number in zip(widths, right, strict=True)
    ]
    lines = [titles, ruler, *cells]
    return "\n".join(
        "| "
        + " | ".join(
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(line, widths, right, strict=True)
        )
        + " |"
        for line in lines
    )


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}" if 0 < abs(value) < 1 else f"{value:.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
