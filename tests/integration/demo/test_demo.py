"""The whole demo, small and with tiny roots: interrupted, built, reported, and called as it says."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from demo.datasets import TASKS
from demo.translations import ENGLISH, LANGUAGES
from tests.integration.launcher.conftest import free_port
from tests.integration.launcher.site import CHECKOUT, READY_LINE, clean_environment
from tests.unit.tiny import tiny_checkpoint
from tests.unit.tiny_decoder import tiny_decoder_folder

JOB_STARTED = "minilm:1: convert: started"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A home of its own."""
    home = tmp_path_factory.mktemp("demo") / "home"
    return {**clean_environment(), "HMI_HOME": str(home), "HMI_PORT": str(free_port())}


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A demo of a fiftieth of the real one, on tiny checkpoints."""
    folder = tmp_path_factory.mktemp("checkpoints")
    # Of bytes, so it needs a context as long as the longest message.
    decoder = tiny_decoder_folder(folder / "decoder", max_position_embeddings=1024)
    roots = ["--demo-root", str(tiny_checkpoint(folder / "encoder")), "--demo-decoder", str(decoder)]
    return [*roots, "--demo-scale", "0.02"]


@pytest.fixture(scope="module")
def interrupted(environment: dict[str, str], options: list[str]) -> str:
    """What `up` prints on its first start until a job of the demo runs; Ctrl-C ends it then."""
    with started(environment, options) as process:
        printed = read_until(process, JOB_STARTED)
    assert process.returncode == 0
    return printed


@pytest.fixture(scope="module")
def document(
    environment: dict[str, str],
    options: list[str],
    interrupted: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, object]:
    """What the demo wrote, after it went on and ended well."""
    assert interrupted
    file = tmp_path_factory.mktemp("report") / "report.json"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.product.demo_report", "--quick", "--json", str(file), *options],
        cwd=CHECKOUT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"| acme/{TASKS[0].hplm}" in done.stdout
    found: dict[str, object] = json.loads(file.read_text())
    return found


@pytest.fixture
def printed(environment: dict[str, str], document: dict[str, object]) -> Iterator[str]:
    """What `up` prints on its second start, while it runs."""
    assert document
    with started(environment, []) as process:
        yield read_until(process, READY_LINE)
    assert process.returncode == 0


@contextmanager
def started(environment: dict[str, str], options: list[str]) -> Iterator[subprocess.Popen[str]]:
    """`manage.py up`, which is stopped as by Ctrl-C."""
    with subprocess.Popen(
        [sys.executable, "-u", str(CHECKOUT / "manage.py"), "up", *options],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.stdout.read()


def read_until(process: subprocess.Popen[str], part: str) -> str:
    """The lines until one with this part."""
    lines: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if part in line:
            break
    return "".join(lines)


def test_the_address_is_printed_before_anything_of_the_demo_is_built(interrupted: str) -> None:
    welcome, _, after = interrupted.partition(READY_LINE)
    assert "HMI is running at http://" in welcome
    assert "curl -s http://" in welcome
    assert "The demo is being built: watch it below" in welcome
    assert "started" not in welcome
    assert JOB_STARTED in after
    assert "\x1b" not in interrupted


def test_report_has_every_model_and_no_failed_request(document: dict[str, object]) -> None:
    rows, figures = document["rows"], document["figures"]
    assert isinstance(rows, list)
    assert isinstance(figures, dict)
    encoders, writers = rows[: len(TASKS)], rows[len(TASKS) :]
    assert [row["Model"] for row in encoders] == [f"{task.tenant}/{task.hplm}" for task in TASKS]
    assert [row["what it does"] for row in encoders] == [task.about for task in TASKS]
    assert [row["Model"] for row in writers] == ["hooli/support-requests"]
    assert figures["models"] == len(TASKS)
    assert figures["failed"] == 0
    assert figures["requests"] > 0
    assert figures["tenants_per_batch"] > 1
    shares = [figures[f"{level}_share"] for level in ("table", "escalated", "full")]
    assert sum(shares) == pytest.approx(1.0)
    for row in encoders:
        assert row["trained"] == row["levels"]["cascade"]
        assert all(-100 <= row["levels"][way] <= 100 for way in ("table", "cascade", "full"))
    assert all(figures[f"texts_per_s_{way}"] > 0 for way in ("table", "cascade", "full"))


def test_report_has_the_right_answers_and_the_speed_of_the_generative_model(
    document: dict[str, object],
) -> None:
    rows, figures = document["rows"], document["figures"]
    assert isinstance(rows, list)
    assert isinstance(figures, dict)
    assert (figures["generative_models"], figures["prompts_failed"]) == (1, 0)
    assert figures["prompts"] > 0
    (row,) = rows[len(TASKS) :]
    assert 0 <= row["right"] <= row["answers"] == 4
    assert row["tokens/s"] > 0
    assert row["samples"][0]["prompt"]


def test_the_second_start_builds_nothing_and_the_printed_line_works_when_pasted(printed: str) -> None:
    assert "is being built" not in printed
    line = next(line for line in printed.splitlines() if line.startswith("curl "))
    answer = json.loads(subprocess.run(["sh", "-c", line], capture_output=True, check=True).stdout)
    assert answer["model"]["name"] == f"acme/{TASKS[0].hplm}"
    assert set(answer["results"][0]["scores"]) == {ENGLISH, *LANGUAGES.values()}
