"""The headers that views of a kind have in common, told of each of their operations."""

from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter

from tenants.accounts.api import idempotency
from tenants.accounts.api.idempotency import IdempotentView
from tenants.base.api import conditional as single
from tenants.base.api.conditional import ConditionalView

KEY = OpenApiParameter(
    idempotency.HEADER,
    location=OpenApiParameter.HEADER,
    description="The same key and body again have the same answer, for a day: nothing is done twice.",
)
TAG = OpenApiParameter(
    single.HEADER,
    location=OpenApiParameter.HEADER,
    description="The `ETag` that GET gave: where it is another by now, nothing is changed (412).",
)
KNOWN = OpenApiParameter(
    single.KNOWN,
    location=OpenApiParameter.HEADER,
    description="An `ETag` that was given before: where it is still that, the answer is 304, without a body.",
)
REPLAYED = OpenApiParameter(
    idempotency.REPLAYED,
    location=OpenApiParameter.HEADER,
    description="`true` where this was answered before.",
    response=[200, 201, 202],
)
TAG_NOW = OpenApiParameter(
    "ETag", location=OpenApiParameter.HEADER, description="Stands for what is shown.", response=[200]
)


class ViewSchema(AutoSchema):
    """Tells of ``Idempotency-Key`` where something is made, of ``If-Match`` where something is changed."""

    def get_override_parameters(self) -> list[Any]:
        """Beside those that the view names itself."""
        more = []
        if self.method == "POST" and isinstance(self.view, IdempotentView) and self.view.makes:
            more += [KEY, REPLAYED]
        if isinstance(self.view, ConditionalView) and self.method in self.view.conditional:
            more.append(TAG)
        if isinstance(self.view, ConditionalView) and self.method in single.READS and not self.view.volatile:
            more.append(KNOWN)
        if isinstance(self.view, ConditionalView) and self.method in single.SHOWS:
            more.append(TAG_NOW)
        return [*super().get_override_parameters(), *more]
