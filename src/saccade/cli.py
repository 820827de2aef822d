"""The command line, a thin layer: every command calls functions that a Python user can call too.

Exit codes: 0 if all verdicts are as expected, 1 if some are not (`lab/outcome.py` says which), 2
for a wrong command line, 130 for Ctrl-C. Slow modules are imported where they are used, so that
`main` can answer Ctrl-C from the start.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from saccade import __version__
from saccade.errors import InputError, checked_choice
from saccade.lazy import EXTRAS
from saccade.places import user_cache
from saccade.records.json_files import json_ready
from saccade.records.writing import make_folder, write_text
from saccade.terminal import JSON, console, flags, progress

_TOO_LARGE = (
    "RESOURCE_EXHAUSTED",
    "Maximum allowed",
    "array is too big",
    "allocate memory",
)  # as JAX, NumPy and PyTorch say it
_NAMED = 4  # experiments that a sentence names
REPLACE = (bool, False, "overwrite an earlier result that has other settings")
_USAGE = f"""Saccade {__version__}, a laboratory for how attention learns.

  saccade list [--json]                              all questions with their answers
  saccade reproduce [NAME ...] [--verbose]           run, check claims, write the report; no name: all synthetic ones
  saccade reproduce --real [--full]                  those on real text; --full: at the papers' sizes (extras `torch`, `text`)
  saccade run NAME|FILE.py [--setting value ...]     one experiment or your own file, with your settings; --help lists them
  saccade forecast TEXT|CLASSES [--out DIR] [--json] what theory predicts, before any training (extra `text` for texts)
  saccade sweep NAME|FILE.py --over key=1,2,4 --seeds N [--out DIR]  a grid of settings and seeds, resumable; --plan, --status DIR
  saccade check DIR [--repair]                      check all files; --repair reruns damaged or missing runs
  saccade observe PATH|HUB_ID [--text FILE] [--out DIR]  measure attention and weights in checkpoints (extra `torch`)
  saccade report RECORD ... [--out FILE]             one offline page from records, sweeps and watched runs
  saccade figure NAME|DIR [--format pdf] [--width 3.3in]  the figure of a result for a paper, one column wide
  saccade play [--out FILE.html] [--film FILE.gif]   two theories live in the browser, as one file, or as a film for slides
  saccade completion bash|zsh                        Tab completion of commands and experiments
  saccade env [--json]                               versions and settings for a bug report

Start with:  saccade reproduce long-contexts
"""


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _answered(arguments)
        sys.stdout.flush()
        return code
    except InputError as error:
        _complain(str(error))
        return 2
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing not in EXTRAS:
            raise
        _complain(
            f"this needs {missing}, which is not installed: pip install '{EXTRAS[missing]}' in the folder of Saccade"
        )
        return 2
    except KeyboardInterrupt:
        _complain("interrupted; what was finished before is kept, nothing half-written is left.")
        return 130
    except BrokenPipeError:  # the reader of our output, such as `head`, has left
        _print_no_more()
        return 0
    except OSError as error:
        _complain(f"{f'{error.filename}: ' if error.filename else ''}{error.strerror or error}.")
        _print_no_more()
        return 2
    except (MemoryError, RuntimeError, ValueError) as error:
        if not isinstance(error, MemoryError) and not any(
            words in str(error) for words in _TOO_LARGE
        ):
            raise
        _complain(
            "there is not enough memory for this; choose smaller settings. What was finished before is kept."
        )
        return 2


def _answered(arguments: list[str]) -> int:
    if any("\0" in argument for argument in arguments):
        raise InputError("an argument contains a null character.")
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_USAGE, end="")
        return 0
    if arguments[0] == "--version":
        print(__version__)
        return 0
    # Compiled code is kept in the user's cache folder if there is a place for one. Through the
    # environment, so that JAX need not be imported for it.
    if (folder := user_cache("jax")) is not None:
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
    command = (
        _COMMANDS.get(arguments[0]) or _COMMANDS[checked_choice("command", arguments[0], _COMMANDS)]
    )
    return command(arguments[1:])


def _list(arguments: list[str]) -> int:
    from saccade.experiments import ANSWERS

    options = flags(
        arguments,
        "List all questions with their answers and times.",
        "saccade list --json",
        json=JSON,
    )
    rows: list[dict[str, Any]] = [
        {"name": name, **{key: stored[key] for key in ("question", "answer", "seconds")}}
        for name, stored in ANSWERS.items()
    ]
    if options.json:
        print(json.dumps(rows, indent=1))
        return 0
    from rich.table import Table

    table = Table("name", "question and answer", "time on two cores", box=None)
    for row in rows:
        said = f"{row['question']} {row['answer']}".replace("[", r"\[")
        table.add_row(row["name"], said, f"{row['seconds']} s")
    console().print(table)
    return 0


def _reproduce(arguments: list[str]) -> int:
    import tyro

    from saccade.experiments import EXPERIMENTS, REAL_TEXT, SYNTHETIC, experiment, formulas
    from saccade.lab.errata import errata_page
    from saccade.records.checksums import sealed_folder

    options = flags(
        arguments,
        "Run experiments with their default settings, check their claims and write the report.",
        "saccade reproduce first-force",
        names=(
            tyro.conf.Positional[tuple[str, ...]],
            (),
            "names from `saccade list`; none: all synthetic experiments",
        ),
        real=(bool, False, "run all experiments on real text instead of the synthetic ones"),
        full=(bool, False, "experiments on real text: use the papers' sizes (takes hours to days)"),
        out=(Path, Path("results"), "folder to write results to"),
        replace=REPLACE,
        verbose=(bool, False, "print every claim, not only unexpected verdicts"),
        json=JSON,
    )
    if options.real and options.names:
        raise InputError(
            "`--real` runs all experiments on real text; leave it out if you name experiments."
        )
    if own := [name for name in options.names if name.endswith(".py")]:
        raise InputError(f"use `saccade run {own[0]}` for a file of your own.")
    names = [
        checked_choice("experiment", name, EXPERIMENTS, "saccade list") for name in options.names
    ]
    names = names or list(REAL_TEXT if options.real else SYNTHETIC)
    jobs: list[tuple[str, Any, str]] = []
    for name in dict.fromkeys(names):
        command = f"saccade reproduce {name}"
        if not options.full:
            jobs.append((name, None, command))
        elif name in REAL_TEXT:
            jobs.append((name, experiment(name).full, f"{command} --full"))
        else:
            raise InputError(
                f"{name} has no larger setting; `--full` is for experiments on real text."
            )
    pages = "findings" if options.real else "errata"  # from all experiments of a kind
    with (
        sealed_folder(options.out / pages)
        if not options.names
        else contextlib.nullcontext() as folder
    ):  # refused before the work
        outcomes = _run_all(jobs, options, every_claim=options.verbose)
        if folder is not None and options.real:
            from saccade.lab.findings import findings_page, picture
            from saccade.report.style import save_figure

            asked = {outcome.name: experiment(outcome.name) for outcome in outcomes}
            write_text(folder / "findings.md", findings_page(outcomes, asked))
            make_folder(folder / "figures")
            for outcome in outcomes:
                save_figure(picture(outcome.folder), folder / "figures" / outcome.name)
        elif folder is not None:
            write_text(
                folder / "errata.md",
                errata_page(
                    [claim for outcome in outcomes for claim in outcome.claims], formulas()
                ),
            )
    return _exit_code(outcomes)


def _exit_code(outcomes: list[Any]) -> int:
    return int(any(outcome.unexpected for outcome in outcomes))


def _run(arguments: list[str]) -> int:
    from saccade.experiments import experiment

    if arguments[:1] in (["-h"], ["--help"]):
        print(
            "usage: saccade run NAME|FILE.py [--setting value ...]\n\nRun one experiment with your own settings.\n"
        )
        print("Example: saccade run first-force --out results/mine\n")
        print(
            "NAME is one that `saccade list` shows, FILE.py defines your own experiment. `saccade run NAME --help` lists its"
        )
        print(
            "settings. `--seeds 3` runs three seeds (0, 1, 2), `--seeds 4 7` runs seeds 4 and 7, `--seeds 7,` runs seed 7 alone."
        )
        return 0
    if not arguments or arguments[0].startswith("-"):
        raise InputError(
            "`saccade run` needs an experiment first: a Python file, or a name that `saccade list` shows."
        )
    name = arguments[0]
    asked = experiment(name)
    kind: Any = asked.settings
    try:
        options = flags(
            arguments[1:],
            asked.question,
            f"saccade run {name} --out results/mine",
            config=(kind, kind(), "settings of the experiment"),
            out=(Path, Path("results/own"), "folder to write results to"),
            replace=REPLACE,
            json=JSON,
        )
    except InputError as error:
        raise InputError(f"{error}{_settings_elsewhere(str(error))}") from None
    command = f"saccade run {shlex.join(arguments)}"
    outcomes = _run_all([(name, options.config, command)], options, every_claim=True)
    return _exit_code(outcomes)


def _settings_elsewhere(refused: str) -> str:
    """Who has the setting that is refused, if other experiments do."""
    from saccade.experiments import with_setting

    option = re.search(r"Unrecognized options: --([\w-]+)", refused)
    names = with_setting(option[1].replace("-", "_")) if option else []
    named = (
        ", ".join(names)
        if len(names) <= _NAMED
        else f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
    )
    return f" Experiments with --{option[1]}: {named}." if option and names else ""


def _env(arguments: list[str]) -> int:
    from saccade.identity import computation, digest
    from saccade.records.provenance import environment

    options = flags(
        arguments, "Print versions and settings, for a bug report.", "saccade env --json", json=JSON
    )
    facts = environment() | {"identity": digest(computation())[:20]}
    print(
        json.dumps(facts, indent=1)
        if options.json
        else "\n".join(f"{key}: {value}" for key, value in facts.items())
    )
    return 0


def _sweep(arguments: list[str]) -> int:
    from saccade.sweeps.command import SWEEP_OPTIONS, sweep_command

    example = "saccade sweep first-force --over lr_attention=0.1..1:log3 --seeds 2"
    purpose = "Run an experiment over a grid of settings and seeds. The same command resumes a sweep that was stopped."
    return sweep_command(flags(arguments, purpose, example, **SWEEP_OPTIONS, json=JSON), progress)


def _check(arguments: list[str]) -> int:
    from saccade.sweeps.command import VERIFY_OPTIONS, verify_command

    example = "saccade run first-force && saccade check results/own"
    purpose = "Check that all files of sweeps and records are intact."
    return verify_command(flags(arguments, purpose, example, **VERIFY_OPTIONS, json=JSON), progress)


def _report(arguments: list[str]) -> int:
    import tyro

    from saccade.report.page import write_report

    options = flags(
        arguments,
        "Write one HTML page that shows records, sweeps and watched runs, and opens offline.",
        "saccade run first-force && saccade report results/own --out report.html",
        sources=(
            tyro.conf.Positional[tuple[Path, ...]],
            (Path("results"),),
            "records, or folders of results, sweeps or watched runs",
        ),
        out=(Path | None, None, "file to write; default: report.html in this folder"),
        json=JSON,
    )
    unread: list[str] = []
    page = write_report(options.sources, options.out, unread.append)
    _complain(*unread)
    print(
        json.dumps({"report": str(page), "unread": unread}) if options.json else f"report: {page}"
    )
    return 1 if unread else 0


def _figure(arguments: list[str]) -> int:
    import tyro

    from saccade.report.column import FORMATS, is_figure, write_figure

    options = flags(
        arguments,
        "Draw the figure of a result again, in the width and format that a paper needs.",
        "saccade run first-force && saccade figure first-force --format pdf --width 3.3in",
        source=(
            tyro.conf.Positional[str],
            tyro.MISSING,
            "experiment with a result in results/, or the folder of a result",
        ),
        format=(str, "pdf", ", ".join(FORMATS)),
        width=(
            str,
            "3.3in",
            "width in in, cm, mm or pt; fonts keep their size, panels are stacked if need be",
        ),
        panels=(tuple[int, ...], (), "numbers of the panels to draw; default: all"),
        out=(Path | None, None, "file to write; default: NAME.FORMAT in this folder"),
        json=JSON,
    )
    out = options.out or Path(f"{Path(options.source).resolve().name}.{options.format}")
    if options.out is None and out.is_file() and not is_figure(out):
        raise InputError(
            f"{out} exists, and `saccade figure` did not draw it; move it away, or name another "
            "file with --out."
        )
    figure = write_figure(options.source, out, options.width, options.panels)
    print(json.dumps({"figure": str(figure)}) if options.json else f"figure: {figure}")
    return 0


def _play(arguments: list[str]) -> int:
    from saccade.playground.stories import stories

    options = flags(
        arguments,
        "Open the playground: two of the theories live in the browser.",
        "saccade play --no-browser",
        port=(int | None, None, "local port; default: 8765, or any free one"),
        no_browser=(bool, False, "print the address instead of opening a browser"),
        out=(Path | None, None, "write the page to one HTML file instead; it opens anywhere"),
        film=(Path | None, None, "write a film of a story for slides instead: NAME.gif"),
        story=(str, "snapping", "which story to film: " + ", ".join(stories())),
    )
    if options.film:
        from saccade.playground.film import write_film

        with progress(f"film of {options.story}") as on_progress:
            print(f"film: {write_film(options.film, options.story, on_progress)}")
    if options.out:
        from saccade.playground.single_file import write_playground

        print(f"playground: {write_playground(options.out)}")
    if not options.film and not options.out:
        from saccade.playground.server import serve

        serve(options.port, open_browser=not options.no_browser)
    return 0


def _completion(arguments: list[str]) -> int:
    import tyro

    from saccade.completion import completion

    options = flags(
        arguments,
        "Print a script that completes commands and experiments when you press Tab.",
        "saccade completion bash >> ~/.bash_completion",
        shell=(
            tyro.conf.Positional[str],
            "bash",
            "bash or zsh; for zsh, save it as _saccade in a folder of $fpath",
        ),
    )
    print(completion(options.shell, list(_COMMANDS)), end="")
    return 0


def _observe(arguments: list[str]) -> int:
    from saccade.watching.command import observe_command

    return observe_command(arguments)


def _forecast(arguments: list[str]) -> int:
    from saccade.forecasting.command import OPTIONS, answered, forecast_of

    if not arguments:
        raise InputError(
            "`saccade forecast` needs a text, such as sotu, wikitext-2 or a file, or a CSV of classes."
        )
    example = r"printf 'class,sun,moon,sky\nday,.6,0,.4\nnight,0,.6,.4\n' > sky.csv && saccade forecast sky.csv"
    purpose = "Predict what training will do, from the data alone: which tokens win, how fast and when attention snaps."
    options = flags(arguments, purpose, example, **OPTIONS, json=JSON)
    with progress(options.source) as on_progress:
        record = forecast_of(options, on_progress)
    return answered(record, options)


_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "list": _list,
    "reproduce": _reproduce,
    "run": _run,
    "sweep": _sweep,
    "check": _check,
    "forecast": _forecast,
    "observe": _observe,
    "report": _report,
    "figure": _figure,
    "play": _play,
    "completion": _completion,
    "env": _env,
}


def _run_all(jobs: list[tuple[str, Any, str]], options: Any, *, every_claim: bool) -> list[Any]:
    """Run experiments, print what came of each when it is done, and write the report over all of
    `--out`.
    """
    from saccade.experiments.reproduce import Job, reproduce_all
    from saccade.lab.outcome import counted, print_outcome
    from saccade.report.page import write_page

    outcomes = []
    with progress("starting") as on_progress:
        for outcome in reproduce_all(
            [Job(*job) for job in jobs], options.out, on_progress, options.replace
        ):
            outcomes.append(outcome)
            if not options.json:
                print_outcome(console(), outcome, every_claim=every_claim)
        asked = [name for name, _, _ in jobs]
        outcomes.sort(
            key=lambda outcome: asked.index(outcome.name) if outcome.name in asked else 0
        )  # a file of one's own is alone
        on_progress(1.0, label="writing the report")
        page = write_page(options.out, _complain)
    if options.json:
        results = [
            {"name": o.name, "folder": str(o.folder), "claims": [c.as_dict() for c in o.claims]}
            for o in outcomes
        ]
        print(json.dumps(json_ready({"report": str(page), "experiments": results}), indent=1))
    else:
        total = f"{counted(outcomes)}\n" if len(outcomes) > 1 else ""
        print(f"\n{total}report: {page}")
    return outcomes


def _complain(*sentences: str) -> None:
    for sentence in sentences:
        with contextlib.suppress(OSError):  # nobody listens
            print(f"saccade: {sentence}", file=sys.stderr)


def _print_no_more() -> None:
    """If what is still to be printed can go nowhere, say so no second time when the process ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_streams() -> None:
    """Give standard streams that were closed a place, or the next file that is opened would take
    their number and get what is printed; and print names that are not UTF-8 with escapes.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(descriptor)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name) or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # open as long as the process
        stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, stream)


_collection = {"phase": "stop"}  # of Python's garbage collector
_CALLBACKS = {"_note_phase", "_xla_gc_callback"}  # the second is JAX's, and comes after ours


def _note_phase(phase: str, _: object) -> None:
    _collection["phase"] = phase


def _answer_ctrl_c(number: int, frame: FrameType | None) -> None:
    """`KeyboardInterrupt`; but a moment later while garbage is collected, since what is raised in
    callbacks then is lost.
    """
    callers = set()
    while (
        frame is not None
    ):  # all of them: this may itself have been interrupted while it was waiting for the timer's thread
        callers.add(frame.f_code.co_name)
        frame = frame.f_back
    if _collection["phase"] == "start" or callers & _CALLBACKS:
        threading.Timer(0.02, os.kill, (os.getpid(), number)).start()
    else:
        raise KeyboardInterrupt


def answer_ctrl_c() -> None:
    """From now on, Ctrl-C is never lost; where it is ignored, or somebody else answers it, that
    stays so.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        gc.callbacks.append(_note_phase)
        signal.signal(signal.SIGINT, _answer_ctrl_c)


def entry() -> None:
    """The process: after Ctrl-C it ends at once, without waiting for compiled code that is still
    running in threads.
    """
    _open_streams()
    answer_ctrl_c()
    code = main()
    if code == 130:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
