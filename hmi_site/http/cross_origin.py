"""Calls of the API from pages of other origins."""

from typing import Any

from corsheaders.middleware import CorsMiddleware
from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed


def is_cross_origin_on() -> bool:
    """Whether pages of other origins may call the API."""
    return bool(settings.CORS_ALLOW_ALL_ORIGINS or settings.CORS_ALLOWED_ORIGINS)


class CrossOrigin(CorsMiddleware):
    """Lets pages of the origins in HMI_CORS_ORIGINS call the API; left out if there are none."""

    def __init__(self, *arguments: Any) -> None:
        if not is_cross_origin_on():
            raise MiddlewareNotUsed
        super().__init__(*arguments)
