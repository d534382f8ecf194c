"""The web server, granian, on a socket that the launcher has opened.

The launcher keeps the socket while a web server that died is started again. Whoever connects meanwhile waits
for the new one, and is not refused.
"""

import os
from typing import Any, Final

from granian import cli
from granian.net import SocketHolder
from granian.server import Server

LISTENER: Final = "HMI_WEB_LISTENER"
"""The environment variable with the number of the open socket."""


class InheritedSocketServer(Server):  # type: ignore[misc]  # the class depends on granian's build
    """Granian's server, which otherwise opens a socket of its own in each of its worker processes."""

    def _init_shared_socket(self) -> None:
        self._sfd = int(os.environ[LISTENER])
        self._ssp: Any = None
        self._shd = SocketHolder(self._sfd, False, self.backlog)
        self._sso: Any = None


if __name__ == "__main__":
    cli.Server = InheritedSocketServer
    cli.entrypoint()
