"""Chains on which the sign of focus is looked at: lazy ones from anti-persistent to persistent, general ones, text."""

from __future__ import annotations

import saccade

# Charles Darwin, On the Origin of Species (1859), the end of its last chapter.
PARAGRAPH = (
    "It is interesting to contemplate an entangled bank, clothed with many plants of many kinds, with birds singing on the "
    "bushes, with various insects flitting about, and with worms crawling through the damp earth, and to reflect that these "
    "elaborately constructed forms, so different from each other, and dependent on each other in so complex a manner, have all "
    "been produced by laws acting around us. These laws, taken in the largest sense, being Growth with Reproduction; "
    "Inheritance which is almost implied by reproduction; Variability from the indirect and direct action of the external "
    "conditions of life, and from use and disuse; a Ratio of Increase so high as to lead to a Struggle for Life, and as a "
    "consequence to Natural Selection, entailing Divergence of Character and the Extinction of less-improved forms. Thus, from "
    "the war of nature, from famine and death, the most exalted object which we are capable of conceiving, namely, the "
    "production of the higher animals, directly follows. There is grandeur in this view of life, with its several powers, "
    "having been originally breathed into a few forms or into one; and that, whilst this planet has gone cycling on according "
    "to the fixed law of gravity, from so simple a beginning endless forms most beautiful and most wonderful have been, and are "
    "being, evolved."
)


def sign_chains(stays: tuple[float, ...], paper_stays: tuple[float, ...], n_random: int) -> dict[str, saccade.MarkovChain]:
    """All chains by name: Zipf's law on six tokens, the paper's law, a two-level law, chains of other kinds, text."""
    make = saccade.MarkovChain
    law = make.zipf(6).stationary
    found = {f"zipf-6, stay {stay:g}": make.zipf(6, stay) for stay in stays}
    found |= {f"paper, stay {stay:g}": make.paper(stay) for stay in paper_stays}
    found |= {"two-level, stay 0.4": make.two_level(6, 0.4, 0.02, stay=0.4), "Metropolis": make.metropolis(law)}
    found |= {f"random {seed}": make.random(law, seed) for seed in range(n_random)}
    found |= {f"text, {n} words": make.from_text(PARAGRAPH, "word", n) for n in (6, 12)}
    return found | {"text, characters": make.from_text(PARAGRAPH, "character")}
