"""What the process that attacks are forked from has loaded, so that each of them starts in
milliseconds. Nothing of it computes yet: JAX and PyTorch have no threads before they do, and may be
forked.
"""

import importlib
import warnings
from contextlib import suppress

warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # of JAX
for name in (
    "distributed",
    "jax",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "matplotlib.pyplot",
    "rich.progress",
    "rich.table",
    "saccade.cli",
    "saccade.data.text.corpus",
    "saccade.engines.train_text",
    "saccade.experiments.reproduce",
    "saccade.experiments.scan_and_snap.first_force",
    "saccade.forecasting.command",
    "saccade.forecasting.files",
    "saccade.forecasting.forecast",
    "saccade.lab.outcome",
    "saccade.watching.checkpoints",
    "saccade.watching.recorder",
    "saccade.report.page",
    "saccade.sweeps.command",
    "saccade.sweeps.repair",
    "scipy.signal",
    "tests.attack.subjects",
    "tests.watching.model_zoo",
    "zarr",
):
    with suppress(ModuleNotFoundError):  # PyTorch is an extra
        importlib.import_module(name)
