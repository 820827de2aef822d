"""All experiments: the registry, as data. Listing it imports no experiment.

An experiment is one file with one object, an `Experiment` (`lab/experiment.py`); the first line of
the file is its finding. To add one, add a file and a line here. Your own file needs no line:
`saccade run ./mine.py`.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import sys
import tokenize
import traceback
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from saccade.errors import InputError, checked_choice
from saccade.theory.papers import PAPERS


class Entry(NamedTuple):
    """The part of an experiment, its title in menus, what it covers of the papers, and its time on
    two cores in seconds.

    Its file has its name, with _ for -.
    """

    part: str
    title: str
    about: str
    seconds: int


SCAN_AND_SNAP = {
    "syn-small-attention": Entry(
        "scan_and_snap", "Attention on Syn-Small", "Fig. 4: attention on Syn-Small", 3
    ),
    "adam-subsets": Entry("scan_and_snap", "Adam's choice of tokens", "Fig. 5: Adam", 4),
    "syn-medium-entropy": Entry(
        "scan_and_snap", "Entropy on Syn-Medium", "Figs. 6, 11, 12: entropy and recall, 640 runs", 5
    ),
    "momentum-and-start": Entry(
        "scan_and_snap", "Momentum and the start", "momentum and initialisation (errata)", 4
    ),
    "long-context-limit": Entry(
        "scan_and_snap", "Long contexts", "Lemmas 1, 2, 18: long contexts", 4
    ),
    "decoder-dynamics": Entry(
        "scan_and_snap", "How the decoder grows", "Lemmas 3, 5, 7, Fig. 8: decoder logits", 4
    ),
    "speed-control": Entry(
        "scan_and_snap",
        "How fast attention learns",
        "Lemmas 6, 8, 9: learning speed of attention",
        5,
    ),
    "concentration-of-counts": Entry(
        "scan_and_snap",
        "Classes in random order",
        "Lemmas 10-12, Theorem 5, Corollary 1: random class order",
        5,
    ),
    "backprop-gradient": Entry(
        "scan_and_snap", "How classes couple", "Theorem 1: coupling of classes", 3
    ),
    "attention-fates": Entry(
        "scan_and_snap",
        "Who gains attention",
        "Lemma 4, Theorem 2, Corollary 2: who gains attention",
        6,
    ),
    "relative-gain": Entry(
        "scan_and_snap", "Frequent tokens gain more", "Theorem 3: frequent tokens gain more", 4
    ),
    "scan-then-snap": Entry("scan_and_snap", "Scan, then snap", "Theorem 4: scan, then snap", 7),
    "plain-snap": Entry(
        "scan_and_snap", "The snap in plain descent", "Theorem 4 in plain gradient flow", 11
    ),
    "plain-coupling": Entry(
        "scan_and_snap", "Coupling in plain descent", "Theorem 1, redone for plain descent", 3
    ),
    "plain-descent": Entry(
        "scan_and_snap", "Plain descent creeps on", "Theorem 4, redone for plain descent", 12
    ),
    "late-snap": Entry(
        "scan_and_snap", "A late snap", "Theorem 4, redone for plain descent: strong overlaps", 4
    ),
    "break-conditions": Entry(
        "scan_and_snap", "When scanning breaks", "Assumption 1(c): rate ratios from 0.01 to 100", 7
    ),
    "turning-heights": Entry(
        "scan_and_snap", "Unequal classes", "Theorem 2 with unequal classes: when tokens fall", 22
    ),
    "large-steps": Entry(
        "scan_and_snap", "Large steps", "Assumption 1(c) in SGD: how large steps may be", 4
    ),
    "starts": Entry("scan_and_snap", "Other starts", "Theorems 2 and 3 from any start", 11),
    "reparameterisation": Entry(
        "scan_and_snap", "Training W_Q and W_V", "section 3: U, W_Q, W_K, W_V instead of Y and Z", 7
    ),
    "four-stages": Entry(
        "scan_and_snap", "Four stages", "Fig. 2: start, suppression, winners, freeze", 8
    ),
    "snap-phase-diagram": Entry(
        "scan_and_snap", "When it snaps, for all rates", "Theorem 4 over both learning rates", 15
    ),
    "first-force": Entry(
        "scan_and_snap", "First force, from counts", "first move of attention, from counts alone", 6
    ),
    "growth-figures": Entry(
        "scan_and_snap", "Growth of attention", "Figs. 3 and 9: the formulas of Theorem 4", 3
    ),
    "positional-prior": Entry(
        "scan_and_snap", "Positions", "Lemma 4, Theorems 2-4 with positions", 8
    ),
    "joint-laws": Entry(
        "scan_and_snap", "JoMA: MLP and attention", "JoMA: Theorems 1, 2, 4, Fig. 4", 7
    ),
    "layers-in-turn": Entry("scan_and_snap", "Several layers", "JoMA with two and three layers", 8),
    "adam-sign-limit": Entry(
        "scan_and_snap", "Adam flattens attention", "Fig. 5 explained; momentum", 11
    ),
}
FOCUS_AND_DILUTION = {
    "markov-contexts": Entry(
        "focus_and_dilution",
        "Long Markov contexts",
        "Definitions 2.1, 2.2, Propositions 2.3, B.1: long contexts",
        9,
    ),
    "saddle-departure": Entry(
        "focus_and_dilution", "Leaving a saddle", "Lemma 3.1 and its missing hypotheses", 6
    ),
    "condensation": Entry(
        "focus_and_dilution", "Condensation", "stage I, Theorem 3.2: condensation", 4
    ),
    "condensation-transition": Entry(
        "focus_and_dilution",
        "The end of condensation",
        "Lemmas and propositions C.1-C.6: from stage I to II",
        5,
    ),
    "ray-critical-point": Entry(
        "focus_and_dilution",
        "Two critical points",
        "Propositions 3.3, 3.4, C.7: both critical points",
        7,
    ),
    "focus-growth": Entry("focus_and_dilution", "Focus", "stage II, Theorem 3.5: focus", 6),
    "mass-redistribution": Entry(
        "focus_and_dilution",
        "Focus moves embeddings",
        "Proposition 3.6, Theorem 3.7: embedding mass",
        6,
    ),
    "dilution-drift": Entry(
        "focus_and_dilution", "Dilution", "stage III for any token frequencies: dilution", 5
    ),
    "next-direction": Entry(
        "focus_and_dilution", "Which direction opens next", "which direction opens next", 5
    ),
    "degenerate-stall": Entry(
        "focus_and_dilution", "Nearly equal tokens stall", "stage IV: nearly equal rare tokens", 5
    ),
    "saturated-point": Entry(
        "focus_and_dilution",
        "Saturated attention",
        "stage IV, Proposition 3.8, Theorem 3.9, Appendix D: saturated attention",
        9,
    ),
    "symmetric-escape": Entry(
        "focus_and_dilution", "Equal rare tokens escape", "stage IV: exactly equal rare tokens", 8
    ),
    "focus-sign": Entry(
        "focus_and_dilution", "Which way attention turns", "which way attention turns first", 3
    ),
    "other-chains": Entry(
        "focus_and_dilution",
        "Other Markov chains",
        "other chains with the same token frequencies",
        3,
    ),
    "focus-dilution-cycle": Entry("focus_and_dilution", "The whole cycle", "the whole cycle", 3),
    "focus-dilution-adam": Entry(
        "focus_and_dilution", "The cycle under Adam", "Adam, with and without noise", 14
    ),
    "focus-dilution-published": Entry(
        "focus_and_dilution", "The published run", "Fig. 2 at the published settings", 25
    ),
}
RANK_COLLAPSE = {
    "blow-up": Entry(
        "rank_collapse", "Blow-up in finite time", "Theorem 1, Propositions 2, 4-8, Assumption 1", 7
    ),
    "escape-clock": Entry(
        "rank_collapse",
        "When the loss falls",
        "stage I in the network, Proposition 1, Theorem 2",
        6,
    ),
    "rank-collapse": Entry(
        "rank_collapse", "Rank collapse", "stage II, Proposition 3, Theorem 3", 20
    ),
}
REAL_TEXT = {  # need the extras `torch` and `text`
    "wikitext-attention": Entry(
        "real_text", "Sparse attention on WikiText", "Fig. 7 of Scan and Snap: sparse attention", 40
    ),
    "wikitext-entropy": Entry(
        "real_text", "Entropy on WikiText", "Fig. 10: entropy and learning rate", 20
    ),
    "text-fates": Entry(
        "real_text", "Who gains attention on text", "Theorems 2 and 3 on text", 110
    ),
    "first-force-text": Entry(
        "real_text", "First force on text", "first move of attention on text, from counts", 45
    ),
    "text-cycle": Entry(
        "real_text", "The cycle on text", "Focus and Dilution on text: the four stages", 75
    ),
    "text-first-move": Entry(
        "real_text", "First move on text", "which way attention turns first on text", 25
    ),
    "text-cycle-published": Entry(
        "real_text", "The published run on text", "Fig. 3 at the published settings", 110
    ),
    "positions": Entry(
        "real_text", "Positions on text", "do positions change which tokens gain?", 35
    ),
    "optimisers": Entry(
        "real_text", "SGD against Adam", "do SGD and Adam favour the same tokens?", 45
    ),
    "depth": Entry(
        "real_text", "Which layer is sparse first", "which layer is sparse or slow first?", 35
    ),
    "context-length": Entry("real_text", "How long is long?", "how long is a long context?", 15),
    "sparse-then-dense": Entry("real_text", "Sparse, then dense", "sparse, then dense", 220),
    "forecast-transformer": Entry(
        "real_text", "Forecast for a Transformer", "first force against an ordinary Transformer", 20
    ),
    "forecast": Entry("real_text", "Forecast from counts", "forecast from counts, scored", 20),
    "attention-drive": Entry(
        "rank_collapse", "Which head opens first", "which head opens first? (no text)", 30
    ),
}
QUESTIONS = {  # each name is a file and a function: `scan-then-snap`, scan_then_snap.py
    "scan_and_snap": (
        "published-figures",
        "adam",
        "long-contexts",
        "decoder",
        "coupling",
        "who-gains",
        "scan-then-snap",
        "plain-descent",
        "when-it-breaks",
        "reparameterisation",
        "first-force",
        "positional-prior",
        "joma",
    ),
    "focus_and_dilution": (
        "markov-contexts",
        "saddle",
        "condensation",
        "focus",
        "dilution",
        "next-direction",
        "symmetric-escape",
        "cycle",
        "published-run",
    ),
    "rank_collapse": ("escape", "rank-collapse", "first-head"),
    "real_text": (
        "text-entropy",
        "text-fates",
        "text-forecast",
        "text-optimisers",
        "text-cycle",
        "text-cycle-published",
        "context-length",
    ),
}


def _there(entries: dict[str, Entry]) -> dict[str, Entry]:
    here = Path(__file__).parent
    return {
        name: entry
        for name, entry in entries.items()
        if (here / entry.part / f"{name.replace('-', '_')}.py").exists()
    }


def _answers() -> dict[str, dict[str, Any]]:
    """What the default settings gave: question, answer, verdicts and seconds of each experiment."""
    stored = Path(__file__).with_name("answers.json")
    return json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else {}


ANSWERS = _answers()
_NEW = _there(
    {
        name: Entry(
            part,
            ANSWERS.get(name, {}).get("question", name),
            "",
            ANSWERS.get(name, {}).get("seconds", 10),
        )
        for part, names in QUESTIONS.items()
        for name in names
    }
)
_ON_TEXT = {name: entry for name, entry in _NEW.items() if entry.part == "real_text"}
_ON_TEXT |= {name: _NEW[name] for name in ("first-head",) if name in _NEW}
SYNTHETIC = _there(SCAN_AND_SNAP | FOCUS_AND_DILUTION | RANK_COLLAPSE) | {
    name: entry for name, entry in _NEW.items() if name not in _ON_TEXT
}
REAL_TEXT = _there(REAL_TEXT) | _ON_TEXT
EXPERIMENTS = SYNTHETIC | REAL_TEXT
_PARTS = {paper.part: paper.theory for paper in PAPERS} | {"real_text": "Real text"}


def experiment(name: str) -> Any:
    """The experiment of that name, or the one in a Python file of the user's; an unknown name is an
    error that suggests the nearest.
    """
    if name.endswith(".py"):
        path = Path(own_file(name))
        return _own(
            path, path.read_bytes()
        )  # by its content: a file that was edited is another experiment
    module = importlib.import_module(module_of(name))
    return getattr(module, "EXPERIMENT", None) or getattr(module, name.replace("-", "_"))


def own_file(name: str) -> str:
    """The whole path of a user's own file, which means the same from any folder; nothing for the
    name of an experiment.
    """
    if not name.endswith(".py"):
        return ""
    path = Path(os.path.realpath(name))  # unlike `resolve`, it does not trip over a loop of links
    if not path.is_file():
        raise InputError(
            f"there is no file {path}; give a Python file that defines an Experiment, or a name that `saccade list` shows."
        )
    return str(path)


def module_of(name: str) -> str:
    """The module of an experiment, or the path of a user's own file."""
    if name.endswith(".py"):
        return own_file(name)
    return f"saccade.experiments.{_entry(name).part}.{name.replace('-', '_')}"


def told_of(name: str) -> dict[str, Any]:
    """What a report says of an experiment: its title and the sentence its file opens with, the
    heading it stands under and its place there; one in a file of the user's comes last, with the
    whole path of the file.
    """
    if name not in EXPERIMENTS:
        return {
            "statement": finding_of(name),
            "part": "Your own",
            "place": len(EXPERIMENTS),
            "file": own_file(name),
        }
    part, place = _PARTS[EXPERIMENTS[name].part], list(EXPERIMENTS).index(name)
    return {
        "title": EXPERIMENTS[name].title,
        "statement": finding_of(name),
        "part": part,
        "place": place,
        "file": "",
    }


def with_setting(setting: str) -> list[str]:
    """Experiments on the papers' own data that have a setting of that name. Imports them all."""
    return [
        name
        for name in SYNTHETIC
        if setting in (field.name for field in fields(experiment(name).settings))
    ]


def _entry(name: str) -> Entry:
    if name not in EXPERIMENTS and Path(f"{name}.py").is_file():
        raise InputError(
            f"experiment {name!r} is not known; to run your own file, give its name with the ending: ./{name}.py."
        )
    return EXPERIMENTS[checked_choice("experiment", name, EXPERIMENTS, "saccade list")]


def finding_of(name: str) -> str:
    """The first paragraph of an experiment's file, read without importing it."""
    if name.endswith(".py"):
        path = Path(name)
    else:
        entry = _entry(name)
        path = Path(__file__).parent / entry.part / f"{name.replace('-', '_')}.py"
    with path.open(
        encoding="utf-8"
    ) as file:  # up to the first thing said: parsing whole files would make `saccade list` slow
        told = (
            token
            for token in tokenize.generate_tokens(file.readline)
            if token.type not in (tokenize.COMMENT, tokenize.NL)
        )
        first = next(told)
    text = ast.literal_eval(first.string).strip() if first.type == tokenize.STRING else ""
    return " ".join((text or path.stem).split("\n\n")[0].split())


def _beside(path: Path, error: Exception) -> str:
    """Why a module that stands beside a user's file is not found: a change of it would not be seen."""
    missing = (
        path.parent / (error.name or "").partition(".")[0]
        if isinstance(error, ModuleNotFoundError)
        else path
    )
    if missing == path or not (missing.is_dir() or missing.with_suffix(".py").is_file()):
        return ""
    return f". An experiment is one file: put what it needs of {missing.name} into it, or install {missing.name} as a package."


@cache
def _own(path: Path, source: bytes) -> Any:
    """`EXPERIMENT` of a file. Its module is named by its path, which no other module can have."""
    from saccade.lab.experiment import Experiment  # only for own files: listing loads no JAX
    from saccade.lab.protocol import Experiment as Old

    module = sys.modules[str(path)] = ModuleType(
        str(path)
    )  # listed, so that the types of its settings can be looked up
    module.__file__ = str(path)
    try:
        exec(compile(source, path, "exec"), vars(module))
    except Exception as error:
        del sys.modules[str(path)]
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == str(path)
        ]
        where = f", line {lines[-1]}," if lines else ""
        raise InputError(
            f"{path}{where} cannot be loaded: {type(error).__name__}: {error}{_beside(path, error)}"
        ) from error
    defined = [one for one in vars(module).values() if isinstance(one, Experiment | Old)]
    if len(defined) != 1:
        raise InputError(
            f"{path} must define one experiment, a function under @saccade.experiment(NAME); "
            f"it defines {len(defined) or 'none'}."
        )
    (found,) = defined
    if not re.fullmatch(r"\w[\w.-]*", found.name):
        raise InputError(
            f"{path}: the name of an experiment must be usable as a folder name, such as two-tokens; got {found.name!r}."
        )
    if found.name in EXPERIMENTS:
        raise InputError(
            f"{path}: {found.name} is the name of one of Saccade's experiments; give yours another."
        )
    if not is_dataclass(found.settings):
        raise InputError(
            f"{path}: `settings` of an experiment must be a dataclass; got {found.settings!r}."
        )
    if not vars(found.settings)["__dataclass_params__"].frozen:
        raise InputError(
            f"{path}: `settings` of an experiment must be a frozen dataclass: write @dataclass(frozen=True)."
        )
    if needed := [
        each.name
        for each in fields(found.settings)
        if each.default is MISSING and each.default_factory is MISSING
    ]:
        raise InputError(f"{path}: every setting needs a default; {needed[0]} has none.")
    return found
