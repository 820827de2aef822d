"""What a model of a checkpoint is shown if the user gives no batch: a text, read with the tokenizer
beside the weights.

Rows are cut from running text, without special tokens, as most models read it in training. Without
a tokenizer the tokens are random: then attention still shows where it lies, but not which words it
prefers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from saccade.errors import InputError
from saccade.watching.checkpoints.models import needed_transformers, quiet_transformers

LENGTH = 128  # tokens of a row, or as many as the model takes
ROWS = 8  # at most
_SEED = 0
_TOKENIZERS = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
)

PARAGRAPH = """\
When you read a line like this one, your eyes do not glide along it. They rest for a quarter of a second on one word,
then jump to another, and between two rests you see next to nothing. The jumps are short where the text is hard and
long where it is easy. Small words such as the, of and to are often skipped, because the words around them already
tell what they must be. Rare words are looked at twice. A child who learns to read looks at almost every letter; with
the years the eyes learn which words are worth a stop, and the rest of the line is guessed. Nobody teaches the eyes
this. They find out by reading, first what is frequent, then what is telling, and once they have found it they hardly
change any more. A machine that learns to predict the next word has something like eyes as well. At the start it looks
at all words alike. Then it finds some of them more useful than others, and looks at those. Where it looks, and when
it began to look there, can be measured, and that is what is being measured here, with this text, again and again,
while the weights of the model move from one step to the next.""".replace("\n", " ")


class TextProbe(NamedTuple):
    """A batch for the model, all token ids of the text, and a sentence about them."""

    batch: dict[str, Tensor]
    ids: np.ndarray
    sentence: str


def text_probe(folder: Path, config: Any, text: str | None, trust_remote_code: bool) -> TextProbe:
    """The first rows of the text, of a paragraph of our own if there is none, or random tokens if
    there is no tokenizer.
    """
    of_text = config.get_text_config()
    n_vocab = getattr(of_text, "vocab_size", None)
    if not isinstance(n_vocab, int):
        raise InputError(
            f"the model of {folder} does not read tokens; call saccade.observe_checkpoints with your own `probe`."
        )
    length = max(
        1, min(LENGTH, getattr(of_text, "max_position_embeddings", None) or LENGTH)
    )  # the model refuses a wrong one
    place = next(
        (
            place
            for place in (folder, folder.parent)
            if any((place / name).is_file() for name in _TOKENIZERS)
        ),
        None,
    )
    if place is None:
        if text is not None:
            raise InputError(
                f"a text was given, but there is no tokenizer in {folder} to read it with."
            )
        # Tokens drawn evenly; not those that a model may take for padding or an end.
        special = [getattr(of_text, f"{name}_token_id", None) for name in ("pad", "bos", "eos")]
        usable = [token for token in range(n_vocab) if token not in special] or [0]
        ids = np.random.default_rng(_SEED).choice(usable, ROWS * length)
        sentence = f"no tokenizer was found: the probe is random tokens (seed {_SEED}), among which none is frequent or telling"
    else:
        transformers = needed_transformers()
        try:
            with quiet_transformers():
                tokenizer = transformers.AutoTokenizer.from_pretrained(
                    place, trust_remote_code=trust_remote_code, local_files_only=True
                )
                given = tokenizer(PARAGRAPH if text is None else text, add_special_tokens=False)
                ids = np.asarray(given["input_ids"], dtype=np.int64)
        except Exception as error:  # tokenizers of all kinds, each with failures of its own
            raise InputError(
                f"the tokenizer in {place} cannot be used: {str(error).strip().splitlines()[0]}"
            ) from None
        if len(ids) < 2:
            raise InputError(f"the text has {len(ids)} tokens; it needs at least two.")
        sentence = (
            "the probe is a paragraph of our own"
            if text is None
            else "the probe is the beginning of the given text"
        )
    if ids.max() >= n_vocab:
        raise InputError(
            f"the tokenizer of {folder} gives token {ids.max()}, but the model has only {n_vocab} tokens."
        )
    length = min(length, len(ids))
    n_rows = min(ROWS, len(ids) // length)
    rows = torch.as_tensor(ids[: n_rows * length].reshape(n_rows, length))
    batch = {"input_ids": rows} | (
        {"decoder_input_ids": rows} if getattr(config, "is_encoder_decoder", False) else {}
    )
    return TextProbe(batch, ids, f"{sentence}; {rows.shape[0]} rows of {rows.shape[1]} tokens.")
