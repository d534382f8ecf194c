"""The base of views of a single object."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Model
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response


class ObjectView(GenericAPIView[Any]):
    """The view of a single object, which ``find_object`` returns."""

    def find_object(self, *args: Any, **kwargs: Any) -> Model:
        """Return the object at this URL, or raise ``not_found``."""
        raise NotImplementedError

    def represent(self, row: Any) -> Mapping[str, Any]:
        """Return the representation of the object, as GET shows it."""
        shown: Mapping[str, Any] = self.get_serializer_class()(row).data
        return shown

    def get(self, request: Request, *_: Any, **kwargs: Any) -> Response:
        return Response(self.represent(self.find_object(**kwargs)))
