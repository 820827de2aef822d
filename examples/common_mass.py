"""Attention on common tokens of Syn-Small, for one pair of rates: what `phase_diagram.py` sweeps."""

import saccade
from saccade.lab import Lab


@saccade.experiment("common-mass", dynamics="A: mini-batch training", time_unit="updates")
def common_mass(
    lab: Lab, lr_attention: float = 1.0, ratio: float = 1.0, seeds: int | tuple[int, ...] = 5
) -> str:
    """How much attention do common tokens keep?"""
    task = saccade.SequenceClasses.syn_small()
    rates = {"lr_decoder": ratio * lr_attention, "lr_attention": lr_attention}
    run = saccade.train(task, steps=48, momentum=0.9, seeds=seeds, save=[48], **rates)
    mass = saccade.measures.mass(run.attention.values, task.common).mean()
    lab.number("common_mass", mass)
    return f"Common tokens keep {mass:.0%} of attention."
