"""`saccade forecast`: its options and what it prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

if TYPE_CHECKING:
    import xarray as xr


OPTIONS: dict[str, tuple[Any, Any, str]] = {
    "source": (
        tyro.conf.Positional[str],
        tyro.MISSING,
        "name or path of a text, or a CSV file of classes or of a transition table",
    ),
    "queries": (
        str,
        "8",
        "for a text: number of query tokens (the most frequent ones), or their names, separated by commas",
    ),
    "lr_decoder": (
        float,
        1.0,
        "learning rate of the decoder (chains: of embedding and projection)",
    ),
    "lr_attention": (float, 1.0, "learning rate of attention (chains: of query and key matrices)"),
    "init_scale": (float, 1e-3, "standard deviation of the initial weights"),
    "steps": (
        float | None,
        None,
        "number of training steps to predict; default: twice the median snap time of the queries",
    ),
    "context": (float | None, None, "tokens in a training context, to check the assumptions"),
    "width": (int, 8, "width of embedding, queries and keys"),
    "scaled": (bool, False, "divide attention logits by the square root of the width"),
    "n_vocab": (int | None, None, "for a text: size of the vocabulary"),
    "n_tokens": (
        int,
        500,
        "for a text: tokens counted one by one before a query; rarer ones become one",
    ),
    "n_windows": (int, 20_000, "for a text: windows counted, as far as it has so many"),
    "tokenizer": (str, "word", "for a text: word, bpe, character, or a tokenizer.json"),
    "out": (Path, Path("results"), "folder to write results to"),
}


def forecast_of(options: Any, on_progress: Callable[[float], None]) -> xr.Dataset:
    """The forecast that the options ask for."""
    from saccade.forecasting.forecast import forecast
    from saccade.models.embedded import Embedded

    return forecast(
        _source(options),
        queries=int(options.queries)
        if options.queries.strip().isdecimal()
        else [name.strip() for name in options.queries.split(",") if name.strip()],
        lr_decoder=options.lr_decoder,
        lr_attention=options.lr_attention,
        init_scale=options.init_scale,
        steps=options.steps,
        n_tokens=options.n_tokens,
        n_windows=options.n_windows,
        context=options.context,
        model=Embedded(
            d_model=options.width,
            d_key=options.width,
            init_scale=options.init_scale,
            scaled=options.scaled,
        ),
        on_progress=on_progress,
    )


def _source(options: Any) -> Any:
    """A text is tokenised according to the options; a table is read as it is."""
    if Path(options.source).suffix.lower() == ".csv":
        return options.source
    from saccade.data.text.corpus import corpus

    return corpus(options.source, tokenizer=options.tokenizer, n_vocab=options.n_vocab)


def answered(record: xr.Dataset, options: Any) -> int:
    """Write the folder, print the page or its predictions as JSON; exit code 0."""
    from saccade.forecasting.files import write_forecast
    from saccade.forecasting.forecast import predictions
    from saccade.forecasting.page import page
    from saccade.records.json_files import json_ready

    folder = write_forecast(record, options.out)
    if options.json:
        said = json_ready([one.as_dict() for one in predictions(record)], str)
        print(json.dumps({"folder": str(folder), "predictions": said}, indent=1))
    else:
        print(page(record))
        print(f"files: {folder}")
    return 0
