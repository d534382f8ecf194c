"""How to load an exported PEFT folder: the code in its README."""

from typing import Final

CLASSES: Final = {
    "SEQ_CLS": "SequenceClassification",
    "TOKEN_CLS": "TokenClassification",
    "QUESTION_ANS": "QuestionAnswering",
}
LOADING: Final = """\
This folder contains an adapter for `{base}` with {outputs} outputs. Load it with:

```python
from peft import AutoPeftModelFor{kind}
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{base}")
model = AutoPeftModelFor{kind}.from_pretrained("path/to/this/folder"{labels})
{read}
```

If you have no access to `{base}` on the Hugging Face Hub, load its checkpoint from a local folder:

```python
from peft import PeftModel
from transformers import AutoModelFor{kind}

base = AutoModelFor{kind}.from_pretrained("path/to/the/checkpoint"{labels})
model = PeftModel.from_pretrained(base, "path/to/this/folder")
```"""
LOGITS: Final = """\
logits = model(**tokenizer("A text", return_tensors="pt")).logits[0]
print({read})"""
ANSWER: Final = """\
answer = model(**tokenizer("A question", "Its context", return_tensors="pt"))
print(answer.start_logits[0], answer.end_logits[0])"""


def peft_loading(kind: str, *, base: str, outputs: int, read: str) -> str:
    """Markdown with the code that loads an export on the checkpoint ``base``.

    ``kind`` is PEFT's task type, ``outputs`` the rows of the head, and ``read`` a Python expression for the
    model's outputs from the ``logits`` of one text: those of each token if the task model classifies tokens.
    """
    lines = ANSWER if kind == "QUESTION_ANS" else LOGITS.format(read=read)
    labels = "" if kind == "QUESTION_ANS" else f", num_labels={outputs}"
    return LOADING.format(base=base, kind=CLASSES[kind], outputs=outputs, labels=labels, read=lines)
