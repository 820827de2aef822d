"""Which architectures of the installed Transformers can be watched? `python -m tools.zoo [NAME ...]
[--write FILE]`, or `make zoo`.

Every model type that can be built from a tiny configuration, random and without a download, is
watched with its eager and its fused kernel. What a look measures is compared with the same
statistics of the weights that the model returns itself in float64, computed one query at a time in
NumPy (`tests/watching/dense_statistics.py`). Each ends in one of `OUTCOMES`.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import os
import re
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch

import saccade
from saccade.errors import InputError
from saccade.watching.self_check import UnfaithfulError, returned_weights
from tests.watching.dense_statistics import dense_statistics
from tools.tiny_models import Built, NotBuilt, built, has_attention, line

OUTCOMES = {
    "equal": "every number equals that of the model's own float64 weights",
    "seen": "watched, and weights times values give the kernel's output; the model itself does not return all of these weights",
    "refused": "not watched, with a sentence that says why",
    "different": "a number differs: a defect",
    "traceback": "an error that is not a sentence: a defect",
    "no attention": "none of its modules is called attention, and their code has no softmax: a convolution, a recurrence, a codec",
    "part": "a configuration without a model class of its own: a part of another type, or another type's model",
    "not built": "no tiny configuration could be made of its defaults, or the tiny model does not run",
}
LEFT = ("no attention", "part", "not built")  # outcomes without a row of numbers
KERNELS = ("eager", "sdpa")
TOLERANCE = 2e-5  # absolute, of statistics of a model in float32
ROUNDED = 1e-3  # the same where the model itself rounds more: then it must be within the tolerance in float64
SAME = 1e-2  # of a model's answer: float32 against float64 through all layers
SHAPES = ("entropy", "relative_entropy", "top_mass", "top_k_mass", "effective_keys")
PLACES = ("sink_mass", "self_mass", "previous_mass")
SAMPLE = (
    *(
        "gpt2",
        "gemma4_text",
        "bert",
        "t5",
        "gpt_oss",
        "bloom",
        "vit",
        "gpt_bigcode",
        "albert",
        "mobilebert",
    ),
    *("pegasus_x", "longt5", "data2vec-vision", "pvt_v2", "nystromformer", "falcon", "swin"),
)
_PER_PROCESS = 100  # model types: modules of those that are done stay in memory


class Row(NamedTuple):
    """What came of one model type."""

    name: str
    outcome: str
    error: float | None = None  # the largest, over both kernels
    heads: str = ""
    reason: str = ""
    seconds: float = 0.0  # of a processor
    clock: float = 0.0  # when it was done, in seconds since the run began


def reference(made: Built) -> list[list[torch.Tensor]]:
    """Weights that an eager model with the same parameters returns in float64, call by call:
    itself, and its modules one by one.
    """
    try:
        exact = (
            type(made.model)
            ._from_config(copy.deepcopy(made.model.config), attn_implementation="eager")
            .eval()
            .double()
        )
        exact.load_state_dict(
            {name: _doubled(value) for name, value in made.model.state_dict().items()}
        )
        exact.set_experts_implementation("eager")  # the other one has no float64
        exact.config.use_cache = False  # with it some take off the mask
        torch.manual_seed(0)
        with torch.no_grad(), _all_in_float64(), _weights_of_modules(exact) as of_modules:
            answer = exact(
                **{name: _doubled(value) for name, value in made.probe.items()},
                output_attentions=True,
            )
        found = returned_weights(answer)
        if not _same_answer(answer, made):
            return []  # its kernels do not compute the same: some leave a mask out with one of them
    except Exception:
        return []
    return [
        [each.nan_to_num(0.0) for each in maps if isinstance(each, torch.Tensor) and each.ndim == 4]
        for maps in (found, of_modules)
    ]


@contextlib.contextmanager
def _weights_of_modules(model: torch.nn.Module) -> Iterator[list[torch.Tensor]]:
    """Weights that modules return beside their output, each once: a model may return those of some
    layers only.
    """
    found: list[torch.Tensor] = []

    def keep(_module: Any, _given: Any, answer: Any) -> None:
        second = answer[1] if isinstance(answer, tuple) and len(answer) > 1 else None
        if (
            isinstance(second, torch.Tensor)
            and second.ndim == 4
            and not any(second is each for each in found)
            and _are_weights(second)
        ):
            found.append(second)

    handles = [module.register_forward_hook(keep) for module in model.modules()]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _are_weights(maps: torch.Tensor) -> bool:
    total = maps.nan_to_num(0.0).sum(-1)
    return bool(
        (maps.nan_to_num(0.0) >= 0).all() and (total < 1 + 1e-6).all() and (total > 0).any()
    )


def _same_answer(answer: Any, made: Built) -> bool:
    """Whether the model that is watched gives the answer of its float64 form, as far as float32
    tells.
    """
    torch.manual_seed(0)
    with torch.no_grad():
        made.model.config.use_cache = False
        given = made.model(**made.probe)
    pairs = [
        (value, given[name])
        for name, value in answer.items()
        if isinstance(value, torch.Tensor) and value.is_floating_point() and name in given
    ]
    return all(
        float((one - other).abs().max()) <= SAME * float(one.abs().max()) for one, other in pairs
    )


def _doubled(value: Any) -> Any:
    return value.double() if value.is_floating_point() else value


@contextlib.contextmanager
def _all_in_float64() -> Iterator[None]:
    """Models ask for softmaxes in float32, whatever they are given; here they are taken in float64.
    Some mask with -100: in float32 no such weight can be told from 0, in float64 it can, so here
    they mask with the least number.
    """
    softmax, fill = torch.nn.functional.softmax, torch.Tensor.masked_fill

    def masked_fill(self: torch.Tensor, mask: torch.Tensor, value: Any) -> torch.Tensor:
        is_mask = isinstance(value, float) and value <= -100 and self.is_floating_point()
        return fill(self, mask, torch.finfo(self.dtype).min if is_mask else value)

    def exact_softmax(
        input: torch.Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
    ) -> torch.Tensor:
        logits = input.double()
        below = logits.amax(-1 if dim is None else dim, keepdim=True) - logits
        # Beyond 745 below the largest float64 rounds a weight to 0, though nothing is masked; masks
        # are -10,000 or less.
        return torch.where(
            below < 5000, softmax(logits, dim=dim).clamp(min=1e-300), softmax(logits, dim=dim)
        )

    with (
        patch.object(torch.nn.functional, "softmax", exact_softmax),
        patch.object(torch.Tensor, "masked_fill", masked_fill),
    ):
        yield


def compared(record: Any, weights: list[torch.Tensor]) -> float | None:
    """The largest difference of any statistic, over its size if that is above 1; None if some
    weights are not returned.
    """
    totals = [each.sum(-1) for each in weights]
    are_weights = all(
        bool((each > -1e-9).all() and (each < 1 + 1e-6).all() and (each > 0).any())
        for each in totals
    )
    if len(weights) != record.sizes["layer"] or not are_weights:
        return (
            None  # some models return other things under this name, some nothing but NaN in float64
        )
    if any(
        _n_keys(record, layer) not in (None, maps.shape[3]) for layer, maps in enumerate(weights)
    ):
        return None  # it returns a part of them
    if any(maps.shape[1] > 1 and bool((maps == maps[:, :1]).all()) for maps in weights):
        return None  # it returns the mean over heads for each of them
    worst = 0.0
    for layer, (maps, total) in enumerate(zip(weights, totals, strict=True)):
        rest = torch.where(total > 0, 1 - total, 0)[..., None]
        whole = (
            torch.cat([maps, rest], -1) if float(rest.max()) > 1e-6 else maps
        )  # what a learned sink takes
        expected = _expected(whole, SHAPES) | _expected(maps, PLACES)
        for name, values in expected.items():
            if name not in record:
                continue
            ours = record[name].isel(time=0, layer=layer).values[: maps.shape[1]]
            known = np.isfinite(ours)
            if ours.shape != values.shape or (
                known.any() and not np.array_equal(known, np.isfinite(values))
            ):
                return np.inf
            if known.any():
                worst = max(
                    worst,
                    float((np.abs(ours - values) / np.maximum(1, np.abs(values)))[known].max()),
                )
    return worst


def _n_keys(record: Any, layer: int) -> int | None:
    """Of a kept map; None if there is none."""
    if "attention_map" not in record:
        return None
    known = np.isfinite(record.attention_map.isel(time=0, layer=layer).transpose(..., "key").values)
    return int(known.any(axis=tuple(range(known.ndim - 1))).sum()) or None


def _expected(maps: torch.Tensor, names: Sequence[str]) -> dict[str, np.ndarray]:
    shape = maps.shape[0], maps.shape[3]
    found = dense_statistics(
        maps.numpy(), np.ones(shape, bool), np.zeros(shape, int), least=0.0
    )  # what is masked is 0 in float64
    return {name: found[name] for name in names if name in found}


def watched(made: Built) -> Any:
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        with saccade.watch(made.model, made.probe, weights=False) as recorder:
            recorder.look(0)
    return recorder.record


def error_of(made: Built, record: Any) -> float | None:
    """Of the record against float64; if it is more than float32 rounds, of a record of the same
    model in float64.
    """
    of_model, of_modules = reference(made) or ([], [])
    weights = of_model if (error := compared(record, of_model)) is not None else of_modules
    if error is None and (error := compared(record, of_modules)) == np.inf:
        return None  # what its modules return is of another shape
    if error is None or error <= TOLERANCE or error > ROUNDED:
        return error
    made.model.set_experts_implementation("eager")
    double = made._replace(
        model=made.model.double(),
        probe={name: _doubled(value) for name, value in made.probe.items()},
    )
    try:
        with torch.no_grad():
            double.model(**double.probe)
    except RuntimeError:
        return (
            None  # the model mixes in float32, so there is nothing to tell rounding from a defect
        )
    exactly = compared(watched(double), weights)
    return (
        error
        if exactly is not None and exactly <= max(TOLERANCE, _rounding_of_logits(record))
        else np.inf
    )


def _rounding_of_logits(record: Any) -> float:
    """What float32, in which statistics are computed whatever the model's type, rounds off the
    largest logit.
    """
    largest = float(np.nanmax(record.largest_logit)) if "largest_logit" in record else 0.0
    return float(np.finfo(np.float32).eps) * largest if np.isfinite(largest) else 0.0


def tried(name: str) -> Row:
    """What comes of one model type, the worse of its two kernels."""
    start = time.process_time()
    return _tried(name)._replace(seconds=round(time.process_time() - start, 2))


def _tried(name: str) -> Row:
    found: list[Row] = []
    made = None
    for kernel in KERNELS:
        try:
            made = built(name, kernel, made)
        except NotBuilt as why:
            if made is None:
                return Row(name, why.outcome, reason=str(why))
            continue  # it has no fused kernel
        try:
            record = watched(made)
            if "entropy" not in record:  # watching says so, layer by layer
                found.append(Row(name, "refused", reason=f"{kernel}: {_left_out(record)}"))
                continue
            heads = " ".join(map(str, np.isfinite(record.entropy.values[0]).sum(axis=1).tolist()))
            error = error_of(made, record)
        except (UnfaithfulError, InputError) as refusal:
            if not has_attention(made.model) and "no attention was seen" in str(refusal):
                return Row(name, "no attention", reason="none was seen")
            found.append(Row(name, "refused", reason=f"{kernel}: {line(refusal)}"))
        except Exception as defect:
            found.append(
                Row(name, "traceback", reason=f"{kernel}: {type(defect).__name__}, {line(defect)}")
            )
        else:
            outcome = "seen" if error is None else "equal" if error <= ROUNDED else "different"
            found.append(Row(name, outcome, error, heads, kernel))
    worst = min(found, key=lambda row: _ORDER.index(row.outcome))
    errors = [row.error for row in found if row.error is not None]
    return worst._replace(error=max(errors) if errors else None)


def _left_out(record: Any) -> str:
    """Why there are no numbers of attention."""
    unseen = json.loads(record.attrs["config"]).get("unseen", [])
    return f"nothing is recorded: {unseen[0]}" if unseen else "nothing is recorded"


_ORDER = ("traceback", "different", "refused", "seen", "equal")  # the worst first


def names() -> list[str]:
    """Every model type of the installed Transformers that has a class of its own."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return sorted(CONFIG_MAPPING_NAMES)


def _in_processes(wanted: Sequence[str], n_at_once: int) -> Iterator[Row]:
    """Rows as they come, from some processes at a time."""
    rows: SimpleQueue[Row | None] = SimpleQueue()

    def share(mine: Sequence[str]) -> None:
        try:
            for row in _one_after_the_other(mine):
                rows.put(row)
        finally:
            rows.put(None)

    threads = [
        Thread(target=share, args=(wanted[first::n_at_once],), daemon=True)
        for first in range(n_at_once)
    ]
    for thread in threads:
        thread.start()
    for _ in threads:  # each ends with None
        yield from iter(rows.get, None)


def _one_after_the_other(wanted: Sequence[str]) -> Iterator[Row]:
    """Processes, each for some types; one that dies costs the type it was at."""
    waiting = list(wanted)
    while waiting:
        part = waiting[:_PER_PROCESS]
        process = subprocess.Popen(
            [sys.executable, "-m", "tools.zoo", "--lines", *part], stdout=subprocess.PIPE, text=True
        )
        done = 0
        for text in process.stdout or ():
            yield Row(*json.loads(text))
            done += 1
        process.wait()
        if done < len(part):
            yield Row(
                part[done], "not built", reason=f"its process ended with {process.returncode}"
            )
            done += 1
        waiting = waiting[done:]


def table(rows: Sequence[Row]) -> str:
    import transformers

    counts = Counter(row.outcome for row in rows)
    summary = [
        f"| {outcome} | {counts[outcome]} | {meaning} |" for outcome, meaning in OUTCOMES.items()
    ]
    lines = [
        f"| `{row.name}` | {row.outcome} | {'' if row.error is None else f'{row.error:.0e}'} | {row.heads} | {_cell(row)} |"
        for row in rows
        if row.outcome not in LEFT
    ]
    left = [
        "",
        "## Without numbers",
        "",
        *(
            f"{sentence}: {', '.join(f'`{row.name}`' for row in rows if row.outcome == outcome)}.\n"
            for outcome, sentence in _LEFT.items()
        ),
        "Not built, and why:",
        "",
        *(f"- `{row.name}`: {_why(row.reason)}" for row in rows if row.outcome == "not built"),
    ]
    untried = [name for name in names() if name not in {row.name for row in rows}]
    number = f"All {len(rows)}" if not untried else f"{len(rows)} of {len(rows) + len(untried)}"
    minutes, busy = max(row.clock for row in rows) / 60, sum(row.seconds for row in rows) / 60
    return "\n".join(
        [
            "# Models that can be watched",
            "",
            f"{number} model types of Transformers {transformers.__version__}, tiny and random, watched with their eager and their "
            "fused kernel. The error is the largest of any statistic against weights that the model itself returns in float64, "
            f"over the statistic's size if that is above 1. Made by `make zoo` in {minutes:.0f} minutes, of which {busy:.0f} "
            "minutes of a processor.",
            "",
            "| outcome | types | meaning |",
            "|---|---|---|",
            *summary,
            *([f"| not tried | {len(untried)} | the run was stopped before |"] if untried else []),
            "",
            "| type | outcome | largest error | heads by layer | reason |",
            "|---|---|---|---|---|",
            *lines,
            *left,
            "",
            *([f"Not tried: {', '.join(f'`{name}`' for name in untried)}.", ""] if untried else []),
        ]
    )


_LEFT = {
    "no attention": "No attention of their own",
    "part": "Parts of other types, or another type's model under a name of its own",
}


def _why(reason: str) -> str:
    """A reason in one short line: the package that is missing, the argument that is not known, else
    what the error says.
    """
    if found := re.search(r"requires the (\S+) library", reason):
        return f"needs the package {found[1]}"
    if found := re.search(r"missing \d+ required positional arguments?: (.*)", reason):
        return f"must be given {found[1]}"
    words = re.sub(r"^.*validation error for validator '\w+': |^NotBuilt: ", "", reason)
    return words if len(words) < 160 else f"{words[:160]} ..."


def _cell(row: Row) -> str:
    return "" if row.outcome in ("equal", "seen") else row.reason.replace("|", "/")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="*", help="model types; default: all")
    parser.add_argument("--write", type=Path, help="a Markdown file for the table")
    parser.add_argument(
        "--keep", type=Path, help="a file for what is done: with it a run that was stopped goes on"
    )
    parser.add_argument("--lines", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.lines:
        for name in arguments.name:
            print(json.dumps(tried(name)), flush=True)
        return
    rows = _kept(arguments.keep)
    done = {row.name for row in rows}
    waiting = [name for name in arguments.name or names() if name not in done]
    start = time.perf_counter() - max((row.clock for row in rows), default=0.0)
    for row in _in_processes(waiting, os.cpu_count() or 1):
        row = row._replace(clock=round(time.perf_counter() - start, 1))
        rows.append(row)
        if arguments.keep:
            with arguments.keep.open("a") as file:
                file.write(json.dumps(row) + "\n")
        error = "" if row.error is None else f"{row.error:.1e}"
        print(f"{row.name:32} {row.outcome:10} {error:8} {row.heads:14} {row.reason}", flush=True)
    print(dict(Counter(row.outcome for row in rows)))
    if arguments.write:
        arguments.write.write_text(table(sorted(rows)))
    sys.exit(any(row.outcome in ("different", "traceback") for row in rows))


def _kept(file: Path | None) -> list[Row]:
    """Rows of a run that was stopped."""
    return (
        [Row(*json.loads(text)) for text in file.read_text().splitlines()]
        if file and file.exists()
        else []
    )


if __name__ == "__main__":
    main()
