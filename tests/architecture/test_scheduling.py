"""The order in which files of tests begin."""

import tomllib
from pathlib import Path

from tests.scheduling import LONG_FILES, longest_first, unit_of

CHECKOUT = Path(__file__).resolve().parents[2]


def test_the_longest_begin_and_what_shares_a_product_goes_together() -> None:
    demo, soak = "tests/integration/demo/test_demo.py", "tests/integration/worker/test_faults_soak.py"
    faults, short = "tests/integration/serving_faults", "tests/unit/test_of_no_length.py"
    files = [short, f"{faults}/test_web.py", soak, f"{faults}/test_disk.py", demo]
    slow = [(f"{file}::test", True) for file in files]
    order = longest_first([*slow, *slow])
    known = tomllib.loads(LONG_FILES.read_text(encoding="utf-8"))["slow"]
    assert order == {
        demo: known[demo],
        soak: known[soak],
        f"{faults}/": known.get(f"{faults}/test_web.py", 0) + known[f"{faults}/test_disk.py"],
        short: 0,
    }
    assert list(order.values()) == sorted(order.values(), reverse=True)
    assert unit_of(f"{faults}/test_disk.py::test[a::b]") == f"{faults}/"
    assert list(longest_first((f"{file}::test", False) for file in (short, demo))) == [short, demo]


def test_what_is_known_is_of_files_that_are_there() -> None:
    known = tomllib.loads(LONG_FILES.read_text(encoding="utf-8"))
    assert known.keys() == {"test", "slow"}
    assert [file for files in known.values() for file in files if not (CHECKOUT / file).is_file()] == []
