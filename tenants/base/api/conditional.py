"""Conditional requests (RFC 9110): a resource has an ETag, and changes can require it with If-Match."""

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

IF_MATCH: Final = "If-Match"
IF_NONE_MATCH: Final = "If-None-Match"
READ_METHODS: Final = frozenset({"GET", "HEAD"})
CHANGE_METHODS: Final = frozenset({"PUT", "PATCH", "DELETE"})
ETAG_METHODS: Final = frozenset({"GET", "HEAD", "PUT", "PATCH"})
"""The methods whose responses have an ETag."""
ANY_TAG: Final = "*"


class ConditionalView(GenericAPIView[Any]):
    """The view of a single object, which ``find_object`` returns.

    The ETag covers the representation, less the ``volatile_fields`` that change by themselves. A change with
    ``If-Match`` and another tag raises ``precondition_failed``, and changes nothing. GET with the tag in
    ``If-None-Match`` returns 304 without a body, unless there are volatile fields.
    """

    volatile_fields: tuple[str, ...] = ()
    conditional_methods = CHANGE_METHODS
    """The methods that take ``If-Match``."""

    def find_object(self, *args: Any, **kwargs: Any) -> Model:
        """Return the object at this URL, or raise ``not_found``."""
        raise NotImplementedError

    def represent(self, row: Any) -> Mapping[str, Any]:
        """Return the representation of the object, as GET shows it."""
        shown: Mapping[str, Any] = self.get_serializer_class()(row).data
        return shown

    def lock(self, row: Any) -> None:
        """Lock the rows that a change locks first, in the same order, so that there are no deadlocks."""
        rows = type(row)._base_manager.select_for_update(no_key=True)
        list(rows.filter(pk=row.pk).values_list("pk"))

    def get(self, request: Request, *_: Any, **kwargs: Any) -> Response:
        return Response(self.represent(self.find_object(**kwargs)))

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Wrap the handler in the check of ``If-Match``, once the caller is authorized."""
        super().initial(request, *args, **kwargs)
        name, header = str(request.method).lower(), request.headers.get(IF_MATCH)
        if header is not None and request.method in self.conditional_methods and hasattr(self, name):
            setattr(self, name, partial(self._change_if_match, parse_etags(header), getattr(self, name)))

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        answer = super().finalize_response(request, response, *args, **kwargs)
        data = getattr(answer, "data", None)
        if (
            request.method in ETAG_METHODS
            and answer.status_code == HTTPStatus.OK
            and isinstance(data, Mapping)
        ):
            tag = answer.headers["ETag"] = self._tag(data)
            if request.method in READ_METHODS and not self.volatile_fields and self._matches(tag, request):
                answer.status_code, answer.data = HTTPStatus.NOT_MODIFIED, None
        return answer

    def _matches(self, tag: str, request: Request) -> bool:
        """Compare with ``If-None-Match``. A proxy that compresses a response makes its tag a weak one."""
        known = parse_etags(request.headers.get(IF_NONE_MATCH, ""))
        return ANY_TAG in known or tag in (one.removeprefix("W/") for one in known)

    def _change_if_match(
        self,
        tags: list[str],
        change: Callable[..., Response],
        request: Request,
        *args: Any,
        **kwargs: Any,
    ) -> Response:
        """Lock the object, compare its tag, and change it. The body is read before: a client may be slow."""
        if request.method in ETAG_METHODS:
            _ = request.data
        with transaction.atomic():
            self.lock(self.find_object(**kwargs))
            tag = self._tag(self.represent(self.find_object(**kwargs)))
            if ANY_TAG not in tags and tag not in tags:
                raise HmiError(
                    ErrorCode.PRECONDITION_FAILED,
                    "The object has changed since you read it. Read it again, then retry.",
                    param=IF_MATCH,
                    details={"etag": tag},
                )
            return change(request, *args, **kwargs)

    def _tag(self, shown: Mapping[str, Any]) -> str:
        lasting = {name: value for name, value in shown.items() if name not in self.volatile_fields}
        return f'"{hashlib.sha256(JSONRenderer().render(lasting)).hexdigest()[:32]}"'
