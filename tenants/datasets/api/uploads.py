"""Resumable uploads by the tus protocol, version 1.0: creation, checksum, expiration, termination.

https://tus.io/protocols/resumable-upload. In addition ``Repr-Digest`` (RFC 9530), at the beginning or with
any piece, promises the sha256 of the whole file, as does ``sha256`` in the metadata.
"""

import re
from base64 import b64decode, b64encode
from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils.http import http_date
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.api.access import TenantView
from tenants.accounts.permissions import request_actor
from tenants.base.api.conditional import ConditionalView
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.upload_concurrency import UPLOAD_BODY_LIMIT, upload_slot
from tenants.datasets.api.serializers import CheckCreateSerializer, CheckSerializer, UploadSerializer
from tenants.datasets.models import CheckKind, Upload, UploadCheck
from tenants.datasets.models.dataset import SHA256_PATTERN
from tenants.datasets.models.upload import MAX_MARK_LENGTH
from tenants.datasets.selectors.uploads import check_of, upload_of, uploads_of
from tenants.datasets.services.checks import check_create
from tenants.datasets.services.uploads import Checksum, upload_append, upload_create, upload_delete
from tenants.datasets.storage import upload_store
from tenants.datasets.upload_file import ALGORITHMS, received_bytes

VERSION = "1.0.0"


PIECE_TYPE = "application/offset+octet-stream"


DIGEST = re.compile(r"sha-256=:([A-Za-z0-9+/]{43}=):")


EXTENSIONS = "creation,checksum,expiration,termination"


def _header(name: str, said: str, kind: Any = OpenApiTypes.STR, *, needed: bool = False) -> OpenApiParameter:
    return OpenApiParameter(name, kind, OpenApiParameter.HEADER, required=needed, description=said)


LENGTH = _header("Upload-Length", "The bytes of the whole file.", OpenApiTypes.INT, needed=True)


OFFSET = _header("Upload-Offset", "The bytes that are here already.", OpenApiTypes.INT, needed=True)


METADATA = _header("Upload-Metadata", "`filename`, `sha256` and `mark`, each with its value in base64.")


CHECKSUM = _header("Upload-Checksum", "Of this piece: `sha256` and its digest in base64.")


WHOLE = _header("Repr-Digest", "Of the whole file: `sha-256=:`, its digest in base64, `:`.")


class TusView(TenantView):
    """Speaks the protocol's one version."""

    serializer_class = UploadSerializer
    queryset = Upload.unscoped.none()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        asked = request.headers.get("Tus-Resumable")
        if request.method not in ("GET", "OPTIONS") and asked not in (None, VERSION):
            raise HmiError(
                ErrorCode.UNSUPPORTED_VERSION, f"Tus {VERSION} is spoken here.", param="Tus-Resumable"
            )

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        answer = super().finalize_response(request, response, *args, **kwargs)
        answer["Tus-Resumable"] = VERSION
        if answer.status_code == HTTPStatus.PRECONDITION_FAILED:
            answer["Tus-Version"] = VERSION
        return answer

    @extend_schema(exclude=True)
    def options(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        """What the protocol can do here."""
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
    """The caller's own uploads that are under way or unused, the newest first."""

    ordering = ("-created_at", "pk")
    fingerprint_headers = ("Upload-Length", "Upload-Metadata", "Repr-Digest")

    @extend_schema(responses=UploadSerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        page = self.paginate_queryset(uploads_of(self.tenant, request_actor(request)))
        return self.get_paginated_response(UploadSerializer(page, many=True).data)

    @extend_schema(request=None, responses={201: None}, parameters=[LENGTH, METADATA, WHOLE])
    def post(self, request: Request, **_: Any) -> Response:
        metadata = _metadata(request.headers.get("Upload-Metadata", ""))
        upload = upload_create(
            tenant=self.tenant,
            filename=metadata.get("filename", ""),
            size=_number(request, "Upload-Length"),
            promised_sha256=_promise(request) or _plain_sha256(metadata.get("sha256", "")),
            mark=metadata.get("mark", "").replace("\0", "")[:MAX_MARK_LENGTH],  # PostgreSQL takes no NUL
            actor=request_actor(request),
        )
        place = f"{request.path.rstrip('/')}/{upload.pk}"
        return Response(
            status=HTTPStatus.CREATED,
            headers={"Location": request.build_absolute_uri(place), **_position(upload)},
        )


class UploadView(ConditionalView, TusView):
    """One upload."""

    body_limit_setting = UPLOAD_BODY_LIMIT
    keeps_partial_body = ("PATCH",)  # the client sends the rest of a piece that broke off
    conditional_methods = frozenset({"DELETE"})  # a piece says by `Upload-Offset` what it goes on from

    def find_object(self, *, upload_id: UUID, **_: Any) -> Upload:
        return upload_of(self.tenant, request_actor(self.request), upload_id)

    @extend_schema(exclude=True)
    def head(self, request: Request, **place: Any) -> Response:
        """How much of it is here."""
        upload = self.find_object(**place)
        name = b64encode(upload.filename.encode()).decode()
        return Response(
            headers={
                **_position(upload),
                "Upload-Length": str(upload.size_bytes),
                "Upload-Metadata": f"filename {name}",
                "Cache-Control": "no-store",
            }
        )

    @extend_schema(request={PIECE_TYPE: bytes}, responses={204: None}, parameters=[OFFSET, CHECKSUM, WHOLE])
    def patch(self, request: Request, **place: Any) -> Response:
        """The next piece."""
        if request.content_type != PIECE_TYPE:
            raise HmiError(
                ErrorCode.UNSUPPORTED_TYPE,
                f"A piece of a file is sent as {PIECE_TYPE}.",
                param="Content-Type",
            )
        upload = self.find_object(**place)
        with upload_slot(self.tenant.pk):
            # The body as it comes in: DRF would read it into memory.
            upload_append(
                upload=upload,
                stream=request._request,
                offset=_number(request, "Upload-Offset"),
                checksum=_checksum(request),
                promised_sha256=_promise(request),
            )
        return Response(status=HTTPStatus.NO_CONTENT, headers=_position(upload))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, **place: Any) -> Response:
        upload_delete(upload=self.find_object(**place))
        return Response(status=HTTPStatus.NO_CONTENT)


def _position(upload: Upload) -> dict[str, str]:
    here = received_bytes(upload_store().incoming_path(upload.pk))
    return {"Upload-Offset": str(here), "Upload-Expires": http_date(upload.expires_at.timestamp())}


def _number(request: Request, header: str) -> int:
    given = request.headers.get(header, "")
    if not (given.isascii() and given.isdecimal() and len(given) <= 18):
        raise HmiError(
            ErrorCode.INVALID_FIELD if given else ErrorCode.MISSING_FIELD,
            f"{header} says how many bytes, as a whole number.",
            param=header,
        )
    return int(given)


def _metadata(header: str) -> dict[str, str]:
    """``key base64, key base64``; a key may stand without a value."""
    found = {}
    for pair in filter(None, map(str.strip, header.split(","))):
        key, _, value = pair.partition(" ")
        try:
            found[key] = b64decode(value, validate=True).decode()
        except ValueError as error:  # of base64, of UTF-8, or of a character beyond ASCII
            raise HmiError(
                ErrorCode.INVALID_FIELD,
                f"The value of {key!r} is not base64 of UTF-8.",
                param="Upload-Metadata",
            ) from error
    return found


def _checksum(request: Request) -> Checksum | None:
    given = request.headers.get("Upload-Checksum")
    return None if given is None else Checksum(*given.partition(" ")[::2])


def _promise(request: Request) -> str:
    """The sha256 of the whole file in hexadecimal digits, or nothing. Other digests are not looked at."""
    found = DIGEST.search(request.headers.get("Repr-Digest", ""))
    return b64decode(found[1]).hex() if found else ""


def _plain_sha256(given: str) -> str:
    if given and not re.fullmatch(SHA256_PATTERN, given.lower()):
        raise HmiError(
            ErrorCode.INVALID_FIELD, "A sha256 has 64 hexadecimal digits.", param="Upload-Metadata"
        )
    return given


class ChecksView(TenantView):
    """Checks of uploads; 202 for those that a worker does."""

    serializer_class = CheckSerializer
    queryset = UploadCheck.unscoped.none()

    @extend_schema(request=CheckCreateSerializer, responses={201: CheckSerializer, 202: CheckSerializer})
    def post(self, request: Request, **_: Any) -> Response:
        asked = CheckCreateSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        given, actor = asked.validated_data, request_actor(request)
        files = {purpose: upload_of(self.tenant, actor, key) for purpose, key in given["files"].items()}
        options = {key: given[key] for key in ("task", "columns", "separator", "allow_leaks") if key in given}
        check = check_create(
            tenant=self.tenant,
            kind=given["kind"],
            files=files,
            name=given["name"],
            stores=given["stores"],
            options=options if given["kind"] == CheckKind.DATASET else {},
            actor=actor,
        )
        done = status.HTTP_202_ACCEPTED if check.is_active else status.HTTP_201_CREATED
        return Response(CheckSerializer(check).data, status=done)


class CheckView(ConditionalView, TenantView):
    """One check, with what was found."""

    serializer_class = CheckSerializer
    queryset = UploadCheck.unscoped.none()

    def find_object(self, *, check_id: UUID, **_: Any) -> UploadCheck:
        return check_of(self.tenant, check_id)
