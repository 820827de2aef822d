"""What a watched run says of itself beside its numbers: settings, names along the axes, what was
not seen and what cannot be told.

What is missing is also said aloud, once, at the first look.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from saccade.records.provenance import provenance
from saccade.watching import attention_statistics
from saccade.watching.guard import say, warn
from saccade.watching.look import Look, listed, map_rows
from saccade.watching.probe import Probe
from saccade.watching.watched_variables import AXES, DEFINITIONS, OF_HEADS
from saccade.watching.weight_statistics import DEFINITIONS as OF_WEIGHTS
from saccade.watching.weight_statistics import WeightStatistics


class Account:
    """Fills `about`, which goes with the looks on disk and into the record."""

    def __init__(
        self,
        config: dict[str, Any],
        probe: Probe,
        maps: list[int],
        decode: Callable[[list[int]], str] | None,
    ) -> None:
        self._probe, self._maps, self._decode = probe, maps, decode
        self._has_noted = False
        axes, definitions = dict(AXES), {name: list(pair) for name, pair in DEFINITIONS.items()}
        self.about: dict[str, Any] = {
            "config": config | {"thinned": []},
            "axes": axes,
            "coords": {},
            "definitions": definitions,
            "wall_time_s": 0.0,
            **provenance(),
        }

    @property
    def config(self) -> dict[str, Any]:
        return self.about["config"]

    def layers_with(self, found: Look) -> list[str]:
        """All layers seen so far, in the order in which they came; a model may call more of them
        later, or fewer.
        """
        _, layers = self.about["coords"].setdefault("layer", ("layer", []))
        layers += [layer for layer in found.layers if layer not in layers]
        return layers

    def note(self, found: Look, arrays: dict[str, np.ndarray]) -> None:
        """What the axes of maps mean, once; and, loudly, what was not seen or cannot be told."""
        if self._has_noted:
            return
        self._has_noted = True
        for what in _together(found.unseen):
            warn(f"not seen: {what}.")
        untold = [one for one in OF_HEADS if one not in arrays or np.isnan(arrays[one]).all()]
        reasons: dict[str, list[str]] = {}
        for one in untold:
            reasons.setdefault(self._why_untold(one, untold), []).append(one)
        for reason, names in reasons.items():
            say(f"not measured with this probe: {', '.join(names)} ({reason})")
        if "judged_mass" not in untold and np.nanmean(arrays["judged_mass"]) < 0.5:
            say(
                "most attention is on tokens too rare to call distinct or common; give more token ids as `text` (without it the "
                "probe itself is counted)"
            )
        self.config.update(unseen=found.unseen, untold=untold)
        self.about["coords"] |= {
            "measure": ("measure", list(attention_statistics.MEASURES)),
            "place": ("place", list(attention_statistics.PLACES)),
        }
        if "attention_map" in arrays:
            self.about["coords"] |= {"sequence": ("sequence", self._maps)}
            ids, n_keys = self._probe.ids, arrays["attention_map"].shape[-1]
            if ids is not None and n_keys == ids.shape[1]:  # tokens in front would shift the words
                self.config["map_tokens"] = [self._words(row) for row in ids[self._maps].tolist()]
            if len(set(found.n_queries)) == 1:
                self.about["coords"] |= {"map_query": ("map_query", map_rows(found.n_queries[0]))}

    def note_weights(self, found: WeightStatistics) -> None:
        """What arrays of weights mean; once, what was not recognised."""
        said = self.config.get("weights_not_recognised", [])
        for sentence in found.unrecognised:
            if sentence not in said:
                say(f"weights: {sentence}")
        self.about["axes"] |= {name: list(of) for name, of in found.axes.items()}
        for name in found.values:
            unit, definition = OF_WEIGHTS[name]
            definition += "; taken when the step has doubled, missing between"
            self.about["definitions"][name] = [unit, definition]
        self.config["weights_not_recognised"] = list(dict.fromkeys([*said, *found.unrecognised]))

    def in_place(self, layers: list[str], values: np.ndarray) -> np.ndarray:
        """(weight_layer, ...) in the order in which layers have come since the run began; missing
        where one has gone.
        """
        _, known = self.about["coords"].setdefault("weight_layer", ("weight_layer", []))
        known += [layer for layer in layers if layer not in known]
        whole = np.full((len(known), *values.shape[1:]), np.nan, np.float32)
        whole[[known.index(layer) for layer in layers]] = values
        return whole

    def _words(self, ids: list[int]) -> list[Any]:
        """Tokens of a kept map, for those who look at it."""
        try:
            return ids if self._decode is None else [str(self._decode([token])) for token in ids]
        except Exception as error:
            warn(f"`decode` failed ({type(error).__name__}: {error}), so the page shows token ids.")
            return ids

    def _why_untold(self, name: str, untold: list[str]) -> str:
        if name in ("largest_logit", "entropy_bound", "entropy_slack"):
            return "its attention gives weights without the logits they are made from"
        if "sink_mass" in untold:
            return (
                "it holds no token ids"
                if self._probe.ids is None
                else "attention does not run over its tokens"
            )
        if name in attention_statistics.REPEATED_DEFINITIONS:
            return (
                "texts that repeat after three different periods cannot be made of it: it is not a text alone, is shorter than 10 "
                "tokens, has fewer than 5 different ones, or the model takes fewer than 3 sequences only"
            )
        return "it is too short, or its tokens are not in the text"


def _together(unseen: list[str]) -> list[str]:
    """One sentence for those that differ in the name of the layer alone."""
    named: dict[tuple[str, str], list[str]] = {}
    for sentence in unseen:
        before, tick, rest = sentence.partition("`")
        name, _, after = rest.partition("`")
        named.setdefault((before, after), []).extend(
            [name] if tick else []
        )  # the model itself has a name without letters
    return [
        f"{before}{listed(list(dict.fromkeys(names)))}{after}"
        for (before, after), names in named.items()
    ]
