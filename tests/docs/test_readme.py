"""README is short, and its code runs."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.docs.pages import DOCS, ROOT, blocks

PAGE = ROOT / "README.md"
WATCHING, THEORY = (block.code for block in blocks(PAGE) if block.language == "python")


def test_the_readme_is_short():
    text = PAGE.read_text("utf-8")
    assert len(text.splitlines()) <= 150
    assert len(text.split()) <= 1300


@pytest.mark.parametrize(
    ("page", "most"),  # results.md has sentences
    [(PAGE, 20), (DOCS / "index.md", 20), (DOCS / "results.md", 32)],
    ids=str,
)
def test_no_cell_of_a_table_is_long(page, most):
    lines = [line for line in page.read_text("utf-8").splitlines() if line.startswith("|")]
    long = [cell for line in lines for cell in line.split("|") if len(cell.split()) > most]
    assert lines
    assert long == []


def test_the_theory_block_runs_and_its_flows_agree_at_the_start():
    names: dict = {}
    exec(THEORY, names)
    assert names["trained"].sizes["seed"] == 10
    gap = abs(names["theory"].attention - names["flow"].attention)
    assert float(gap.isel(time=0).max()) < 1e-12
    assert 0.01 < float(gap.isel(time=-1).max()) < 1


def test_the_watching_block_runs_with_a_readers_model_and_loader(tmp_path, monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    sizes = {"vocab_size": 23, "n_embd": 12, "n_layer": 2, "n_head": 2, "n_positions": 11}
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    batch = torch.arange(33).reshape(3, 11) % 23
    names = {
        "model": transformers.GPT2LMHeadModel(config),
        "probe_batch": batch,
        "loader": [batch] * 5,
    }
    exec(WATCHING, names)
    assert names["recorder"].record.time.values.tolist()[:3] == [0, 1, 2]
    assert (tmp_path / "my-run").is_dir()
    assert "ead" in capsys.readouterr().out


def test_the_targets_of_make_exist():
    shell = "".join(block.code for block in blocks(PAGE) if block.language == "sh")
    shown = re.findall(r"^make (\w+)", shell, re.MULTILINE)
    assert shown == ["reproduce", "test"]
    subprocess.run(["make", "-n", *shown], cwd=ROOT, check=True, capture_output=True)


def test_the_counts_of_model_types_are_those_of_the_table():
    table = (DOCS / "models.md").read_text("utf-8")
    equal, seen, refused, different = (
        int(re.search(rf"^\| {outcome} \| (\d+) ", table, re.MULTILINE)[1])
        for outcome in ("equal", "seen", "refused", "different")
    )
    text = " ".join(PAGE.read_text("utf-8").split())
    assert f"Of the {equal + seen + refused} model types" in text
    assert f"{equal + seen} can be watched. The other {refused} are refused" in text
    assert different == 0
