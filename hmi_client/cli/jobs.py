"""`hmi jobs`: what is at work."""

from typing import Annotated

import typer

from hmi_client.cli.output import AsJson, say, show_json, show_table
from hmi_client.cli.progress import JobBars
from hmi_client.cli.session import client_of
from hmi_client.errors import JobEnded
from hmi_client.responses import Job

app = typer.Typer(no_args_is_help=True, help="Jobs: list, follow, cancel, retry.")
JobId = Annotated[str, typer.Argument(help="The job's id.")]


@app.command("list")
def show(
    context: typer.Context,
    state: Annotated[
        str | None, typer.Option(help="waiting, queued, running, succeeded, failed or cancelled.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first."""
    with client_of(context) as client:
        jobs = list(client.jobs(state))
    if as_json:
        show_json(jobs)
        return
    show_table(
        ("job", "kind", "name", "state", "progress", "created"),
        [
            (one.id, one.kind, one.version_name, one.state, f"{one.progress or 0:.0%}", one.created_at[:16])
            for one in jobs
        ],
    )


@app.command()
def tail(context: typer.Context, job: JobId, as_json: AsJson = False) -> None:
    """Print what happened to a job, and go on until it has ended; exit code 1 if it did not succeed."""
    with client_of(context) as client, JobBars(transient=True, shown=not as_json) as bars:
        for event in client.job_tail(job, on_progress=bars.told):
            if as_json:
                show_json(event)
            else:
                typer.echo(f"{event.at[:19].replace('T', ' ')}  {event.kind:<12}  {event.message}".rstrip())
        ended = client.job(job)
    if ended.state != "succeeded":
        raise JobEnded(
            ended.error_message or f"The job was {ended.state}.",
            job=ended.id,
            code=ended.error_code or ended.state,
        )


@app.command()
def cancel(context: typer.Context, job: JobId, as_json: AsJson = False) -> None:
    """Cancel a job; a running one is asked to stop."""
    with client_of(context) as client:
        _show(client.job_cancel(job), as_json)


@app.command()
def retry(context: typer.Context, job: JobId, as_json: AsJson = False) -> None:
    """Run a failed or cancelled job again."""
    with client_of(context) as client:
        _show(client.job_retry(job), as_json)


def _show(job: Job, as_json: bool) -> None:
    if as_json:
        show_json(job)
    else:
        asked = " and asked to stop" if job.cancel_requested_at and not job.has_ended else ""
        say(f"The job {job.kind} of {job.version_name} is {job.state}{asked}.")
