"""Results to report, written as `saccade reproduce` writes them: of several seeds, of a flow in
stages, and without a record.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from saccade.lab.case import Case
from saccade.lab.ceiling import Ceiling
from saccade.lab.claim import PUBLISHED, Claim
from saccade.lab.film import Film
from saccade.measures.fits import Interval
from saccade.panels import DASHES, POINTS, RINGS, Bars, Heat, Layout, Line, Lines, specs
from saccade.records.checksums import seal
from saccade.records.json_files import write_json
from saccade.records.schema import make_record
from saccade.records.store import save_record
from saccade.report.drawn import draw_panels
from saccade.report.style import save_figure
from saccade.theories.condition import above, below, met
from saccade.theories.statement import OURS, Correction, Statement

THEOREM_4 = Statement(
    "tian2023",
    "Theorem 4",
    "growth is logarithmic, then log-logarithmic",
    (r"B = \frac{1}{4} \ln t",),
    place="Section 5",
    errata=(Correction("0.4", (r"B = \ln C_0",), (r"B = \ln 1",), "It must vanish."),),
)
FIG_4 = Statement("tian2023", "Fig. 4", "loss and attention on Syn-Small", kind="figure")
INVARIANTS = Statement("saccade", "invariants", "what the flow keeps", kind=OURS)

STEPS = np.arange(0, 49, 2)
MET, UNMET = (
    below("Assumption 2", 0.2, 1 / 3, "largest eigenvalue", "of E"),
    above("rate of the decoder", 0.5, 1.0),
)


def descent() -> xr.Dataset:
    rng = np.random.default_rng(5)
    loss = 3.5 * np.exp(-STEPS / 6.0) * rng.uniform(0.8, 1.2, (2, 3, 1))
    attention = rng.dirichlet(np.ones(7), (2, 3, len(STEPS), 2))
    axes = ("rate", "seed", "time")
    return make_record(
        dynamics="(C) mini-batch SGD",
        variables={"loss": (axes, loss), "attention": ((*axes, "class", "token"), attention)},
        coords={"time": STEPS, "seed": [11, 13, 17], "lr_decoder": ("rate", [1.0, 10.0])},
        time_unit="steps",
        config={"task": "two classes"},
        wall_time=1.0,
        definitions={
            "loss": ("nats", "mean loss"),
            "attention": ("1", "attention on a token"),
            "lr_decoder": ("1", "rate"),
        },
    )


def descent_claims() -> Iterable[Claim]:
    case = Case({"ratio": 1.0}, given=[MET], against=PUBLISHED)
    for step, published in ((2, 2.4), (4, 0.73), (6, 0.16), (8, 0.044)):
        yield case.but(iteration=step).near(
            FIG_4,
            "loss",
            published * 1.05,
            published,
            relative=0.15,
            sentence="The loss falls as published.",
        )
    yield case.but(given=[MET, UNMET]).at_most(THEOREM_4, "loss at the end", 0.3, 0.2)
    yield (
        Case({"law": "zipf"}, [MET])
        .breaking(met("one common token", False))
        .none(THEOREM_4, "frequent distinct tokens gain more", [True, False, True])
    )


def descent_panels() -> Layout:
    loss = 3.5 * np.exp(-STEPS / 6.0)
    return [
        Lines(
            "Loss of ⟨two⟩ classes",
            "step",
            "loss, nats",
            [
                Line(STEPS, loss, "measured", low=0.8 * loss, high=1.2 * loss),
                Line(STEPS, 1.1 * loss, "theory", DASHES, None),
                *(
                    Line(STEPS, loss * (1 + 0.1 * shade), "", "dots", shade)
                    for shade in (0.0, 0.5, 1.0)
                ),
                Line(STEPS[::4], loss[::4], "published", RINGS, 1),
                Line(STEPS[::4], 0.9 * loss[::4], "replicated", POINTS, 2),
            ],
            log="y",
            levels={1.0: "one nat"},
            marks={20.0: "snap", 60.0: "late"},
        ),
        Bars(
            "Fates",
            "fate",
            "share",
            ["fades", "stays"],
            {"one": [0.25, 0.5], "two": [0.75, -0.5]},
            stacked=True,
            tones={"two": None},
        ),
        Heat(
            "Map",
            "token",
            "class",
            np.arange(6.0).reshape(2, 3),
            ["a", "b", "c"],
            ["A", "B"],
            unit="nats",
        ),
        Lines(
            "Rates by law",
            "law",
            "rate",
            [Line([1, 2, 3], [1, 2, 4], style=POINTS)],
            ticks={1: "zipf", 2: "flat", 3: "own"},
        ),
    ]


def growth_claims() -> Iterable[Claim]:
    case = Case(given=[MET])
    yield case.between(
        THEOREM_4,
        "snap onset",
        46.6,
        35,
        91,
        sentence="Attention snaps between two times that the theory gives.",
    )
    yield case.at_least(
        THEOREM_4,
        "share of pairs where the distinct token gains",
        Interval(0.43, 0.4, 0.47),
        0.56,
        strict=True,
    )
    yield case.erratum(
        THEOREM_4,
        "growth bound at zero",
        0.0,
        number="0.4",
        printed=0.5,
        corrected=0.0,
        within=1e-3,
    )
    yield case.none(INVARIANTS, "gain is conserved", [False] * 36)
    control = case.breaking(met("small steps", False))
    yield control.at_most(INVARIANTS, "drift of the norm", 1e-9, 1e-6)
    few = case.after_trial_runs.under(Ceiling("two seeds", 0.27))
    yield few.at_least(
        INVARIANTS, "rank correlation with the forecast", Interval(0.2, 0.1, 0.3), 0.5
    )
    yield case.near(INVARIANTS, "a number that is missing", float("nan"), 1.0, within=0.1)


def cycle() -> xr.Dataset:
    rng = np.random.default_rng(7)
    time = np.geomspace(1, 5000, 400)
    start = ("seed", "time")
    rise = 1 / (1 + np.exp(-5 * (np.log10(time)[:, None] - np.array([1.0, 2.0, 3.0]))))
    directions, axes = (
        np.linalg.qr(rng.normal(size=(5, 3)))[0],
        np.linalg.qr(rng.normal(size=(4, 3)))[0],
    )
    embedding = np.einsum("tk,ik,jk->tij", rise * [1.0, 0.8, 0.6], directions, axes)
    variables = {
        "attention": ((*start, "query", "token"), rng.dirichlet(np.ones(5), (1, 400, 5))),
        "loss": (start, 1.6 - rise.sum(-1)[None] / 3),
        "embedding": ((*start, "token", "width"), embedding[None]),
    }
    return make_record(
        dynamics="gradient flow",
        variables=variables,
        coords={"seed": [0], "time": time},
        time_unit="flow time",
        config={"task": "six tokens"},
        wall_time=1.0,
        definitions={
            "loss": ("nats", "loss"),
            "attention": ("1", "attention on a token"),
            "embedding": ("1", "embedding matrix"),
        },
    )


def snap() -> Film:
    """Three tokens of which one wins, with outlines for two of them."""
    time = np.geomspace(1, 1e6, 50)
    won = 1 / (1 + np.exp(-np.log10(time / 1e3)))
    attention = np.stack([0.5 * (1 - won), 0.3 * (1 - won), 0.2 + 0.8 * won], axis=1)
    theory = attention.copy()
    theory[:, 0] = np.nan
    roles = ["common tokens", "distinct tokens", "distinct tokens"]
    marks = {1e3: "half is won"}
    return Film(
        "Attention snaps.",
        time,
        attention,
        ["the", "cat", "dog"],
        theory=theory,
        roles=roles,
        marks=marks,
        clock="t (steps)",
    )


def turning() -> Film:
    """Two queries that turn from the first token to the last; theory says less than half of it, and
    only in the first half.
    """
    share = np.linspace(0, 1, 20)[:, None]
    row = np.concatenate([1 - share, 0 * share, share], axis=1)
    values = np.stack([row, row], axis=1)
    theory = np.where(np.arange(20)[:, None, None] < 10, 0.4 * values, np.nan)
    return Film(
        "Attention turns.",
        np.arange(20.0),
        values,
        ["a", "b", "c"],
        queries=["a", "b"],
        theory=theory,
        outlines="half of it",
    )


def written(
    folder: Path,
    claims: Iterable[Claim] = (),
    panels: Layout = (),
    record: xr.Dataset | None = None,
    tables: dict[str, Sequence[dict[str, Any]]] | None = None,
    film: Film | None = None,
    part: str = "",
    title: str = "",
) -> Path:
    """A folder of results; with `panels` both as panels and as a figure, else with a figure only."""
    folder.mkdir(parents=True, exist_ok=True)
    if record is not None:
        save_record(record, folder / "record.zarr")
    write_json(folder / "claims.json", [claim.as_dict() for claim in claims])
    if panels:
        write_json(folder / "panels.json", specs(panels))
    save_figure(
        draw_panels(specs(panels or [Lines("Growth", "t", "growth", [Line([0, 1], [0, 1])])])),
        folder / "figure",
    )
    for name, rows in (tables or {}).items():
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    if film is not None:
        write_json(folder / "film.json", film.spec())
    about = {
        "statement": f"What {folder.name} found.",
        "caption": "What to see.",
        "command": f"saccade reproduce {folder.name}",
    }
    write_json(folder / "about.json", about | {"part": part} | ({"title": title} if title else {}))
    seal(folder)
    return folder


def write_all(out: Path) -> Path:
    """Three results, in the order in which they were made."""
    events = [
        {"event": name, "query": 1, "time": at, "value": 0.5}
        for name, at in (("focus_onset", 50.0), ("focus_peak", 200.0), ("new_direction", 900.0))
    ]
    made = [
        written(
            out / "descent",
            descent_claims(),
            descent_panels(),
            descent(),
            {"table.csv": [{"step": 0, "loss": 3.5}]},
            film=snap(),
            part="Scan and Snap",
        ),
        written(
            out / "growth",
            growth_claims(),
            tables={"table.csv": [{"t": 1.5, "growth": 0.25}, {"t": 3.0, "growth": 0.5}]},
            part="Scan and Snap",
            title="How it grows",
        ),
        written(
            out / "cycle",
            [Case().near(INVARIANTS, "loss at the end", 0.6, 0.6, within=0.01)],
            record=cycle(),
            tables={"events.csv": events},
            film=turning(),
            part="Focus and Dilution",
        ),
    ]
    for place, folder in enumerate(
        made
    ):  # folders are sorted by time, which may be too coarse to tell them apart
        os.utime(folder, (1e9 + place, 1e9 + place))
    return out
