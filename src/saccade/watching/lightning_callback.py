"""A watched run inside Lightning: `Trainer(callbacks=[saccade.LightningCallback(probe)])`."""

from __future__ import annotations

from typing import Any

from lightning.pytorch.callbacks import Callback

from saccade.errors import InputError
from saccade.watching.recorder import Recorder, watch


class LightningCallback(Callback):
    """Watches the module that Lightning trains; `probe` and `settings` are those of
    `saccade.watch`.

    `part` names the submodule to watch, such as "model", if the Lightning module's own forward does
    not take the probe. If the trainer resumes from a checkpoint, so does the run in `out`. The loss
    of a step is what the module logged last as "loss" or "train_loss": that of the step before.
    """

    def __init__(self, probe: Any, *, part: str = "", **settings: Any) -> None:
        self._probe, self._part, self._settings = probe, part, settings
        self._recorder: Recorder | None = None

    @property
    def record(self) -> Any:
        if self._recorder is None:
            raise InputError("nothing has been trained with this callback yet.")
        return self._recorder.record

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        try:
            model = pl_module.get_submodule(self._part)
        except AttributeError:
            raise InputError(
                f"`part` names no submodule of the Lightning module: {self._part!r}."
            ) from None
        going_on: dict[str, Any] = {
            "resume": trainer.global_step > 0 and self._settings.get("out") is not None
        }
        self._recorder = watch(model, self._probe, **going_on | self._settings).__enter__()

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        if self._recorder is not None:
            self._recorder.step(trainer.global_step, _loss(trainer))

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        if self._recorder is not None:
            self._recorder.finish(_loss(trainer))


def _loss(trainer: Any) -> Any:
    return trainer.callback_metrics.get("loss", trainer.callback_metrics.get("train_loss"))
