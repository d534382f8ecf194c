"""Pickled weights, which are refused. The standard library only, so that each package may use it."""

from collections.abc import Sequence
from typing import Final

PICKLED_SUFFIXES: Final = frozenset({".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib"})
_TO_SAFETENSORS: Final = (
    'python -c "import sys, torch; from safetensors.torch import save_file; '
    "w = torch.load(sys.argv[1], weights_only=True); "
    "save_file({{k: v.contiguous().clone() for k, v in w.items()}}, 'model.safetensors')\" {}"
)


def pickled_reason(names: Sequence[str]) -> str:
    """Why a checkpoint whose weights are only in these files is refused, and the command that makes
    safetensors of them, which reads them without running code."""
    return (
        f"weights only in {', '.join(names[:3])}: reading a pickle runs code; in the checkpoint's folder, "
        f"this command saves them as safetensors without running any: {_TO_SAFETENSORS.format(names[0])}"
    )
