"""Sweeps on a Dask cluster: a real scheduler and real workers, as processes of this machine, that
are killed and started again.
"""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

import saccade
from saccade.cli import main
from saccade.errors import InputError
from saccade.identity import computation
from saccade.sweeps import cluster
from saccade.sweeps.outcome_file import FINISHED
from saccade.sweeps.units import Unit, units_of
from tests.patience import PATIENCE
from tests.sweeps.small_sweeps import NAME, small_grid

distributed = pytest.importorskip("distributed")

CONSTANTS = [0.1 * number for number in range(1, 8)]
OVER = {"lr_decoder": CONSTANTS}


def one_unit() -> Unit:
    grid = small_grid(1)
    return units_of(grid, grid.runs, None)[0]


@pytest.fixture(autouse=True)
def nothing_hangs() -> Iterator[None]:
    def hangs(*_: Any) -> None:
        raise AssertionError(f"not done after {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(int(PATIENCE))
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _free_port() -> int:
    """Below those that the system gives to connections: of these one may be taken before a
    scheduler starts, or starts again.
    """
    while True:
        with socket.socket() as found, suppress(OSError):
            found.bind(("127.0.0.1", random.randrange(20_000, 32_000)))
            return int(found.getsockname()[1])


class Processes:
    """A scheduler and its workers, each a process."""

    def __init__(self) -> None:
        self.port = _free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self, n_workers: int) -> None:
        self.scheduler = _dask("scheduler", "--host", "127.0.0.1", "--port", str(self.port))
        self.workers += [
            _dask("worker", self.address, "--nthreads", "1", "--no-nanny") for _ in range(n_workers)
        ]

    def wait(self, n_workers: int) -> None:
        with distributed.Client(self.address, timeout=PATIENCE, set_as_default=False) as client:
            client.wait_for_workers(n_workers, timeout=PATIENCE)

    def kill(self) -> None:
        """All of them, as a power cut would."""
        for process in [self.scheduler, *self.workers]:
            if process is not None:
                process.kill()
                process.wait()
        self.scheduler, self.workers = None, []


def _dask(what: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        f"distributed.cli.dask_{what}",
        *arguments,
        "--no-dashboard",
        "--dashboard-address",
        "127.0.0.1:0",
    ]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


@pytest.fixture
def started() -> Iterator[Callable[[int], Processes]]:
    with ExitStack() as stack:

        def start(n_workers: int) -> Processes:
            processes = Processes()
            stack.callback(processes.kill)
            processes.start(n_workers)
            processes.wait(n_workers)
            return processes

        yield start


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Processes]:
    """A cluster that no test harms."""
    processes = Processes()
    processes.start(2)
    processes.wait(2)
    yield processes
    processes.kill()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> xr.Dataset:
    """The sweep in one process of this machine."""
    return saccade.sweep(NAME, OVER, out=tmp_path_factory.mktemp("one") / "sweep", workers=1)


def times_written(folder: Path) -> Counter[str]:
    """How often the manifest lists each run."""
    lines = [json.loads(line) for line in (folder / "manifest.jsonl").read_text().splitlines()]
    return Counter(entry["run"] for line in lines for entry in line["runs"])


def assert_each_run_once(folder: Path) -> None:
    assert list(times_written(folder).values()) == [1] * len(CONSTANTS)


class Once:
    """Hears of progress, and acts when a third of the runs is done."""

    def __init__(self, act: Callable[[], None]) -> None:
        self.act = act
        self.is_done = False

    def __call__(self, fraction: float) -> None:
        if fraction > 0.3 and not self.is_done:
            assert fraction < 1
            self.is_done = True
            self.act()


def test_one_process_two_processes_and_a_cluster_give_the_same_bits(
    tmp_path: Path, two_workers: Processes, expected: xr.Dataset
) -> None:
    two = saccade.sweep(NAME, OVER, out=tmp_path / "two", workers=2)
    many = saccade.sweep(NAME, OVER, out=tmp_path / "cluster", cluster=two_workers.address)
    assert (expected.status == FINISHED).all()
    assert (expected.drawn.std("lr_decoder") > 0).all()
    xr.testing.assert_equal(two, expected)
    xr.testing.assert_equal(many, expected)
    assert_each_run_once(tmp_path / "cluster")


def test_a_killed_worker_changes_nothing(
    tmp_path: Path, started: Callable[[int], Processes], expected: xr.Dataset
) -> None:
    processes = started(2)
    kill = Once(processes.workers[0].kill)
    found = saccade.sweep(NAME, OVER, out=tmp_path, cluster=processes.address, on_progress=kill)
    assert kill.is_done
    assert processes.workers[0].wait() == -signal.SIGKILL
    xr.testing.assert_equal(found, expected)
    assert_each_run_once(tmp_path)


def test_a_scheduler_that_is_started_again_changes_nothing(
    tmp_path: Path,
    started: Callable[[int], Processes],
    expected: xr.Dataset,
    capfd: pytest.CaptureFixture[str],
) -> None:
    processes = started(2)
    before: list[str] = []

    def restart() -> None:
        before.extend(times_written(tmp_path))
        processes.kill()
        processes.start(2)

    kill = Once(restart)
    found = saccade.sweep(NAME, OVER, out=tmp_path, cluster=processes.address, on_progress=kill)
    assert kill.is_done
    assert before
    xr.testing.assert_equal(found, expected)
    assert_each_run_once(tmp_path)
    assert all(line.startswith("saccade: ") for line in capfd.readouterr().err.splitlines())


def test_a_scheduler_that_stays_away_ends_in_a_sentence_and_the_rest_can_be_done_later(
    tmp_path: Path,
    started: Callable[[int], Processes],
    expected: xr.Dataset,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    processes = started(1)

    def kill() -> None:
        """From now on nobody is waited for: until now the scheduler had all the time it needs on a
        busy machine.
        """
        monkeypatch.setattr(cluster, "_CONNECT", 1.0)
        monkeypatch.setattr(cluster, "_PATIENCE", 1.0)
        processes.kill()

    with pytest.raises(InputError, match="was lost; what is finished is kept"):
        saccade.sweep(NAME, OVER, out=tmp_path, cluster=processes.address, on_progress=Once(kill))
    assert 0 < len(times_written(tmp_path)) < len(CONSTANTS)
    xr.testing.assert_equal(saccade.sweep(NAME, OVER, out=tmp_path, workers=2), expected)
    assert_each_run_once(tmp_path)


_CTRL_C = """
import os, signal, sys
import saccade.sweeps.sweep
from saccade.cli import entry
from saccade.sweeps.folder import SweepFolder

sys.modules["saccade.sweeps.sweep"]._COMMIT_EVERY = 0.0

commit = SweepFolder.commit

def committed(folder, outcomes):
    SweepFolder.commit = commit
    commit(folder, outcomes)
    os.kill(os.getpid(), signal.SIGINT)

SweepFolder.commit = committed
entry()
"""  # pressed when the first run is kept, however busy the machine


def test_an_interrupted_sweep_ends_soon_and_goes_on_where_it_was(
    tmp_path: Path, two_workers: Processes, expected: xr.Dataset
) -> None:
    over = f"lr_decoder={','.join(map(repr, CONSTANTS))}"
    command = [
        "sweep",
        NAME,
        "--over",
        over,
        "--out",
        str(tmp_path),
        "--cluster",
        two_workers.address,
    ]
    done = subprocess.run(
        [sys.executable, "-c", _CTRL_C, *command],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stderr.splitlines()[1:] == [  # the first warns of the cluster
        "saccade: interrupted; what was finished before is kept, nothing half-written is left."
    ]
    assert done.returncode == 130
    assert 0 < len(times_written(tmp_path)) < len(CONSTANTS)
    assert main(command) == 0
    assert_each_run_once(tmp_path)
    xr.testing.assert_equal(saccade.load_record(tmp_path / "dataset.zarr"), expected)


def test_a_cluster_that_is_started_here_gives_the_same_bits_and_cannot_be_reached_from_outside(
    tmp_path: Path, expected: xr.Dataset, capfd: pytest.CaptureFixture[str]
) -> None:
    xr.testing.assert_equal(
        saccade.sweep(NAME, OVER, out=tmp_path, cluster="local", workers=2), expected
    )
    assert_each_run_once(tmp_path)
    assert "authentication" not in capfd.readouterr().err


def test_a_cluster_without_authentication_is_warned_of_once(
    tmp_path: Path, two_workers: Processes, capfd: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(
            [
                "sweep",
                NAME,
                "--over",
                "lr_decoder=1",
                "--out",
                str(tmp_path),
                "--cluster",
                two_workers.address,
            ]
        )
        == 0
    )
    (warning,) = capfd.readouterr().err.splitlines()
    assert warning.startswith(
        f"saccade: the Dask cluster at {two_workers.address} has no authentication: whoever can reach it can "
    )
    cluster._warn_if_open("tls://login1:8786")
    assert capfd.readouterr().err == ""


def test_a_cluster_object_serves_as_well_as_its_address(
    tmp_path: Path, expected: xr.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_IDLE", 0.1)
    settings = {
        "n_workers": 1,
        "threads_per_worker": 2,
        "processes": False,
        "dashboard_address": "127.0.0.1:0",
    }
    with distributed.LocalCluster(**settings) as own:
        found = saccade.sweep(NAME, {"lr_decoder": CONSTANTS[:2]}, out=tmp_path, cluster=own)
        while any(
            kept._worker._process is not None for kept in cluster._all_kept
        ):  # its threads are of this process
            time.sleep(0.02)
    xr.testing.assert_equal(found, expected.isel(lr_decoder=slice(2)))


def test_without_a_scheduler_there_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster, "_CONNECT", 0.5)
    address = Processes().address
    for wrong in (address, "nowhere", "udp://127.0.0.1:1"):
        over = ["--over", "lr_decoder=1", "--out", str(tmp_path), "--cluster", wrong]
        assert main(["sweep", NAME, *over]) == 2
        (sentence,) = capfd.readouterr().err.splitlines()
        assert sentence.startswith(f"saccade: no Dask scheduler answers at '{wrong}'")


def test_a_worker_with_other_code_or_another_engine_is_refused(
    tmp_path: Path, two_workers: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit = one_unit()
    other = computation() | {"compiled C": "other instructions"}
    refusal = "compiled C: 'other instructions' on your machine, .* there"
    with pytest.raises(InputError, match=refusal):
        cluster._remote(unit, None, other)
    monkeypatch.setattr(cluster, "computation", lambda own: other)
    with pytest.raises(InputError, match=refusal):
        saccade.sweep(NAME, {"lr_decoder": [1.0]}, out=tmp_path, cluster=two_workers.address)


def test_without_dask_the_sentence_says_what_to_install(tmp_path: Path) -> None:
    arguments = [
        "sweep",
        NAME,
        "--over",
        "lr_decoder=1",
        "--out",
        str(tmp_path),
        "--cluster",
        "tcp://127.0.0.1:1",
    ]
    code = f"import sys; sys.modules['distributed'] = None; from saccade.cli import main; sys.exit(main({arguments!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "saccade: this needs distributed, which is not installed: pip install '.[cluster]' in the folder of Saccade"
    ]


def test_a_process_is_kept_for_the_next_unit_and_ended_when_none_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = cluster._Kept(memory=0)
    unit = one_unit()
    kept.run(unit)
    first = kept._worker._process
    monkeypatch.setattr(cluster, "_IDLE", 0.1)
    assert kept.run(unit).status == FINISHED
    while kept._worker._process is not None:
        assert kept._worker._process is first
        time.sleep(0.02)
    assert first.poll() is not None
