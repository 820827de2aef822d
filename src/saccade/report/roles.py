"""Tokens by role, and the colours of roles: common tokens are grey, distinct ones blue, the fuller
the more frequent.

A record tells the roles by its law, a variable `..._prob` over (class, token); where only one class
is seen, by a coordinate `..._role` along its tokens, with `common` and `distinct`, the rarest
first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

COMMON = {"tone": 6}
KEY = [
    {"name": "common tokens", **COMMON},
    {"name": "distinct tokens, fuller: more frequent", "tone": 0},
]


def law_of(record: xr.Dataset, classes: Any, tokens: Any) -> np.ndarray | None:
    """P(l|n) of the classes and tokens along these axes; None where the record does not hold it."""
    found = [variable for name, variable in record.data_vars.items() if str(name).endswith("_prob")]
    return next((variable.values for variable in found if variable.dims == (classes, tokens)), None)


def own_tokens(law: np.ndarray, of_class: int) -> tuple[np.ndarray, np.ndarray]:
    """Places of the tokens that a class shows, common ones first, then distinct ones from the
    rarest on; and which are common.
    """
    shown = law[of_class] > 0
    common = shown & ((law > 0).sum(axis=0) > 1)
    distinct = np.flatnonzero(shown & ~common)
    places = [
        *np.flatnonzero(common),
        *distinct[np.argsort(law[of_class, distinct], kind="stable")],
    ]
    return np.array(places, int), common[places]


def token_names(law: np.ndarray) -> list[str]:
    """What tokens of classes (class, token) are, where nobody has named them: `c3` is common to
    several classes, `d3` distinct for one, the third of them from the rarest on; those that no
    class shows keep their number.
    """
    names = [str(place) for place in range(law.shape[1])]
    for number, place in enumerate(np.flatnonzero((law > 0).sum(axis=0) > 1), 1):
        names[place] = f"c{number}"
    for of_class in range(len(law)):
        places, common = own_tokens(law, of_class)
        for number, place in enumerate(places[~common], 1):
            names[place] = f"d{number}"
    return names


def by_class(record: xr.Dataset, name: str, most: int) -> list[tuple[str, xr.Dataset]]:
    """A variable over (class, token) with the record's own law: the record as each class sees it,
    with the tokens it shows, by the class's name. Empty where there is no such law, or there are
    more classes than `most`.
    """
    classes, tokens = record[name].dims[-2:] if record[name].ndim > 2 else ("", "")
    law = law_of(record, classes, tokens)
    if law is None or len(law) > most:
        return []
    named = tokens in record.coords and [*map(str, record[tokens].values)] != [
        *map(str, range(len(law[0])))
    ]
    names = [str(token) for token in record[tokens].values] if named else token_names(law)
    whose = (
        [str(one) for one in record[classes].values]
        if classes in record.coords
        else [str(n + 1) for n in range(len(law))]
    )
    return [(whose[n], _as_seen(record, classes, tokens, n, law, names)) for n in range(len(law))]


def _as_seen(
    record: xr.Dataset, classes: Any, tokens: Any, n: int, law: np.ndarray, names: list[str]
) -> xr.Dataset:
    places, common = own_tokens(law, n)
    roles = [("common" if one else "distinct") for one in common]
    own = record.isel({classes: n, tokens: places}).drop_vars(str(tokens), errors="ignore")
    return own.assign_coords(
        {str(tokens): [names[place] for place in places], f"{tokens}_role": (tokens, roles)}
    )
