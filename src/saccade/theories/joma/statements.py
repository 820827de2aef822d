r"""What JoMA [tian2024] states, and what we derived about it. Reconstructed from the abstract, the
authors' code and reviews.

Its figure on text, Fig. 6, stands in `theories/questions.py`.
"""

from functools import partial

from ..statement import FIGURE, OURS, QUESTION, Statement

_stated = partial(Statement, "tian2024")
_ours = partial(Statement, "saccade", kind=OURS)

_LAYER = (
    "one query, which has the layer above to itself",
    "orthonormal tokens",
    "one rate for attention and the layer above",
)

THEOREM_1 = _stated(
    "Theorem 1",
    "Attention logits are fixed by the weights of the layer above",
    (
        r"\text{linear attention: } z^2 = \sum_k v_k^2 + c",
        r"\text{exponential: } z = \frac{1}{2} \sum_k v_k^2 + c",
        r"\text{softmax, approximately: } z = \frac{1}{2} \sum_k (v_k^2 - \|v_k\|^2 \bar b) + c",
    ),
    _LAYER,
    "section 3",
)
THEOREM_2 = _stated(
    "Theorem 2",
    "Under a constant gradient the largest drive takes all attention in finite time",
    (
        r"\dot v = \Delta \circ e^{v^2/2}, \quad \mathrm{erf}(v_l/\sqrt{2}) = \sqrt{2/\pi} \Delta_l t",
        r"\text{blow-up at } t = \frac{\sqrt{\pi/2}}{\Delta}",
    ),
    ("linear neuron, exponential attention", "v(0) = z(0) = 0", "constant gradient"),
    "section 4, integrated here",
)
THEOREM_4 = _stated(
    "Theorem 4",
    "With a nonlinearity large components settle first, by an exponential factor",
    (
        r"\dot v = (\mu - v) \circ e^{v^2/2}, \quad \delta = 1 - \frac{v}{\mu}",
        r"\frac{\ln(1/\delta_j)}{\ln(1/\delta_k)} \to \frac{e^{\mu_j^2/2}}{e^{\mu_k^2/2}}",
    ),
    ("v(0) near 0", "late times"),
    "section 4",
)
FIG_4 = Statement(
    "tian2024",
    "Fig. 4",
    "Attention becomes sparse, then dense again",
    (
        r"H = -\sum_l a_l \ln a_l, \quad a = \mathrm{softmax}(v^2/T), \quad \Delta v = \eta (\mu - v) \circ a",
    ),
    ("ten components, T = 3, steps of 0.02",),
    "section 4",
    kind=FIGURE,
)
APPROACH_DELAY = _ours(
    "delay of the approach",
    "How late a component settles, exactly: Theorem 4 with its constant",
    (
        r"\ln(1/\delta) \to e^{\mu^2/2} (t - C), \quad C = \int_0^\mu \frac{e^{-u^2/2} - e^{-\mu^2/2}}{\mu - u} du",
    ),
    ("v(0) = 0", "late times"),
    "sharpens tian2024, Theorem 4",
)
RATES_LAW = _ours(
    "joint law at two rates",
    "With two learning rates the joint law has their ratio as a factor",
    (
        r"\text{linear attention: } z^2 = \frac{\eta_z}{\eta_v} \sum_k v_k^2 + c",
        r"\text{exponential: } z = \frac{\eta_z}{\eta_v} \frac{1}{2} \sum_k v_k^2 + c",
    ),
    _LAYER[:2],
    "extends tian2024, Theorem 1",
)
DEEP_LAW = _ours(
    "joint law in a deep model",
    "In the lowest of several layers the joint law is exact, whatever is above",
    (r"z_l = \frac{1}{2} \sum_k v_{kl}^2 + c \text{, layer 1 of any depth}",),
    ("exponential attention in every layer", *_LAYER),
    "extends tian2024, Theorem 1",
)
LAYER_LAW = _ours(
    "joint law of a whole layer",
    "Summed over what it attends to, the joint law is exact in every layer",
    (
        r"\sum_c z_c = \frac{1}{2} \frac{\eta_z}{\eta_W} \|W\|^2 + c",
        r"\text{since } \sum_c \frac{\partial L}{\partial z_c} = \langle W, \frac{\partial L}{\partial W} \rangle",
    ),
    ("exponential attention in that layer", "one query, which has the layer above to itself"),
    "extends tian2024, Theorem 1",
)
LAYER_ORDER = Statement(
    "saccade",
    "order of layers",
    "With several layers, does the lowest move first, and does it freeze?",
    place="after tian2023, section 7, and tian2024",
    kind=QUESTION,
)

STATEMENTS = tuple(each for each in list(globals().values()) if isinstance(each, Statement))
