"""Experiments: one phenomenon a file, claim first.

An experiment is a module with

| name                            | what it is                                                            |
|---------------------------------|-----------------------------------------------------------------------|
| docstring                       | the claim in its first line; what to expect and how long it takes     |
| `Config`                        | a frozen dataclass of settings, each with its unit in its docstring   |
| `run(config, on_progress)`      | the record                                                            |
| `claims(record)`                | a list of `Claim`                                                     |
| `table(record)`                 | the numbers behind the figure, as rows                                |
| `figure(record)`, `CAPTION`     | a Matplotlib figure, and the sentence that says what to look at       |
| `caption(record)`               | instead of `CAPTION` where what to look at depends on the settings    |
| `files(record)`                 | optional: more CSV files, name -> (columns, rows)                     |
| `SECONDS`                       | about how long it takes on two cores                                  |

A new one is a new file and a line in `EXPERIMENTS`.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from saccade.errors import checked_choice

EXPERIMENTS = {
    "syn-small-attention": "saccade.experiments.syn_small_attention",
    "adam-subsets": "saccade.experiments.adam_subsets",
    "syn-medium-entropy": "saccade.experiments.syn_medium_entropy",
    "syn-medium-recall": "saccade.experiments.syn_medium_recall",
    "momentum-and-start": "saccade.experiments.momentum_and_start",
    "long-context-limit": "saccade.experiments.long_context_limit",
    "decoder-dynamics": "saccade.experiments.decoder_dynamics",
    "speed-control": "saccade.experiments.speed_control",
    "concentration-of-counts": "saccade.experiments.concentration_of_counts",
    "backprop-gradient": "saccade.experiments.backprop_gradient",
    "attention-fates": "saccade.experiments.attention_fates",
    "relative-gain": "saccade.experiments.relative_gain",
    "scan-then-snap": "saccade.experiments.scan_then_snap",
    "snap-phase-diagram": "saccade.experiments.snap_phase_diagram",
    "growth-figures": "saccade.experiments.growth_figures",
    "focus-dilution-cycle": "saccade.experiments.focus_dilution_cycle",
}


def experiment(name: str) -> ModuleType:
    """The module of an experiment; an unknown name is an error that suggests the nearest."""
    return importlib.import_module(EXPERIMENTS[checked_choice("experiment", name, EXPERIMENTS)])


def statement(module: ModuleType) -> str:
    """The claim in the first line of an experiment's docstring."""
    return (module.__doc__ or "").strip().splitlines()[0]
