"""The web server, granian, on a socket that the launcher has opened.

The launcher keeps the socket while a web server that died is started again. Whoever connects meanwhile waits
for the new one, and is not refused.
"""

import os
from typing import Any, Final

from granian import cli, net
from granian.server.mp import MPServer

LISTENER: Final = "HMI_WEB_LISTENER"
"""The environment variable with the number of the open socket."""


class InheritedSocketServer(MPServer):
    """Granian's server, which otherwise opens a socket of its own in each of its worker processes."""

    def _init_shared_socket(self) -> None:
        holder: Any = vars(net)["SocketHolder"]  # its stub lacks the arguments: number, is_uds, backlog
        self._shd = holder(int(os.environ[LISTENER]), False, self.backlog)
        self._ssp = self._sso = None


if __name__ == "__main__":
    cli.Server = InheritedSocketServer  # type: ignore[attr-defined]
    cli.entrypoint()  # type: ignore[no-untyped-call]
