"""A longer context costs nothing: the same training with 128 to 1,000,000 context tokens.

One pair of rates and ten seeds of syn-medium, so that every run draws its own contexts: the case in
which drawing weighs most.
"""

from __future__ import annotations

from benchmarks.measuring import interleaved, median, publish, publish_figure

BAR = 1.2  # times the shortest context's time
REPEATS = 7
CONTEXTS = (128, 1_000, 10_000, 100_000, 1_000_000)


def main() -> None:
    times = interleaved(
        {context: lambda c=context: _train(c) for context in CONTEXTS}, REPEATS, "context lengths"
    )
    rows = [
        {
            "context tokens": context,
            "median (s)": median(seconds),
            "least (s)": min(seconds),
            "ratio of medians": median(seconds) / median(times[CONTEXTS[0]]),
            "ratio of least": min(seconds) / min(times[CONTEXTS[0]]),
            "bar": BAR,
        }
        for context, seconds in times.items()
    ]
    publish(
        "context_length",
        "syn-medium, 3 query tokens, 10 seeds, 100 steps",
        rows,
        f"{REPEATS} repetitions, by turns",
    )
    _draw(times)


def _train(context: int) -> None:
    from saccade import SequenceClasses, train
    from saccade.models import Pairwise

    task = SequenceClasses.syn_medium(3)
    train(
        task,
        steps=100,
        momentum=0.9,
        context=context,
        seeds=10,
        save=[100],
        model=Pairwise(init="uniform"),
    )


def _draw(times: dict[int, list[float]]) -> None:
    from matplotlib.figure import Figure

    from saccade.report.style import categorical

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for context, seconds in times.items():
        axes.plot([context] * len(seconds), seconds, "o", color=categorical(0), alpha=0.3)
    medians = [median(seconds) for seconds in times.values()]
    axes.plot(
        CONTEXTS, medians, "o", ms=9, color=categorical(0), label="measured: median, and each"
    )
    shortest = median(times[CONTEXTS[0]])
    axes.axhline(shortest, color="black", lw=1, label="theory: independent of context")
    axes.axhline(
        BAR * shortest, color="black", lw=1, ls="--", label=f"bar: {BAR} times the shortest"
    )
    axes.set(
        xscale="log",
        xlabel="context length (tokens)",
        ylabel="time of 10 runs of 100 steps (s)",
        ylim=(0, None),
    )
    axes.legend(loc="lower left")
    publish_figure(figure, "context_length")


if __name__ == "__main__":
    main()
