"""One thing at one address: it is read with an ETag, which spares a second reading, and to which changes may
be tied (RFC 9110)."""

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from django.db import transaction
from django.db.models import Model
from django.utils.http import parse_etags
from rest_framework.generics import GenericAPIView
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.base.errors import ErrorCode, HmiError

HEADER: Final = "If-Match"
KNOWN: Final = "If-None-Match"
CHANGES: Final = frozenset({"PUT", "PATCH", "DELETE"})
READS: Final = frozenset({"GET", "HEAD"})
SHOWS: Final = frozenset({"GET", "HEAD", "PUT", "PATCH"})
ANY: Final = "*"


class ConditionalView(GenericAPIView[Any]):
    """The view of one thing, which ``found`` finds.

    Its ETag stands for all that GET shows, less what changes without anybody's doing (``volatile``). PUT,
    PATCH and DELETE with ``If-Match`` are held against it: where it is another, ``precondition_failed``, and
    nothing is changed. Without the header they are done whatever the state is. GET with the tag in
    ``If-None-Match`` has 304 and no body, unless there is something ``volatile`` to tell.
    """

    volatile: tuple[str, ...] = ()
    conditional = CHANGES
    """The methods that take ``If-Match``."""

    def found(self, *args: Any, **kwargs: Any) -> Model:
        """What is at this address, or ``not_found``."""
        raise NotImplementedError

    def shown(self, row: Any) -> Mapping[str, Any]:
        """What GET answers."""
        shown: Mapping[str, Any] = self.get_serializer_class()(row).data
        return shown

    def hold(self, row: Any) -> None:
        """Lock what a change locks first, so that nobody waits for the one with the other in hand."""
        rows = type(row)._base_manager.select_for_update(no_key=True)
        list(rows.filter(pk=row.pk).values_list("pk"))

    def get(self, request: Request, *_: Any, **kwargs: Any) -> Response:
        return Response(self.shown(self.found(**kwargs)))

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Once it is known who asks, and that they may."""
        super().initial(request, *args, **kwargs)
        name, asked = str(request.method).lower(), request.headers.get(HEADER)
        if asked is not None and request.method in self.conditional and hasattr(self, name):
            setattr(self, name, partial(self._if_it_is_still, parse_etags(asked), getattr(self, name)))

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        answer = super().finalize_response(request, response, *args, **kwargs)
        data = getattr(answer, "data", None)
        if request.method in SHOWS and answer.status_code == HTTPStatus.OK and isinstance(data, Mapping):
            tag = answer.headers["ETag"] = self._tag(data)
            if request.method in READS and not self.volatile and self._is_known(tag, request):
                answer.status_code, answer.data = HTTPStatus.NOT_MODIFIED, None
        return answer

    def _is_known(self, tag: str, request: Request) -> bool:
        """By the weak comparison: a proxy that packs an answer makes its tag a weak one."""
        known = parse_etags(request.headers.get(KNOWN, ""))
        return ANY in known or tag in (one.removeprefix("W/") for one in known)

    def _if_it_is_still(
        self,
        tags: list[str],
        change: Callable[..., Response],
        request: Request,
        *args: Any,
        **kwargs: Any,
    ) -> Response:
        """Between the look and the change nobody else changes the row: it is locked. A body is read before,
        which may take as long as who sends it likes."""
        if request.method in SHOWS:
            _ = request.data
        with transaction.atomic():
            self.hold(self.found(**kwargs))
            now = self._tag(self.shown(self.found(**kwargs)))
            if ANY not in tags and now not in tags:
                raise HmiError(
                    ErrorCode.PRECONDITION_FAILED,
                    "It was changed since you read it: read it again, and decide anew.",
                    param=HEADER,
                    details={"etag": now},
                )
            return change(request, *args, **kwargs)

    def _tag(self, shown: Mapping[str, Any]) -> str:
        lasting = {name: value for name, value in shown.items() if name not in self.volatile}
        return f'"{hashlib.sha256(JSONRenderer().render(lasting)).hexdigest()[:32]}"'
