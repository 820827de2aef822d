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
| `measures(record)`              | optional: name -> number, what came of it, for maps over settings     |
| `together(configs, on_progress)`| optional: their records, as `run` would give them to rounding         |
| `TOGETHER`                      | with it: the settings in which those configs may differ               |
| `SECONDS`                       | about how long it takes on two cores                                  |
| `WHAT`, `EXPECTED`              | its row in the README; `{statement*:.2f}`: what that claim measured   |
| `FULL`                          | on real text: a `Config` with the paper's sizes; the default is quick |

A new one is a new file and a line in `SYNTHETIC` or `REAL_TEXT`.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from saccade.errors import checked_choice

SYNTHETIC = {
    "syn-small-attention": "saccade.experiments.scan_and_snap.syn_small_attention",
    "adam-subsets": "saccade.experiments.scan_and_snap.adam_subsets",
    "syn-medium-entropy": "saccade.experiments.scan_and_snap.syn_medium_entropy",
    "syn-medium-recall": "saccade.experiments.scan_and_snap.syn_medium_recall",
    "momentum-and-start": "saccade.experiments.scan_and_snap.momentum_and_start",
    "long-context-limit": "saccade.experiments.scan_and_snap.long_context_limit",
    "decoder-dynamics": "saccade.experiments.scan_and_snap.decoder_dynamics",
    "speed-control": "saccade.experiments.scan_and_snap.speed_control",
    "concentration-of-counts": "saccade.experiments.scan_and_snap.concentration_of_counts",
    "backprop-gradient": "saccade.experiments.scan_and_snap.backprop_gradient",
    "attention-fates": "saccade.experiments.scan_and_snap.attention_fates",
    "relative-gain": "saccade.experiments.scan_and_snap.relative_gain",
    "scan-then-snap": "saccade.experiments.scan_and_snap.scan_then_snap",
    "snap-phase-diagram": "saccade.experiments.scan_and_snap.snap_phase_diagram",
    "growth-figures": "saccade.experiments.scan_and_snap.growth_figures",
    "condensation": "saccade.experiments.focus_and_dilution.condensation",
    "focus-growth": "saccade.experiments.focus_and_dilution.focus_growth",
    "dilution-drift": "saccade.experiments.focus_and_dilution.dilution_drift",
    "next-direction": "saccade.experiments.focus_and_dilution.next_direction",
    "degenerate-stall": "saccade.experiments.focus_and_dilution.degenerate_stall",
    "focus-sign": "saccade.experiments.focus_and_dilution.focus_sign",
    "other-chains": "saccade.experiments.focus_and_dilution.other_chains",
    "focus-dilution-cycle": "saccade.experiments.focus_and_dilution.focus_dilution_cycle",
    "focus-dilution-adam": "saccade.experiments.focus_and_dilution.focus_dilution_adam",
}
REAL_TEXT = {  # need the extras `torch` and `text`
    "wikitext-attention": "saccade.experiments.real_text.wikitext_attention",
    "wikitext-entropy": "saccade.experiments.real_text.wikitext_entropy",
    "text-fates": "saccade.experiments.real_text.text_fates",
    "text-cycle": "saccade.experiments.real_text.text_cycle",
    "positions": "saccade.experiments.real_text.positions",
    "optimisers": "saccade.experiments.real_text.optimisers",
    "depth": "saccade.experiments.real_text.depth",
    "context-length": "saccade.experiments.real_text.context_length",
    "sparse-then-dense": "saccade.experiments.real_text.sparse_then_dense",
    "forecast": "saccade.experiments.real_text.forecast",
}
EXPERIMENTS = SYNTHETIC | REAL_TEXT


def experiment(name: str) -> ModuleType:
    """The module of an experiment; an unknown name is an error that suggests the nearest."""
    return importlib.import_module(EXPERIMENTS[checked_choice("experiment", name, EXPERIMENTS)])


def statement(module: ModuleType) -> str:
    """The claim in the first line of an experiment's docstring."""
    return (module.__doc__ or "").strip().splitlines()[0]
