"""Observe a training run after the fact: `saccade.observe_checkpoints(folder)` reads the
checkpoints it has left.

Each checkpoint is read, marked (`integrity.py`), looked at with the instruments of a watched run
(`looks.py`) and let go for the next one. What is wrong with some of them is said in the record, in
sentences; the others are looked at all the same. In memory are the model and one checkpoint,
however many there are.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from saccade.errors import InputError, checked_count, is_list_like, shortened
from saccade.records.checksums import sealed_folder
from saccade.records.json_files import parsed_json
from saccade.records.store import save_record
from saccade.report.page import is_page, write_page
from saccade.report.watched_files import write_shown
from saccade.watching.checkpoints.files import (
    Checkpoint,
    UnreachableError,
    UnreadableError,
    checkpoint_paths,
    in_order,
)
from saccade.watching.checkpoints.hub import hub_checkpoints
from saccade.watching.checkpoints.integrity import (
    Finding,
    Fingerprint,
    fingerprint,
    missing_steps,
    weight_findings,
)
from saccade.watching.checkpoints.looks import ModelLooks, WeightLooks, looks_for
from saccade.watching.checkpoints.tensors import read_tensors

if TYPE_CHECKING:
    import xarray as xr

Source = str | Path | Sequence[str | Path]

_OF_TRAINING = (
    "every",
    "budget",
    "thinned",
    "looking_s",
    "training_s",
)  # settings of a watched run that mean nothing here
_PATH_DISTANCE = "distance of the weights from the line between those of the neighbours, over theirs: 0 = on it, above 1 = off the path"


def observe_checkpoints(
    source: Source,
    *,
    model: nn.Module | None = None,
    probe: Any = None,
    text: Any = None,
    revisions: Sequence[str] = (),
    heads: int | None = None,
    out: str | Path | None = None,
    trust_remote_code: bool = False,
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> xr.Dataset:
    """A record like that of a watched run, with the steps of the checkpoints as its time.

    | argument            | meaning                                                                                                |
    |---------------------|--------------------------------------------------------------------------------------------------------|
    | `source`            | a folder of checkpoints, a list of files or folders, or the name of a model on the hub                 |
    | `model`             | a module that the weights fit; default: built by Transformers from config.json, if there is one        |
    | `probe`             | a batch that the model can be called with; needed with `model`, else made from `text`                  |
    | `text`              | for the tokenizer saved with the weights; default: a built-in paragraph. With a `probe`: as in `watch` |
    | `revisions`         | revisions of a model on the hub, in training order                                                     |
    | `heads`             | number of heads per layer, for weights without a model                                                 |
    | `out`               | a folder for the record, its figure and its page; an earlier result of Saccade is replaced             |
    | `trust_remote_code` | run Python code that came with the checkpoints                                                         |

    The record's attribute `findings` is a JSON list of `[kind, steps, sentence]`: what was found on
    the way.
    """
    if (model is not None and probe is None) or (probe is not None and isinstance(text, str)):
        raise InputError(
            "`model` needs a `probe`, and with a `probe` `text` must be token ids: there is no tokenizer to read it with."
        )
    heads = None if heads is None else checked_count("heads", heads)
    settings = {
        "model": model,
        "probe": probe,
        "text": text,
        "trust_remote_code": bool(trust_remote_code),
        "n_heads": heads,
    }
    if out is None:
        return _observed(source, list(revisions), settings, on_progress)
    with sealed_folder(
        Path(out), is_drawn=is_page
    ) as folder:  # before the work: a wrong place is found out at once
        record = _observed(source, list(revisions), settings, on_progress)
        save_record(record, folder / "record.zarr")
        write_shown(folder, record, "saccade observe")
    write_page(out)
    return record


def _observed(
    source: Source,
    revisions: list[str],
    settings: dict[str, Any],
    on_progress: Callable[[float], None],
) -> xr.Dataset:
    started = time.perf_counter()
    checkpoints, found = _found(source, revisions)
    run = _Run(settings)
    try:
        for number, checkpoint in enumerate(checkpoints, 1):
            found += run.observe(checkpoint)
            on_progress(number / len(checkpoints))
        record = _completed(run, found, shortened(source))
    finally:
        run.close()
    about = {"source": str(source), "revisions": revisions}
    record.attrs["config"] = json.dumps(parsed_json(record.attrs["config"]) | about)
    record.attrs["wall_time_s"] = round(time.perf_counter() - started, 3)
    return record


class _Run:
    """The looks at a row of checkpoints, and what is kept of each."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self.looks: ModelLooks | WeightLooks | None = None
        self.prints: dict[int, Fingerprint] = {}
        self.names: list[str] = []

    def observe(self, checkpoint: Checkpoint) -> list[Finding]:
        """Look at one; a finding if it cannot be."""
        try:
            path = checkpoint.place()
            tensors = read_tensors(path)
            marks = fingerprint(tensors)
            self.looks = self.looks or looks_for(path, tensors, **self._settings)
            self.looks.look(checkpoint.step, path, tensors)
            self.prints[checkpoint.step] = marks
            self.names.append(checkpoint.name)
        except UnreadableError as reason:
            if isinstance(reason, UnreachableError) and not self.prints:
                raise InputError(str(reason)) from None
            return [Finding("left out", [checkpoint.step], str(reason))]
        return []

    def close(self) -> None:
        if self.looks is not None:
            self.looks.close()


def _found(source: Source, revisions: list[str]) -> tuple[list[Checkpoint], list[Finding]]:
    """Checkpoints in order, and what can be told without reading them."""
    if isinstance(source, str | Path):
        paths = checkpoint_paths(Path(source)) if Path(source).exists() else None
    elif not is_list_like(source):
        raise InputError(
            f"`source` must be a folder, a list of files or the name of a model on the hub; got {shortened(source)}."
        )
    else:
        paths = [Path(part) for part in source]
        missing = [path for path in paths if not path.exists()]
        if missing or not paths:
            raise InputError(
                f"{missing[0]} is not there." if missing else "`source` lists no checkpoints."
            )
    if paths is not None and revisions:
        raise InputError(
            f"`revisions` are those of a model on the hub, but {shortened(source)} is a local folder."
        )
    if paths is None and not revisions:
        raise InputError(
            f"there is no folder {source}; for a model on the hub, list its revisions (--revisions step1,step2)."
        )
    if paths is None:
        checkpoints, said = hub_checkpoints(str(source), revisions)
    else:
        # With their folders if files are called the same in each.
        names = [path.name for path in paths]
        checkpoints, said = in_order(
            zip(
                names
                if len(set(names)) == len(names)
                else [f"{path.parent.name}/{path.name}" for path in paths],
                (partial(Path, path) for path in paths),
                strict=True,
            )
        )
    left_out = [Finding("left out", [], sentence) for sentence in said]
    return checkpoints, left_out + missing_steps([checkpoint.step for checkpoint in checkpoints])


def _completed(run: _Run, found: list[Finding], source: str) -> xr.Dataset:
    """The record of all looks, with what was found."""
    if run.looks is None or not run.prints:
        unread = [
            finding.sentence for finding in found if finding.kind == "left out" and finding.steps
        ]
        more = f" Nor could {len(unread) - 1} others." if len(unread) > 1 else ""
        raise InputError(f"no checkpoint of {source} can be read. {unread[0]}{more}")
    of_weights, distance = weight_findings(run.prints)
    record = run.looks.record().assign(
        path_distance=("time", distance, {"units": "1", "definition": _PATH_DISTANCE})
    )
    record = record.assign_coords(checkpoint=("time", run.names))
    record.time.attrs["definition"] = "step of the checkpoint"
    settings = {
        name: value
        for name, value in parsed_json(record.attrs["config"]).items()
        if name not in _OF_TRAINING
    }
    every = run.looks.findings + found + of_weights
    return record.assign_attrs(
        dynamics="checkpoints", config=json.dumps(settings), findings=json.dumps(every)
    )
