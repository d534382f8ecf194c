"""What OPTIONS answers at the addresses of the API."""

from typing import Any

from rest_framework.metadata import SimpleMetadata
from rest_framework.request import Request


class Methods(SimpleMetadata):
    """What the address is for and, in the header ``Allow``, which methods it has. What they take is in the
    description of the API; to find it out here, things would have to be looked up that may not be there."""

    def determine_actions(self, request: Request, view: Any) -> dict[str, Any]:
        """None: then nothing is said of them."""
        return {}
