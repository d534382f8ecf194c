"""What there is, by the names that requests have for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Named = Mapping[str, object]
Special = Mapping[str, Named]
"""What requests of single operations name, parts of the path, fields of the body and headers, by the method
and the address below `/api/v1`, or below a tenant of that."""


@dataclass(frozen=True)
class Known:
    """Values that name what is there: of parameters of a path; of fields of a body, parameters of a query and
    headers; and of single operations, which go first."""

    places: Named
    fields: Named
    special: Special = field(default_factory=dict)

    def own(self, label: str) -> Named:
        """What one operation names, by its label, `POST /api/v1/jobs/{job_id}/cancel`."""
        method, path = label.split(" ")
        below = path.removeprefix("/api/v1").replace("/tenants/{tenant}/", "/", 1)
        return self.special.get(f"{method} {below}", {})

    def place(self, path: str, name: str) -> object:
        """A parameter is named by what stands before it and by itself, `domains/domain_id`, or by itself."""
        parts = path.split("/")
        before = parts[next(at for at, part in enumerate(parts) if f"{{{name}}}" in part) - 1]
        return self.places.get(f"{before}/{name}", self.places.get(name))
