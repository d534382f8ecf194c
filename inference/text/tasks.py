"""The tasks of models, and the names of the outputs of those that read texts."""

from typing import Final, Literal

from inference.cascade.dispatcher import OutputKind

Task = Literal["classification", "multilabel", "regression", "tagging", "question_answering", "embedding"]
CLASSIFICATION: Final = "classification"
MULTILABEL: Final = "multilabel"
REGRESSION: Final = "regression"
TAGGING: Final = "tagging"
QUESTION_ANSWERING: Final = "question_answering"
TASKS: Final[tuple[Task, ...]] = (CLASSIFICATION, MULTILABEL, REGRESSION, TAGGING, QUESTION_ANSWERING)
"""The tasks that a model on an encoder is trained for."""
EMBEDDING: Final = "embedding"
"""The task of models that only give embeddings, and are not trained: they have no outputs."""
ENCODER_TASKS: Final = (*TASKS, EMBEDDING)
GENERATION: Final = "generation"
CHAT: Final = "chat"
GENERATIVE_TASKS: Final = (GENERATION, CHAT)
"""The tasks of models that write text. They have neither labels nor heads."""
OUTPUT_KINDS: Final[dict[Task, OutputKind]] = {
    CLASSIFICATION: "classes",
    MULTILABEL: "labels",
    REGRESSION: "number",
    TAGGING: "tokens",
    QUESTION_ANSWERING: "span",
}
PER_TOKEN: Final = (TAGGING, QUESTION_ANSWERING)
QUICK_TASKS: Final[tuple[Task, ...]] = (CLASSIFICATION, MULTILABEL, REGRESSION, TAGGING)
"""The tasks of models that have a quick version: its head has no attention of its own, which an answer to a
question needs."""
FIXED_LABELS: Final[dict[str, tuple[str, ...]]] = {
    REGRESSION: ("value",),
    QUESTION_ANSWERING: ("start", "end"),
}
DEFAULT_THRESHOLD: Final = 0.5
