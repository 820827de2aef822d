"""The command as a process: exit codes, readers that leave, what is imported when, and that nothing
global changes.
"""

from __future__ import annotations

import pytest

from saccade.engines import descent_kernel
from tests.cli.calls import finished, one_sentence, started, strictly


def test_the_process_ends_with_the_exit_code_and_no_traceback():
    code, out, err = finished("-m", "saccade", "env", "--json")
    assert (code, err) == (0, "")
    assert strictly(out)
    code, out, err = finished("-m", "saccade", "run", "first-force", "--lr-attention", "nan")
    assert (code, out) == (2, "")
    assert one_sentence(err), err


def test_a_reader_that_leaves_early_does_no_harm():
    for arguments in (["list"], ["list", "--json"], ["env"]):
        with started("-m", "saccade", *arguments) as process:
            process.stdout.close()
            err = process.stderr.read()
        assert (process.returncode, err) == (0, "")


def test_importing_saccade_and_asking_for_help_load_the_standard_library_alone():
    code = """
import sys
before = set(sys.modules)
import saccade
from saccade.cli import main
main(["--help"]), main(["--version"])
print({name.partition(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names))
"""
    assert finished("-c", code)[1].splitlines()[-1] == "{'saccade'}"


def test_names_of_data_load_no_library_that_takes_long():
    code = """
import sys, saccade
dir(saccade), saccade.__version__, saccade.InputError, saccade.SequenceClasses.syn_small()
print([name for name in ("jax", "torch", "xarray", "matplotlib") if name in sys.modules])
"""
    assert finished("-c", code) == (0, "[]\n", "")


@pytest.mark.skipif(not descent_kernel.LIBRARY.exists(), reason="the C code was not built")
def test_training_in_c_does_not_wait_for_jax():
    code = """
import sys, saccade
record = saccade.train(saccade.SequenceClasses.syn_small(), steps=2, batch=4, context=5)
print(record.sizes["time"], "jax" in sys.modules)
"""
    assert finished("-c", code) == (0, "3 False\n", "")


@pytest.mark.parametrize(
    "first",
    [
        "import jax; from saccade.models.system import Observable",
        "from saccade import Observable; import jax",
    ],
)
def test_what_is_seen_can_be_compiled_whichever_library_came_first(first):
    code = f"""
{first}
seen = jax.jit(lambda x: Observable(("token",), 2 * x, "1", "twice"))(3.0)
print(seen.axes, float(seen.values), len(jax.tree.leaves(seen)))
"""
    assert finished("-c", code) == (0, "('token',) 6.0 1\n", "")


def test_the_report_is_drawn_without_jax_and_torch():
    code = """
import sys
import saccade.report.page, saccade.report.style
print([name for name in ("jax", "torch") if name in sys.modules])
"""
    assert finished("-c", code) == (0, "[]\n", "")


def test_listing_and_mistakes_do_not_wait_for_jax():
    code = """
import sys
from saccade.cli import main
codes = main(["list"]), main(["list", "--json"]), main(["run", "first-forse"])
slow = [name for name in ("numpy", "jax", "torch", "xarray", "matplotlib") if name in sys.modules]
print(codes, main(["env"]), slow, [name for name in ("jax", "torch") if name in sys.modules])
"""
    assert finished("-c", code)[1].splitlines()[-1] == "(0, 0, 2) 0 [] []"


def test_using_saccade_changes_nothing_global(tmp_path):
    code = """
import logging, os, sys, threading, warnings
import jax, matplotlib, numpy as np, optax, scipy.integrate, xarray, zarr

def everything():
    return {
        "x64": jax.config.jax_enable_x64,
        "dtype": str(jax.numpy.ones(1).dtype),
        "jax": {name: value for name, value in jax.config.values.items()},
        "rcParams": dict(matplotlib.rcParams),
        "backend": matplotlib.get_backend(auto_select=False),
        "numpy errors": np.geterr(),
        "print": np.get_printoptions(),
        "random": np.random.get_state()[1].tobytes(),
        "warnings": list(warnings.filters),
        "logging": (logging.root.level, list(logging.root.handlers)),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "xarray": dict(xarray.core.options.OPTIONS),
    }

before = everything()
import saccade
from saccade.experiments import experiment
from saccade.experiments.reproduce import reproduce
task = saccade.SequenceClasses([[.5, .5, 0], [0, .5, .5]])
assert saccade.train(task, steps=2, batch=3, context=5, dtype="float64").loss.dtype == "float64"
assert saccade.flow(task, t1=5.0, n_times=3).loss.dtype == "float64"
saccade.reduced_flow(task, t1=5.0, n_times=3)
reproduce("first-force", sys.argv[1], experiment("first-force").settings(windows=50, steps=3))
after = everything()
print([name for name in before if before[name] != after[name]])
"""
    assert finished("-c", code, tmp_path) == (0, "[]\n", "")
