"""The settings of a small Transformer, and the two papers' models among them. Needs no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

from saccade.errors import InputError, checked_choice, checked_count, checked_number, shortened

POSITIONS = ("none", "sinusoidal", "learned", "rotary", "alibi")
NORMS = ("layer", "rms", "unit", "none")
_MOST = 1e7  # of any size; beyond it is a typing error


@dataclass(frozen=True)
class TransformerConfig:
    """The architecture of a `Transformer`.

    | setting           | meaning                                                                                              |
    |-------------------|------------------------------------------------------------------------------------------------------|
    | `d_mlp`           | width of the MLP's hidden layer (ReLU); 0: no MLP                                                    |
    | `positions`       | `"none"`, `"sinusoidal"`, `"learned"`, `"rotary"` or `"alibi"` (`positions.py`)                      |
    | `norm`            | `"layer"`, `"rms"`, `"unit"` (length one: no mean taken off, no gain, as in [tian2023]) or `"none"`  |
    | `norm_first`      | before attention and MLP, and once at the end; otherwise after each, as PyTorch's encoder does       |
    | `residual`        | attention and MLP add their outputs to their inputs                                                  |
    | `tied`            | unembedding and embedding share one table                                                            |
    | `values`          | value and output matrices; without them attention averages its inputs                                |
    | `bias`            | of all linear maps                                                                                   |
    | `pairwise`        | one-hot embedding and a free table of scores, token by token: the (Y, Z) model of `pairwise.py`      |
    | `query_key`       | a token attends to itself as well                                                                    |
    | `scaled`          | scores are divided by the root of a head's width                                                     |
    | `embedding_scale` | embeddings are multiplied by this                                                                    |
    | `init`            | `"normal"`: every matrix from N(0, init_scale^2); `"uniform"`: embedding and unembedding from        |
    |                   | U(-init_scale, init_scale), the layers as PyTorch's encoder starts them. Biases start at 0 if normal |
    | `context`         | longest sequence                                                                                     |
    """

    n_vocab: int
    n_layers: int = 1
    n_heads: int = 1
    d_model: int = 200
    d_mlp: int = 200
    positions: str = "none"
    norm: str = "layer"
    norm_first: bool = True
    residual: bool = True
    tied: bool = False
    values: bool = True
    bias: bool = False
    pairwise: bool = False
    query_key: bool = True
    scaled: bool = True
    embedding_scale: float = 1.0
    init: str = "normal"
    init_scale: float = 0.02
    dropout: float = 0.0
    context: int = 1024

    def __post_init__(self) -> None:
        for name in ("n_vocab", "n_layers", "n_heads", "d_model", "context"):
            object.__setattr__(self, name, checked_count(name, getattr(self, name), high=_MOST))
        object.__setattr__(self, "d_mlp", checked_count("d_mlp", self.d_mlp, low=0, high=_MOST))
        checked_choice("positions", self.positions, POSITIONS)
        checked_choice("norm", self.norm, NORMS)
        checked_choice("init", self.init, ("normal", "uniform"))
        checked_number("init_scale", self.init_scale, low=0.0, high=1e6)
        checked_number("embedding_scale", self.embedding_scale, low=0.0, high=1e6, open_low=True)
        if checked_number("dropout", self.dropout, low=0.0) >= 1:
            raise InputError(f"`dropout` must be below 1; got {self.dropout:g}.")
        for name in (
            "norm_first",
            "residual",
            "tied",
            "values",
            "bias",
            "pairwise",
            "query_key",
            "scaled",
        ):
            if not isinstance(getattr(self, name), bool):
                raise InputError(
                    f"`{name}` must be True or False; got {shortened(getattr(self, name))}."
                )
        self._check_together()

    def _check_together(self) -> None:
        if self.d_model % self.n_heads:
            raise InputError(
                f"`d_model` must be a multiple of `n_heads`; got {self.d_model} and {self.n_heads}."
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise InputError(f"sinusoidal positions need an even `d_model`; got {self.d_model}.")
        if self.positions == "rotary" and self.d_model // self.n_heads % 2:
            raise InputError(
                f"rotary positions need an even width of a head; got {self.d_model // self.n_heads}."
            )
        fixed = {
            "n_layers": 1,
            "n_heads": 1,
            "d_mlp": 0,
            "positions": "none",
            "values": False,
            "tied": False,
            "bias": False,
        }
        wrong = [name for name, value in fixed.items() if getattr(self, name) != value]
        if self.pairwise and (wrong or self.norm not in ("unit", "none") or self.dropout):
            raise InputError(
                "`pairwise` is one layer of one head without MLP, positions, values, bias or dropout, with norm 'unit' or 'none'; "
                f"start from TransformerConfig.scan_and_snap({self.n_vocab})."
            )

    @property
    def averages_tokens(self) -> bool:
        """Whether the model is one head of attention that averages token embeddings, and nothing
        else.
        """
        only: dict[str, object] = {
            "n_layers": 1,
            "n_heads": 1,
            "d_mlp": 0,
            "positions": "none",
            "norm": "none",
        }
        only |= {"dropout": 0.0, "embedding_scale": 1.0}
        off = ("pairwise", "residual", "values", "bias", "tied")
        plain = all(getattr(self, name) == value for name, value in only.items())
        return plain and self.query_key and not any(getattr(self, name) for name in off)

    @classmethod
    def scan_and_snap(cls, n_vocab: int) -> TransformerConfig:
        """The model of [tian2023] itself: Y and Z, both zero at the start; the query is not among
        the keys. For `loss="last"`.
        """
        return cls(
            n_vocab,
            pairwise=True,
            query_key=False,
            norm="unit",
            residual=False,
            values=False,
            d_mlp=0,
            scaled=False,
            init_scale=0.0,
        )

    @classmethod
    def focus_and_dilution(
        cls, n_vocab: int, d_model: int = 64, init_scale: float = 1e-3, scaled: bool = True
    ) -> TransformerConfig:
        """The model of [chen2026]: W0, WQ, WK, W1, as `models/embedded.py` has it. For
        `loss="last"`.
        """
        return cls(
            n_vocab,
            d_model=d_model,
            d_mlp=0,
            norm="none",
            residual=False,
            values=False,
            scaled=scaled,
            init_scale=init_scale,
        )

    @classmethod
    def wikitext(cls, n_vocab: int, n_layers: int = 1, d_model: int = 200) -> TransformerConfig:
        """Fig. 7 of [tian2023], from the published notebook: an encoder of PyTorch's with a causal
        mask, post-norm.

        That only embedding and unembedding start from U(-0.1, 0.1), and the layers as PyTorch
        starts them, is inferred: the notebook builds on PyTorch's tutorial, which does so. For
        `lr=5, lr_mlp=10, clip=0.5, order="stream"`.
        """
        return cls(
            n_vocab,
            n_layers,
            d_model=d_model,
            d_mlp=d_model,
            positions="sinusoidal",
            norm_first=False,
            bias=True,
            embedding_scale=d_model**0.5,
            init="uniform",
            init_scale=0.1,
            dropout=0.3,
        )
