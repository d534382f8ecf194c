"""`hmi jobs`: list, follow, cancel and retry jobs."""

from typing import Annotated, Literal

import typer

from hmi_client.cli.output import AsJson, print_json, print_note, print_table
from hmi_client.cli.profiles import client_of
from hmi_client.cli.progress import JobBars
from hmi_client.errors import JobFailed
from hmi_client.responses import Job

app = typer.Typer(no_args_is_help=True, help="List, follow, cancel and retry jobs.")
State = Literal["waiting", "queued", "running", "succeeded", "failed", "cancelled"]
JobId = Annotated[str, typer.Argument(help="The job's id.")]


@app.command("list")
def list_jobs(
    context: typer.Context,
    state: Annotated[State | None, typer.Option(help="Only jobs in this state.")] = None,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first."""
    with client_of(context) as client:
        jobs = list(client.list_jobs(state))
    if as_json:
        print_json(jobs)
        return
    print_table(
        ("job", "kind", "name", "state", "progress", "created"),
        [
            (job.id, job.kind, job.version_name, job.state, f"{job.progress or 0:.0%}", job.created_at[:16])
            for job in jobs
        ],
    )


@app.command()
def tail(context: typer.Context, job: JobId, as_json: AsJson = False) -> None:
    """Print a job's events until it is finished. The exit code is 1 if it did not succeed."""
    with client_of(context) as client, JobBars(transient=True, shown=not as_json) as bars:
        for event in client.tail_job(job, on_progress=bars.update):
            if as_json:
                print_json(event)
            else:
                typer.echo(f"{event.at[:19].replace('T', ' ')}  {event.kind:<12}  {event.message}".rstrip())
        finished = client.get_job(job)
    if finished.state != "succeeded":
        raise JobFailed.of(finished)


@app.command()
def cancel(context: typer.Context, job: JobId, as_json: AsJson = False) -> None:
    """Cancel a job. A running job stops soon."""
    with client_of(context) as client:
        _print_job(client.cancel_job(job), as_json)


@app.command()
def retry(context: typer.Context, job: JobId, as_json: AsJson = False) -> None:
    """Retry a failed or canceled job."""
    with client_of(context) as client:
        _print_job(client.retry_job(job), as_json)


def _print_job(job: Job, as_json: bool) -> None:
    if as_json:
        print_json(job)
    else:
        suffix = ", cancellation requested" if job.cancel_requested_at and not job.is_finished else ""
        print_note(f"The job {job.kind} of {job.version_name} is {job.state}{suffix}.")
