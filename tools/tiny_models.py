"""A tiny random model of any type of the installed Transformers, and a batch that it takes, made from its defaults."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

BATCH, LENGTH, DECODED = 2, 12, 7
MOST_PARAMETERS = 1e7
SPREAD = 1.5  # of what a layer of weights makes of inputs with variance one
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
    "num_codebooks": 2,
    "num_mel_bins": 16,
    "dropout": 0.0,
}  # fmt: skip


# What else is tried, in turn, where a model does not run with the first: some need as many keys as heads, others more layers for
# one of them to be attention, or rotate parts of a head only.
VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"num_key_value_heads": _HEADS},
    {"num_key_value_heads": _HEADS, "head_dim": 4},
    {"num_hidden_layers": 4},
    {"num_hidden_layers": 8, "num_key_value_heads": _HEADS},
    {"image_size": 64, "window_size": 2},
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
    changed |= {name: None for name in ("layer_types", "mlp_layer_types") if name in fields}
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


def built(name: str, kernel: str, variants: Sequence[dict[str, Any]] = VARIANTS) -> Built:
    """Of this type, sharper than a fresh start, in evaluation mode; the first variant that runs."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    try:
        kind = model_class(name, CONFIG_MAPPING[name])
    except Exception as error:
        raise NotBuilt(f"{type(error).__name__}: {line(error)}") from None
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
            reason = reason or f"{type(error).__name__}: {line(error)}"
            continue
        last = ""
        for probe in probes_of(model, model.config):
            try:
                with torch.no_grad():
                    model(**copy.deepcopy(probe))
                return Built(model, probe, variant)
            except Exception as error:
                last = f"{type(error).__name__}: {line(error)}"
                reason = reason or last
        if last.startswith("TypeError") and "missing" in last:
            break  # it must be given more than is known here, whatever its sizes
    raise NotBuilt(reason)


@torch.no_grad()
def _sharp(model: Any) -> Any:
    """Weights as large as those of a trained model: attention that is nearly uniform would hide what is wrong."""
    for parameter in model.parameters():
        spread = float(parameter.std()) if parameter.ndim > 1 and parameter.numel() > 1 else 0.0
        if spread > 0:
            parameter.mul_(max(1.0, SPREAD / parameter.shape[-1] ** 0.5 / spread))
    return model.eval()


def line(error: BaseException) -> str:
    """What an error says, in one line."""
    words = " ".join(str(error).split()) or "no words"
    return words if len(words) <= 400 else f"{words[:400]} ..."
