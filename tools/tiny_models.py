"""A tiny random model of any type of the installed Transformers, and a batch that it takes, made
from its defaults.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import torch

BATCH, LENGTH, DECODED = 2, 12, 7
MOST_PARAMETERS = 1e7
SPREAD = 1.5  # of what a layer of weights makes of inputs with variance one
UNTRAINED = 0.2  # of what is added to parameters that start alike: biases, scales, tables of positions, sinks
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
    "mamba_chunk_size": 16,
    "max_source_positions": 32,
    "patch_size": 4,
    "window_size": 4,
    "entity_vocab_size": 16,
    "num_codebooks": 2,
    "num_mel_bins": 16,
    "dropout": 0.0,
}  # fmt: skip


# The same by a part of the name, for types that do not run with the names above alone; the first
# that matches counts.
_SMALL_BY_PART: tuple[tuple[str, int], ...] = (
    (
        r"kernel|stride|dilation|padding|_token_id|_token_index|_idx$|_index$|num_labels|max_num_tiles|feat_extract_layers|temporal_patch_size|spatial_merge|_ratio",
        -1,
    ),
    (r"right_context|left_context", 1),
    (r"num_pos_feats", _WIDTH // 2),
    (r"num_frames|frames_per_clip", 2),
    (r"coordinate_size", 6),
    (r"shape_size", 4),
    (r"patch_embed_hidden_size", 48),
    (r"mamba_(d_head|head_dim)", 16),
    (r"groups?$", 1),
    (r"image_embedding_size", 8),
    (r"conv_dim|flow_size", 16),
    (r"head_dim|head_size|key_dim|d_state|state_size", 8),
    (r"(heads|n_head)$", _HEADS),
    (r"(layers|blocks|depth|n_layer|num_flows|_stacks)$", _LAYERS),
    (
        r"(queries|query_tokens|num_latents|n_queries|num_proposals|num_labels_query|max_num_patches)$",
        8,
    ),
    (r"top_?k|per_tok", 2),
    (r"experts", 4),
    (r"rank$", 8),
    (r"(ffn|intermediate|feed_forward|mlp|inner)\w*$", 40),
    (
        r"vocab|codebook_size|num_embeddings|position|max_len|max_length|max_seq|ngram|fft|spectrogram_bins",
        64,
    ),
    (r"(image|input|crop|img)_size", _IMAGE),
    (r"patch_size", 4),
    (r"window|chunk|block_size|context_size|max_distance|max_past|max_future", 4),
    (r"hidden|^d_|dim|channel|width|d_model|filters|embed|_size$|(^|_)units$|features$", _WIDTH),
)
# What is left out where it may be, and what must be given though it has no default.
_PLAIN: dict[str, Any] = {
    **dict.fromkeys(
        (
            "enable_pronunciation",
            "enable_shape",
            "axial_pos_embds",
            "use_timm_backbone",
            "use_pretrained_backbone",
        ),
        False,
    ),
    **dict.fromkeys(("use_encoder_hidden_states", "scale_embedding"), False),
    "prediction_length": 4,
    "context_length": 8,
    "label_length": 4,
    "default_language": "en_XX",
    "attn_layer_indices": [1],
    "top_k_experts": 2,
    "num_time_features": 1,
    "layer_types": ["full_attention", "full_attention"],
    "mlp_layer_types": ["dense", "sparse"],
    "vocabulary_map": {"<image>": 61},
    "initializer_range": 0.02,
}


class Variant(NamedTuple):
    """What is tried of a type: some fields; with `by_part` also sizes by a part of their name and
    one layer of each kind.
    """

    fields: dict[str, Any]
    by_part: bool = False
    width: int = _WIDTH
    share: int = 0  # of widths of stages; 0: the least becomes 8
    stage: int = 2  # layers of a stage, where there are stages: the second is the one that shifts its windows


# In turn, where a model does not run with the first: some need as many keys as heads, others more
# layers for one of them to be attention, or rotate parts of a head only.
_FIELDS: tuple[dict[str, Any], ...] = (
    {},
    {"num_key_value_heads": _HEADS},
    {"num_key_value_heads": _HEADS, "head_dim": 4},
    {"image_size": 64, "window_size": 2},
    {"num_hidden_layers": 4},
    {"num_hidden_layers": 8, "num_key_value_heads": _HEADS},
    {"mrope_section": [2, 1, 1]},
    {"mrope_section": [1, 1, 0]},
    {"head_dim": None, "num_key_value_heads": _HEADS},
)
_FIELDS_BY_PART: tuple[dict[str, Any], ...] = (
    {"num_key_value_heads": _HEADS},
    {"num_experts_per_tok": 1, "num_key_value_heads": _HEADS},
    {"head_dim": 16, "num_key_value_heads": _HEADS},
    {"image_size": 64},
    {"image_size": 128, "patch_size": 16},
    {"num_hidden_layers": 4},
    {"hidden_size_per_layer_input": 0},
    {"mrope_section": [2, 1, 1]},
    {"mrope_section": [1, 1, 0]},
    {"window_size": 16},
    {"mrope_section": [1, 1, 2]},
    {"layer_types": ["mamba", "attention"], "num_hidden_layers": 2},
)
# Those that help most come first; the widest last.
VARIANTS = (
    *(Variant(each) for each in _FIELDS[:4]),
    Variant({}, True),
    Variant({}, True, share=8),
    *(Variant(each) for each in _FIELDS[4:]),
    *(Variant(each, True) for each in _FIELDS_BY_PART),
    *(
        Variant(each, True, width=192, stage=3)
        for each in ({}, {"num_key_value_heads": _HEADS, "head_dim": 48})
    ),
)
_BY_PART = VARIANTS.index(Variant({}, True))


def tiny(kind: type, variant: Variant, default: Any = None) -> Any:
    """A configuration of this class, made small wherever the name of a field is known; parts of it
    too.
    """
    own_values = _own_values(kind, default) if default is not None else {}
    default = _default(kind) if default is None else default
    fields = {name: value for name, value in default.to_dict().items() if not name.startswith("_")}
    small = _SMALL | variant.fields
    if variant.by_part:
        small = (
            {
                name: size
                for name, value in fields.items()
                if (size := _by_part(name, value, variant)) is not None
            }
            | _PLAIN
            | variant.fields
        )
    changed = {
        name: small[name]
        for name in fields
        if name in small and isinstance(fields[name], int | type(None) | float)
    }
    kept = (
        _kept_layers(fields)
        if variant.by_part and "num_hidden_layers" not in variant.fields
        else []
    )
    n_layers, n_kept = (
        fields.get("num_hidden_layers", fields.get("num_layers") if variant.by_part else None),
        len(kept) or small.get("num_hidden_layers", _LAYERS),
    )
    for name, value in fields.items():
        if (
            isinstance(value, list | tuple)
            and value
            and name not in ("out_features", "out_indices")
        ):
            per_layer = len(value) == n_layers and len(value) > 2
            changed[name] = value[:n_kept] if per_layer else _shorter(name, value, variant, fields)
            if per_layer and kept:
                changed[name] = [value[each] for each in kept]
            elif (
                variant.by_part
                and re.search(r"ind(ex|ices)|_idx|feature_layer", name)
                and not per_layer
                and isinstance(value[0], int)
            ):
                changed[name] = sorted({min(each, n_kept - 1) for each in value})
    if kept:
        changed["num_hidden_layers"] = n_kept
    elif variant.by_part and len(fields.get("out_features") or ()) > 1 and n_layers:
        n_stages = len(fields["out_features"])
        changed["num_hidden_layers"] = n_stages
        changed["out_features"], changed["out_indices"] = (
            [f"stage{each + 1}" for each in range(n_stages)],
            list(range(1, n_stages + 1)),
        )
    if not variant.by_part:
        changed |= {name: None for name in ("layer_types", "mlp_layer_types") if name in fields}
    tokens = [name for name in fields if name.endswith("token_id") or name.endswith("token_index")]
    changed |= {
        name: place for place, name in enumerate(sorted(tokens)) if isinstance(fields[name], int)
    }
    if variant.by_part:
        changed |= {name: 61 - place for place, name in enumerate(_PLACES) if name in fields}
    changed |= {
        name: value
        for name, value in {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}.items()
        if name in fields
    }
    rope = fields.get("rope_parameters")
    if "rope_parameters" in fields and (
        "mrope_section" in small or "mrope_section" in (rope or {})
    ):
        changed["rope_parameters"] = (rope or {"rope_type": "default"}) | {
            "mrope_section": small.get("mrope_section", [2, 1, 1])
        }
    for name, part in (getattr(kind, "sub_configs", None) or {}).items():
        own = getattr(default, name, None)
        if own is None and variant.by_part and part.__name__ != "AutoConfig":
            own = part()
        if own is not None and hasattr(own, "to_dict"):
            small_part = (
                _backbone(own)
                if "timm_backbone" in own.model_type
                else tiny(type(own), variant, own if variant.by_part else None)
            )
            changed[name] = small_part if variant.by_part else small_part.to_dict()
    changed |= {
        name: value
        for name, value in variant.fields.items()
        if isinstance(value, list) and isinstance(fields.get(name), list)
    }
    return kind(**(own_values | changed))


def _own_values(kind: Any, part: Any) -> dict[str, Any]:
    """What a part of a configuration has otherwise than its class has by default."""
    usual = _default(kind).to_dict()
    parts = getattr(kind, "sub_configs", None) or {}
    known = ("model_type", "transformers_version", "dtype", *parts)
    return {
        name: value
        for name, value in part.to_dict().items()
        if not name.startswith("_")
        and name not in known
        and value != usual.get(name)
        and not isinstance(value, dict)
    }


def _default(kind: Any) -> Any:
    """A configuration of this class from its defaults, and what must be given though it has none."""
    try:
        return kind()
    except Exception:
        return kind(
            **{
                name: value
                for name, value in _PLAIN.items()
                if name in inspect.signature(kind).parameters
            }
        )


def _by_part(name: str, value: Any, variant: Variant) -> int | None:
    """A smaller size of a field, by its name or a part of it; None if it is to stay."""
    if isinstance(value, bool) or not isinstance(value, int | None):
        return None
    found = _SMALL.get(name) or next(
        (size for part, size in _SMALL_BY_PART if re.search(part, name)), -1
    )
    if found == _WIDTH and "image" not in name:
        found = max(4, value // variant.share) if variant.share and value else variant.width
    return int(found) if (value is None and name in _SMALL) or 0 < found < (value or 0) else None


def _kept_layers(fields: dict[str, Any]) -> list[int]:
    """The first layer of each kind, where kinds are listed; at least two layers."""
    lists = [fields.get(name) for name in ("layer_types", "layers_block_type", "mlp_layer_types")]
    kinds = list(zip(*(each for each in lists if each), strict=False))
    first = {each: place for place, each in reversed(list(enumerate(kinds)))}.values()
    return sorted({*first, *range(2)}) if len(kinds) > 2 else []


def _backbone(own: Any) -> Any:
    """A small ResNet with as many stages to look at, for a backbone of the timm package."""
    from transformers import ResNetConfig

    n_stages = len(own.out_indices or (1,))
    stages = [f"stage{5 - n_stages + each}" for each in range(n_stages)]
    return ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 16, 16, 32],
        depths=[1] * 4,
        layer_type="basic",
        out_features=stages,
    )


def _shorter(name: str, value: Any, variant: Variant, fields: Collection[str]) -> Any:
    """Lists of widths, depths and heads of models in stages."""
    numbers = [each for each in value if isinstance(each, int) and not isinstance(each, bool)]
    if variant.by_part and name == "attention_types":
        return [[kinds, 1] for kinds, _ in value[:1]]
    if len(numbers) < len(value):
        return value
    if variant.by_part and name == "patch_size" and "patch_stride" in fields:
        return value
    if name in ("image_size", "patch_size", "window_size"):
        return type(value)([_SMALL[name]] * len(value))
    if "depth" in name or "layers" in name or name == "num_blocks":
        return type(value)([min(each, variant.stage) for each in value])
    if "head" in name:
        return type(value)([min(each, 2) for each in value])
    if any(
        word in name
        for word in ("hidden_size", "embed_dim", "dims", "width", "channels", "conv_dim")
    ):
        if variant.share:
            return type(value)(
                [each if each <= 3 else max(4, each // variant.share) for each in value]
            )
        least = min((each for each in numbers if each > 3), default=8)  # three are colours
        return type(value)(
            [each if each <= 3 else max(8, 8 * round(each / least)) for each in value]
        )
    return value


class Inputs:
    """What a model may be called with, by the name of the argument, of the sizes that its
    configuration tells.
    """

    def __init__(self, config: Any) -> None:
        self.parts = [
            config,
            *(part for name in _PARTS if (part := getattr(config, name, None)) is not None),
        ]
        self.drawn = torch.Generator().manual_seed(5)
        self.width: int | None = (
            None  # of a batch of features, once the model has said which it wants
        )
        self.is_across = False  # then features come before steps
        self.frames: tuple[int, int] | None = None  # of the mask of a batch that is given

    def known(self, *names: str, otherwise: int) -> int:
        found = [getattr(part, name, None) for part in self.parts for name in names]
        numbers = [each[0] if isinstance(each, list | tuple) else each for each in found if each]
        return int(numbers[0]) if numbers and isinstance(numbers[0], int) else otherwise

    def normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self.drawn)

    def ids(self, length: int = LENGTH) -> torch.Tensor:
        return torch.randint(
            3,
            min(60, self.known("vocab_size", otherwise=60)),
            (BATCH, length),
            generator=self.drawn,
        )

    def named(self, name: str, arguments: Collection[str]) -> torch.Tensor | None:
        """A batch for the argument of this name, of a model with these arguments; None if none is
        known.
        """
        if name in ("pixel_values", "pixel_values_videos", "hidden_states") and (
            packed := self._patches(name, arguments)
        ):
            return self.normal(*packed)
        if name in ("past_values", "past_observed_mask"):
            shape = self._history(arguments)
            return self.normal(*shape) if name == "past_values" else torch.ones(shape)
        maker = (self._of_pictures() | self._of_sound() | self._of_text() | self._of_series()).get(
            name
        )
        return None if maker is None else maker()

    def _patches(self, name: str, arguments: Collection[str]) -> tuple[int, ...] | None:
        """The shape of a batch of pictures that are cut to patches already; None if they are not."""
        channels, patch, size = (
            self.known(*_CHANNELS, otherwise=3),
            self.known("patch_size", otherwise=4),
            self.known(*_SIZE, otherwise=_IMAGE),
        )
        if any(each.startswith(("grid_thw", "image_grid_thw")) for each in arguments):
            n_frames = self.known("temporal_patch_size", otherwise=1)
            return BATCH * _GRID**2, self.width or channels * n_frames * patch**2
        if name == "hidden_states":
            return None
        if self.width:
            return BATCH, (size // patch) ** 2, self.width
        if "target_sizes" in arguments:
            return BATCH, channels, patch, patch * _GRID**2
        if {"spatial_shapes", "pixel_position_ids", "image_position_ids"} & set(arguments):
            return BATCH, _GRID**2, channels * patch**2
        return None

    def _history(self, arguments: Collection[str]) -> tuple[int, ...]:
        """The shape of a batch of past values: with those that lags need, or in several channels,
        or alone.
        """
        steps = self._n_steps()
        if "past_time_features" in arguments:
            return BATCH, steps + max(getattr(self.parts[0], "lags_sequence", None) or [0])
        alone = {"freq", "window_size"} & set(arguments)
        return (
            (BATCH, steps)
            if alone
            else (BATCH, steps, self.known("num_input_channels", otherwise=1))
        )

    def _n_steps(self) -> int:
        steps, patch = (
            self.known("context_length", otherwise=8),
            self.known("patch_length", otherwise=0),
        )
        return 2 * patch if patch > steps else steps

    def _of_pictures(self) -> dict[str, Callable[[], torch.Tensor]]:
        channels, patch, size = (
            self.known(*_CHANNELS, otherwise=3),
            self.known("patch_size", otherwise=4),
            self.known(*_SIZE, otherwise=_IMAGE),
        )
        grid = (
            torch.stack(torch.meshgrid(torch.arange(_GRID), torch.arange(_GRID), indexing="ij"), -1)
            .reshape(1, -1, 2)
            .expand(BATCH, -1, -1)
        )
        flat = self.known("patch_embed_hidden_size", otherwise=channels * patch**2)
        n_tiles = self.known("max_num_tiles", otherwise=4)
        return {
            **_all(
                ("pixel_values", "prompt_pixel_values", "prompt_masks", "image"),
                lambda: self.normal(BATCH, channels, size, size),
            ),
            "pixel_attention_mask": lambda: torch.ones(BATCH, _GRID**2, dtype=torch.long),
            **_all(
                ("target_sizes", "spatial_shapes"), lambda: torch.tensor([[_GRID, _GRID]] * BATCH)
            ),
            **_all(("pixel_position_ids", "image_position_ids"), grid.clone),
            **_all(
                ("grid_thw", "image_grid_thw"), lambda: torch.tensor([[1, _GRID, _GRID]] * BATCH)
            ),
            "merge_sizes": lambda: torch.tensor(
                [self.known("spatial_merge_size", otherwise=2)] * BATCH
            ),
            "flattened_patches": lambda: torch.cat(
                [grid + 1.0, self.normal(BATCH, _GRID**2, flat)], -1
            ),
            "aspect_ratio_ids": lambda: torch.ones(BATCH, 2, dtype=torch.long),
            "aspect_ratio_mask": lambda: torch.ones(BATCH, 2, n_tiles, dtype=torch.long),
            "input_points": lambda: self.normal(BATCH, 1, 1, 2).abs(),
            "visual_feats": lambda: self.normal(
                BATCH, DECODED, self.known("visual_feat_dim", otherwise=_WIDTH)
            ),
            "visual_pos": lambda: torch.rand(BATCH, DECODED, 4, generator=self.drawn),
            "visual_embeds": lambda: self.normal(
                BATCH, DECODED, self.known("visual_embedding_dim", otherwise=_WIDTH)
            ),
        }

    def _of_sound(self) -> dict[str, Callable[[], torch.Tensor]]:
        mel = self.known(*_MEL, otherwise=16)
        return {
            **_all(("input_features", "audio_mel"), lambda: self._features(mel)),
            **_all(
                ("input_features_mask", "feature_attention_mask"),
                lambda: torch.ones(self.frames or (BATCH, 2 * LENGTH), dtype=torch.long),
            ),
            "audio_mel_mask": lambda: torch.zeros(BATCH, 2 * LENGTH, dtype=torch.bool),
            "mask": lambda: torch.ones(BATCH, 2 * LENGTH, dtype=torch.long),
            "input_values": lambda: self.normal(BATCH, 1600),
            "decoder_input_values": lambda: self.normal(BATCH, DECODED, mel),
            "speaker_embeddings": lambda: self.normal(
                BATCH, self.known("speaker_embedding_dim", otherwise=8)
            ),
        }

    def _of_text(self) -> dict[str, Callable[[], torch.Tensor]]:
        width = self.known("hidden_size", "d_model", "embed_dim", "n_embd", "dim", otherwise=_WIDTH)
        corners = torch.randint(0, 30, (BATCH, LENGTH, 2), generator=self.drawn)
        ids = (
            "input_ids",
            "decoder_input_ids",
            "qformer_input_ids",
            "task_inputs",
            "text_input_ids",
            "prompt_ids",
        )
        embedded = (
            "inputs_embeds",
            "encoder_hidden_states",
            "query_embeds",
            "hidden_states",
            "context",
            "context_hidden_states",
        )
        return {
            **_all(ids, self.ids),
            **_all(
                (*embedded, "noise_embeds", "action_embeds"),
                lambda: self.normal(BATCH, LENGTH, self.width or width),
            ),
            "inputs": lambda: self._features(width),
            "attention_mask": lambda: torch.ones(BATCH, LENGTH, dtype=torch.long),
            "bbox": lambda: torch.cat([corners, corners + 20], -1),
        }

    def _of_series(self) -> dict[str, Callable[[], torch.Tensor]]:
        n_times, n_ahead = (
            getattr(self.parts[0], "num_time_features", 1),
            self.known("prediction_length", otherwise=4),
        )
        past = self._history(("past_time_features",))
        return {
            "past_time_features": lambda: self.normal(*past, n_times),
            "past_values_padding": lambda: torch.zeros(BATCH, self._n_steps()),
            "freq": lambda: torch.zeros(BATCH, 1, dtype=torch.long),
            "future_values": lambda: self.normal(BATCH, n_ahead),
            "future_time_features": lambda: self.normal(BATCH, n_ahead, n_times),
            "states": lambda: self.normal(BATCH, LENGTH, self.known("state_dim", otherwise=4)),
            "actions": lambda: self.normal(BATCH, LENGTH, self.known("act_dim", otherwise=4)),
            **_all(("rewards", "returns_to_go"), lambda: self.normal(BATCH, LENGTH, 1)),
            "timesteps": lambda: torch.arange(LENGTH).expand(BATCH, -1).clone(),
        }

    def _features(self, width: int) -> torch.Tensor:
        found = self.normal(BATCH, 2 * LENGTH, self.width or width)
        return found.mT.contiguous() if self.is_across else found


def _all(
    names: Sequence[str], maker: Callable[[], torch.Tensor]
) -> dict[str, Callable[[], torch.Tensor]]:
    return dict.fromkeys(names, maker)


_PARTS = (
    "vision_config",
    "audio_config",
    "text_config",
    "encoder",
    "encoder_config",
    "decoder",
    "backbone_config",
    "thinker_config",
)
_SIZE, _CHANNELS = ("image_size", "input_size", "crop_size"), ("num_channels", "in_channels")
_MEL = (
    "num_mel_bins",
    "feature_projection_input_dim",
    "input_feat_size",
    "input_dim",
    "feature_size",
    "input_feat_per_channel",
)
_GRID = 4  # patches of a picture, in each direction


def probes_of(model: Any, config: Any) -> Iterator[dict[str, Any]]:
    """Batches that the model may be called with, by the name of its main input."""
    inputs = Inputs(config)
    drawn, known = inputs.drawn, inputs.known
    text = inputs.ids()
    wanted = getattr(model, "main_input_name", "input_ids")
    size, channels = (
        known("image_size", "input_size", "crop_size", otherwise=_IMAGE),
        known("num_channels", otherwise=3),
    )
    mel = known("num_mel_bins", "feature_size", "input_feat_per_channel", otherwise=16)
    n_frames = 2 * known("max_source_positions", otherwise=32)
    picture = torch.randn(BATCH, channels, size, size, generator=drawn)
    film = torch.randn(
        BATCH, known("num_frames", "frames_per_clip", otherwise=4), 3, size, size, generator=drawn
    )
    more: dict[str, Any] = {}
    if getattr(config, "is_encoder_decoder", False):
        more["decoder_input_ids"] = torch.randint(3, 60, (BATCH, DECODED), generator=drawn)
    if (
        wanted.startswith("pixel_values")
        and "input_ids" in inspect.signature(model.forward).parameters
    ):
        yield {"input_ids": text, wanted: film if wanted.endswith("videos") else picture} | more
    if wanted in ("pixel_values", "pixel_values_videos"):
        yield {wanted: film if wanted.endswith("videos") else picture} | more
        yield {wanted: film} | more
    elif wanted == "input_values":
        yield {wanted: torch.randn(BATCH, 1600, generator=drawn)} | more
        yield {wanted: torch.randn(BATCH, 1, 1600, generator=drawn)} | more
        yield {
            wanted: torch.randn(BATCH, known("max_length", otherwise=64), mel, generator=drawn)
        } | more
    elif (
        wanted == "input_features"
        or "input_features" in inspect.signature(model.forward).parameters
    ):
        wanted = "input_features"
        sound = torch.randn(BATCH, mel, n_frames, generator=drawn)
        yield {wanted: sound} | more
        yield {wanted: sound.mT} | more
        yield {wanted: torch.randn(BATCH, 1, n_frames, mel, generator=drawn)} | (
            {"input_ids": text} if more == {} else more
        )
    yield {"input_ids": text} | more
    yield {"input_ids": text, "pixel_values": picture} | more


def completed(model: Any, probe: dict[str, Any], inputs: Inputs, tries: int = 6) -> dict[str, Any]:
    """The probe with the arguments that the model asks for, one error after the other; the last
    error if that does not do.
    """
    arguments = inspect.signature(model.forward).parameters
    must = [
        name
        for name, each in arguments.items()
        if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
    ]
    if must:
        probe = {name: value for name, value in probe.items() if name in arguments}
    asked = [name for name in must if name not in probe]
    failed: Exception = NotBuilt("no probe is known")
    for _ in range(tries):
        given = {name: inputs.named(name, arguments) for name in asked}
        probe = probe | {name: value for name, value in given.items() if value is not None}
        sound = probe.get("input_features")
        if sound is not None and sound.ndim == 3:
            inputs.frames = BATCH, max(sound.shape[1:])
        try:
            with torch.no_grad():
                model(**copy.deepcopy(probe))
            return probe
        except Exception as error:
            if any(name not in probe for name in asked):
                raise
            marked = _with_axes(error, _with_pictures(error, probe, model.config))
            asked = [] if marked is not probe else _asked(error, probe, arguments)
            inputs.width, inputs.is_across = (
                _width(error) or inputs.width,
                inputs.is_across or " channels, but got" in str(error),
            )
            if not asked and marked is probe:
                raise
            probe, failed = marked, error
    raise failed


def _with_pictures(error: Exception, probe: dict[str, Any], config: Any) -> dict[str, Any]:
    """The probe with as many places for pictures (or sound) in its text as the error says that
    there are features.
    """
    found = re.search(r"tokens: \D*(\d+).{0,12}features:? \D*(\d+)", str(error))
    token = next(
        (getattr(config, name) for name in _PLACES if isinstance(getattr(config, name, None), int)),
        None,
    )
    if not found or token is None or "input_ids" not in probe:
        return probe
    n_places = -(-int(found[2]) // BATCH) if int(found[1]) == 0 else 0
    text = torch.cat([torch.full((BATCH, n_places), token), probe["input_ids"]], 1)
    return probe | {"input_ids": text} if 0 < n_places < 200 else probe


def _with_axes(error: Exception, probe: dict[str, Any]) -> dict[str, Any]:
    """The probe with one axis more after the batch's, where the error says that one is missing:
    frames, tiles, or one of sound.
    """
    picture, sound = probe.get("pixel_values"), probe.get("input_features")
    if (
        picture is not None
        and re.search(r"expected [456], got [345]\)|5D tensor", str(error))
        and 3 < picture.ndim < 6
    ):
        return probe | {"pixel_values": picture[:, None].repeat(1, 2, *[1] * (picture.ndim - 1))}
    if picture is not None and picture.ndim == 2 and "input to conv" in str(error):
        side = int((picture.shape[1] / 3) ** 0.5)
        return probe | {"pixel_values": picture.view(len(picture), 3, side, -1)}
    if sound is not None and "but got 3" in str(error) and sound.ndim == 3:
        return probe | {"input_features": sound[:, None]}
    return probe


_PLACES = (
    "image_token_id",
    "image_token_index",
    "audio_token_id",
    "audio_token_index",
    "video_token_id",
)


def _asked(error: Exception, probe: dict[str, Any], arguments: Collection[str]) -> list[str]:
    """Arguments that an error names, or all that are known if it is a None that the model stumbles
    over.
    """
    said = [
        name for name in re.findall(r"\w+", str(error)) if name in arguments and name not in probe
    ]
    if "exactly one" in str(error).lower() or "either" in str(error):
        said = said[:1]
    if not said and _width(error):
        pictures = ("pixel_values",) if "channels" not in str(error) else ()
        return [
            name
            for name in probe
            if name
            in (*pictures, "hidden_states", "input_features", "inputs", "inputs_embeds", "context")
        ]
    if not said and ("None" in str(error) or "'bool'" in str(error)):
        more = [name for name in arguments if name not in probe and name not in _INSTEAD]
        return [name for name in more if "mask" not in name and name in _OFTEN] or [
            name for name in more if "mask" in name and name in _OFTEN
        ]
    return list(dict.fromkeys(said))


# Arguments without which a model may stumble over a None, of those that are known here.
_OFTEN = {
    *(
        "input_ids",
        "decoder_input_ids",
        "qformer_input_ids",
        "attention_mask",
        "inputs_embeds",
        "bbox",
        "visual_feats",
        "visual_pos",
    ),
    *(
        "pixel_values",
        "pixel_attention_mask",
        "spatial_shapes",
        "flattened_patches",
        "grid_thw",
        "image_grid_thw",
        "target_sizes",
    ),
    *(
        "pixel_position_ids",
        "image_position_ids",
        "input_points",
        "input_features",
        "input_features_mask",
        "feature_attention_mask",
    ),
    *(
        "decoder_input_values",
        "speaker_embeddings",
        "states",
        "actions",
        "rewards",
        "returns_to_go",
        "timesteps",
        "freq",
    ),
    *(
        "past_values",
        "past_time_features",
        "past_observed_mask",
        "future_values",
        "future_time_features",
    ),
}
_INSTEAD = (
    "encoder_hidden_states",
    "hidden_states",
    "input_boxes",
    "text_input_ids",
    "context",
)  # of other arguments


def _width(error: Exception) -> int | None:
    """Of features, as an error of shapes tells it."""
    found = re.search(
        r"normalized_shape=\[(\d+)\]|\(\d+x\d+ and (\d+)x\d+\)|to have (\d+) channels", str(error)
    )
    return int(found[1] or found[2] or found[3]) if found else None


def model_classes(name: str, config_class: Any) -> list[Any]:
    """The language model of a type, its bare one, and any others that are made from its
    configuration.
    """
    import transformers
    from transformers.models.auto import modeling_auto as auto

    found = []
    for table in (
        auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        auto.MODEL_MAPPING_NAMES,
    ):
        if name in table:
            names = table[name] if isinstance(table[name], str) else table[name][0]
            found.append(getattr(transformers, names))
    try:
        module = importlib.import_module(
            config_class.__module__.replace(".configuration_", ".modeling_")
        )
    except ModuleNotFoundError:
        return found
    models: list[Any] = [
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, transformers.PreTrainedModel)
    ]
    own = [each for each in models if each.config_class is config_class]
    kinds = dict.fromkeys([*found, *sorted(own, key=lambda each: -len(each.__mro__))])
    return sorted(kinds, key=lambda each: each.config_class is not config_class)


class NotBuilt(Exception):
    """No model of a type, and why."""

    outcome = "not built"


class Part(NotBuilt):
    """There is no model of this type to build."""

    outcome = "part"


class Other(NotBuilt):
    """There is one, and it has no attention."""

    outcome = "no attention"


class Built(NamedTuple):
    """A tiny random model and a probe that it takes."""

    model: Any
    probe: dict[str, Any]
    kind: Any
    variant: Variant


def built(name: str, kernel: str, like: Built | None = None, seconds: float = 30.0) -> Built:
    """Of this type, sharper than a fresh start, in evaluation mode: the first that runs, or another
    again.
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if like is not None:
        return _with_kernel(name, kernel, like)
    try:
        kinds = model_classes(name, CONFIG_MAPPING[name])
        able = [each for each in kinds if each.forward is not torch.nn.Module.forward]
    except Exception as error:
        raise NotBuilt(f"{type(error).__name__}: {line(error)}") from None
    if not kinds:
        raise Part("it has no model class of its own")
    if not able:
        raise NotBuilt("its models have no forward pass")
    reasons: dict[tuple[int, int], str] = {}
    end = time.process_time() + seconds
    for at, kind in enumerate(able[:3]):
        for place, variant in enumerate(VARIANTS):
            try:
                return _built(kind, CONFIG_MAPPING[name], variant, kernel)
            except Exception as error:
                reasons[at, place] = f"{type(error).__name__}: {line(error)}"
                if time.process_time() > end or isinstance(error, ImportError):
                    break
            if len(reasons) == _BY_PART and _without_attention(able, CONFIG_MAPPING[name]):
                raise Other("its code has none")  # before the long search
    shown = reasons.get((0, _BY_PART))  # of the first kind and all that is known by parts of names
    raise NotBuilt(shown or next(iter(reasons.values())))


def has_attention(model: torch.nn.Module) -> bool:
    """Whether any of its modules is called attention, or has a softmax in its code."""
    kinds = {type(module) for module in model.modules()}
    return any(_is_attention(kind) for kind in kinds if kind.__module__.startswith("transformers."))


def _is_attention(kind: type) -> bool:
    return bool(
        re.search(r"atte?n", kind.__name__, re.IGNORECASE)
        or re.search(r"softmax|scaled_dot_product", inspect.getsource(kind))
    )


def _without_attention(kinds: Sequence[Any], config_class: type) -> bool:
    """Of a type that does not run: told from its modules at full size, without their numbers, or
    else from its whole code. Where the configuration speaks of attention, there may be some with
    other settings than the usual ones.
    """
    if re.search("attention|attn", inspect.getsource(config_class)):
        return False
    try:
        with torch.device("meta"):
            return not has_attention(kinds[0]._from_config(_default(config_class)))
    except Exception:
        return not re.search(
            r"attn|softmax|scaled_dot_product|Attention",
            inspect.getsource(inspect.getmodule(kinds[0]) or kinds[0]),
        )


def _built(kind: Any, config_class: type, variant: Variant, kernel: str) -> Built:
    model = _model(kind, config_class, variant, kernel)
    failed: Exception | None = None
    for probe in probes_of(model, model.config):
        try:
            return Built(model, completed(model, probe, Inputs(model.config)), kind, variant)
        except Exception as error:
            failed = failed or error
    raise failed or NotBuilt("no probe is known")


def _with_kernel(name: str, kernel: str, like: Built) -> Built:
    """The same model with another kernel, and its probe."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    try:
        model = _model(like.kind, CONFIG_MAPPING[name], like.variant, kernel)
        with torch.no_grad():
            model(**copy.deepcopy(like.probe))
    except Exception as error:
        raise NotBuilt(f"{type(error).__name__}: {line(error)}") from None
    return Built(model, like.probe, like.kind, like.variant)


def _model(kind: Any, config_class: type, variant: Variant, kernel: str) -> Any:
    config = tiny(config_class, variant)
    with torch.device("meta"):
        size = sum(each.numel() for each in kind._from_config(copy.deepcopy(config)).parameters())
    if size > MOST_PARAMETERS:
        raise NotBuilt("its defaults cannot be made small")
    torch.manual_seed(7)
    return _sharp(kind._from_config(config, attn_implementation=kernel))


@torch.no_grad()
def _sharp(model: Any) -> Any:
    """Weights as large as those of a trained model: attention that is nearly uniform would hide
    what is wrong, and so would a bias that starts at zero or a scale that starts at one.
    """
    drawn = torch.Generator().manual_seed(11)
    for parameter in model.parameters():
        if not parameter.is_floating_point() or parameter.numel() == 0:
            continue
        spread = float(parameter.std()) if parameter.ndim > 1 and parameter.numel() > 1 else 0.0
        if spread > 0:
            parameter.mul_(max(1.0, SPREAD / parameter.shape[-1] ** 0.5 / spread))
        else:
            parameter.add_(UNTRAINED * torch.randn(parameter.shape, generator=drawn))
    return model.eval()


def line(error: BaseException) -> str:
    """What an error says, in one line."""
    words = " ".join(str(error).split()) or "no words"
    return words if len(words) <= 400 else f"{words[:400]} ..."
