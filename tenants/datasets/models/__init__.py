"""What tenants upload, and what is made of it."""

from tenants.datasets.models.corpus import Corpus
from tenants.datasets.models.dataset import Dataset, DatasetSplit, Split, Task
from tenants.datasets.models.file import File, FilePurpose
from tenants.datasets.models.parted_file import PartedFile, PartedFileState
from tenants.datasets.models.upload import Upload
from tenants.datasets.models.upload_check import CheckKind, CheckState, UploadCheck

__all__ = [
    "CheckKind",
    "CheckState",
    "Corpus",
    "Dataset",
    "DatasetSplit",
    "File",
    "FilePurpose",
    "PartedFile",
    "PartedFileState",
    "Split",
    "Task",
    "Upload",
    "UploadCheck",
]
