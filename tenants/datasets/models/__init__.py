"""Models of uploads, files, corpora and datasets."""

from tenants.datasets.models.dataset import (
    DATASET_TASK_CHOICES,
    DATASET_TASKS,
    GENERATIVE_TASKS,
    TASKS_WITHOUT_LABELS,
    Corpus,
    Dataset,
    DatasetSplit,
    Split,
    Task,
)
from tenants.datasets.models.file import File, FilePurpose
from tenants.datasets.models.upload import CheckKind, CheckState, Upload, UploadCheck

__all__ = [
    "DATASET_TASKS",
    "DATASET_TASK_CHOICES",
    "GENERATIVE_TASKS",
    "TASKS_WITHOUT_LABELS",
    "CheckKind",
    "CheckState",
    "Corpus",
    "Dataset",
    "DatasetSplit",
    "File",
    "FilePurpose",
    "Split",
    "Task",
    "Upload",
    "UploadCheck",
]
