"""How much a client may send at once."""

from django.conf import settings

FORM_OVERHEAD_BYTES = 1024**2
PIECE_OF_A_FILE = "application/offset+octet-stream"


def body_limit(content_type: str) -> int:
    """The largest body taken, in bytes: files may be larger than anything else."""
    if content_type.startswith("multipart/form-data"):
        return int(settings.HMI_UPLOAD_MAX_BYTES) + FORM_OVERHEAD_BYTES
    if content_type == PIECE_OF_A_FILE:
        return int(settings.HMI_UPLOAD_MAX_BYTES)
    return int(settings.HMI_MAX_BODY_BYTES)
