"""All benchmarks, one after the other: about fifteen minutes on two cores."""

from benchmarks import (
    compilation,
    context_length,
    flow_time,
    focus_dilution,
    growth,
    packing,
    sweeps,
    syn_medium,
    text_training,
    tokenising,
    watching,
    windows,
)

# First those that only start other processes: this one is small then, and leaves the cores to them.
for benchmark in (
    syn_medium,
    growth,
    flow_time,
    focus_dilution,
    watching,
    sweeps,
    text_training,
    tokenising,
    windows,
    context_length,
    packing,
    compilation,
):
    benchmark.main()
