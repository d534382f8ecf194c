"""What hostile clients and dying processes do to everybody else: the product as `make up` starts it, one
well-behaved tenant that asks at a steady rate, and beside it in turn attacks of many kinds, and kill -9 of
each of the launcher's children. At the end the tenants that attacked are deleted, and what stays behind of
them is looked for. Everything goes to 127.0.0.1.

The tiny demo that is served is built once, which takes some five minutes, and kept in HMI_BENCH_DIR; each run
has a copy of its own. Tells what missed its aim; the exit status is 0 all the same.

    python -m benchmarks.product.hostile --quick --json
"""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import harness
from benchmarks.product.hostile.attacks import ATTACKS
from benchmarks.product.hostile.bench import DELETION, QUICK, RATE, WHOLE, Bench, Run, Seconds
from benchmarks.product.hostile.figures import MIB, Attacked, Deleted, Killed, missed, p95
from benchmarks.product.hostile.product import (
    CHILDREN,
    DEMO_SCALE,
    Product,
    free_port,
)
from benchmarks.result_cache import bench_dir

BUILT_ONCE = "hostile-demo"


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print the tables or the JSON."""
    options = _options(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the product is stopped on the way out
    folder = Path(tempfile.mkdtemp(prefix="hmi-hostile-"))
    seconds = QUICK if options.quick else WHOLE
    product = Product(folder, free_port())
    try:
        subprocess.run(["cp", "-a", str(_demo()), str(product.home)], check=True)  # noqa: S607 - with owners
        product.start()
        run = Bench(product, seconds, options.only).run()
    finally:
        product.stop()
        shutil.rmtree(folder, ignore_errors=True)
    report = harness.Report(
        "hostile",
        _settings(seconds),
        [
            *(_attack_row(one, run) for one in run.attacks),
            *map(_kill_row, run.kills),
            *_traces_rows(run.deletion),
        ],
        dict(run.figures),
        missed(run.figures),
    )
    if options.json == "-":
        print(json.dumps(harness.document(report), indent=2))
        return 0
    _print(run, report)
    if options.json:
        harness.write_json(report, Path(options.json))
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the same attacks, shorter")
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="write JSON to FILE, or print it",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        choices=[*ATTACKS, *CHILDREN, DELETION],
        help="attack, child to kill, or what stays behind of deleted tenants",
    )
    return parser.parse_args(argv)


def _demo() -> Path:
    """The home in which the tiny demo was built; built now where it was not. Raises ProductEnded."""
    home = bench_dir() / BUILT_ONCE
    if home.exists():
        return home
    print("Building the tiny demo, once.", file=sys.stderr)
    folder = Path(tempfile.mkdtemp(prefix="hmi-hostile-"))  # short: the names of sockets have an end
    product = Product(folder, free_port())
    try:
        product.build_demo()
        product.stop()
        subprocess.run(["mv", str(product.home), str(home)], check=True)  # noqa: S607 - with owners
    finally:
        product.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return home


def _settings(seconds: Seconds) -> dict[str, object]:
    return {"demo_scale": DEMO_SCALE, "rate": RATE, "attack_s": seconds.attack, "rounds": seconds.rounds}


def _attack_row(one: Attacked, run: Run) -> harness.Row:
    grown = (one.memory - run.memory).most_common(2)
    return {
        "attack": one.name,
        "failed": len(one.failures),
        "p95 ms": 1000 * p95(one.seconds),
        "beside the same load": 1000 * p95(one.beside),
        "ratio": one.ratio,
        "longest pause s": one.pause_s,
        "cores": one.cores,
        "memory MB": round(one.memory.total() / MIB),
        "most grown": ", ".join(f"{child} {size / MIB:.0f}" for child, size in grown),
        "webhook s": one.webhook_s,
        "restarts": one.restarts,
        "counted": ", ".join(f"{name} {count:,}" for name, count in one.counted.items()),
    }


def _kill_row(one: Killed) -> harness.Row:
    return {
        "killed": one.child,
        "recovery s": "never" if one.recovery_s is None else f"{one.recovery_s:.1f}",
        "failed": len(one.failures),
        "restarts": one.restarts,
        "restarts of others": one.restarts_of_others,
        "the product ended": "yes" if one.product_ended else "no",
    }


def _traces_rows(deletion: Deleted | None) -> list[harness.Row]:
    if deletion is None:
        return []
    about = {"deleted s": deletion.deleted_s, "vanished s": deletion.vanished_s}
    traces = [{"file": file, "traces": size} for file, size in deletion.traces.most_common()]
    return [{**about, "refused": len(deletion.refused)}, *traces]


def _print(run: Run, report: harness.Report) -> None:
    alone = f"p95 {1000 * p95(run.alone):.1f} ms of {len(run.alone)} calls"
    print(f"The well-behaved tenant alone: {alone}; longest pause {run.pause_s:.2f} s.\n")
    print(harness.markdown_table([_attack_row(one, run) for one in run.attacks]))
    print()
    print(harness.markdown_table([_kill_row(one) for one in run.kills]))
    print()
    if run.deletion:
        about, *traces = _traces_rows(run.deletion)
        print(about)
        print(harness.markdown_table(traces[:20]))
        print(*(f"not left: {place}" for place in run.deletion.refused), sep="\n")
    print({name: round(value, 2) for name, value in report.figures.items()})
    failures = {one.name: one.failures for one in run.attacks} | {
        one.child: one.failures for one in run.kills
    }
    for name, told in failures.items():
        for failure in told[:2]:
            print(f"failed, {name}: {failure}")
    for aim in report.failures:
        print(f"missed: {aim}")


if __name__ == "__main__":
    sys.exit(main())
