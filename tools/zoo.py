"""Which architectures of the installed Transformers can be watched? `python -m tools.zoo [NAME ...] [--write FILE]`, or `make zoo`.

Every model type that can be built from a tiny configuration, random and without a download, is watched with its eager and its fused
kernel. What a look measures is compared with the same statistics of the weights that the model returns itself in float64, computed
one query at a time in NumPy (`tests/observe/dense_statistics.py`). Each ends in one of `OUTCOMES`.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import importlib
import io
import json
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import saccade
from saccade.errors import InputError
from saccade.observe.self_check import UnfaithfulError, returned_weights
from tests.observe.dense_statistics import dense_statistics

OUTCOMES = {
    "equal": "every number equals that of the model's own float64 weights",
    "seen": "watched, and weights times values give the kernel's output; the model returns no weights of its own to compare with",
    "refused": "not watched, with a sentence that says why",
    "different": "a number differs: a defect",
    "traceback": "an error that is not a sentence: a defect",
    "not built": "no tiny configuration could be made of its defaults, or the tiny model does not run",
}
KERNELS = ("eager", "sdpa")
TOLERANCE = 2e-5  # absolute, of statistics of a model in float32
ROUNDED = 1e-3  # the same where the model itself rounds more: then it must be within the tolerance in float64
SAME = 1e-2  # of a model's answer: float32 against float64 through all layers
MOST_PARAMETERS = 1e7
SHAPES = ("entropy", "relative_entropy", "top_mass", "top_k_mass", "effective_keys")
PLACES = ("sink_mass", "self_mass", "previous_mass")
SAMPLE = (
    *("gpt2", "gemma4_text", "bert", "t5", "gpt_oss", "bloom", "vit", "gpt_bigcode", "albert", "mobilebert"),
    *("pegasus_x", "longt5", "data2vec-vision", "pvt_v2", "nystromformer", "falcon"),
)
BATCH, LENGTH, DECODED = 2, 12, 7
_PER_PROCESS = 100  # model types: modules of those that are done stay in memory

_WIDTH, _HEADS, _LAYERS, _IMAGE = 32, 4, 2, 32
# Fields of configurations by their name: what they become. Others stay as they are.
_SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "embed_dim", "dim", "hidden_dim", "model_dim"), _WIDTH),
    **dict.fromkeys(("embedding_size", "word_embed_proj_dim", "projection_dim", "decoder_hidden_size"), _WIDTH),
    **dict.fromkeys(("d_embed", "emb_dim", "encoder_hidden_dim"), _WIDTH),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim", "n_inner", "d_inner"), 40),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "ffn_hidden_size", "mlp_dim"), 24),
    **dict.fromkeys(("decoder_intermediate_size", "expert_ffn_hidden_size", "intermediate_size_mlp"), 40),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"), _LAYERS),
    **dict.fromkeys(("num_encoder_layers", "num_decoder_layers", "decoder_num_hidden_layers", "depth"), _LAYERS),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"), _HEADS),
    **dict.fromkeys(("decoder_attention_heads", "decoder_num_attention_heads", "num_encoder_attention_heads"), _HEADS),
    **dict.fromkeys(("num_decoder_attention_heads", "encoder_num_attention_heads"), _HEADS),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num", "num_query_groups"), 2),
    **dict.fromkeys(("head_dim", "d_kv", "d_head", "v_head_dim", "attention_head_dim", "kv_channels", "qk_head_dim"), 8),
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim", "rotary_dim"), 4),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank", "rank"), 8),
    **dict.fromkeys(("vocab_size", "decoder_vocab_size", "vocab_size_per_layer_input"), 64),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "max_sequence_length"), 64),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk", "moe_k"), 2),
    **dict.fromkeys(("n_group", "topk_group", "n_shared_experts"), 1),
    **dict.fromkeys(("first_k_dense_replace",), 1),
    **dict.fromkeys(("sliding_window", "attention_window_size"), 4),
    **dict.fromkeys(("image_size", "input_size"), _IMAGE),
    **dict.fromkeys(("hidden_size_per_layer_input",), 8),
    "patch_size": 4,
    "window_size": 4,
    "entity_vocab_size": 16,
    "out_features": None,
    "out_indices": None,
    "num_codebooks": 2,
    "num_mel_bins": 16,
    "dropout": 0.0,
}  # fmt: skip


class Row(NamedTuple):
    """What came of one model type."""

    name: str
    outcome: str
    error: float | None = None  # the largest, over both kernels
    heads: str = ""
    reason: str = ""
    seconds: float = 0.0


# What else is tried, in turn, where a model does not run with the first: some need as many keys as heads, others more layers for
# one of them to be attention, or rotate parts of a head only.
_VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"num_key_value_heads": _HEADS},
    {"num_key_value_heads": _HEADS, "head_dim": 4},
    {"num_hidden_layers": 4},
    {"num_hidden_layers": 8, "num_key_value_heads": _HEADS},
    {"mrope_section": [2, 1, 1]},
    {"mrope_section": [1, 1, 0]},
    {"head_dim": None, "num_key_value_heads": _HEADS},
)


def tiny(kind: type, variant: dict[str, Any]) -> Any:
    """A configuration of this class, made small wherever the name of a field is known; parts of it too."""
    default = kind()
    fields = {name: value for name, value in default.to_dict().items() if not name.startswith("_")}
    small = _SMALL | variant
    changed = {name: small[name] for name in fields if name in small and isinstance(fields[name], int | type(None) | float)}
    n_layers = fields.get("num_hidden_layers")
    for name, value in fields.items():
        if isinstance(value, list | tuple) and value and name not in ("out_features", "out_indices"):
            per_layer = len(value) == n_layers and len(value) > 2
            changed[name] = value[: small["num_hidden_layers"]] if per_layer else _shorter(name, value)
    changed |= {name: None for name in ("layer_types", "mlp_layer_types", "out_features", "out_indices") if name in fields}
    tokens = [name for name in fields if name.endswith("token_id") or name.endswith("token_index")]
    changed |= {name: place for place, name in enumerate(sorted(tokens)) if isinstance(fields[name], int)}
    changed |= {name: value for name, value in {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}.items() if name in fields}
    rope = fields.get("rope_parameters")
    if "rope_parameters" in fields and ("mrope_section" in small or "mrope_section" in (rope or {})):
        changed["rope_parameters"] = (rope or {"rope_type": "default"}) | {"mrope_section": small.get("mrope_section", [2, 1, 1])}
    for name in getattr(kind, "sub_configs", None) or {}:
        own = getattr(default, name, None)
        if own is not None and hasattr(own, "to_dict"):
            changed[name] = tiny(type(own), variant).to_dict()
    return kind(**changed)


def _shorter(name: str, value: Any) -> Any:
    """Lists of widths, depths and heads of models in stages."""
    numbers = [each for each in value if isinstance(each, int) and not isinstance(each, bool)]
    if len(numbers) < len(value):
        return value
    if name in ("image_size", "patch_size", "window_size"):
        return type(value)([_SMALL[name]] * len(value))
    if "depth" in name or "layers" in name or name == "num_blocks":
        return type(value)([1] * len(value))
    if "head" in name:
        return type(value)([min(each, 2) for each in value])
    if any(word in name for word in ("hidden_size", "embed_dim", "dims", "width", "channels", "conv_dim")):
        return type(value)([max(8, 8 * round(each / min(numbers))) for each in value])
    return value


def probes_of(model: Any, config: Any) -> Iterator[dict[str, Any]]:
    """Batches that the model may be called with, by the name of its main input."""
    drawn = torch.Generator().manual_seed(5)
    text = torch.randint(3, 60, (BATCH, LENGTH), generator=drawn)
    wanted = getattr(model, "main_input_name", "input_ids")
    parts = [config, *(getattr(config, name, None) for name in ("vision_config", "audio_config", "encoder", "backbone_config"))]

    def known(*names: str, otherwise: int) -> int:
        found = [getattr(part, name, None) for part in parts if part is not None for name in names]
        numbers = [each[0] if isinstance(each, list | tuple) else each for each in found if each]
        return int(numbers[0]) if numbers and isinstance(numbers[0], int) else otherwise

    size, channels = known("image_size", "input_size", "crop_size", otherwise=_IMAGE), known("num_channels", otherwise=3)
    mel = known("num_mel_bins", "feature_size", "input_feat_per_channel", otherwise=16)
    n_frames = 2 * known("max_source_positions", otherwise=32)
    picture = torch.randn(BATCH, channels, size, size, generator=drawn)
    film = torch.randn(BATCH, known("num_frames", "frames_per_clip", otherwise=4), 3, size, size, generator=drawn)
    more: dict[str, Any] = {}
    if getattr(config, "is_encoder_decoder", False):
        more["decoder_input_ids"] = torch.randint(3, 60, (BATCH, DECODED), generator=drawn)
    if wanted in ("pixel_values", "pixel_values_videos"):
        yield {wanted: film if wanted.endswith("videos") else picture} | more
        yield {wanted: film} | more
    elif wanted == "input_values":
        yield {wanted: torch.randn(BATCH, 1600, generator=drawn)} | more
    elif wanted == "input_features":
        sound = torch.randn(BATCH, mel, n_frames, generator=drawn)
        yield {wanted: sound} | more
        yield {wanted: sound.mT} | more
    yield {"input_ids": text} | more
    yield {"input_ids": text, "pixel_values": picture} | more


def model_class(name: str, config_class: type) -> Any:
    """The language model of a type, else its bare one, else any that is made from its configuration."""
    import transformers
    from transformers.models.auto import modeling_auto as auto

    for table in (
        auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        auto.MODEL_MAPPING_NAMES,
    ):
        if name in table:
            found = table[name]
            return getattr(transformers, found if isinstance(found, str) else found[0])
    module = importlib.import_module(config_class.__module__.replace(".configuration_", ".modeling_"))
    own = [
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, transformers.PreTrainedModel) and each.config_class is config_class
    ]
    return max(own, key=lambda each: len(each.__mro__), default=None)


class NotBuilt(Exception):
    pass


class Built(NamedTuple):
    """A tiny random model and a probe that it takes."""

    model: Any
    probe: dict[str, Any]
    variant: dict[str, Any]


def built(name: str, kernel: str, variants: Sequence[dict[str, Any]] = _VARIANTS) -> Built:
    """Of this type, sharper than a fresh start, in evaluation mode; the first variant that runs."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    try:
        kind = model_class(name, CONFIG_MAPPING[name])
    except Exception as error:
        raise NotBuilt(f"{type(error).__name__}: {_line(error)}") from None
    if kind is None:
        raise NotBuilt("it has no model class of its own")
    reason = ""
    for variant in variants:
        try:
            config = tiny(CONFIG_MAPPING[name], variant)
            with torch.device("meta"):
                size = sum(each.numel() for each in kind._from_config(copy.deepcopy(config)).parameters())
            if size > MOST_PARAMETERS:
                raise NotBuilt("its defaults cannot be made small")
            torch.manual_seed(7)
            model = _sharp(kind._from_config(config, attn_implementation=kernel))
        except NotBuilt:
            raise
        except Exception as error:
            reason = reason or f"{type(error).__name__}: {_line(error)}"
            continue
        last = ""
        for probe in probes_of(model, model.config):
            try:
                with torch.no_grad():
                    model(**copy.deepcopy(probe))
                return Built(model, probe, variant)
            except Exception as error:
                last = f"{type(error).__name__}: {_line(error)}"
                reason = reason or last
        if last.startswith("TypeError") and "missing" in last:
            break  # it must be given more than is known here, whatever its sizes
    raise NotBuilt(reason)


@torch.no_grad()
def _sharp(model: Any) -> Any:
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.mul_(2)
    return model.eval()


def reference(made: Built) -> list[torch.Tensor]:
    """Weights that an eager model with the same parameters returns in float64, call by call; none if it does not."""
    try:
        exact = type(made.model)._from_config(copy.deepcopy(made.model.config), attn_implementation="eager").eval().double()
        exact.load_state_dict({name: _doubled(value) for name, value in made.model.state_dict().items()})
        exact.set_experts_implementation("eager")  # the other one has no float64
        exact.config.use_cache = False  # with it some take off the mask
        torch.manual_seed(0)
        with torch.no_grad(), _all_in_float64():
            answer = exact(**{name: _doubled(value) for name, value in made.probe.items()}, output_attentions=True)
        found = returned_weights(answer)
        if not _same_answer(answer, made):
            return []  # its kernels do not compute the same: some leave a mask out with one of them
    except Exception:
        return []
    return [each.nan_to_num(0.0) for each in found if isinstance(each, torch.Tensor) and each.ndim == 4]


def _same_answer(answer: Any, made: Built) -> bool:
    """Whether the model that is watched gives the answer of its float64 form, as far as float32 tells."""
    torch.manual_seed(0)
    with torch.no_grad():
        made.model.config.use_cache = False
        given = made.model(**made.probe)
    pairs = [
        (value, given[name])
        for name, value in answer.items()
        if isinstance(value, torch.Tensor) and value.is_floating_point() and name in given
    ]
    return all(float((one - other).abs().max()) <= SAME * float(one.abs().max()) for one, other in pairs)


def _doubled(value: Any) -> Any:
    return value.double() if value.is_floating_point() else value


@contextlib.contextmanager
def _all_in_float64() -> Iterator[None]:
    """Models ask for softmaxes in float32, whatever they are given; here they are taken in float64."""
    real = torch.nn.functional.softmax
    torch.nn.functional.softmax = lambda input, dim=None, _stacklevel=3, dtype=None: real(input.double(), dim=dim)
    try:
        yield
    finally:
        torch.nn.functional.softmax = real


def compared(record: Any, weights: list[torch.Tensor]) -> float | None:
    """The largest difference of any statistic, over its size if that is above 1; None if some weights are not returned."""
    totals = [each.sum(-1) for each in weights]
    are_weights = all(bool((each > -1e-9).all() and (each < 1 + 1e-6).all() and (each > 0).any()) for each in totals)
    if len(weights) != record.sizes["layer"] or not are_weights:
        return None  # some models return other things under this name, some nothing but NaN in float64
    if any(_n_keys(record, layer) not in (None, maps.shape[3]) for layer, maps in enumerate(weights)):
        return None  # it returns a part of them
    worst = 0.0
    for layer, (maps, total) in enumerate(zip(weights, totals, strict=True)):
        rest = torch.where(total > 0, 1 - total, 0)[..., None]
        whole = torch.cat([maps, rest], -1) if float(rest.max()) > 1e-6 else maps  # what a learned sink takes
        expected = _expected(whole, SHAPES) | _expected(maps, PLACES)
        for name, values in expected.items():
            if name not in record:
                continue
            ours = record[name].isel(time=0, layer=layer).values[: maps.shape[1]]
            known = np.isfinite(ours)
            if ours.shape != values.shape or (known.any() and not np.array_equal(known, np.isfinite(values))):
                return np.inf
            if known.any():
                worst = max(worst, float((np.abs(ours - values) / np.maximum(1, np.abs(values)))[known].max()))
    return worst


def _n_keys(record: Any, layer: int) -> int | None:
    """Of a kept map; None if there is none."""
    if "attention_map" not in record:
        return None
    known = np.isfinite(record.attention_map.isel(time=0, layer=layer).transpose(..., "key").values)
    return int(known.any(axis=tuple(range(known.ndim - 1))).sum()) or None


def _expected(maps: torch.Tensor, names: Sequence[str]) -> dict[str, np.ndarray]:
    shape = maps.shape[0], maps.shape[3]
    found = dense_statistics(maps.numpy(), np.ones(shape, bool), np.zeros(shape, int), least=0.0)  # what is masked is 0 in float64
    return {name: found[name] for name in names if name in found}


def watched(made: Built) -> Any:
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        with saccade.watch(made.model, made.probe, weights=False) as recorder:
            recorder.look(0)
    return recorder.record


def error_of(made: Built, record: Any) -> float | None:
    """Of the record against float64; if it is more than float32 rounds, of a record of the same model in float64."""
    weights = reference(made)
    error = compared(record, weights)
    if error is None or error <= TOLERANCE or error > ROUNDED:
        return error
    made.model.set_experts_implementation("eager")
    double = Built(made.model.double(), {name: _doubled(value) for name, value in made.probe.items()}, {})
    exactly = compared(watched(double), weights)
    return error if exactly is not None and exactly <= TOLERANCE else np.inf


def tried(name: str) -> Row:
    """What comes of one model type, the worse of its two kernels."""
    found: list[Row] = []
    variants: Sequence[dict[str, Any]] = _VARIANTS
    for kernel in KERNELS:
        try:
            made = built(name, kernel, variants)
            variants = [made.variant]
        except NotBuilt as error:
            if kernel == KERNELS[0]:
                return Row(name, "not built", reason=str(error))
            continue  # it has no fused kernel
        try:
            record = watched(made)
            heads = " ".join(map(str, np.isfinite(record.entropy.values[0]).sum(axis=1).tolist()))
            error = error_of(made, record)
        except (UnfaithfulError, InputError) as refusal:
            found.append(Row(name, "refused", reason=f"{kernel}: {_line(refusal)}"))
        except Exception as defect:
            found.append(Row(name, "traceback", reason=f"{kernel}: {type(defect).__name__}, {_line(defect)}"))
        else:
            outcome = "seen" if error is None else "equal" if error <= ROUNDED else "different"
            found.append(Row(name, outcome, error, heads, kernel))
    worst = min(found, key=lambda row: _ORDER.index(row.outcome))
    errors = [row.error for row in found if row.error is not None]
    return worst._replace(error=max(errors) if errors else None)


_ORDER = ("traceback", "different", "refused", "seen", "equal")  # the worst first


def _line(error: BaseException) -> str:
    words = " ".join(str(error).split()) or "no words"
    return words if len(words) <= 400 else f"{words[:400]} ..."


def names() -> list[str]:
    """Every model type of the installed Transformers that has a class of its own."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return sorted(CONFIG_MAPPING_NAMES)


def _in_processes(wanted: Sequence[str]) -> Iterator[Row]:
    """One process after the other, each for some types; one that dies or hangs costs the type it was at."""
    waiting = list(wanted)
    while waiting:
        part = waiting[:_PER_PROCESS]
        process = subprocess.Popen([sys.executable, "-m", "tools.zoo", "--lines", *part], stdout=subprocess.PIPE, text=True)
        done = 0
        for line in process.stdout or ():
            yield Row(*json.loads(line))
            done += 1
        process.wait()
        if done < len(part):
            yield Row(part[done], "not built", reason=f"its process ended with {process.returncode}")
            done += 1
        waiting = waiting[done:]


def table(rows: Sequence[Row]) -> str:
    import transformers

    counts = Counter(row.outcome for row in rows)
    summary = [f"| {outcome} | {counts[outcome]} | {meaning} |" for outcome, meaning in OUTCOMES.items()]
    lines = [
        f"| `{row.name}` | {row.outcome} | {'' if row.error is None else f'{row.error:.0e}'} | {row.heads} | {_cell(row)} |"
        for row in rows
        if row.outcome != "not built"
    ]
    left = ", ".join(f"`{row.name}`" for row in rows if row.outcome == "not built")
    return "\n".join(
        [
            "# Models that can be watched",
            "",
            f"Every model type of Transformers {transformers.__version__}, tiny and random, watched with its eager and its fused "
            "kernel; largest error of any statistic against the model's own float64 weights. Made by `make zoo` in "
            f"{sum(row.seconds for row in rows) / 60:.0f} minutes.",
            "",
            "| outcome | types | meaning |",
            "|---|---|---|",
            *summary,
            "",
            "| type | outcome | largest error | heads by layer | reason |",
            "|---|---|---|---|---|",
            *lines,
            "",
            f"Not built: {left}.",
            "",
        ]
    )


def _cell(row: Row) -> str:
    return "" if row.outcome in ("equal", "seen") else row.reason.replace("|", "/")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*", help="model types; default: all")
    parser.add_argument("--write", type=Path, help="a Markdown file for the table")
    parser.add_argument("--keep", type=Path, help="a file for what is done: with it a run that was stopped goes on")
    parser.add_argument("--lines", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.lines:
        for name in arguments.name:
            print(json.dumps(tried(name)), flush=True)
        return
    rows = _kept(arguments.keep)
    done = {row.name for row in rows}
    for row, seconds in _timed(_in_processes([name for name in arguments.name or names() if name not in done])):
        row = row._replace(seconds=seconds)
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
    return [Row(*json.loads(line)) for line in file.read_text().splitlines()] if file and file.exists() else []


def _timed(rows: Iterator[Row]) -> Iterator[tuple[Row, float]]:
    last = time.perf_counter()
    for row in rows:
        now = time.perf_counter()
        yield row, now - last
        last = now


if __name__ == "__main__":
    main()
