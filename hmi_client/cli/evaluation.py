"""`hmi evaluate` and `hmi models compare`: how good a version is, and whether another one is better."""

from contextlib import nullcontext
from typing import Annotated, Any, Final

import typer

from hmi_client.cli.hints import Hint, hints
from hmi_client.cli.lookup import NameNotFound, dataset_id, version_of
from hmi_client.cli.output import AsJson, print_json, print_note, print_table, shortened, stderr
from hmi_client.cli.profiles import client_of
from hmi_client.cli.progress import JobBars, JobLines
from hmi_client.client import Client
from hmi_client.errors import JobFailed
from hmi_client.responses import Comparison, Job

SIGNIFICANT: Final = 0.05
HINTS: Final[dict[str, Hint]] = {
    "against": "To evaluate a version on another dataset: hmi evaluate NAME VERSION --data DATASET --wait",
    "dataset": "Choose another dataset with --data. List them: hmi data list",
}
Name = Annotated[str, typer.Argument(help="The model's name.")]


def evaluate(
    context: typer.Context,
    name: Name,
    version: Annotated[
        int | None, typer.Argument(min=1, help="The version's number. Default: that of the alias `default`.")
    ] = None,
    data: Annotated[str, typer.Option(help="The dataset's id or name. Default: the version's own.")] = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the result. The exit code is 1 if that fails.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate a version on the test split of a dataset."""
    with client_of(context) as client, hints(HINTS):
        number = version_of(client, name, version).number
        job = client.evaluate(name, number, dataset=dataset_id(client, data) if data else None)
        if wait:
            job = _follow(client, job)
    if as_json:
        print_json(job)
    elif wait:
        print_table(("metric", "value"), _figures(job.metrics))
    else:
        print_note(f"The evaluation of {name}:{number} is {job.state}. Follow it: hmi jobs tail {job.id}")
    if wait and job.state != "succeeded":
        raise JobFailed.of(job)


def compare(
    context: typer.Context,
    name: Name,
    before: Annotated[
        int | None, typer.Argument(min=1, help="The earlier version. Default: the newest but one.")
    ] = None,
    after: Annotated[
        int | None, typer.Argument(min=1, help="The later version. Default: the newest.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=0, max=500, help="How many fixed and how many broken rows to list.")
    ] = 20,
    as_json: AsJson = False,
) -> None:
    """Say whether a version is better than another one, and on which texts."""
    with client_of(context) as client, hints(HINTS):
        first, second = _versions(client, name, before, after)
        found = {
            change: client.compare_versions(name, second, against=first, change=change, limit=max(1, limit))
            for change in ("fixed", "broken")
        }
    comparison = found["fixed"]
    verdict = _verdict(comparison, first, second)
    rows = [row for each in found.values() for row in each.results[:limit]]
    if as_json:
        about = {"model": name, "before": first, "after": second, "verdict": verdict}
        counted = {"rows": comparison.stored, "p_value": comparison.p_value, "changes": comparison.changes}
        print_json({**about, **counted, "results": rows})
        return
    typer.echo(verdict)
    if rows:
        columns = ("change", "row", "input", "expected", f"version {first}", f"version {second}")
        print_table(columns, map(_row, rows))


def _versions(client: Client, name: str, before: int | None, after: int | None) -> tuple[int, int]:
    """The numbers to compare: by default of the newest ready version and the one before it."""
    if before is not None and after is not None:
        return before, after
    ready = sorted(one.number for one in client.list_versions(name) if one.state == "ready")
    later = after or next((number for number in reversed(ready) if number != before), None)
    earlier = before or next((number for number in reversed(ready) if later and number < later), None)
    if earlier is None or later is None:
        raise NameNotFound(f"{name} has no two ready versions to compare. See: hmi models versions {name}")
    return earlier, later


def _verdict(comparison: Comparison, before: int, after: int) -> str:
    fixed, broken = (comparison.changes.get(change, 0) for change in ("fixed", "broken"))
    rows, p_value = f"{comparison.stored:,} rows", comparison.p_value
    if not fixed and not broken:
        return f"Version {after} is as good as version {before} on {rows}."
    if p_value is None or p_value >= SIGNIFICANT:
        begins = f"There is no clear difference between version {before} and version {after}."
    else:
        begins = f"Version {after} is {'better' if fixed > broken else 'worse'} than version {before}."
    chance = "" if p_value is None else f" (p = {p_value:.2g}, McNemar)"
    return f"{begins} Of {rows}, it is better on {fixed:,} and worse on {broken:,}{chance}."


def _row(change: dict[str, Any]) -> tuple[object, ...]:
    texts = change["input"] or {}
    given = [
        value for name, value in texts.items() if isinstance(value, str) and name not in ("label", "labels")
    ]
    text = " | ".join(given) or " ".join(texts.get("tokens", []))
    sides = (change["gold"], change["before"]["predicted"], change["after"]["predicted"])
    return change["change"], change["row"], shortened(text), *map(_answer, sides)


def _answer(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(one[0]) if isinstance(one, list) else str(one) for one in value)
    return (
        shortened(value)
        if isinstance(value, str)
        else f"{value:.6g}"
        if isinstance(value, float)
        else str(value)
    )


def _figures(metrics: dict[str, Any]) -> list[tuple[str, object]]:
    """The metric that counts, then the other numbers."""
    shown = [(str(metrics.get("metric", "value")), metrics.get("value"))]
    others = [(name, value) for name, value in metrics.items() if name not in ("metric", "value")]
    return shown + [(name, value) for name, value in others if isinstance(value, int | float)]


def _follow(client: Client, job: Job) -> Job:
    with JobBars(transient=True) if stderr.is_terminal else nullcontext(JobLines()) as shown:
        for _ in client.tail_job(job.id, on_progress=shown.update):
            pass
    return client.get_job(job.id)
