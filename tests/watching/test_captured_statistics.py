"""Statistics of every kind of model, kernel and mask against whole float64 maps that the model's
eager form gives.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from saccade.watching.layout import Layout  # noqa: E402
from saccade.watching.look import look  # noqa: E402
from saccade.watching.probe import SECOND, LayerTokens, Probe, _meaning  # noqa: E402
from saccade.watching.texts import texts_of  # noqa: E402
from saccade.watching.token_statistics import TokenStatistics  # noqa: E402
from tests.watching import model_zoo as zoo  # noqa: E402
from tests.watching.dense_statistics import dense_statistics  # noqa: E402

MASKS = {"whole": None, "right-padded": zoo.padding("right"), "left-padded": zoo.padding("left")}
KERNELS = {
    "gpt2": ("eager", "sdpa"),
    "llama-grouped": ("eager", "sdpa", "flex_attention"),
    "llama-single-key": ("eager", "sdpa"),
    "neox": ("eager", "sdpa"),
    "mistral-sliding": ("eager", "sdpa"),
    "bert": ("eager", "sdpa"),
    "t5": ("eager", "sdpa"),
}
CASES = {
    f"{family}, {kernel}, {name}": lambda family=family, kernel=kernel, mask=mask: (
        zoo.transformers_case(family, kernel, mask)
    )
    for family, kernels in KERNELS.items()
    for kernel in kernels
    for name, mask in MASKS.items()
    if not (name == "left-padded" and (kernel == "flex_attention" or family in ("bert", "t5")))
}
CASES["t5, sdpa, texts of equal length"] = lambda: zoo.transformers_case(
    "t5", "sdpa", None, n_decoder=zoo.LENGTH
)
DOCUMENTS = torch.block_diag(
    *(torch.ones(n, n, dtype=torch.bool) for n in (4, 2, 5))
)  # two packed boundaries
for kernel in ("by_hand", "einsum", "folded", "fused", "flex"):
    CASES[f"hand-written, {kernel}"] = lambda kernel=kernel: zoo.hand_written_case(kernel)
for kernel in ("by_hand", "fused_boolean", "fused_additive"):
    CASES[f"hand-written, {kernel}, packed documents"] = lambda kernel=kernel: (
        zoo.hand_written_case(kernel, DOCUMENTS)
    )
for causal in (False, True):
    for name in ("whole", "right-padded"):
        CASES[f"nn.TransformerEncoder, causal {causal}, {name}"] = lambda c=causal, m=MASKS[name]: (
            zoo.encoder_case(c, m)
        )


@pytest.mark.filterwarnings("ignore:flex_attention called without", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", CASES)
def test_statistics_equal_those_of_eager_float64_attention(name):
    case = CASES[name]()
    found, expected = compared(case)
    for ours, theirs in zip(found, expected, strict=True):
        assert set(theirs) | {"largest_logit"} == set(ours)  # which weights do not tell
        for what, value in theirs.items():
            np.testing.assert_allclose(
                ours[what].numpy(), value, atol=1e-5, rtol=1e-5, err_msg=what
            )


def compared(case):
    probe = Probe(case.probe)
    counted = TokenStatistics.count(list(probe.ids.numpy()), probe_ids=probe.all_ids())
    tokens = LayerTokens(case.model, probe, counted)
    tokens._texts = {
        name: text and replace(text, meaning=_meaning(informative(text)))
        for name, text in tokens._texts.items()
    }
    tokens.tell(texts_of(case.model, probe, Layout()) if tokens.are_alike else {})
    found = look(case.model, probe, tokens, sequences=[])
    assert not found.unseen
    maps = case.reference()
    expected = [
        dense_statistics(weights.numpy(), *known)
        for weights, known in zip(maps, known_of(case, tokens, len(maps)))
    ]
    return found.statistics, expected


def known_of(case, tokens, n_maps):
    """What is known of the keys of each map: in T5 two layers of the encoder, then own and cross
    attention in turn.
    """
    main = *known_arrays(tokens.main), True
    if n_maps != 6:
        return [main] * n_maps
    return [main, main] + [
        (*known_arrays(tokens._texts[SECOND]), True),
        (*known_arrays(tokens.main), False),
    ] * 2


def known_arrays(tokens):
    return *(
        part.numpy() for part in (tokens.is_token, tokens.document_start, tokens.decile)
    ), informative(tokens)


def informative(tokens):
    """Any values from 0 to 1, a quarter of them unknown: the probe is too short to tell its own."""
    n_batch, n_positions = tokens.is_token.shape
    drawn = np.random.default_rng(2).random((n_batch, n_positions, n_positions))
    return np.where(drawn < 0.25, np.nan, (drawn - 0.25) / 0.75)
