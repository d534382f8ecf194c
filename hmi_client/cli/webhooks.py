"""`hmi webhooks`: signed HTTP callbacks for jobs, aliases and batches."""

from enum import StrEnum
from typing import Annotated

import typer

from hmi_client.cli.output import AsJson, print_json, print_note, print_table
from hmi_client.cli.profiles import client_of
from hmi_client.responses import Delivery, Webhook

app = typer.Typer(no_args_is_help=True, help="Get signed HTTP callbacks for jobs, aliases and batches.")


class Event(StrEnum):
    """What a webhook may be told of."""

    JOB_STARTED = "job.started"
    JOB_SUCCEEDED = "job.succeeded"
    JOB_FAILED = "job.failed"
    JOB_CANCELLED = "job.cancelled"
    ALIAS_MOVED = "alias.moved"
    VERSION_DRIFTED = "version.drifted"
    BATCH_COMPLETED = "batch.completed"
    BATCH_FAILED = "batch.failed"
    BATCH_CANCELLED = "batch.cancelled"
    BATCH_EXPIRED = "batch.expired"


WebhookId = Annotated[str, typer.Argument(help="The webhook's id.")]


@app.command("list")
def list_webhooks(context: typer.Context, as_json: AsJson = False) -> None:
    """List the tenant's webhooks."""
    with client_of(context) as client:
        webhooks = list(client.list_webhooks())
    if as_json:
        print_json(webhooks)
        return
    print_table(
        ("id", "url", "events", "state"),
        [(one.id, one.url, ", ".join(one.kinds), _state(one)) for one in webhooks],
    )


@app.command()
def create(
    context: typer.Context,
    url: Annotated[str, typer.Argument(help="An https address on the public internet.")],
    event: Annotated[
        list[Event] | None, typer.Option(help="An event to send. Repeatable. Default: all of them.")
    ] = None,
    description: Annotated[str, typer.Option(help="A description.")] = "",
    as_json: AsJson = False,
) -> None:
    """Create a webhook. Its secret, which signs the requests, is printed only once."""
    with client_of(context) as client:
        webhook = client.create_webhook(url, kinds=[*map(str, event or Event)], description=description)
    _print_secret(webhook, as_json)


@app.command()
def rotate(
    context: typer.Context,
    webhook: WebhookId,
    overlap: Annotated[
        int, typer.Option(min=0, max=604_800, help="Seconds for which both secrets sign the requests.")
    ] = 86_400,
    as_json: AsJson = False,
) -> None:
    """Replace the secret of a webhook."""
    with client_of(context) as client:
        _print_secret(client.rotate_webhook_secret(webhook, overlap_s=overlap), as_json)


@app.command()
def enable(context: typer.Context, webhook: WebhookId) -> None:
    """Send events to a webhook again."""
    with client_of(context) as client:
        client.update_webhook(webhook, enabled=True)
    print_note(f"The webhook {webhook} is enabled.")


@app.command()
def disable(context: typer.Context, webhook: WebhookId) -> None:
    """Stop sending events to a webhook until it is enabled."""
    with client_of(context) as client:
        client.update_webhook(webhook, enabled=False)
    print_note(f"The webhook {webhook} is disabled.")


@app.command()
def delete(
    context: typer.Context,
    webhook: WebhookId,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a webhook with its log."""
    if not yes:
        typer.confirm(f"Delete the webhook {webhook} with its log?", abort=True, err=True)
    with client_of(context) as client:
        client.delete_webhook(webhook)
    print_note(f"The webhook {webhook} is deleted.")


@app.command("test")
def send_test(context: typer.Context, webhook: WebhookId, as_json: AsJson = False) -> None:
    """Send a test event to a webhook."""
    with client_of(context) as client:
        _print_delivery(client.test_webhook(webhook), webhook, as_json)


@app.command()
def deliveries(context: typer.Context, webhook: WebhookId, as_json: AsJson = False) -> None:
    """List the deliveries to a webhook, newest first."""
    with client_of(context) as client:
        found = list(client.list_deliveries(webhook))
    if as_json:
        print_json(found)
        return
    print_table(
        ("id", "event", "state", "attempts", "status", "error", "created"),
        [
            (one.id, one.kind, one.state, one.attempts, *_last_attempt(one), one.created_at[:16])
            for one in found
        ],
    )


@app.command()
def replay(
    context: typer.Context,
    webhook: WebhookId,
    delivery: Annotated[str, typer.Argument(help="The delivery's id.")],
    as_json: AsJson = False,
) -> None:
    """Send an event again."""
    with client_of(context) as client:
        _print_delivery(client.replay_delivery(webhook, delivery), webhook, as_json)


def _print_secret(webhook: Webhook, as_json: bool) -> None:
    """The secret is the result: it goes to stdout."""
    if as_json:
        print_json(webhook)
        return
    print_note(f"The webhook {webhook.id} sends to {webhook.url}. Keep its secret: it is not shown again.")
    typer.echo(webhook.secret)


def _print_delivery(delivery: Delivery, webhook: str, as_json: bool) -> None:
    if as_json:
        print_json(delivery)
    else:
        print_note(f"{delivery.kind} is {delivery.state}. See its result: hmi webhooks deliveries {webhook}")


def _state(webhook: Webhook) -> str:
    if not webhook.enabled:
        return f"disabled: {webhook.disabled_reason}" if webhook.disabled_reason else "disabled"
    return "failing" if webhook.failing_since else "enabled"


def _last_attempt(delivery: Delivery) -> tuple[object, object]:
    """The HTTP status and the error of the last attempt."""
    last = delivery.attempt_log[-1] if delivery.attempt_log else {}
    return last.get("status"), last.get("error")
