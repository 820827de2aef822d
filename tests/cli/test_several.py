"""Several experiments at once, one to a core: the same numbers as one alone, in the order they were
asked for, and one Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import time

from tests.cli.calls import called, finished, one_sentence, started, strictly
from tests.patience import PATIENCE

QUICK = ("first-force", "reparameterisation")


def test_several_experiments_give_the_claims_that_each_gives_alone_in_the_order_asked(tmp_path):
    code, out, err = finished(
        "-m", "saccade", "reproduce", *QUICK, "--json", "--out", tmp_path / "both"
    )
    assert code == 0, err
    answer = strictly(out)
    assert [result["name"] for result in answer["experiments"]] == list(QUICK)
    for name in QUICK:
        called("reproduce", name, "--out", tmp_path / "alone")
        together, alone = (
            strictly((tmp_path / way / name / "claims.json").read_text())
            for way in ("both", "alone")
        )
        assert [(claim["label"], claim["verdict"], claim["says"]) for claim in together] == [
            (claim["label"], claim["verdict"], claim["says"]) for claim in alone
        ]


def test_a_result_of_other_settings_is_found_before_anything_runs(tmp_path):
    assert called("run", "first-force", "--steps", 41, "--out", tmp_path)[0] == 0
    code, _, err = called("reproduce", *QUICK, "--out", tmp_path)
    assert (code, one_sentence(err)) == (2, True), err
    assert not (tmp_path / "reparameterisation").exists()


def test_ctrl_c_ends_all_of_them_and_leaves_nothing_half_done(tmp_path):
    process = started("-m", "saccade", "reproduce", "focus", "condensation", "--out", tmp_path)
    try:
        deadline = time.monotonic() + PATIENCE
        while len(list(tmp_path.glob(".*.unfinished"))) < 2:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "did not begin"
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        assert one_sentence(err), err
        assert os.listdir(tmp_path) == []
    finally:
        process.kill()
        process.communicate()
