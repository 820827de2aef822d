"""The commands `saccade sweep` and `saccade check`: their options and what they print."""

from __future__ import annotations

import json
import shlex
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import tyro

from saccade.errors import InputError, shortened
from saccade.experiments import EXPERIMENTS
from saccade.records.json_files import parsed_json, read_json
from saccade.records.observation_log import OBSERVATIONS
from saccade.records.schema import settings_of
from saccade.records.writing import recover
from saccade.sweeps.asked import Asked
from saccade.sweeps.execution import KEEP_MISTAKE
from saccade.sweeps.folder import SweepFolder, sweeps_below
from saccade.sweeps.grid import Grid
from saccade.sweeps.outcome_file import DIVERGED, FAILED, FINISHED, TIMED_OUT, UNFINISHED
from saccade.sweeps.sweep import Means, missing, run_sweep

Progress = Callable[[str], AbstractContextManager[Callable[..., None]]]
Option = tuple[Any, Any, str]
_OF_WATCHED = (
    "training cannot be run again; `saccade.load_record(folder, whole=False)` reads what is whole"
)
_OTHER_CODE = (
    "what its numbers depend on has changed ({changed}). Nothing was written. "
    "Run `saccade {command} --out elsewhere`, or with --replace to write over this one."
)
_OTHER = "of other settings or code"
_MOST_REASONS = 5
_LONG = 2.0  # seconds of gathering before the bar says so

_MEANS: dict[str, Option] = {
    "workers": (int | None, None, "processes on this machine; default: one per core"),
    "memory": (
        float | None,
        None,
        "GB of memory for all processes; default: 80 percent of the total (cluster: per worker)",
    ),
    "cluster": (
        str | None,
        None,
        "address of a Dask scheduler, tcp://HOST:PORT, or `local` to start one",
    ),
    "time_limit": (float | None, None, "time limit of one run in seconds; includes compiling"),
}
SWEEP_OPTIONS: dict[str, Option] = {
    "name": (
        tyro.conf.Positional[str],
        "",
        f"experiment, such as {next(iter(EXPERIMENTS))}, or a Python file with one of your own",
    ),
    "over": (
        tyro.conf.UseAppendAction[tuple[str, ...]],
        (),
        "settings to sweep: key=1,2,3 or key=0..9 or key=0..1:5 or key=1..10:log8; linked: a/b=1/2,3/4",
    ),
    "setting": (
        tyro.conf.UseAppendAction[tuple[str, ...]],
        (),
        "one value for every run: key=value",
    ),
    "seeds": (int | None, None, "number of seeds per grid point: 0 .. N-1"),
    "out": (Path | None, None, "folder of the sweep; default: results/sweeps/NAME"),
    "keep": (
        str | None,
        None,
        "variables to keep from each run, separated by commas; default: all",
    ),
    "show": (str | None, None, "number to plot in the figure"),
    "plan": (
        bool,
        False,
        "only print how many runs there are and how long they will take, from a timed sample",
    ),
    "status": (Path | None, None, "only print what is finished in this folder"),
    "retry_failed": (bool, False, "rerun runs that failed or timed out"),
    "replace": (
        bool,
        False,
        "overwrite the results of an earlier sweep that has other runs; its runs are kept",
    ),
    **_MEANS,
}
VERIFY_OPTIONS: dict[str, Option] = {
    "folder": (tyro.conf.Positional[Path], tyro.MISSING, "folder of a sweep or of records"),
    "repair": (bool, False, "rerun whatever is damaged or missing"),
    "file": (
        str,
        "",
        "your own Python file that made the results; --repair never runs a file that you do not name",
    ),
    **_MEANS,
}


def sweep_command(options: Any, progress: Progress) -> int:
    """0 if every run is finished or diverged, 1 if some failed or ran out of time."""
    if options.status is not None:
        return _say_status(SweepFolder.existing(options.status), options.json)
    if not options.name:
        raise InputError(
            "`saccade sweep` needs an experiment first: a Python file, or a name that `saccade list` shows."
        )
    grid = _grid(options)
    folder = SweepFolder(
        options.out if options.out is not None else Path("results/sweeps") / grid.title
    )
    if options.plan:
        return _say_plan(grid, folder, options, progress)
    with progress(
        f"{grid.title}, {len(missing(grid, folder, options.retry_failed))} runs to do"
    ) as on_progress:
        how = (
            _means(options),
            options.show,
            options.retry_failed,
            on_progress,
            _gathering(on_progress),
        )
        dataset = run_sweep(grid, folder, *how, replace=options.replace)
    runs = [run.identity for run in grid.runs]
    counts = _counts(runs, folder)
    if options.json:
        print(json.dumps({"folder": str(folder.path), "runs": grid.n_runs, **counts}, indent=1))
    else:
        print(f"{_sentence(counts)}\n{dataset.attrs['caption']}")
        _say_reasons(runs, folder)
        print(f"dataset.zarr, summary.csv, summary.parquet and figure.svg are in {folder.path}")
    return 1 if counts[FAILED] or counts[TIMED_OUT] else 0


def _gathering(on_progress: Callable[..., None]) -> Callable[[float], None]:
    """Shows gathering on the same bar, but only if it takes long."""
    begun = time.monotonic()

    def tell(fraction: float) -> None:
        nonlocal begun
        if fraction == 0:
            begun = time.monotonic()
        if time.monotonic() - begun > _LONG:
            on_progress(fraction, "gathering all runs")

    return tell


def verify_command(options: Any, progress: Progress) -> int:
    """0 if everything is intact or repaired; 1 if something is damaged or missing, or a sweep is
    not finished.
    """
    from saccade.records.store import damaged_records, unfinished_runs

    unread = recover(options.folder)
    sweeps = sweeps_below(options.folder)
    damaged, n_records = damaged_records(options.folder, sweeps)
    if sweeps == {options.folder} and n_records == 0 and not unread:
        told, is_left = _verified(options.folder, options, progress)
        _say_or_print(told, options.json)
        return 1 if is_left else 0
    told_of = {
        str(folder): _verified(folder, options, progress, alone=False) for folder in sorted(sweeps)
    }
    if n_records == 0 and not sweeps:
        raise InputError(
            f"{options.folder} holds neither a sweep nor a record{''.join(f'; {what}' for what in unread[:1])}."
        )
    advice = {
        record: _OF_WATCHED if (Path(record) / OBSERVATIONS).is_dir() else "--repair reruns it"
        for record in damaged
    }
    if options.repair:
        advice |= _repaired(
            [record for record in damaged if advice[record] != _OF_WATCHED], options.file, progress
        )
    left = {record: wrong for record, wrong in damaged.items() if advice[record]}
    going = unfinished_runs(options.folder, sweeps)
    if options.json:
        records = {
            "records": n_records,
            "damaged": damaged,
            "repaired": [record for record in damaged if record not in left],
        }
        sweeps_told = {folder: told for folder, (told, _) in told_of.items()}
        print(
            json.dumps(
                records | {"unfinished": going, "sweeps": sweeps_told, "unread": unread}, indent=1
            )
        )
    else:
        for told, _ in told_of.values():
            _say_or_print(told, as_json=False)
        for record, wrong in damaged.items():
            print(f"damaged: {record}: {wrong}; {advice[record] or 'it has been run again'}")
        for record, words in going.items():
            print(f"unfinished: {record}: {words}")
        for what in unread:
            print(f"not verified: {what}")
        if n_records:
            print(f"{n_records - len(left)} of {n_records} records are intact")
    return 1 if left or unread or any(is_left for _, is_left in told_of.values()) else 0


def _verified(
    path: Path, options: Any, progress: Progress, *, alone: bool = True
) -> tuple[dict[str, Any], bool]:
    """What is to be reported of a sweep, and whether something is damaged or missing at the end.
    One of several that cannot be repaired does not keep the others from it.
    """
    from saccade.sweeps.repair import damage, repair

    try:
        with progress(f"reading {path}") as on_progress:
            found = (
                repair(SweepFolder(path), _means(options), options.file, on_progress)
                if options.repair
                else damage(SweepFolder(path))
            )
            left = damage(SweepFolder(path)) if options.repair and not found.is_whole else found
    except InputError as error:
        if alone:
            raise
        return {"folder": str(path), "refused": str(error)}, True
    told = {
        "folder": str(path),
        "files": found.n_files,
        "damaged": found.files,
        "runs": found.runs,
        "missing": found.missing,
    }
    told["under_way"] = found.under_way
    return told | {
        "has_results": found.has_results,
        "repaired": options.repair and left.is_whole,
    }, not left.is_whole


def _say_or_print(told: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(told, indent=1))
        return
    if "refused" in told:
        print(f"not repaired: {told['folder']}: {told['refused']}")
        return
    for file, wrong in told["damaged"].items():
        print(f"damaged: {Path(told['folder'], file)}: {wrong}")
    wrong = (
        [f"{len(told['damaged'])} files are damaged, with {len(told['runs'])} runs"]
        if told["damaged"]
        else []
    )
    wrong += [f"{len(told['missing'])} runs are missing"] if told["missing"] else []
    wrong += [] if told["has_results"] else ["the results are not written"]
    if told["under_way"]:
        whole = f"{told['files'] - len(told['damaged'])} of {told['files']} files of runs are intact so far"
        print(f"{told['folder']}: a sweep is running there; {whole}; check again when it has ended")
        return
    done = "it has been repaired" if told["repaired"] else "--repair reruns what is needed"
    print(
        f"{told['folder']}: {', '.join(wrong)}; {done}"
        if wrong
        else f"{told['folder']}: all {told['files']} files of runs and the results are intact"
    )


def _repaired(damaged: Iterable[str], named: str, progress: Progress) -> dict[str, str]:
    """Run the experiments of damaged records again; for each, why that cannot be, or nothing."""
    from saccade.experiments import experiment, own_file
    from saccade.experiments.reproduce import reproduce
    from saccade.identity import computation, differences, user_files
    from saccade.records.checksums import damaged_files
    from saccade.records.writing import CHECKSUMS

    found = {}
    for record in damaged:
        folder = Path(record).resolve()  # OUT/NAME: `reproduce` keeps it until the new one is whole
        try:
            wrong = damaged_files(folder)
            for file in {"about.json", CHECKSUMS} & set(
                wrong
            ):  # a flipped bit in its settings would be another experiment
                raise InputError(f"its settings cannot be trusted, since {file} {wrong[file]}.")
            about = read_json(folder / "about.json")
            if about.get("file") and not named:
                raise InputError(
                    f"it was made by the file {shortened(about['file'])}; if you trust that file, add --file and its path."
                )
            name = own_file(named) if about.get("file") else folder.name
            if experiment(name).name != folder.name:
                raise InputError(f"{named} defines {experiment(name).name}.")
            config: Any = settings_of(about, experiment(name).settings)
            own = name if about.get("file") else ""
            then = parsed_json(about.get("computation", "{}"))
            if changed := differences(then, computation() | user_files(config, own)):
                is_default = not about.get("file") and config == experiment(name).settings()
                command = (
                    f"reproduce {name}" if is_default else f"run {shlex.quote(name)} [its settings]"
                )
                raise InputError(
                    _OTHER_CODE.format(changed=changed if then else "unknown", command=command)
                )
            with progress(folder.name) as on_progress:
                reproduce(name, folder.parent, config, str(about.get("command", "")), on_progress)
            found[record] = ""
        except InputError as error:
            found[record] = f"it cannot be run again: {error}"
    return found


def _grid(options: Any) -> Grid:
    from saccade.experiments import experiment
    from saccade.sweeps.axes import axes_of

    config = experiment(options.name).settings()
    for axis in axes_of(options.setting, config):
        if len(axis.values) > 1:
            raise InputError(
                f"`--setting {axis.name}` must have one value; use `--over` to sweep it."
            )
        changed = dict(zip(axis.settings, axis.values[0], strict=True))
        if (
            changed.get("seeds", (0, 0))[1:] == ()
        ):  # one number here is how many, as for `saccade run`
            changed["seeds"] = changed["seeds"][0]
        config = replace(config, **changed)
    keep = None if options.keep is None else options.keep.split(",")
    return Grid.of(options.name, options.over, options.seeds, config, keep)


def _means(options: Any) -> Means:
    return Means(**{name: getattr(options, name) for name in _MEANS}).checked()


def _counts(asked: Collection[str], folder: SweepFolder) -> dict[str, int]:
    """The asked runs by what came of them, and how many more the folder holds."""
    runs = set(asked)
    found = Counter(entry["status"] for run, entry in folder.present().items() if run in runs)
    counts = {status: found[status] for status in (FINISHED, DIVERGED, FAILED, TIMED_OUT)}
    return counts | {
        "missing": len(runs) - sum(counts.values()),
        _OTHER: len(folder.entries.keys() - runs),
    }


def _sentence(counts: dict[str, int]) -> str:
    said = [f"{count} {status}" for status, count in counts.items() if count or status == FINISHED]
    return ", ".join(said) + (" (kept in runs/, not in the dataset)" if counts.get(_OTHER) else "")


def _say_status(folder: SweepFolder, as_json: bool) -> int:
    """By the code as it is now: what the same command would find finished."""
    if folder.n_unreadable:
        raise InputError(
            f"{folder.path / 'manifest.jsonl'} is damaged ({folder.n_unreadable} of its lines), so finished runs are unknown. "
            "Run the sweep's command again: it keeps all intact files of runs."
        )
    if (unlisted := folder.unlisted()) and not folder.is_being_written():
        raise InputError(
            f"{len(unlisted)} files of runs in {folder.path} are not in its manifest, so finished runs are unknown. "
            "Run the sweep's command again: it uses all intact files of runs."
        )
    asked = Asked.read(folder.path)
    runs = asked.identities_by(asked.now())
    counts = _counts(runs, folder)
    if as_json:
        print(
            json.dumps(
                {"folder": str(folder.path), "name": asked.name, "runs": len(runs), **counts},
                indent=1,
            )
        )
    else:
        axes = " x ".join(f"{axis.name} ({len(axis.values)})" for axis in asked.axes)
        print(f"{asked.name}: {len(runs)} runs over {axes}\n{_sentence(counts)}")
        _say_reasons(runs, folder)
    return 0


def _say_reasons(runs: Iterable[str], folder: SweepFolder) -> None:
    entries = (folder.entries[run] for run in runs if run in folder.entries)
    reasons = Counter(
        (entry["status"], entry["reason"]) for entry in entries if entry["status"] in UNFINISHED
    )
    for (status, reason), count in reasons.most_common(_MOST_REASONS):
        print(f"  {count} {status}: {reason}")


def _say_plan(grid: Grid, folder: SweepFolder, options: Any, progress: Progress) -> int:
    from saccade.sweeps.estimate import estimate

    means = _means(options)
    runs = missing(grid, folder, options.retry_failed)
    with progress(f"timing a sample of {len(runs)} runs") as on_progress:
        found = estimate(grid, runs, means, on_progress)
    refused = list(found.refused)
    if refused and refused[0].startswith(KEEP_MISTAKE):  # as the sweep itself would say
        raise InputError(refused[0])
    if options.json:
        seconds = {"seconds": found.total, "refused": refused}
        print(json.dumps({"runs": grid.n_runs, "to_do": found.n_runs, **seconds}, indent=1))
    else:
        scales = (("days", 86400), ("hours", 3600), ("minutes", 60), ("s", 1))
        unit, size = next((one for one in scales if found.total >= 2 * one[1]), scales[-1])
        done = grid.n_runs - found.n_runs
        print(
            f"{grid.n_runs} runs, {done} finished, {found.n_runs} to do: "
            f"about {found.total / size:.1f} {unit} with {means.n_workers} processes "
            f"({found.start:.1f} s to start, {found.unit:.3g} s a call). Nothing was written."
        )
        for reason in refused:
            print(f"  a run of the sample would not finish: {reason}")
    return 1 if refused else 0
