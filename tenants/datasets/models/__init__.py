"""What tenants upload, and what is made of it."""

from tenants.datasets.models.dataset import Corpus, Dataset, DatasetSplit, Split, Task
from tenants.datasets.models.file import File, FilePurpose, PartedFile, PartedFileState
from tenants.datasets.models.upload import CheckKind, CheckState, Upload, UploadCheck

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
