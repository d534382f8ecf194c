"""`hmi evaluate` and `hmi models compare` against a server that answers what a test wrote down."""

import json
from typing import Any

import pytest

from tests.integration.hmi_client.conftest import Hmi
from tests.integration.hmi_client.scripted import Reply, Script, refusal
from tests.integration.hmi_client.test_command_options import MODEL, VERSION, page

JOB = {"id": "j-1", "kind": "evaluate", "state": "queued", "version": 7, "version_name": "mood:2"}


def change(kind: str, row: int, text: str) -> dict[str, Any]:
    side = {"right": None, "score": 0.9}
    before, after = {"predicted": "calm", **side}, {"predicted": "glad", **side}
    texts = {"text": text, "label": "glad"}
    return {"row": row, "input": texts, "gold": "glad", "change": kind, "before": before, "after": after}


def compared(fixed: int, broken: int, p_value: float, *changes: dict[str, Any]) -> Reply:
    counts = {"fixed": fixed, "broken": broken, "changed": 0}
    about = {"next": None, "rows": 60, "stored": 60, "changes": counts, "p_value": p_value}
    return Reply(body={**about, "results": [*changes]})


@pytest.mark.parametrize(
    ("fixed", "broken", "p_value", "verdict"),
    [
        (
            14,
            2,
            0.0042,
            "Version 2 is better than version 1. Of 60 rows, it is better on 14 and worse on 2 (p =",
        ),
        (
            2,
            14,
            0.0042,
            "Version 2 is worse than version 1. Of 60 rows, it is better on 2 and worse on 14 (p =",
        ),
        (3, 2, 1.0, "There is no clear difference between version 1 and version 2. Of 60 rows,"),
        (0, 0, 1.0, "Version 2 is as good as version 1 on 60 rows."),
    ],
)
def test_a_comparison_begins_with_its_verdict(
    server: Script, hmi: Hmi, fixed: int, broken: int, p_value: float, verdict: str
) -> None:
    server.replies = [
        page(VERSION, VERSION | {"number": 1}),
        compared(fixed, broken, p_value, change("fixed", 4, "a river")),
        compared(fixed, broken, p_value, change("broken", 9, "a stone")),
    ]
    said = hmi("models", "compare", "mood")
    assert said.code == 0, said.err
    first, _, *rows = said.out.splitlines()
    assert first.startswith(verdict)
    assert [row.split()[:2] for row in rows] == [["fixed", "4"], ["broken", "9"]]
    assert "a river" in rows[0]
    assert "against=1" in server.asked[1].path


def test_a_comparison_as_json_has_verdict_and_rows(server: Script, hmi: Hmi) -> None:
    server.replies = [compared(1, 0, 1.0, change("fixed", 4, "a river")), compared(1, 0, 1.0)]
    told = json.loads(hmi("models", "compare", "mood", 1, 2, "--json").out)
    assert (told["before"], told["after"], told["rows"], told["p_value"]) == (1, 2, 60, 1.0)
    assert [one["row"] for one in told["results"]] == [4]


def test_versions_that_were_not_evaluated_alike_come_with_the_command_that_helps(
    server: Script, hmi: Hmi
) -> None:
    error = {"type": "not_found", "code": "not_found", "message": "There is no row.", "param": "against"}
    server.replies = [Reply(404, {"error": error})]
    said = hmi("models", "compare", "mood", 1, 2)
    assert said.code == 4
    assert "hmi evaluate NAME VERSION --data DATASET" in said.err


def test_a_version_is_evaluated_and_its_figures_printed(server: Script, hmi: Hmi) -> None:
    metrics = {"metric": "accuracy", "value": 0.8333, "macro_f1": 0.83, "confusion": {}, "rows": 48}
    done = JOB | {"state": "succeeded", "metrics": metrics}
    versions = [Reply(body=MODEL), page(VERSION)]
    server.replies = [*versions, Reply(201, JOB), Reply(body=done), Reply(body=[]), Reply(body=done)]
    said = hmi("evaluate", "mood", "--wait")
    assert said.code == 0, said.err
    assert [line.split() for line in said.out.splitlines()][1:] == [
        ["accuracy", "0.8333"],
        ["macro_f1", "0.83"],
        ["rows", "48"],
    ]
    assert (server.asked[2].path, server.asked[2].body) == (
        "/api/v1/models/mood/versions/2/evaluate",
        {"dataset": None},
    )
    server.replies = [*versions, refusal(409, "conflict", "conflict")]
    assert hmi("evaluate", "mood").code == 5


@pytest.mark.parametrize("arguments", [("infer", "mood"), ("generate", "writer"), ("chat", "writer")])
def test_empty_standard_input_is_an_error(server: Script, hmi: Hmi, arguments: tuple[str, ...]) -> None:
    said = hmi(*arguments, stdin="\n")
    assert (said.code, server.asked) == (1, [])
    assert "Standard input is empty." in said.err


def test_an_unknown_choice_is_named_without_a_prefix(server: Script, hmi: Hmi) -> None:
    said = hmi("infer", "mood", "a text", "--quality", "best")
    assert said.code == 2
    assert "'best' is not one of 'fast', 'balanced', 'exact'." in said.err
    assert "Value error" not in said.err
