"""What a record of a watched run holds: axes, unit and definition of each of its variables."""

from __future__ import annotations

from saccade.watching import attention_statistics

SINK = 0.3  # mean attention on the first token above which a head is called a sink [gu2024]

OF_HEADS = attention_statistics.DEFINITIONS | attention_statistics.REPEATED_DEFINITIONS
AXES = {name: ["layer", "head"] for name in OF_HEADS} | {
    "decile_focus": ["layer", "head", "decile"],
    **{name: list(axes) for name, axes in attention_statistics.AXES.items()},
    "sink_share": [],
    "attention_map": ["sequence", "layer", "head", "map_query", "key"],
    "moved": ["layer", "head"],
    "loss": [],
    "look_seconds": [],
    "step_loss": ["steps_back"],
    "later_step": ["later"],
    "later_loss": ["later"],
    "drive_rate": ["weight_layer", "weight_head"],
    "drive_query_to": ["weight_layer", "weight_head", "query_input"],
    "drive_key_to": ["weight_layer", "weight_head", "key_input"],
}
DEFINITIONS = (
    OF_HEADS
    | attention_statistics.SEVERAL
    | {
        "attention_map": (
            "1",
            "attention of some query rows of chosen sequences: a row sums to one, minus what a learned sink takes; "
            "padding of the array is missing",
        ),
        "moved": (
            "1",
            "total variation between the kept maps and those of half the step: 0 = frozen, 1 = all attention is elsewhere; missing "
            "where no observation is as early",
        ),
        "sink_share": (
            "1",
            f"share of heads with more than {SINK:g} of their attention on the first token, on average: 0 = none, 1 = all of them",
        ),
        "time": ("", "step of the observation, as the training loop numbers it"),
        "loss": ("", "loss given to `recorder.step`"),
        "step_loss": (
            "",
            "loss this many steps earlier, as given to `recorder.step`, since the previous observation; at most 16,384",
        ),
        "later_step": (
            "",
            "steps after the last observation of a run that ended without another one, for example by Ctrl-C",
        ),
        "later_loss": ("", "losses of these steps, as given to `recorder.step`"),
        "look_seconds": ("s", "time this observation took, without writing it"),
        "drive_rate": (
            "1",
            "largest singular value of F = -dL/d(W_Q W_K^T) at uniform attention: growth per step at rate 1",
        ),
        "drive_query_to": ("1", "its left singular vector: what queries will read from the input"),
        "drive_key_to": ("1", "its right singular vector: what they will look for in it"),
    }
)
