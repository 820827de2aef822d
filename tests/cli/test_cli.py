"""The command line: what it prints and writes, its exit codes, and that it never leaves a mess or a traceback."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from saccade import EXPERIMENTS, load_record
from saccade.cli import main
from saccade.experiments.scan_and_snap import syn_small_attention

CLAIM_KEYS = ["statement", "source", "assumptions", "predicted", "measured", "tolerance", "verdict", "expected"]
FILES = {"about.json", "claims.json", "table.csv", "figure.svg", "figure.png", "record.zarr"}
MEDIUM = ("run", "syn-medium-entropy", "--n-queries", "1", "3", "--lr-attention", "1", "2", "--ratios", "1", "5")
SHORT = (*MEDIUM, "--steps", "3", "--batch", "2", "--context", "5")


def called(*arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return code, out.getvalue(), err.getvalue()


def strictly(text: str) -> object:
    """JSON without Python's own NaN and Infinity."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def one_sentence(err: str) -> bool:
    return err.startswith("saccade: ") and err.count("\n") == 1 and err.endswith(".\n") and "Traceback" not in err


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory) -> tuple[Path, int, str]:
    out = tmp_path_factory.mktemp("reproduced")
    code, printed, _ = called("reproduce", "syn-small-attention", "--out", out)
    return out, code, printed


@pytest.fixture(scope="module")
def medium(tmp_path_factory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("medium")
    code, printed, err = called(*SHORT, "--seeds", 2, "--json", "--out", out)
    assert (code, err) == (0, "")
    return out, printed


# What works


def test_list_names_every_experiment_with_claim_and_time():
    code, printed, _ = called("list")
    assert code == 0
    assert all(name in printed for name in EXPERIMENTS)
    code, printed, _ = called("list", "--json")
    rows = strictly(printed)
    assert code == 0
    assert [row["name"] for row in rows] == list(EXPERIMENTS)
    assert all(row["claim"].endswith((".", "]")) or len(row["claim"]) > 20 for row in rows)
    assert all(row["seconds"] > 0 for row in rows)


def test_env_tells_the_versions_that_can_move_a_number():
    code, printed, _ = called("env", "--json")
    facts = strictly(printed)
    assert code == 0
    assert facts["version_numpy"] == np.__version__
    assert facts["python"] == sys.version.split()[0]
    code, plain, _ = called("env")
    assert code == 0
    assert plain.splitlines() == [f"{key}: {value}" for key, value in facts.items()]


def test_without_a_command_and_with_help_it_says_how_to_begin():
    for arguments in ((), ("help",), ("-h",), ("--help",)):
        code, printed, _ = called(*arguments)
        assert code == 0
        assert "saccade reproduce syn-small-attention" in printed


def test_help_of_a_run_lists_the_settings_with_their_meaning():
    with pytest.raises(SystemExit) as stopped:
        called("run", "syn-small-attention", "--help")
    assert not stopped.value.code


def test_reproduce_exits_with_0_when_all_is_as_expected_and_prints_a_line_for_each_claim(reproduced):
    out, code, printed = reproduced
    claims = strictly((out / "syn-small-attention" / "claims.json").read_text())
    assert code == 0
    assert [claim["verdict"] for claim in claims] == [claim["expected"] for claim in claims]
    for claim in claims:
        (line,) = [line for line in printed.splitlines() if f"{claim['statement']}: predicted" in line]
        assert line.strip().startswith(claim["verdict"])
        assert f"predicted {claim['predicted']:.4g}, measured {claim['measured']:.4g}" in line
    assert str(out / "report.html") in printed


def test_reproduce_exits_with_1_when_a_verdict_is_not_as_expected(tmp_path, monkeypatch):
    monkeypatch.setattr(syn_small_attention, "REPLICATED", {1.0: (0.9, 1.931), 10.0: (0.535, 2.085)})  # .389 in truth
    code, printed, _ = called("reproduce", "syn-small-attention", "--out", tmp_path)
    assert code == 1
    assert sum(line.strip().startswith("fails") for line in printed.splitlines()) == 1
    assert (tmp_path / "syn-small-attention" / "claims.json").exists()  # an unexpected verdict is a result too


def test_a_claim_outside_its_assumptions_is_an_answer_to_a_run_with_other_settings(medium):
    (result,) = strictly(medium[1])["experiments"]  # the run ended with 0
    assert {claim["verdict"] for claim in result["claims"]} == {"outside its assumptions"}


def test_every_file_of_a_result_is_there_and_nothing_else(reproduced, medium):
    for out, name in ((reproduced[0], "syn-small-attention"), (medium[0], "syn-medium-entropy")):
        assert set(os.listdir(out)) == {name, "report.html"}
        assert set(os.listdir(out / name)) == FILES
        assert (out / name / "figure.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (out / name / "figure.svg").read_text()
        claims = strictly((out / name / "claims.json").read_text())
        assert all(list(claim) == CLAIM_KEYS for claim in claims)
        strictly((out / name / "about.json").read_text())


def test_the_table_of_the_entropy_experiment_has_the_agreed_columns_and_the_numbers_of_the_record(medium):
    folder = medium[0] / "syn-medium-entropy"
    with (folder / "table.csv").open(newline="") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    assert reader.fieldnames == ["n_queries", "lr_attention", "ratio", "entropy_mean", "entropy_std", "n_seeds"]
    record = load_record(folder / "record.zarr")
    assert len(rows) == 2 * 2 * 2
    for row in rows:
        at = {"n_queries": int(row["n_queries"]), "lr_attention": float(row["lr_attention"]), "ratio": float(row["ratio"])}
        entropy = record.entropy.sel(at).values
        assert float(row["entropy_mean"]) == pytest.approx(entropy.mean(), rel=1e-12)
        assert float(row["entropy_std"]) == pytest.approx(abs(entropy[0] - entropy[1]) / np.sqrt(2), rel=1e-9)
        assert int(row["n_seeds"]) == 2


def test_the_answer_as_json_is_what_was_written(medium):
    out, printed = medium
    answer = strictly(printed)
    (result,) = answer["experiments"]
    assert answer["report"] == str(out / "report.html")
    assert result["folder"] == str(out / "syn-medium-entropy")
    assert result["claims"] == strictly((out / "syn-medium-entropy" / "claims.json").read_text())


def test_a_run_that_diverges_is_still_answered_in_json_that_any_program_reads(tmp_path):
    code, printed, err = called("run", "syn-small-attention", "--lr-attention", 1e10, "--json", "--out", tmp_path)
    assert code in (0, 1), err
    answer = strictly(printed)
    assert answer["experiments"][0]["claims"] == strictly((tmp_path / "syn-small-attention" / "claims.json").read_text())


def test_one_seed_is_enough_to_run(tmp_path):
    code, _, err = called(*SHORT, "--seeds", 1, "--out", tmp_path)
    assert code in (0, 1), err
    assert err == ""


def test_settings_reach_the_record(medium):
    record = load_record(medium[0] / "syn-medium-entropy" / "record.zarr")
    settings = json.loads(record.attrs["settings"])
    assert (settings["steps"], settings["batch"], settings["context"], settings["seeds"]) == (3, 2, 5, 2)
    assert record.ratio.values.tolist() == [1, 5]


def requests(page: str) -> list[str]:
    """Addresses that a browser would fetch when it opens the page."""
    attribute = r"""(?:src|href|srcset|action|data|poster)\s*=\s*["']?([^"'\s>]+)"""
    found = re.findall(attribute, page) + re.findall(r"""url\(\s*["']?([^"')]+)""", page) + re.findall(r"@import\s+(\S+)", page)
    return [address for address in found if not address.startswith(("#", "data:"))]


def test_the_report_asks_the_network_for_nothing(reproduced, medium):
    for tag in ('<script src="https://x.org/a.js">', "<link href=http://x.org/a.css>", "<style>@import 'http://x'; a{}</style>"):
        assert requests(tag)
    assert requests('<p style="background:url(https://x.org/a.png)"><svg><use xlink:href="#a"/></svg>') == ["https://x.org/a.png"]
    for out in (reproduced[0], medium[0]):
        page = (out / "report.html").read_text("utf-8")
        assert requests(re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)) == []
        assert "default-src 'none'" in page  # what its script may do is tried in a browser, in tests/report


def test_the_report_shows_every_claim_and_figure_of_the_folder(reproduced):
    page = (reproduced[0] / "report.html").read_text("utf-8")
    claims = strictly((reproduced[0] / "syn-small-attention" / "claims.json").read_text())
    assert all(claim["statement"] in page for claim in claims)
    assert page.count('<section class="result"') == 1
    assert f"{len(claims)} of {len(claims)} verdicts are as expected" in page
    assert "saccade reproduce syn-small-attention" in page


def test_leftovers_of_a_killed_process_are_not_in_the_report(medium, tmp_path):
    from shutil import copytree

    from saccade.report.page import write_page

    copytree(medium[0], tmp_path, dirs_exist_ok=True)
    for ending in ("unfinished", "replaced"):
        copytree(tmp_path / "syn-medium-entropy", tmp_path / f".syn-medium-entropy.0123abcd.{ending}")
    page = write_page(tmp_path).read_text("utf-8")
    assert re.findall("<h2>([^<]*)</h2>", page) == ["syn-medium-entropy"]


def test_other_folders_beside_the_results_do_no_harm(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "about.json").write_text("{}")
    (tmp_path / "yours").mkdir()
    (tmp_path / "yours" / "about.json").write_text("not JSON")
    code, printed, err = called(*SHORT, "--seeds", 2, "--out", tmp_path)
    assert code in (0, 1), err
    assert "report.html" in printed


def test_the_same_figure_is_the_same_bytes(tmp_path):
    from saccade.report.style import new_figure, save_figure

    for name in ("a", "b"):
        figure = new_figure(3, 2)
        axes = figure.subplots()
        axes.plot([1, 2, 5], "o-")  # markers and clip paths get identifiers
        save_figure(figure, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


# Mistakes in the call: exit code 2 and one sentence


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("reprduce",), "command 'reprduce' is not known. Did you mean 'reproduce'?"),
        (("xyzzy",), "command 'xyzzy' is not known. Known: list"),
        (("run", "syn-smal-attention"), "experiment 'syn-smal-attention' is not known. Did you mean 'syn-small-attention'?"),
        (("reproduce", "syn-medium-entropi"), "Did you mean 'syn-medium-entropy'?"),
        (("reproduce", "syn-small-attention", "nothing-like-it-xyz"), "experiment 'nothing-like-it-xyz' is not known."),
        (("run",), "`saccade run` needs the name of an experiment first: "),
        (("run", "--seeds", "3"), "`saccade run` needs the name of an experiment first"),
        (("run", "syn-small-attention", "--lr-atention", "1"), "Did you mean --lr-attention?"),
        (("run", "syn-small-attention", "--seed", "1"), "Did you mean --seeds?"),
        (("list", "--jsn"), "Did you mean --json?"),
        (("list", "everything"), "Unrecognized options: everything"),
        (("env", "--json", "yes"), "Unrecognized options: yes"),
        (("run", "syn-small-attention", "--out"), "--out"),
        (("run", "syn-small-attention", "--seeds", "ten"), "`--seeds` must be a whole number, or several of them; got 'ten'"),
        (("run", "syn-small-attention", "--seeds", "1.5"), "`--seeds` must be a whole number, or several of them; got '1.5'"),
        (("run", "syn-small-attention", "--lr-attention", "fast"), "`--lr-attention` must be a number; got 'fast'"),
        (("run", "syn-medium-entropy", "--lr-attention", "fast"), "--lr-attention"),
        (("run", "syn-medium-entropy", "--ratios", "1", "fast"), "--ratios"),
    ],
)
def test_a_mistake_in_the_call_is_one_sentence_that_helps(arguments, sentence):
    code, printed, err = called(*arguments)
    assert (code, printed) == (2, "")
    assert one_sentence(err), err
    assert sentence in err


@pytest.mark.parametrize("name", ["syn-small-attention", "syn-medium-entropy"])
@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("lr-attention", "-1"),
        ("lr-attention", "nan"),
        ("lr-attention", "inf"),
        ("ratios", "-2"),
        ("ratios", "nan"),
        ("ratios", ""),
        ("momentum", "1"),
        ("momentum", "-0.5"),
        ("momentum", "nan"),
        ("batch", "0"),
        ("batch", "-3"),
        ("batch", "1000000000000000000"),
        ("context", "0"),
        ("context", "10000000000000000000"),
        ("seeds", "0"),
        ("seeds", "1000000000000000000"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_and_nothing_is_written(tmp_path, name, setting, value):
    settings = [] if name == "syn-small-attention" else list(SHORT[2:])
    code, printed, err = called("run", name, *settings, f"--{setting}", *value.split(), "--out", tmp_path)
    assert (code, printed) == (2, "")
    assert one_sentence(err), err
    assert re.search(setting.replace("-", "[-_]"), err), err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("setting", ["n-queries", "lr-attention", "ratios"])
@pytest.mark.parametrize("values", [[], ["1", "1"]])
def test_a_list_that_is_empty_or_says_a_value_twice_is_one_sentence(tmp_path, setting, values):
    code, _, err = called(*SHORT, f"--{setting}", *values, "--out", tmp_path)
    assert code == 2
    assert one_sentence(err), err
    assert re.search(setting.replace("-", "[-_]"), err), err


def test_an_output_folder_that_cannot_be_made_is_found_out_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(syn_small_attention, "run", lambda *_: pytest.fail("the experiment was run first"))
    for out in (tmp_path / "file", tmp_path / "file" / "results", "/proc/no-such-place"):
        code, _, err = called("run", "syn-small-attention", "--out", out)
        assert code == 2
        assert one_sentence(err), err
        assert f"cannot write to {out}" in err
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_disk_that_fills_up_leaves_the_earlier_result(medium, tmp_path, monkeypatch):
    from shutil import copytree

    from saccade.report import style

    def full(*_):
        raise OSError(28, "No space left on device")

    copytree(medium[0], tmp_path, dirs_exist_ok=True)
    before = (tmp_path / "syn-medium-entropy" / "claims.json").read_text()
    monkeypatch.setattr(style, "save_figure", full)
    code, _, err = called(*SHORT, "--seeds", 2, "--out", tmp_path)
    assert code == 2
    assert one_sentence(err), err
    assert "No space left on device" in err
    assert (tmp_path / "syn-medium-entropy" / "claims.json").read_text() == before
    assert set(os.listdir(tmp_path)) == {"syn-medium-entropy", "report.html"}


def test_a_folder_whose_name_is_not_text_works_or_is_refused(tmp_path):
    code, _, err = called(*SHORT, "--seeds", 2, "--out", f"{tmp_path}/caf\udce9")  # how Python spells a byte of Latin-1
    assert code in (0, 1) or (code == 2 and one_sentence(err)), err


# In processes of their own


def started(*command: object, **options) -> subprocess.Popen:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("COV_")}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment}
    return subprocess.Popen([sys.executable, *map(str, command)], **pipes | options)


def finished(*command: object) -> tuple[int, str, str]:
    process = started(*command)
    out, err = process.communicate(timeout=100)
    return process.returncode, out, err


def test_the_process_ends_with_the_exit_code_and_no_traceback():
    code, out, err = finished("-m", "saccade.cli", "list", "--json")
    assert (code, err) == (0, "")
    assert strictly(out)
    code, out, err = finished("-m", "saccade.cli", "run", "syn-small-attention", "--lr-attention", "nan")
    assert (code, out) == (2, "")
    assert one_sentence(err), err


def test_a_reader_that_leaves_early_does_no_harm():
    for arguments in (["list"], ["list", "--json"], ["env"]):
        with started("-m", "saccade.cli", *arguments) as process:
            process.stdout.close()
            err = process.stderr.read()
        assert (process.returncode, err) == (0, "")


def interrupted(out: Path, *settings: str, patience: float) -> tuple[int, str]:
    """Start the entropy experiment, press Ctrl-C once it is under way, wait so many seconds; exit code and standard error."""
    process = started("-m", "saccade.cli", "run", "syn-medium-entropy", *settings, "--out", out)
    try:
        deadline = time.monotonic() + 60
        while not list(out.glob(".syn-medium-entropy.*.unfinished")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "did not begin within a minute"
            time.sleep(0.01)
        time.sleep(1.5)  # past the imports, into compiling or running
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=patience)
        return process.returncode, err
    finally:
        process.kill()
        process.communicate()


def test_ctrl_c_ends_with_130_one_sentence_and_the_earlier_result_intact(medium, tmp_path):
    from shutil import copytree

    copytree(medium[0], tmp_path, dirs_exist_ok=True)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    code, err = interrupted(tmp_path, patience=120)
    assert code == 130
    assert one_sentence(err), err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert set(os.listdir(tmp_path)) == {"syn-medium-entropy", "report.html"}


def test_ctrl_c_stops_a_run_of_hours_within_seconds(tmp_path):
    code, err = interrupted(tmp_path, "--steps", "1000000", patience=30)
    assert code == 130
    assert one_sentence(err), err
    assert os.listdir(tmp_path) == []


def test_importing_saccade_is_quick_and_imports_neither_jax_nor_torch():
    code = """
import sys, time
before = time.perf_counter()
import saccade
seconds = time.perf_counter() - before
assert seconds < 1, seconds
dir(saccade), saccade.__version__, saccade.InputError, saccade.SequenceClasses.syn_small()
print([name for name in ("jax", "torch", "xarray", "matplotlib") if name in sys.modules])
"""
    assert finished("-c", code) == (0, "[]\n", "")


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
codes = main(["list", "--json"]), main(["env"]), main(["run", "syn-smal"])
print(codes, [name for name in ("jax", "torch") if name in sys.modules])
"""
    assert finished("-c", code)[1].splitlines()[-1] == "(0, 0, 2) []"


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
from saccade.experiments.scan_and_snap import syn_small_attention
from saccade.experiments.reproduce import reproduce
task = saccade.SequenceClasses([[.5, .5, 0], [0, .5, .5]])
assert saccade.train(task, steps=2, batch=3, context=5, dtype="float64").loss.dtype == "float64"
assert saccade.flow(task, t1=5.0, n_times=3).loss.dtype == "float64"
saccade.reduced_flow(task, t1=5.0, n_times=3)
reproduce("syn-small-attention", sys.argv[1], syn_small_attention.Config())
after = everything()
print([name for name in before if before[name] != after[name]])
"""
    assert finished("-c", code, tmp_path) == (0, "[]\n", "")
