"""A root: the shared upper layers, the tokenizer and the untouched lower layers of a checkpoint."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig

from inference.hplm.bert import FAMILY, config_json, parse_config
from inference.hplm.checkpoint import Checkpoint
from inference.hplm.errors import HplmError
from inference.hplm.full_lower import FullLower
from inference.hplm.json_files import read_artifact_json, read_json, write_json
from inference.hplm.lm_head import LmHead
from inference.hplm.root_config import RootConfig
from inference.hplm.tokenization import TextTokenizer
from inference.hplm.upper import UpperLayers

ROOT_FILE = "root.json"
CONFIG_FILE = "config.json"
TOKENIZER_FILE = "tokenizer.json"
UPPER_FILE = "upper.safetensors"
LOWER_FILE = "checkpoint_lower.safetensors"
LM_HEAD_FILE = "lm_head.safetensors"


@dataclass(slots=True)
class Root:
    """A registered root in memory. The lower layers and the language model head are read when first asked
    for."""

    config: RootConfig
    bert: BertConfig
    upper: UpperLayers
    tokenizer: TextTokenizer
    folder: Path | None = None
    _lower: FullLower | None = None
    _lm_head: LmHead | None = None

    @classmethod
    def from_checkpoint(
        cls,
        checkpoint: Checkpoint,
        *,
        lower: int | None = None,
        max_tokens: int | None = None,
        name: str | None = None,
    ) -> "Root":
        """Split `checkpoint` after `lower` layers (default: half), for texts of at most `max_tokens` tokens
        (default, and at most: its position embeddings). fp32, on the CPU.

        Raises HplmError(unsupported_checkpoint) when it cannot be split so or its weights do not fit.
        """
        bert = checkpoint.config
        count = bert.num_hidden_layers // 2 if lower is None else lower
        limit = bert.max_position_embeddings if max_tokens is None else max_tokens
        if limit > bert.max_position_embeddings:
            raise HplmError(
                "unsupported_checkpoint", f"max_tokens {limit} exceeds {bert.max_position_embeddings}"
            )
        tokenizer = TextTokenizer.from_file(checkpoint.tokenizer_file, limit)
        if tokenizer.size > bert.vocab_size:
            raise HplmError(
                "unsupported_checkpoint", "tokenizer.json has more tokens than the model has embeddings"
            )
        config = RootConfig(
            name=name or checkpoint.name,
            family=FAMILY,
            lower=count,
            layers=bert.num_hidden_layers,
            hidden=bert.hidden_size,
            heads=bert.num_attention_heads,
            max_tokens=limit,
            vocab=bert.vocab_size,
            pad_id=tokenizer.id_of("[PAD]"),
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            mask_id=tokenizer.id_of("[MASK]"),
            unk_id=tokenizer.id_of("[UNK]"),
            missing_id=bert.vocab_size,
            source_sha256=checkpoint.sha256,
        )
        return cls(
            config,
            bert,
            UpperLayers.from_checkpoint(checkpoint, count),
            tokenizer,
            _lower=FullLower.from_checkpoint(checkpoint, count),
            _lm_head=LmHead.from_checkpoint(checkpoint),
        )

    def checkpoint_lower(self) -> FullLower:
        """The checkpoint's own lower layers with full context, fp32, on the upper layers' device."""
        if self._lower is None:
            if self.folder is None:
                raise ValueError("this root came neither from a checkpoint nor from a folder")
            self._lower = FullLower.load(
                self.folder / LOWER_FILE, self.bert, self.config.lower, self.upper.device
            )
        return self._lower

    def lm_head(self) -> LmHead | None:
        """The language model head, fp32, or None when this root has none."""
        if self._lm_head is None and self.folder is not None and (self.folder / LM_HEAD_FILE).is_file():
            self._lm_head = LmHead.load(self.folder / LM_HEAD_FILE, self.bert, self.upper.device)
        return self._lm_head

    def save(self, folder: Path, report: dict[str, Any] | None = None) -> None:
        """Write the root's files into `folder`, with `report` of its conversion in root.json."""
        folder.mkdir(parents=True, exist_ok=True)
        config = self.config if report is None else dataclasses.replace(self.config, report=report)
        write_json(folder / ROOT_FILE, config.to_json())
        write_json(folder / CONFIG_FILE, config_json(self.bert))
        self.tokenizer.save(folder / TOKENIZER_FILE)
        self.upper.save(folder / UPPER_FILE)
        self.checkpoint_lower().save(folder / LOWER_FILE)
        head = self.lm_head()
        if head is not None:
            head.save(folder / LM_HEAD_FILE)

    @classmethod
    def load(
        cls, folder: Path, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> "Root":
        """Read what `save` wrote, the upper layers to `device` in `dtype`.

        Raises HplmError(corrupt_artifact) when a file is absent, damaged or of another format.
        """
        config = RootConfig.from_json(read_artifact_json(folder / ROOT_FILE))
        bert = parse_config(read_json(folder / CONFIG_FILE))
        tokenizer = TextTokenizer.from_file(folder / TOKENIZER_FILE, config.max_tokens)
        upper = UpperLayers.load(folder / UPPER_FILE, bert, config.upper, torch.device(device), dtype)
        return cls(config, bert, upper, tokenizer, folder)
