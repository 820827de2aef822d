"""The paper's own synthetic tasks against its own Assumption 2, and the size of their vocabulary."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import saccade
from saccade.experiments.errata import erratum_pair
from saccade.experiments.scan_and_snap.fates.settings import row
from saccade.experiments.scan_and_snap.syn_small_attention import PUBLISHED_LOSS
from saccade.records.claim import Claim
from saccade.theory import scan_and_snap as theory

if TYPE_CHECKING:
    import xarray as xr

# Largest eigenvalue of E from an independent computation. For Syn-Small it is the overlap of its two classes itself.
LARGEST_EIGENVALUE = {"syn-small": 0.722, "syn-medium-1": 0.72, "syn-medium-3": 3.61, "syn-medium-5": 6.50, "syn-medium-10": 13.72}
_PRINTED_VOCABULARY = 30

DEFINITIONS = {
    "largest_eigenvalue": ("1", "largest eigenvalue of E in modulus, at Z = 0"),
    "smallest_eigenvalue": ("1", "smallest eigenvalue of E in modulus, at Z = 0"),
    "upper_bound": ("1", "1/K, which Assumption 2 wants above all eigenvalues"),
    "lower_bound": ("1", "6/sqrt(M), which Assumption 2 wants below all eigenvalues"),
    "unmet": ("1", "how many conditions of Assumption 2 the task breaks"),
    "first_loss": ("nats", "loss of Syn-Small before its first update, zero start"),
}


def measure() -> tuple[dict[str, Any], dict[str, Any]]:
    tasks = [saccade.SequenceClasses.syn_small(), *(saccade.SequenceClasses.syn_medium(n) for n in (1, 3, 5, 10))]
    conditions = [_assumption_2(task) for task in tasks]
    largest, smallest = "2 largest eigenvalue", "2 smallest eigenvalue"
    by_task = {
        "largest_eigenvalue": [found[largest].value for found in conditions],
        "smallest_eigenvalue": [found[smallest].value for found in conditions],
        "upper_bound": [found[largest].bound for found in conditions],
        "lower_bound": [found[smallest].bound for found in conditions],
        "unmet": [sum(not c.holds for c in found.values()) for found in conditions],
    }
    first = saccade.train(tasks[0], steps=1, save=[0], keep=())
    variables = {name: (("task",), values) for name, values in by_task.items()}
    return variables | {"first_loss": ((), float(first.loss.values[0, 0]))}, {"task": [task.name for task in tasks]}


def _assumption_2(task: saccade.SequenceClasses) -> dict[str, theory.Condition]:
    found = theory.check_assumptions(
        task.token_prob,
        task.query,
        task.class_weight,
        n_vocab=task.n_vocab,
        lr_decoder=1.0,
        lr_attention=1.0,
        n_context=math.inf,
    )
    return {condition.name: condition for condition in found if condition.name.startswith("2 ")}


def claims(record: xr.Dataset) -> list[Claim]:
    source = "[tian2023, Assumption 2]"
    found = [
        Claim(
            f"largest eigenvalue of E, {task}",
            f"{source}, independent computation",
            predicted,
            float(record.largest_eigenvalue.sel(task=task)),
            0.0005 if task == "syn-small" else 0.005,
        )
        for task, predicted in LARGEST_EIGENVALUE.items()
    ]
    found += erratum_pair(
        "0.13",
        "published synthetic tasks that meet Assumption 2 (printed: what using the theory on them implies)",
        source,
        printed=record.sizes["task"],
        corrected=0,
        measured=int((record.unmet == 0).sum()),
        tolerance=0,
    )
    return found + erratum_pair(
        "0.12",
        "published loss of Syn-Small at step 0, ln M (vocabulary 30 as printed; queries and next tokens make it 34)",
        "[tian2023, Fig. 4], Sec. 8",
        printed=np.log(_PRINTED_VOCABULARY),
        corrected=float(record.first_loss),
        measured=PUBLISHED_LOSS[0],
        tolerance=5e-5,  # its last digit
    )


def rows(record: xr.Dataset) -> list[dict[str, Any]]:
    names = {"largest_eigenvalue": "upper_bound", "smallest_eigenvalue": "lower_bound"}
    return [
        row(str(task), "", f"{name.replace('_', ' ')} of E (predicted: its bound)", float(record[bound][i]), float(record[name][i]))
        for i, task in enumerate(record.task.values)
        for name, bound in names.items()
    ]


def draw(axes: Any, record: xr.Dataset) -> None:
    from saccade.report.style import categorical

    place = np.arange(record.sizes["task"])
    for i, (name, bound, wanted) in enumerate(
        (("largest", "upper_bound", "must be below 1/K"), ("smallest", "lower_bound", r"must be above $6/\sqrt{M}$"))
    ):
        shift, color = place + (0.2 * i - 0.1), categorical(i)
        axes.plot(shift, record[f"{name}_eigenvalue"], "o", color=color, label=rf"{name} $|\lambda|$ of E")
        axes.hlines(record[bound], shift - 0.18, shift + 0.18, color=color, label=wanted)
    axes.set(yscale="log", ylabel="eigenvalue of E (1)")
    axes.set_xticks(place, [str(task).replace("syn-", "").replace("-", "\n", 1) for task in record.task.values])
    axes.set_title("Assumption 2 on the published tasks", loc="left", fontsize=10)
    axes.legend(loc="upper left", fontsize=8)
