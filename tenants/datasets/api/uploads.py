"""Resumable uploads by the tus protocol, version 1.0: creation, checksum, expiration, termination.

https://tus.io/protocols/resumable-upload. A client may also declare the sha256 of the whole file: as
``sha256`` in the metadata, or in the header ``Repr-Digest`` (RFC 9530) of any request.
"""

import re
from base64 import b64decode
from http import HTTPStatus
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest
from django.utils.http import http_date
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.api.access import TenantView
from tenants.accounts.permissions import request_actor
from tenants.base.api.downloads import OCTET_STREAM
from tenants.base.api.inputs import validated_body
from tenants.base.api.object_view import ObjectView
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.upload_concurrency import UPLOAD_BODY_LIMIT, upload_slot
from tenants.datasets.api.serializers import (
    CheckCreateSerializer,
    CheckSerializer,
    UploadDetailSerializer,
    UploadSerializer,
)
from tenants.datasets.append_only_file import ALGORITHMS, received_bytes
from tenants.datasets.models import CheckKind, Upload, UploadCheck
from tenants.datasets.models.dataset import SHA256_PATTERN
from tenants.datasets.models.upload import MAX_FINGERPRINT_LENGTH, MAX_METADATA_LENGTH
from tenants.datasets.selectors.previews import files_columns
from tenants.datasets.selectors.uploads import check_of, upload_of, uploads_of
from tenants.datasets.services.checks import check_create
from tenants.datasets.services.uploads import Checksum, upload_append, upload_create, upload_delete
from tenants.datasets.storage import upload_store

VERSION = "1.0.0"
CHUNK_TYPE = "application/offset+octet-stream"
CHUNK_TYPES = (CHUNK_TYPE, OCTET_STREAM)
EXTENSIONS = "creation,checksum,expiration,termination"
MAX_DIGITS: Final = 18
"""A number of bytes with more digits is too large for any file."""
LENGTH_HEADER, OFFSET_HEADER = "Upload-Length", "Upload-Offset"
METADATA_HEADER, CHECKSUM_HEADER = "Upload-Metadata", "Upload-Checksum"
UNSUPPORTED_HEADERS = ("Upload-Defer-Length", "Upload-Concat")
"""Of extensions that this server does not have."""
PROTOCOL_HEADERS = (LENGTH_HEADER, OFFSET_HEADER, METADATA_HEADER, CHECKSUM_HEADER, *UNSUPPORTED_HEADERS)
"""Faults of these are 400, as the protocol has it."""
METHOD_OVERRIDE = "X-HTTP-Method-Override"
REPR_DIGEST_PATTERN = re.compile(r"sha-256=:([A-Za-z0-9+/]{43}=):")


def _header(
    name: str, text: str, kind: Any = OpenApiTypes.STR, *, required: bool = False
) -> OpenApiParameter:
    return OpenApiParameter(name, kind, OpenApiParameter.HEADER, required=required, description=text)


LENGTH = _header(LENGTH_HEADER, "The size of the file in bytes.", OpenApiTypes.INT, required=True)
OFFSET = _header(OFFSET_HEADER, "The number of bytes that have arrived.", OpenApiTypes.INT, required=True)
METADATA = _header(METADATA_HEADER, "`filename`, `sha256` and `fingerprint`, each with its value in base64.")
CHECKSUM = _header(CHECKSUM_HEADER, "Of this request's body: `sha256` and its digest in base64.")
REPR_DIGEST = _header("Repr-Digest", "Of the whole file: `sha-256=:`, its digest in base64, `:`.")


class TusView(TenantView):
    """The base of the upload views: checks the version, and sends the headers of the protocol.

    Clients that cannot send PATCH or DELETE send another method with ``X-HTTP-Method-Override``.
    """

    serializer_class = UploadSerializer
    queryset = Upload.unscoped.none()

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        if override := request.headers.get(METHOD_OVERRIDE):
            request.method = override.strip().upper()
        return super().initialize_request(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        version = request.headers.get("Tus-Resumable")
        if request.method not in ("GET", "OPTIONS") and version not in (None, VERSION):
            message = f"This server supports tus {VERSION}."
            raise HmiError(ErrorCode.UNSUPPORTED_VERSION, message, param="Tus-Resumable")

    def handle_exception(self, exc: Exception) -> Response:
        response = super().handle_exception(exc)
        if (
            isinstance(exc, HmiError)
            and exc.param in PROTOCOL_HEADERS
            and exc.status == HTTPStatus.UNPROCESSABLE_ENTITY
        ):
            response.status_code = HTTPStatus.BAD_REQUEST
        return response

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        response["Tus-Resumable"] = VERSION
        if request.method == "HEAD":
            response["Cache-Control"] = "no-store"
        if response.status_code == HTTPStatus.PRECONDITION_FAILED:
            response["Tus-Version"] = VERSION
        return response

    @extend_schema(exclude=True)
    def options(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        """The version, extensions and limits of the server."""
        return Response(
            status=HTTPStatus.NO_CONTENT,
            headers={
                "Tus-Version": VERSION,
                "Tus-Extension": EXTENSIONS,
                "Tus-Checksum-Algorithm": ",".join(ALGORITHMS),
                "Tus-Max-Size": str(settings.HMI_UPLOAD_MAX_BYTES),
            },
        )


class UploadsView(TusView):
    """The caller's uploads that are incomplete or not used yet."""

    ordering = ("-created_at", "pk")
    fingerprint_headers = (LENGTH_HEADER, METADATA_HEADER, "Repr-Digest")

    @extend_schema(responses=UploadSerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        """List the caller's unused uploads, newest first."""
        page = self.paginate_queryset(uploads_of(self.tenant, request_actor(request)))
        return self.get_paginated_response(UploadSerializer(page, many=True).data)

    @extend_schema(request=None, responses={201: None}, parameters=[LENGTH, METADATA, REPR_DIGEST])
    def post(self, request: Request, **_: Any) -> Response:
        """Create a resumable upload (tus)."""
        for header in UNSUPPORTED_HEADERS:
            if header in request.headers:
                message = f"This server does not support {header}."
                raise HmiError(ErrorCode.INVALID_FIELD, message, param=header)
        header = request.headers.get(METADATA_HEADER, "")
        metadata = _metadata(header)
        upload = upload_create(
            tenant=self.tenant,
            filename=_text(metadata, "filename") or _text(metadata, "name"),
            size=_number(request, LENGTH_HEADER),
            expected_sha256=_repr_digest(request) or _clean_sha256(_text(metadata, "sha256")),
            # PostgreSQL cannot store NUL.
            fingerprint=_text(metadata, "fingerprint").replace("\0", "")[:MAX_FINGERPRINT_LENGTH],
            metadata=header,
            actor=request_actor(request),
        )
        location = request.build_absolute_uri(f"{request.path.rstrip('/')}/{upload.pk}")
        return Response(status=HTTPStatus.CREATED, headers={"Location": location, **_offset_headers(upload)})


class UploadView(ObjectView, TusView):
    """Get the progress of an upload."""

    serializer_class = UploadDetailSerializer
    body_limit_setting = UPLOAD_BODY_LIMIT
    keeps_partial_body = ("PATCH",)  # the client sends the rest of a body that broke off

    def find_object(self, *, upload_id: UUID, **_: Any) -> Upload:
        return upload_of(self.tenant, request_actor(self.request), upload_id)

    @extend_schema(exclude=True)
    def head(self, request: Request, **kwargs: Any) -> Response:
        """The offset and size of the upload."""
        upload = self.find_object(**kwargs)
        headers = {**_offset_headers(upload), LENGTH_HEADER: str(upload.size_bytes)}
        return Response(headers=headers | ({METADATA_HEADER: upload.metadata} if upload.metadata else {}))

    @extend_schema(
        request={OCTET_STREAM: bytes}, responses={204: None}, parameters=[OFFSET, CHECKSUM, REPR_DIGEST]
    )
    def patch(self, request: Request, **kwargs: Any) -> Response:
        """Append the body to an upload at ``Upload-Offset``.

        tus clients send it as `application/offset+octet-stream`.
        """
        if request._request.content_type not in CHUNK_TYPES:
            message = f"The Content-Type must be {CHUNK_TYPE}."
            raise HmiError(ErrorCode.UNSUPPORTED_TYPE, message, param="Content-Type")
        upload = self.find_object(**kwargs)
        with upload_slot(self.tenant.pk):
            # Django's request is a stream: DRF would read the body into memory.
            upload_append(
                upload=upload,
                stream=request._request,
                offset=_number(request, OFFSET_HEADER),
                checksum=_checksum(request),
                expected_sha256=_repr_digest(request),
            )
        return Response(status=HTTPStatus.NO_CONTENT, headers=_offset_headers(upload))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, **kwargs: Any) -> Response:
        """Discard an upload."""
        upload_delete(upload=self.find_object(**kwargs))
        return Response(status=HTTPStatus.NO_CONTENT)


def _offset_headers(upload: Upload) -> dict[str, str]:
    offset = received_bytes(upload_store().upload_path(upload.pk))
    return {OFFSET_HEADER: str(offset), "Upload-Expires": http_date(upload.expires_at.timestamp())}


def _number(request: Request, header: str) -> int:
    value = request.headers.get(header, "")
    if not (value.isascii() and value.isdecimal()):
        code = ErrorCode.INVALID_FIELD if value else ErrorCode.MISSING_FIELD
        raise HmiError(code, f"{header} must be a number of bytes.", param=header)
    return int(value) if len(value) <= MAX_DIGITS else 10**MAX_DIGITS


def _metadata(header: str) -> dict[str, bytes]:
    """Return the pairs of ``key base64, key base64``. A key without a value has an empty one."""
    if len(header) > MAX_METADATA_LENGTH:
        raise _invalid_metadata(f"Upload-Metadata is longer than {MAX_METADATA_LENGTH:,} characters.")
    metadata: dict[str, bytes] = {}
    for pair in filter(None, map(str.strip, header.split(","))):
        key, _, value = pair.partition(" ")
        if key in metadata:
            raise _invalid_metadata(f"The key {key!r} occurs twice.")
        try:
            metadata[key] = b64decode(value.strip(), validate=True)
        except ValueError as error:
            raise _invalid_metadata(f"The value of {key!r} is not base64.") from error
    return metadata


def _text(metadata: dict[str, bytes], key: str) -> str:
    """The value of a key as text, empty if it is absent. Clients may send any bytes under other keys."""
    try:
        return metadata.get(key, b"").decode()
    except UnicodeDecodeError as error:
        raise _invalid_metadata(f"The value of {key!r} is not base64 of UTF-8.") from error


def _invalid_metadata(message: str) -> HmiError:
    return HmiError(ErrorCode.INVALID_FIELD, message, param=METADATA_HEADER)


def _checksum(request: Request) -> Checksum | None:
    header = request.headers.get(CHECKSUM_HEADER)
    return None if header is None else Checksum(*header.partition(" ")[::2])


def _repr_digest(request: Request) -> str:
    """Return the sha256 of the whole file in hexadecimal digits, or "". Other algorithms are ignored."""
    found = REPR_DIGEST_PATTERN.search(request.headers.get("Repr-Digest", ""))
    return b64decode(found[1]).hex() if found else ""


def _clean_sha256(sha256: str) -> str:
    if sha256 and not re.fullmatch(SHA256_PATTERN, sha256.lower()):
        raise _invalid_metadata("A sha256 has 64 hexadecimal digits.")
    return sha256


class ChecksView(TenantView):
    """Check uploaded files. A worker checks large ones: the response is 202 then."""

    serializer_class = CheckSerializer
    queryset = UploadCheck.unscoped.none()

    @extend_schema(request=CheckCreateSerializer, responses={201: CheckSerializer, 202: CheckSerializer})
    def post(self, request: Request, **_: Any) -> Response:
        data, actor = validated_body(CheckCreateSerializer, request), request_actor(request)
        files = {purpose: upload_of(self.tenant, actor, key) for purpose, key in data["files"].items()}
        options: dict[str, Any] = {}
        if data["kind"] == CheckKind.DATASET:
            options = {
                key: data[key]
                for key in ("task", "columns", "separator", "allow_leaks", "skip_invalid_rows")
                if key in data
            }
            if data["guess_columns"] and not data.get("columns"):
                options["columns"] = files_columns(files, data["task"]).needed_mapping(data["task"])
        check = check_create(
            tenant=self.tenant,
            kind=data["kind"],
            files=files,
            name=data["name"],
            store=data["store"],
            options=options,
            actor=actor,
        )
        code = status.HTTP_202_ACCEPTED if check.is_active else status.HTTP_201_CREATED
        return Response(CheckSerializer(check).data, status=code)


class CheckView(ObjectView, TenantView):
    """Get a check with its result."""

    serializer_class = CheckSerializer
    queryset = UploadCheck.unscoped.none()

    def find_object(self, *, check_id: UUID, **_: Any) -> UploadCheck:
        return check_of(self.tenant, check_id)
