"""The message that `manage.py up` prints when all processes run."""

import json
import shlex

from rich.console import Console
from rich.table import Table

from demo.tree import DemoSummary


def show_welcome(console: Console, *, url: str, demo: DemoSummary | None) -> None:
    """Print the site's URL, the demo's logins and an example request."""
    console.print(f"\nHMI is running at [bold]{url}[/bold] (admin: {url}/admin/, API: {url}/api/docs/)")
    if demo is not None:
        console.print(_logins(demo))
        console.print(f"API key: {demo.api_key}\n", highlight=False)
        console.print(curl_line(url, demo), highlight=False, markup=False, soft_wrap=True)
    console.print("\nCtrl-C stops everything.")


def curl_line(url: str, demo: DemoSummary) -> str:
    """An infer request as a curl command."""
    body = json.dumps({"model": demo.model, "inputs": [demo.text]})
    return (
        f"curl -s {url}/api/v1/infer -H 'Authorization: Bearer {demo.api_key}' "
        f"-H 'Content-Type: application/json' -d {shlex.quote(body)}"
    )


def _logins(demo: DemoSummary) -> Table:
    table = Table("sign in as", "password", title="Demo logins", title_justify="left", box=None)
    for login in demo.logins:
        table.add_row(login.username, login.password or "(changed)")
    return table
