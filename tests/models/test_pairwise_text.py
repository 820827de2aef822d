"""The pairwise model on windows: the sparse pass against a dense loss, finite differences and the
engine for classes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import saccade
from saccade.errors import InputError
from saccade.models import window_pass
from saccade.models.pairwise_text import TextParameters

CLASSES = saccade.SequenceClasses.syn_small()
VARIANTS = [
    {"normalise": normalise, "residual": residual}
    for normalise in (True, False)
    for residual in (False, True)
]


def drawn(n_windows=2300, n_context=13, n_vocab=11, **options):  # three parts of the pass
    """A vocabulary in which queries stand in contexts too, unlike in classes."""
    rng = np.random.default_rng(5)
    counts = rng.multinomial(n_context, rng.dirichlet(np.ones(n_vocab)), n_windows)
    query, following = rng.integers(0, n_vocab, (2, n_windows))
    weight = rng.dirichlet(np.ones(n_windows))
    names = tuple("abcdefghijk") if n_vocab == 11 else tuple(map(str, range(n_vocab)))
    windows = saccade.data.Windows(
        sparse.csr_array(counts, dtype=float), query, following, weight, names, "drawn"
    )
    return saccade.models.PairwiseText(windows, queries=n_vocab, **options)


def point(n_vocab, scale=1.0, seed=7):
    return TextParameters(
        *(scale * np.random.default_rng(seed).standard_normal((2, n_vocab, n_vocab)))
    )


def dense(system, parameters):
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, jax.value_and_grad(system.loss)(parameters))


@pytest.mark.parametrize("options", VARIANTS)
@pytest.mark.parametrize(
    "scale", [1.0, 300.0]
)  # the second overflows an exponential that is not shifted
def test_the_sparse_pass_gives_loss_and_gradient_of_the_dense_loss(options, scale):
    system = drawn(**options)
    parameters = point(11, scale)
    loss, slope = dense(system, parameters)
    found = system.one_pass(parameters)
    assert found.loss == pytest.approx(loss, rel=1e-12)
    np.testing.assert_allclose(-found.decoder, slope.decoder, atol=1e-13 * scale)
    np.testing.assert_allclose(-found.attention, slope.attention, atol=1e-13 * scale)


def test_single_precision_is_the_same_to_single_precision():
    system, parameters = drawn(), point(11)
    fine, coarse = system.one_pass(parameters), system.one_pass(parameters, "float32")
    np.testing.assert_allclose(coarse.decoder, fine.decoder, atol=2e-7)
    np.testing.assert_allclose(coarse.attention, fine.attention, atol=2e-7)


def test_the_number_of_threads_does_not_change_a_bit(monkeypatch):
    system, parameters = drawn(), point(11)
    found = system.one_pass(parameters)
    monkeypatch.setattr(window_pass, "cores", lambda: 1)
    alone = system.one_pass(parameters)
    assert alone.loss == found.loss
    np.testing.assert_array_equal(alone.attention, found.attention)
    np.testing.assert_array_equal(alone.decoder, found.decoder)


def test_endless_contexts_flow_as_classes_do():
    rates = {"lr_decoder": 2.0, "lr_attention": 0.5}
    windows = saccade.flow(
        saccade.data.Windows.of_classes(CLASSES), t1=100, n_times=7, rtol=1e-8, atol=1e-10, **rates
    )
    classes = saccade.flow(CLASSES, t1=100, n_times=7, **rates)
    np.testing.assert_allclose(windows.attention_logits, classes.attention_logits, atol=1e-7)
    np.testing.assert_allclose(windows.loss, classes.loss, atol=1e-7)
    np.testing.assert_allclose(windows.attention, classes.attention, atol=1e-7)


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_endless_contexts_train_as_the_population_of_classes_does(optimiser):
    shared = {
        "steps": 20,
        "optimiser": optimiser,
        "dtype": "float64",
        "lr_decoder": 0.7,
        "lr_attention": 0.3,
    }
    windows = saccade.train(saccade.data.Windows.of_classes(CLASSES), **shared)
    classes = saccade.train(
        CLASSES, batch=np.inf, context=np.inf, keep=("attention_logits",), **shared
    ).isel(seed=0)
    np.testing.assert_allclose(windows.attention_logits, classes.attention_logits, atol=1e-12)
    np.testing.assert_allclose(windows.loss, classes.loss, atol=1e-12)


def test_modes_around_a_point_are_those_of_the_sparse_velocity():
    """The Jacobian comes from the dense loss in JAX; here it is compared with differences of the
    sparse pass.
    """
    system = drawn(300, lr_decoder=3.0)
    parameters, h = point(11, 0.3), 1e-5
    modes = saccade.linearise(system, at=parameters)
    direction = modes.eigenvectors[:, 0].real.reshape(2, 11, 11)

    def velocity(step):
        found = system.one_pass(TextParameters(*(np.stack(parameters) + step * direction)))
        return np.stack([3.0 * found.decoder, found.attention])

    slope = (velocity(h) - velocity(-h)) / (2 * h)
    np.testing.assert_allclose(
        slope, (modes.eigenvalues[0] * modes.eigenvectors[:, 0]).real.reshape(2, 11, 11), atol=1e-8
    )


def test_a_record_names_tokens_and_goes_on_from_where_it_ended():
    system = drawn(300)
    keep = ("parameter_decoder", "parameter_attention", "attention_logits")
    whole = saccade.train(system, steps=6, dtype="float64", save=[0, 6], keep=keep)
    half = saccade.train(system, steps=3, dtype="float64", keep=keep)
    rest = saccade.train(
        system, steps=3, dtype="float64", keep=keep, start=system.parameters_of(half.isel(time=-1))
    )
    assert list(whole.token.values) == list("abcdefghijk")
    np.testing.assert_allclose(
        rest.isel(time=-1).parameter_decoder, whole.isel(time=-1).parameter_decoder, atol=1e-15
    )
    assert saccade.find_events(saccade.train(system, steps=6)) is not None


def test_mistakes_are_named():
    with pytest.raises(InputError, match="not the query of any window"):
        saccade.models.PairwiseText(drawn().windows, queries=["z"])
    with pytest.raises(InputError, match="leave out `init`"):
        saccade.flow(drawn().windows, model=saccade.models.Pairwise(init="uniform"))
    with pytest.raises(InputError, match="its `windows"):
        saccade.flow(saccade.corpus("sotu", n_vocab=50))


def test_a_rate_far_too_high_ends_as_diverged():
    lost = saccade.train(drawn(300), steps=50, lr_decoder=1e6)
    assert str(lost.stop_reason.values) == "diverged"
    assert np.isnan(lost.loss.values[-1])


def test_a_prior_on_places_is_added_to_the_score_of_each_token_at_each_place(tmp_path):
    """Loss and both gradients, against attention over places one by one: softmax of z + b, summed
    by token.
    """
    rng = np.random.default_rng(5)
    ids = rng.integers(0, 7, size=90)
    (tmp_path / "train.txt").write_text(" ".join(f"w{i}" for i in ids))
    (tmp_path / "valid.txt").write_text("w1 w2")
    text, prior = saccade.corpus(tmp_path, cache=tmp_path / "cache"), rng.normal(size=5)
    windows = text.windows(5, n_windows=None, prior=prior)
    n = text.n_vocab
    system, at = (
        saccade.models.PairwiseText(windows),
        TextParameters(rng.normal(size=(n, n)), rng.normal(size=(n, n))),
    )
    train = np.asarray(text.train, int)
    starts = range(0, len(train) - 6, 7)

    def loss(parameters):
        total = 0.0
        for start in starts:
            context, query, following = train[start : start + 5], train[start + 5], train[start + 6]
            by_place = jax.nn.softmax(parameters.attention[query, context] + prior[::-1])
            raw = jnp.zeros(n).at[context].add(by_place)
            total += -jax.nn.log_softmax(raw / jnp.linalg.norm(raw) @ parameters.decoder)[following]
        return total / len(starts)

    assert len(starts) == len(windows.query)
    found = system.one_pass(at)
    with jax.enable_x64(True):
        value, gradient = jax.value_and_grad(loss)(jax.tree.map(jnp.asarray, at))
    assert found.loss == pytest.approx(float(value), rel=1e-12)
    np.testing.assert_allclose(found.decoder, -gradient.decoder, atol=1e-14)
    np.testing.assert_allclose(found.attention, -gradient.attention, atol=1e-14)


def test_training_on_windows_tells_of_its_progress_step_by_step():
    heard = []
    saccade.train(drawn(n_windows=40), steps=4, on_progress=heard.append)
    np.testing.assert_allclose(heard, [0.2, 0.4, 0.6, 0.8, 1.0])


# 523 words are three blocks of columns, the last one short, and sixteen at a time leave eleven; 11
# words are not even one of those.
@pytest.mark.parametrize("n_vocab", [11, 523])
@pytest.mark.parametrize("options", VARIANTS)
def test_compiled_sums_are_scipys_to_the_last_bit_and_gains_to_rounding(
    options, n_vocab, monkeypatch
):
    if window_pass.compiled("pairs") is None:
        pytest.skip("the C code is not built")
    by_c = drawn(n_vocab=n_vocab, **options).one_pass(point(n_vocab), "float32")
    monkeypatch.setattr(window_pass, "compiled", lambda name: None)
    by_scipy = drawn(n_vocab=n_vocab, **options).one_pass(point(n_vocab), "float32")
    assert by_c.loss == by_scipy.loss
    np.testing.assert_array_equal(by_c.decoder, by_scipy.decoder)
    assert not np.array_equal(
        by_c.attention, by_scipy.attention
    )  # the compiled code was used: its products are summed in lanes
    np.testing.assert_allclose(
        by_c.attention, by_scipy.attention, atol=5e-6 * np.abs(by_scipy.attention).max()
    )


IDLE = """
import os, time, numpy as np, saccade
from scipy import sparse
from saccade.models.pairwise_text import TextParameters
def spent():
    stats = {task: open(f"/proc/self/task/{task}/stat").read().rpartition(")")[2].split() for task in os.listdir("/proc/self/task")}
    return {task: int(stat[11]) + int(stat[12]) for task, stat in stats.items() if int(task) != os.getpid()}
rng = np.random.default_rng(0)
counts = sparse.csr_array(rng.multinomial(13, np.full(701, 1 / 701), 4001), dtype=float)
query, following = np.zeros(4001, int), rng.integers(0, 701, 4001)  # one query: parts as large as they come
names = tuple(map(str, range(701)))
windows = saccade.data.Windows(counts, query, following, np.full(4001, 1 / 4001), names, "drawn")
system, zero = saccade.models.PairwiseText(windows), TextParameters(*np.zeros((2, 701, 701)))
np.ones((999, 999), "f") @ np.ones(999, "f")  # starts them, if they are not there yet
time.sleep(1)  # for a while they wait for more with all their might
before = spent()
for _ in range(20):
    system.one_pass(zero, "float32")
after = spent()
print(sum(after.get(task, 0) - ticks for task, ticks in before.items()))
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted by Linux")
def test_a_pass_leaves_the_threads_of_numpys_products_alone():
    """Beside the pass's own, they would take turns with them: a step took twice as long, and three
    times the processor time.
    """
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "4")
    done = subprocess.run(
        [sys.executable, "-c", IDLE],
        env=os.environ | threads,
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) <= 2  # hundredths of a second, of threads that were there before
