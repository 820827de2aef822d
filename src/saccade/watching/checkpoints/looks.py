"""How the checkpoints of one run are observed: loaded into a model, as in a watched run, or their
weights alone.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from saccade.errors import InputError
from saccade.records.json_files import read_json
from saccade.records.observation_log import ObservationLog
from saccade.watching.checkpoints.bare_weights import bare_weights
from saccade.watching.checkpoints.files import UnreadableError, listed
from saccade.watching.checkpoints.integrity import Finding
from saccade.watching.checkpoints.models import ConfiguredModel, OwnModel
from saccade.watching.checkpoints.probe import text_probe
from saccade.watching.checkpoints.tensors import Tensors
from saccade.watching.recorder import Recorder, watch
from saccade.watching.weight_statistics import DEFINITIONS, weight_statistics

if TYPE_CHECKING:
    import xarray as xr

_VOLATILE = (
    "transformers_version",
    "_name_or_path",
    "dtype",
    "torch_dtype",
    "use_cache",
)  # in config.json, without effect on a look


class ModelLooks:
    """Looks at a model into which one checkpoint after the other is loaded."""

    def __init__(self, holder: OwnModel | ConfiguredModel, probe: Any, text: Any) -> None:
        self.findings: list[Finding] = []
        self._holder, self._probe, self._text = holder, probe, text
        self._recorder: Recorder | None = None
        self._weights = WeightLog({})
        self._open = ExitStack()
        self._open.callback(holder.put_back)
        self._config: dict[str, Any] | None = None

    def look(self, step: int, path: Path, tensors: Tensors) -> None:
        self._holder.load(tensors, path.name)
        self._compare_config(step, path)
        if self._recorder is None:  # only now: its self-check wants a model with weights
            recorder = watch(
                self._holder.model, self._probe, text=self._text, budget=None, weights=False
            )
            self._recorder = self._open.enter_context(recorder)
        self._weights.note(step, self._holder.model, path.name)
        self._recorder.look(step)

    def record(self) -> xr.Dataset:
        if isinstance(self._holder, ConfiguredModel) and self._holder.unused:
            unused = listed(sorted(self._holder.unused))
            self.findings.append(
                Finding(
                    "unused",
                    [],
                    f"the model has no place for some tensors, which were not measured: {unused}.",
                )
            )
        if self._recorder is None:
            raise InputError("no checkpoint has been read yet.")
        self.findings += self._weights.findings
        return self._recorder.record.merge(self._weights.record())

    def close(self) -> None:
        self._open.close()

    def _compare_config(self, step: int, path: Path) -> None:
        place = path / "config.json"
        if not isinstance(self._holder, ConfiguredModel) or not place.is_file():
            return
        try:
            stored = read_json(place)
        except InputError:
            stored = {"all of it": "damaged"}
        self._config = stored if self._config is None else self._config
        other = sorted(
            key
            for key in stored.keys() | self._config.keys()
            if key not in _VOLATILE and stored.get(key) != self._config.get(key)
        )
        if other:
            sentence = f"config.json of {path.name} differs from that of the first in {listed(other)}; it was measured with the first."
            self.findings.append(Finding("other config", [step], sentence))


class WeightLooks:
    """Looks at weights of which no model is known."""

    def __init__(self, n_heads: int | None) -> None:
        self._n_heads = n_heads
        self._weights = WeightLog({"task": "weights without a model", "heads": n_heads})

    def look(self, step: int, path: Path, tensors: Tensors) -> None:
        self._weights.note(step, bare_weights(tensors, self._n_heads), path.name)

    @property
    def findings(self) -> list[Finding]:
        why = "there is no config.json, so only weights were measured, not attention."
        hint = (
            ""
            if self._n_heads
            else " Say how many heads a layer has (--heads) to look at their circuits."
        )
        return [Finding("weights only", [], why + hint), *self._weights.findings]

    def record(self) -> xr.Dataset:
        return self._weights.record()

    def close(self) -> None:
        """Nothing is open."""


class WeightLog:
    """Statistics of weights at every step: the recorder of a watched run leaves most of them out to
    save time.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.findings: list[Finding] = []
        self._first: dict[str, tuple[int, ...]] = {}
        self._log = ObservationLog(
            None,
            {"config": config, "axes": {}, "coords": {}, "definitions": {}, "wall_time_s": 0.0},
        )

    def note(self, step: int, model: nn.Module, name: str) -> None:
        found = weight_statistics(model)
        self._first = self._first or _shapes(found.values)
        if _shapes(found.values) != self._first:
            raise UnreadableError(
                f"{name} was left out: it has other layers or heads than the checkpoints before."
            )
        self.findings = [Finding("not recognised", [], sentence) for sentence in found.unrecognised]
        about = self._log.about
        about["axes"] |= {name: list(axes) for name, axes in found.axes.items()}
        about["definitions"] |= {name: DEFINITIONS[name] for name in found.values}
        about["coords"] |= {"weight_layer": ("weight_layer", found.layers)}
        self._log.append(
            step, {name: values.astype(np.float32) for name, values in found.values.items()}
        )

    def record(self) -> xr.Dataset:
        return self._log.record()


def _shapes(values: dict[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    return {name: value.shape for name, value in values.items()}


def looks_for(
    path: Path,
    tensors: Tensors,
    *,
    model: nn.Module | None,
    probe: Any,
    text: Any,
    n_heads: int | None,
    trust_remote_code: bool,
) -> ModelLooks | WeightLooks:
    """In the user's model, in one that a configuration beside the first checkpoint describes, or at
    weights alone.
    """
    if model is not None:
        return ModelLooks(OwnModel(model), probe, text)
    folder = next(
        (place for place in (path, path.parent) if (place / "config.json").is_file()), None
    )
    if folder is None:
        if probe is not None or text is not None:
            raise InputError(
                f"{path.name} comes without config.json: give the `model` that its weights belong to, with a `probe`."
            )
        return WeightLooks(n_heads)
    holder = ConfiguredModel(folder, trust_remote_code, tensors)
    if probe is not None:
        return ModelLooks(holder, probe, text)
    chosen = text_probe(folder, holder.config, text, trust_remote_code)
    looks = ModelLooks(holder, chosen.batch, chosen.ids)
    looks.findings.append(Finding("probe", [], chosen.sentence))
    return looks
