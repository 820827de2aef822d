"""`saccade observe`: attention and weights over the checkpoints of a training run."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.errors import InputError
from saccade.records.json_files import parsed_json, regular_file

if TYPE_CHECKING:
    import xarray as xr

# Variable -> title of its column: means over layers and heads. Single heads and the other variables
# are in the record.
_SHOWN = {
    "relative_entropy": "entropy",
    "top_mass": "top",
    "sink_mass": "sink",
    "previous_mass": "previous",
    "moved": "moved",
    "qk_effective_rank": "QK rank",
    "ov_effective_rank": "OV rank",
    "embedding_effective_rank": "emb. rank",
}
_MOST_ROWS = 24
_MOST_TEXT = 2**22  # characters of --text that are read
_EXAMPLE = (  # without the network: two checkpoints of models that have learnt nothing yet
    'python -c "import transformers as t; [t.GPT2Model(t.GPT2Config(n_embd=32, n_head=2))'
    ".save_pretrained(f'tiny/step-{i}') for i in (1, 2)]\" && saccade observe tiny"
)


def observe_command(arguments: list[str]) -> int:
    """Exit code 0, or an `InputError` for a mistake in the call."""
    import tyro

    from saccade.terminal import JSON, flags, progress

    options = flags(
        arguments,
        "Measure attention and weights in the checkpoints of a training run.",
        _EXAMPLE,
        source=(
            tyro.conf.Positional[str],
            tyro.MISSING,
            "folder of checkpoints, or name of a model on the Hugging Face hub",
        ),
        text=(
            Path | None,
            None,
            "UTF-8 text; the model is run on its beginning, with the tokenizer saved with the weights",
        ),
        revisions=(str, "", "revisions of a model on the hub, in training order: step1,step2"),
        heads=(int | None, None, "heads per layer, for weights without a config.json"),
        out=(
            Path | None,
            None,
            "folder for the record and its page; default: results/observed/NAME",
        ),
        trust_remote_code=(bool, False, "run Python code that comes with the checkpoints"),
        json=JSON,
    )
    if not arguments:
        raise InputError(
            "`saccade observe` needs a folder of checkpoints, or the name of a model on the hub and its --revisions."
        )
    out = options.out or _own_folder(options.source)
    with (
        progress(options.source) as on_progress,
        contextlib.redirect_stdout(sys.stderr),
    ):  # messages of the recorder are not the result
        record = _observed(options, out, on_progress)
    findings = [
        {"kind": kind, "steps": steps, "sentence": text}
        for kind, steps, text in parsed_json(record.attrs["findings"], list)
    ]
    if options.json:
        steps = [int(step) for step in record.time.values]
        print(
            json.dumps(
                {"record": str(out / "record.zarr"), "steps": steps, "findings": findings}, indent=1
            )
        )
        return 0
    _print(record, [finding["sentence"] for finding in findings])
    print(f"\nrecord: {out / 'record.zarr'}\nreport: {out / 'report.html'}")
    return 0


def _own_folder(source: str) -> Path:
    """`results/observed/NAME`, unless what lies there was made from something else of that name."""
    from saccade.records.json_files import parsed_json
    from saccade.records.store import load_record

    out = Path("results/observed") / os.path.basename(os.path.realpath(source))
    if (out / "record.zarr").exists():
        before = str(
            parsed_json(load_record(out / "record.zarr").attrs.get("config", "{}")).get(
                "source", ""
            )
        )
        if os.path.realpath(before) != os.path.realpath(source):
            raise InputError(
                f"{out} already holds observations of {before}; choose another folder with --out."
            )
    return out


def _observed(options: Any, out: Path, on_progress: Any) -> xr.Dataset:
    try:
        from saccade.watching.checkpoints import observe_checkpoints
        from saccade.watching.self_check import UnfaithfulError
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise InputError(
            "`saccade observe` needs PyTorch: pip install '.[torch]' in the folder of Saccade"
        ) from None
    try:
        return observe_checkpoints(
            options.source,
            text=None if options.text is None else _read(options.text),
            revisions=[
                revision.strip() for revision in options.revisions.split(",") if revision.strip()
            ],
            heads=options.heads,
            out=out,
            trust_remote_code=options.trust_remote_code,
            on_progress=on_progress,
        )
    except UnfaithfulError as error:
        raise InputError(str(error)) from None


def _read(path: Path) -> str:
    """The beginning of a text: the probe is cut from it, and a tokenizer takes a hundred times its
    size in memory.
    """
    try:
        with regular_file(path) as opened, io.TextIOWrapper(opened, encoding="utf-8") as file:
            return file.read(_MOST_TEXT)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"cannot read the text {path}: {reason}.") from None
    except ValueError as error:  # it is no regular file, or no name
        raise InputError(f"cannot read the text {path}: {error}") from None


def _print(record: xr.Dataset, sentences: list[str]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from saccade.terminal import console

    terminal = console()
    names = [name for name in _SHOWN if name in record]
    if not names:
        terminal.print(
            "No attention and no weights were recognised; the record holds only how far the weights moved."
        )
    table = Table("step", *(_SHOWN[name] for name in names), box=None)
    rows = np.unique(
        np.linspace(0, record.time.size - 1, min(record.time.size, _MOST_ROWS)).round().astype(int)
    )
    for row in rows:
        means = (float(record[name].isel(time=row).mean()) for name in names)
        table.add_row(
            str(int(record.time[row])), *("" if np.isnan(mean) else f"{mean:.3g}" for mean in means)
        )
    terminal.print(table)
    if len(rows) < record.time.size:
        terminal.print(f"({len(rows)} of {record.time.size} steps)", highlight=False)
    for sentence in sentences:
        terminal.print(escape(f"- {sentence}"), soft_wrap=True, highlight=False)
