"""Compressed answers."""

from functools import partial

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

from hmi_site.http.request_log import INFER_PATH
from inference.api.pending_response import PendingResponse


class Compression(GZipMiddleware):
    """Compresses pages and JSON with gzip for those that accept it, but for two kinds of answers: what is
    sent piece by piece, such as events and downloads, since each piece must arrive when it is sent; and those
    of infer requests, which are small."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Return the response, compressed unless it is small, streamed, or of an infer request."""
        if isinstance(response, PendingResponse):
            response.when_complete(partial(self.process_response, request))
            return response
        if response.streaming or request.path == INFER_PATH:
            return response
        return super().process_response(request, response)
