"""Which architectures of the installed Transformers can be watched? `python -m tools.zoo [NAME ...] [--write FILE]`, or `make zoo`.

Every model type that can be built from a tiny configuration, random and without a download, is watched with its eager and its fused
kernel. What a look measures is compared with the same statistics of the weights that the model returns itself in float64, computed
one query at a time in NumPy (`tests/observe/dense_statistics.py`). Each ends in one of `OUTCOMES`.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
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
TOLERANCE = 2e-5  # absolute, of statistics in float32
COMPARED = ("entropy", "relative_entropy", "top_mass", "top_k_mass", "effective_keys", "sink_mass", "self_mass", "previous_mass")
SAMPLE = ("gpt2", "llama", "gemma3_text", "bert", "t5", "gpt_oss", "bloom", "vit", "gpt_bigcode", "albert", "longformer", "swin")
BATCH, LENGTH, DECODED = 2, 12, 7
SECONDS = 60  # for one model type
_PER_PROCESS = 40  # model types: modules of those that are done stay in memory

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
    "patch_size": 8,
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


def tiny(kind: type, **given: Any) -> Any:
    """A configuration of this class, made small wherever the name of a field is known; parts of it too."""
    default = kind()
    fields = {name: value for name, value in default.to_dict().items() if not name.startswith("_")}
    changed = {name: _SMALL[name] for name in fields if name in _SMALL and isinstance(fields[name], int | type(None) | float)}
    changed |= {name: _shorter(name, value) for name, value in fields.items() if isinstance(value, list | tuple) and value}
    changed |= {name: None for name in ("layer_types", "mlp_layer_types") if name in fields}
    tokens = [name for name in fields if name.endswith("token_id") or name.endswith("token_index")]
    changed |= {name: place for place, name in enumerate(sorted(tokens)) if isinstance(fields[name], int)}
    changed |= {name: value for name, value in {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}.items() if name in fields}
    for name in getattr(kind, "sub_configs", None) or {}:
        own = getattr(default, name, None)
        if own is not None and hasattr(own, "to_dict"):
            changed[name] = tiny(type(own)).to_dict()
    return kind(**changed | given)


def _shorter(name: str, value: Any) -> Any:
    """Lists of widths, depths and heads of models in stages."""
    numbers = [each for each in value if isinstance(each, int) and not isinstance(each, bool)]
    if len(numbers) < len(value):
        return value
    if "depth" in name or "layers" in name or name == "num_blocks":
        return type(value)([1] * len(value))
    if "head" in name:
        return type(value)([min(each, 2) for each in value])
    if any(word in name for word in ("hidden_size", "embed_dim", "dims", "width", "channels", "conv_dim")):
        return type(value)([max(8, 8 * round(each / min(numbers))) for each in value])
    return value


def probe_of(model: Any, config: Any) -> dict[str, Any]:
    """A batch that the model can be called with, by the name of its main input."""
    drawn = torch.Generator().manual_seed(5)
    text = torch.randint(3, 60, (BATCH, LENGTH), generator=drawn)
    wanted = getattr(model, "main_input_name", "input_ids")
    parts = [config, *(getattr(config, name, None) for name in ("vision_config", "audio_config", "encoder", "backbone_config"))]

    def known(*names: str, otherwise: int) -> int:
        found = [getattr(part, name, None) for part in parts if part is not None for name in names]
        numbers = [each[0] if isinstance(each, list | tuple) else each for each in found if each]
        return int(numbers[0]) if numbers else otherwise

    if wanted == "pixel_values":
        size = known("image_size", "input_size", otherwise=_IMAGE)
        probe = {"pixel_values": torch.randn(BATCH, known("num_channels", otherwise=3), size, size, generator=drawn)}
    elif wanted == "pixel_values_videos":
        size, frames = known("image_size", "crop_size", otherwise=_IMAGE), known("num_frames", "frames_per_clip", otherwise=4)
        probe = {wanted: torch.randn(BATCH, frames, 3, size, size, generator=drawn)}
    elif wanted == "input_values":
        probe = {wanted: torch.randn(BATCH, 1600, generator=drawn)}
    elif wanted == "input_features":
        frames = 2 * known("max_source_positions", otherwise=32)
        probe = {wanted: torch.randn(BATCH, known("num_mel_bins", "feature_size", otherwise=16), frames, generator=drawn)}
    else:
        probe = {"input_ids": text}
    if getattr(config, "is_encoder_decoder", False):
        probe["decoder_input_ids"] = torch.randint(3, 60, (BATCH, DECODED), generator=drawn)
    return probe


def model_class(name: str) -> Any:
    """The language model of a type, else its bare one."""
    from transformers.models.auto import modeling_auto as auto

    for table in (
        auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        auto.MODEL_MAPPING_NAMES,
    ):
        if name in table:
            found = table[name]
            return getattr(__import__("transformers"), found if isinstance(found, str) else found[0])
    return None


class NotBuilt(Exception):
    pass


def built(name: str, kernel: str) -> tuple[Any, dict[str, Any]]:
    """A tiny random model of this type, sharper than a fresh start, in evaluation mode, and a probe that it takes."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    try:
        config, kind = tiny(CONFIG_MAPPING[name]), model_class(name)
        if kind is None:
            raise NotBuilt("it has no model class of its own")
        torch.manual_seed(7)
        model = kind._from_config(config, attn_implementation=kernel).eval()
        if sum(each.numel() for each in model.parameters()) > 2e7:
            raise NotBuilt("its defaults cannot be made small")
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim > 1:
                    parameter.mul_(2)
        probe = probe_of(model, config)
        with torch.no_grad():
            copy.deepcopy(model)(**probe)
    except NotBuilt:
        raise
    except Exception as error:
        raise NotBuilt(f"{type(error).__name__}: {_line(error)}") from None
    return model, probe


def reference(model: Any, probe: dict[str, Any]) -> list[torch.Tensor]:
    """Weights that the model returns in float64, call by call; none if it does not."""
    exact = copy.deepcopy(model).double()
    doubled = {name: value.double() if value.is_floating_point() else value for name, value in probe.items()}
    try:
        exact.set_attn_implementation("eager")
        exact.set_experts_implementation("eager")  # the other one has no float64
        torch.manual_seed(0)
        with torch.no_grad():
            answer = exact(**doubled, output_attentions=True)
        found = returned_weights(answer)
    except Exception:
        return []
    return [each for each in found if isinstance(each, torch.Tensor) and each.ndim == 4]


def compared(record: Any, weights: list[torch.Tensor]) -> float | None:
    """The largest difference of any statistic; None if the model does not return the weights of every layer."""
    if len(weights) != record.sizes["layer"]:
        return None
    weights = [each.nan_to_num(0.0) for each in weights]
    if not all(bool((each >= 0).all() and (each.sum(-1) < 1 + 1e-9).all()) for each in weights):
        return None  # some models return other things under this name
    worst = 0.0
    for layer, maps in enumerate(weights):
        n_batch, n_keys = maps.shape[0], maps.shape[3]
        is_token, start = np.ones((n_batch, n_keys), bool), np.zeros((n_batch, n_keys), int)
        expected = dense_statistics(maps.numpy(), is_token, start, least=0.0)  # what is masked is 0 in float64
        for name in COMPARED:
            if name not in record or name not in expected:
                continue
            ours = record[name].isel(time=0, layer=layer).values[: maps.shape[1]]
            if ours.shape != expected[name].shape or np.isfinite(ours).sum() not in (0, len(ours)):
                return np.inf
            if np.isfinite(ours).all():
                worst = max(worst, float(np.abs(ours - expected[name]).max()))
    return worst


def tried(name: str) -> Row:
    """What comes of one model type, the worse of its two kernels."""
    found: list[Row] = []
    for kernel in KERNELS:
        try:
            model, probe = built(name, kernel)
        except NotBuilt as error:
            if kernel == "eager":
                return Row(name, "not built", reason=str(error))
            continue  # it has no fused kernel
        try:
            with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
                warnings.simplefilter("ignore")
                with saccade.watch(model, probe, weights=False) as recorder:
                    recorder.look(0)
            record = recorder.record
        except (UnfaithfulError, InputError) as error:
            found.append(Row(name, "refused", reason=f"{kernel}: {_line(error)}"))
            continue
        except Exception as error:
            found.append(Row(name, "traceback", reason=f"{kernel}: {type(error).__name__}, {_line(error)}"))
            continue
        error_of = compared(record, reference(model, probe))
        heads = " ".join(map(str, np.isfinite(record.entropy.values[0]).sum(axis=1).tolist()))
        if error_of is None:
            found.append(Row(name, "seen", None, heads))
        else:
            found.append(Row(name, "equal" if error_of <= TOLERANCE else "different", error_of, heads, kernel))
    order = ("traceback", "different", "refused", "seen", "equal")
    worst = min(found, key=lambda row: order.index(row.outcome))
    errors = [row.error for row in found if row.error is not None]
    return worst._replace(error=max(errors) if errors else None)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:160] or "no words"


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


def table(rows: Sequence[Row], seconds: float) -> str:
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
            f"{seconds / 60:.0f} minutes.",
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
    parser.add_argument("--lines", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.lines:
        for name in arguments.name:
            print(json.dumps(tried(name)), flush=True)
        return
    started = time.perf_counter()
    rows = []
    for row in _in_processes(arguments.name or names()):
        rows.append(row)
        print(
            f"{row.name:32} {row.outcome:10} {'' if row.error is None else f'{row.error:.1e}':8} {row.heads:14} {row.reason}",
            flush=True,
        )
    print(dict(Counter(row.outcome for row in rows)))
    if arguments.write:
        arguments.write.write_text(table(rows, time.perf_counter() - started))
    sys.exit(any(row.outcome in ("different", "traceback") for row in rows))


if __name__ == "__main__":
    main()
