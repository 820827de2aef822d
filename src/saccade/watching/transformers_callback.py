"""A watched run inside Hugging Face's `Trainer`: `Trainer(...,
callbacks=[saccade.TrainerCallback(probe_texts, tokenizer)])`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import transformers

from saccade.errors import InputError, checked_count, shortened
from saccade.watching.recorder import Recorder, watch


class TrainerCallback(transformers.TrainerCallback):
    """Watches the model that the trainer trains, on `probe_texts` read with `tokenizer` and cut to
    `length` tokens.

    `settings` are those of `saccade.watch`. Steps are updates, as the trainer counts them. After
    training the record is `callback.record`. If the trainer resumes from a checkpoint, so does the
    run in `out`. The loss of a step is what the trainer logged last: the mean over the
    `logging_steps` before it.
    """

    def __init__(
        self, probe_texts: Sequence[str], tokenizer: Any, *, length: int = 128, **settings: Any
    ) -> None:
        if (
            isinstance(probe_texts, str)
            or not all(isinstance(text, str) and text for text in probe_texts)
            or not len(probe_texts)
        ):
            raise InputError(
                f"`probe_texts` must be a list of texts, none of them empty; got {shortened(probe_texts)}."
            )
        if not callable(tokenizer):
            raise InputError(
                f"`tokenizer` must be a Transformers tokenizer; got {shortened(tokenizer)}."
            )
        cut = {
            "truncation": True,
            "max_length": checked_count("length", length, low=2),
            "return_tensors": "pt",
        }
        padded = len(probe_texts) > 1
        if padded and getattr(tokenizer, "pad_token", None) is None:
            raise InputError(
                "`tokenizer` has no token for padding, needed for several texts: set `tokenizer.pad_token` first."
            )
        self._probe = dict(tokenizer(list(probe_texts), padding=padded, **cut))
        self._settings: dict[str, Any] = {"decode": getattr(tokenizer, "decode", None)} | settings
        self._recorder: Recorder | None = None
        self._loss: float | None = None

    @property
    def record(self) -> Any:
        if self._recorder is None:
            raise InputError("nothing has been trained with this callback yet.")
        return self._recorder.record

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, **rest: Any
    ) -> None:
        going_on: dict[str, Any] = {
            "resume": state.global_step > 0 and self._settings.get("out") is not None
        }
        self._recorder = watch(
            model, _fitting(self._probe, model), **going_on | self._settings
        ).__enter__()

    def on_step_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        if self._recorder is not None:
            self._recorder.step(state.global_step, self._loss)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **rest: Any) -> None:
        self._loss = (logs or {}).get("loss", self._loss)

    def on_train_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        if self._recorder is not None:
            self._recorder.finish(self._loss)


def _fitting(probe: dict[str, Any], model: Any) -> dict[str, Any]:
    """The probe cut to the positions a model has; a decoder beside an encoder is given the same
    texts, as if to copy them.
    """
    config = getattr(model, "config", None)
    longest = getattr(config, "max_position_embeddings", None) or max(
        value.shape[1] for value in probe.values()
    )
    cut = {name: value[:, :longest] for name, value in probe.items()}
    if not getattr(config, "is_encoder_decoder", False) or "decoder_input_ids" in cut:
        return cut
    return cut | {
        "decoder_input_ids": model.prepare_decoder_input_ids_from_labels(labels=cut["input_ids"])
    }
