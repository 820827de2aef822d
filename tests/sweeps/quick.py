"""A user's own experiment of milliseconds, which compiles nothing."""

import time

import numpy as np

import saccade
from saccade.errors import checked_number
from saccade.panels import Line, Lines

MEAN = saccade.Statement("none", "Mean", "Draws have mean 0")


@saccade.experiment("quick")
def quick(
    lab,
    lr_decoder: float = 1.0,
    overlap: float = 0.5,
    draws: int = 3,
    pause: float = 0.0,
    classes: str = "",
    seed: int = 0,
):
    """Do random numbers have mean 0?"""
    checked_number("lr_decoder", lr_decoder, low=0, high=1000, open_low=True)
    for _ in lab.each([0]):
        time.sleep(pause)
    drawn = lr_decoder * np.random.default_rng(seed).normal(size=draws) + overlap
    lab.keep("drawn", drawn, "draw", "what was drawn")
    lab.keep("powers", drawn.mean() ** np.arange(1, 4), "power")
    lab.keep("stop_reason", "diverged" if lr_decoder > 500 else "finished")
    lab.case().at_most(MEAN, "distance of the mean from 0", abs(drawn.mean()), 4 * lr_decoder)
    lab.draw(Lines("draws", "number", "value", [Line(np.arange(draws), drawn)]))
    return f"{lab.yes_or_no()}: the mean is {drawn.mean():.2f}."
