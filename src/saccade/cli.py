"""The command line: thin. Every command calls what a Python user could call.

Exit codes: 0 when all verdicts are as expected, 1 when some are not, 2 for a mistake in the call, 130 for Ctrl-C.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from saccade import _EXTRAS, __version__
from saccade.errors import InputError, checked_choice
from saccade.records.claim import OUTSIDE
from saccade.records.store import write_text

_USAGE = f"""Saccade {__version__}, a laboratory for how attention learns.

  saccade list [--json]                              what can be reproduced: name, claim, time it takes
  saccade reproduce [NAME ...] [--out DIR] [--json]  run, check, report; without a name: everything synthetic
  saccade reproduce --real [--full]                  everything on real text, quick or at the papers' sizes (extras `torch`, `text`)
  saccade run NAME [--setting value ...] [--out DIR] one experiment with other settings, into results/own; --help lists them
  saccade forecast TEXT|CLASSES [--out DIR] [--json] what theory says will happen, before any training (extra `text` for texts)
  saccade observe PATH|HUB_ID [--text FILE] [--out DIR]  attention and weights over a folder of checkpoints (extra `torch`)
  saccade env [--json]                               versions and settings for a bug report

To begin:  saccade reproduce syn-small-attention
"""


_JSON = (bool, False, "print the answer as JSON, for programs")


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_USAGE, end="")
        return 0
    if arguments[0] == "--version":
        print(__version__)
        return 0
    try:
        _use_compilation_cache()
        command = _COMMANDS[checked_choice("command", arguments[0], _COMMANDS)]
        code = command(arguments[1:])
        sys.stdout.flush()
        return code
    except InputError as error:
        print(f"saccade: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        print(f"saccade: this needs {error.name}, which is not installed: pip install '{_EXTRAS[error.name]}'", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("saccade: interrupted; what was finished before is kept, nothing half-written is left.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output, such as `head`, has left; what is still to be printed goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _list(arguments: list[str]) -> int:
    from saccade.experiments import EXPERIMENTS, experiment, statement

    options = _parsed(_options("saccade list", json=_JSON), arguments)
    rows = [{"name": name, "claim": statement(experiment(name)), "seconds": experiment(name).SECONDS} for name in EXPERIMENTS]
    if options.json:
        print(json.dumps(rows, indent=1))
        return 0
    from rich.table import Table

    table = Table("name", "claim", "time on two cores", box=None)
    for row in rows:
        table.add_row(row["name"], row["claim"].replace("[", r"\["), f"{row['seconds']} s")
    _console().print(table)
    return 0


def _reproduce(arguments: list[str]) -> int:
    from saccade.experiments import EXPERIMENTS, REAL_TEXT, SYNTHETIC
    from saccade.experiments.errata import errata_page
    from saccade.experiments.findings import findings_page

    kind = _options(
        "saccade reproduce",
        names=(tyro.conf.Positional[tuple[str, ...]], (), "experiments, as `saccade list` names them; none: all synthetic ones"),
        real=(bool, False, "without names: all experiments on real text"),
        full=(bool, False, "experiments on real text at the papers' sizes; hours"),
        out=(Path, Path("results"), "folder that results are written into"),
        json=_JSON,
    )
    options = _parsed(kind, arguments)
    if options.real and options.names:
        raise InputError("`--real` is for all experiments on real text; leave it out beside names.")
    names = [checked_choice("experiment", name, EXPERIMENTS) for name in options.names]
    names = names or list(REAL_TEXT if options.real else SYNTHETIC)
    outcomes = _run_all([_job(name, options.full) for name in dict.fromkeys(names)], options.out, options.json)
    if options.real:
        write_text(options.out / "findings.md", findings_page(outcomes))
    elif not options.names:
        claims = [claim for outcome in outcomes for claim in outcome.claims]
        write_text(options.out / "errata.md", errata_page([claim.as_dict() for claim in claims]))
    # On text, claims about the papers' sizes are outside their assumptions at the quick ones; that is an answer, not a surprise.
    surprises = [
        claim
        for outcome in outcomes
        for claim in outcome.claims
        if not (claim.as_expected or (outcome.name in REAL_TEXT and claim.verdict == OUTSIDE))
    ]
    return 1 if surprises else 0


def _job(name: str, full: bool) -> tuple[str, Any, str]:
    """What `_run_all` takes: name, settings (None: the default) and the command that asks for just this."""
    from saccade.experiments import REAL_TEXT, experiment

    if full and name not in REAL_TEXT:
        raise InputError(f"{name} has no larger setting; `--full` is for experiments on real text.")
    command = f"saccade reproduce {name}"
    return (name, experiment(name).FULL, f"{command} --full") if full else (name, None, command)


def _run(arguments: list[str]) -> int:
    from saccade.experiments import EXPERIMENTS, experiment

    if not arguments or arguments[0].startswith("-"):
        raise InputError(f"`saccade run` needs the name of an experiment first: {', '.join(EXPERIMENTS)}.")
    name = checked_choice("experiment", arguments[0], EXPERIMENTS)
    kind: Any = experiment(name).Config
    declared = _options(
        f"saccade run {name}",
        config=(kind, kind(), "settings of the experiment"),
        out=(Path, Path("results/own"), "folder that results are written into"),
        json=_JSON,
    )
    options = _parsed(declared, arguments[1:])
    outcomes = _run_all([(name, options.config, f"saccade run {shlex.join(arguments)}")], options.out, options.json)
    # With settings of one's own a claim may well be outside its assumptions; that is an answer, not a surprise.
    return 0 if all(claim.as_expected or claim.verdict == OUTSIDE for claim in outcomes[0].claims) else 1


def _env(arguments: list[str]) -> int:
    from saccade.records.provenance import provenance

    options = _parsed(_options("saccade env", json=_JSON), arguments)
    facts = provenance() | {"compilation_cache": os.environ.get("JAX_COMPILATION_CACHE_DIR", "off")}
    print(json.dumps(facts, indent=1) if options.json else "\n".join(f"{key}: {value}" for key, value in facts.items()))
    return 0


def _observe(arguments: list[str]) -> int:
    from saccade.observe.command import observe_command

    return observe_command(arguments)


def _forecast(arguments: list[str]) -> int:
    from saccade.forecasting.command import OPTIONS, answered, forecast_of

    if not arguments:
        raise InputError("`saccade forecast` needs a text, such as sotu, wikitext-2 or a file, or a CSV of classes.")
    options = _parsed(_options("saccade forecast", **OPTIONS, json=_JSON), arguments)
    with _progress(options.source) as on_progress:
        record = forecast_of(options, on_progress)
    return answered(record, options)


_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "list": _list,
    "reproduce": _reproduce,
    "run": _run,
    "forecast": _forecast,
    "observe": _observe,
    "env": _env,
}


def _run_all(jobs: list[tuple[str, Any, str]], out: Path, as_json: bool) -> list[Any]:
    """Run experiments one after the other, print a line for each claim, and write the report over all of `out`."""
    from saccade.experiments.reproduce import finite_json, reproduce
    from saccade.report.page import write_page

    outcomes = []
    for name, config, command in jobs:
        with _progress(name) as on_progress:
            outcomes.append(reproduce(name, out, config, command, on_progress))
        if not as_json:
            _print_claims(outcomes[-1])
    page = write_page(out)
    if as_json:
        results = [{"name": o.name, "folder": str(o.folder), "claims": [c.as_dict() for c in o.claims]} for o in outcomes]
        print(json.dumps(finite_json({"report": str(page), "experiments": results}), indent=1))
    else:
        print(f"\nreport: {page}")
    return outcomes


def _print_claims(outcome: Any) -> None:
    """One line a claim, grouped by the theorem it is about."""
    from rich.markup import escape

    console = _console()
    console.print(f"\n[bold]{outcome.name}[/bold]  {outcome.folder}", highlight=False)
    for theorem in dict.fromkeys(_theorem(claim.source) for claim in outcome.claims):
        console.print(f"  {escape(theorem)}", highlight=False)
        for claim in outcome.claims:
            if _theorem(claim.source) == theorem:
                console.print(_claim_line(claim), soft_wrap=True, highlight=False)
    n_diverged = int((outcome.record.stop_reason == "diverged").sum()) if "stop_reason" in outcome.record else 0
    if n_diverged:
        console.print(
            f"  {n_diverged} of {outcome.record.stop_reason.size} runs diverged; their values are missing", highlight=False
        )
    for sentence in json.loads(outcome.record.attrs.get("left_out", "[]")):
        console.print(f"  {escape(sentence)}", soft_wrap=True, highlight=False)


def _theorem(source: str) -> str:
    """`[tian2023, Theorem 4], erratum 0.4 corrected` -> `[tian2023, Theorem 4]`."""
    return source[: source.index("]") + 1] if "]" in source else source


def _claim_line(claim: Any) -> str:
    from rich.markup import escape

    colour = "green" if claim.as_expected else "yellow" if claim.verdict == OUTSIDE else "red"
    surprise = f" (expected: {claim.expected})" if colour == "red" else ""
    unmet = [name for name, met in claim.assumptions.items() if not met]
    return (
        f"    [{colour}]{claim.verdict}[/{colour}]{surprise}  {escape(claim.statement)}: predicted {claim.predicted:.4g}, "
        f"measured {claim.measured:.4g}, tolerance {claim.tolerance:.2g}"
        + (escape(f"; not met: {', '.join(unmet)}") if unmet else "")
    )


@contextlib.contextmanager
def _progress(label: str) -> Iterator[Callable[[float], None]]:
    """A bar on the terminal's error stream that goes when the work is done; nothing where there is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(label, total=1.0)
        yield lambda fraction: progress.update(task, completed=fraction)


def _console() -> Any:
    from rich.console import Console

    class Pipeable(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would exit with 1; `main` knows better

    return Pipeable()


def _options(prog: str, **fields: tuple[Any, Any, str]) -> Any:
    """A dataclass for tyro to read flags into: name=(type, default, what --help says of it)."""
    declared = [
        (name, Annotated[kind, tyro.conf.arg(help=meaning)], field(default=default))
        for name, (kind, default, meaning) in fields.items()
    ]
    return make_dataclass("Options", declared, namespace={"prog": prog, "__doc__": None})


def _parsed(kind: Any, arguments: list[str]) -> Any:
    """Flags read by tyro; its boxed error becomes one sentence."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(kind, args=arguments, prog=kind.prog, config=(tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes))
    except SystemExit as stop:
        if not stop.code:
            raise
        raise InputError(_sentence(said.getvalue(), kind.prog)) from None


def _sentence(boxed: str, prog: str) -> str:
    """The first sentence in a box of tyro's, with the option it thinks was meant."""
    lines = [re.sub(r"^[│|]\s?|\s*[│|]$", "", line).rstrip() for line in boxed.splitlines()]
    text = [line for line in lines if line and not re.match(r"^[╭╰]", line)]
    first = " ".join(line.strip() for line in _until_rule(text)).rstrip(".")
    first = re.sub(r"Error parsing (\S+): invalid literal for int\(\) with base 10: ", r"`\1` must be a whole number; got ", first)
    first = re.sub(r"Error parsing (\S+): could not convert string to float: ", r"`\1` must be a number; got ", first)
    meant = re.search(r"Perhaps you meant:\s*\n\s*(--[\w-]+)", "\n".join(text))
    return f"{first}." + (f" Did you mean {meant[1]}?" if meant else "") + f" See `{prog} --help`."


def _until_rule(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if re.match(r"^\s*─+$", line):
            return
        yield line


def _use_compilation_cache() -> None:
    """Keep compiled code in the user's cache folder. Through the environment, so that JAX need not be imported for it."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "saccade" / "jax"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # a cache is a convenience: without a place for one, compile each time
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")


def entry() -> None:
    """The process: after Ctrl-C it ends at once, without waiting for compiled code that is still running in threads."""
    code = main()
    if code == 130:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    entry()
