"""Systems of one's own: every engine follows them, and a dense pairwise model written by hand
agrees with the built-in one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import saccade
from saccade.engines import flat_flow
from saccade.models.embedded import Weights


class Pair(NamedTuple):
    x: Any
    y: Any


class Saddle(saccade.System):
    """loss = (s + x y - 1)^2 / 2 in each of three directions, s noise of a batch: the simplest
    saddle, at x = y = 0.
    """

    def __init__(self, rate: float = 1.0) -> None:
        self.rate = rate
        self.size = np.array([1.0, 2.0, 3.0])

    def start(self, rng):
        return Pair(1e-3 * rng.standard_normal(3), 1e-3 * rng.standard_normal(3))

    def loss(self, parameters):
        return self.batch_loss(parameters, 0.0)

    def batch(self, rng):
        return rng.normal(0, 0.1, 3)

    def batch_loss(self, parameters, batch):
        return jnp.sum(self.size * (batch + parameters.x * parameters.y - 1) ** 2) / 2

    def rates(self):
        return {"y": self.rate}

    def observe(self, parameters):
        return {
            "product": saccade.Observable(
                ("direction",), parameters.x * parameters.y, "1", "x times y"
            )
        }

    def coordinates(self):
        return {"direction": ["slow", "middle", "fast"]}


class DenseParameters(NamedTuple):
    decoder: Any
    attention: Any


class DensePairwise(saccade.System):
    """The pairwise model from its definition: dense tables, derivatives by JAX."""

    def __init__(self, task: saccade.SequenceClasses, lr_attention: float) -> None:
        self.task, self.lr_attention = task, lr_attention

    def start(self, rng):
        n = self.task.n_vocab
        return DenseParameters(np.zeros((n, n)), np.zeros((n, n)))

    def loss(self, parameters):
        task = self.task
        weights = task.token_prob * jnp.exp(parameters.attention[task.query])
        feature = weights / jnp.linalg.norm(weights, axis=1, keepdims=True)
        log_prob = jax.nn.log_softmax(feature @ parameters.decoder, axis=1)
        return -jnp.sum(task.class_weight * log_prob[np.arange(task.n_classes), task.next_token])

    def rates(self):
        return {"attention": self.lr_attention}

    def observe(self, parameters):
        weights = self.task.token_prob * jnp.exp(parameters.attention[self.task.query])
        return {
            "attention": saccade.Observable(
                ("class", "token"),
                weights / weights.sum(axis=1, keepdims=True),
                "1",
                "of each class",
            )
        }


def test_a_hand_written_dense_model_agrees_with_the_built_in_one():
    prob = np.array(
        [[2, 1, 3, 1, 0, 0, 0], [1, 2, 0, 0, 4, 1, 1], [1, 1, 0, 0, 0, 0, 5]], dtype=float
    )
    task = saccade.SequenceClasses(prob, query=[7, 7, 8], class_weight=[1, 2, 3], normalise=True)
    tight = {"t1": 300.0, "n_times": 20, "rtol": 1e-11, "atol": 1e-13}
    mine = saccade.flow(DensePairwise(task, 0.7), **tight).isel(seed=0)
    theirs = saccade.flow(
        saccade.models.Pairwise(task, lr_attention=0.7),
        keep=("attention", "decoder", "attention_logits"),
        **tight,
    )
    np.testing.assert_allclose(mine.attention.values, theirs.attention.values, atol=1e-8)
    np.testing.assert_allclose(mine.loss.values, theirs.loss.values, atol=1e-8)
    end = theirs.isel(time=-1).decoder.values
    np.testing.assert_allclose(
        mine.parameter_decoder.values[-1][: task.token_prob.shape[1]][:7], end[:7], atol=1e-8
    )


def test_a_flow_of_ones_own_system_conserves_what_its_rates_say():
    """d/dt (rate x^2 - y^2) = 0 for a loss of x y alone, with x at rate 1."""
    record = saccade.flow(Saddle(rate=3.0), t1=50, n_times=40, seeds=[4, 9], rtol=1e-10, atol=1e-12)
    x, y = record.parameter_x.values, record.parameter_y.values
    conserved = 3 * x**2 - y**2
    np.testing.assert_allclose(
        conserved, np.broadcast_to(conserved[:, :1], conserved.shape), atol=1e-8
    )
    assert record["product"].dims == ("seed", "time", "direction")
    assert record["product"].attrs["definition"] == "x times y"
    assert record.direction.values.tolist() == ["slow", "middle", "fast"]
    assert record.stop_reason.values.tolist() == ["finished", "finished"]
    assert record.attrs["assumptions"] == "[]"
    assert record.attrs["dynamics"] == "B: population gradient flow, Saddle"


def test_training_on_batches_follows_plain_arithmetic():
    record = saccade.train(Saddle(rate=0.5), steps=3, seeds=[6], save=[0, 1, 2, 3])
    assert record.attrs["dynamics"] == "A: mini-batch training, Saddle"
    x, y, size = (
        record.parameter_x.values[0],
        record.parameter_y.values[0],
        np.array([1.0, 2.0, 3.0]),
    )
    key = [6, saccade.engines.randomness.Purpose.DATA]
    for step in range(3):
        noise = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, step])).normal(
            0, 0.1, 3
        )
        pull = size * (noise + x[step] * y[step] - 1)
        np.testing.assert_allclose(x[step + 1], x[step] - pull * y[step], rtol=1e-12)
        np.testing.assert_allclose(y[step + 1], y[step] - 0.5 * pull * x[step], rtol=1e-12)


def test_descent_at_a_small_rate_is_the_flow():
    class Slow(Saddle):
        batch = saccade.System.batch

        def rates(self):
            return {"x": 1e-3, "y": 1e-3}

    trained = saccade.train(Slow(), steps=10_000, save=[10_000]).isel(seed=0, time=0)
    assert trained.attrs["dynamics"] == "descent on the population loss, Slow"
    flowed = saccade.flow(Saddle(), t1=10.0, n_times=2).isel(seed=0, time=-1)
    np.testing.assert_allclose(trained["product"].values, flowed["product"].values, atol=0.01)


def test_a_run_that_diverges_says_so():
    class Wild(Saddle):
        def rates(self):
            return {"x": 1e4, "y": 1e4}

    record = saccade.train(Wild(), steps=60, seeds=2)
    assert set(record.stop_reason.values) == {"diverged"}
    assert np.isnan(record["product"].values[:, -1]).all()


def test_the_saddle_has_the_growth_rates_of_its_linear_flow():
    system = Saddle(rate=4.0)
    first = saccade.flow(system, t1=1e-2, n_times=2).isel(time=-1)
    found = saccade.critical_point(system, near=first)
    assert found.converged
    np.testing.assert_allclose(found.state.x, 0, atol=1e-12)
    modes = saccade.linearise(system, at=found)
    np.testing.assert_allclose(
        modes.growth_rates, [6, 4, 2]
    )  # size times the root of the product of both rates
    np.testing.assert_allclose(modes.shares["x"] + modes.shares["y"], 1)
    at_record = saccade.linearise(system, at=first)
    np.testing.assert_allclose(at_record.growth_rates, [6, 4, 2], rtol=1e-4)


def test_built_in_systems_give_their_parameters_back():
    chain, task = saccade.MarkovChain.zipf(5), saccade.SequenceClasses.syn_small()
    for system, keep in [
        (saccade.models.Embedded(chain, d_model=3, d_key=2), None),
        (saccade.models.RankOneEmbedded(chain), None),
        (
            saccade.models.SaturatedEmbedded(chain, saccade.models.Embedded(d_model=3, d_key=2)),
            None,
        ),
        (saccade.models.ReducedPairwise(task), None),
        (saccade.models.Pairwise(task), ("decoder", "attention_logits")),
        (saccade.models.Pairwise(task, init="uniform"), ("decoder", "attention_logits")),
    ]:
        end = saccade.flow(system, t1=20.0, n_times=3, keep=keep).isel(time=-1)
        point = system.parameters_of(end)
        with jax.enable_x64(True):
            assert float(system.loss(point)) == pytest.approx(end.loss.item(), rel=1e-12)


ENGINES = {
    "flow": lambda system, point: saccade.flow(system, t1=2.0, n_times=3),
    "train": lambda system, point: saccade.train(system, steps=3),
    "linearise": lambda system, point: saccade.linearise(system, at=point),
    "critical_point": lambda system, point: saccade.critical_point(
        system, near=point, most_steps=2
    ),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_system_can_be_called_before_and_after_an_engine_in_whatever_precision_jax_is_set_to(
    engine,
):
    """JAX must not keep the system's tables in the precision of the engine's compiled code."""
    system = DensePairwise(
        saccade.SequenceClasses([[0.5, 0.35, 0.15, 0, 0], [0.5, 0, 0, 0.3, 0.2]]), 0.7
    )
    rng = np.random.default_rng(5)
    point = DenseParameters(*(rng.standard_normal(part.shape) for part in system.start(rng)))
    before = float(system.loss(point))
    ENGINES[engine](system, point)
    assert [float(system.loss(point)), float(jax.jit(system.loss)(point))] == pytest.approx(
        [before] * 2, rel=1e-6
    )
    slope, velocity = jax.grad(system.loss)(point), system.velocity(point)
    np.testing.assert_allclose(
        velocity.attention, -0.7 * np.asarray(slope.attention), rtol=1e-5, atol=1e-8
    )
    with jax.enable_x64(True):
        assert float(system.loss(point)) == pytest.approx(before, rel=1e-6)
        exact = jax.grad(system.loss)(point)
    np.testing.assert_allclose(slope.decoder, exact.decoder, atol=1e-6)
    ENGINES[engine](system, point)


def test_short_forms_are_the_systems_they_stand_for():
    chain, task = saccade.MarkovChain.zipf(4), saccade.SequenceClasses.syn_small()
    short = saccade.flow(
        task, t1=10.0, n_times=3, lr_attention=2.0, model=saccade.models.Pairwise(residual=True)
    )
    long = saccade.flow(
        saccade.models.Pairwise(task, residual=True, lr_attention=2.0), t1=10.0, n_times=3
    )
    assert short.identical(long.assign_attrs(wall_time_s=short.attrs["wall_time_s"]))
    short = saccade.train(chain, steps=3, sequences=20, batch=5, lr_decoder=0.1)
    long = saccade.train(
        saccade.models.Embedded(chain, lr_decoder=0.1), steps=3, sequences=20, batch=5
    )
    assert short.identical(long.assign_attrs(wall_time_s=short.attrs["wall_time_s"]))


def test_another_task_of_the_same_shape_does_not_compile_again():
    from saccade.engines.flat_flow import bending, moving

    for stay in (0.3, 0.4):
        saccade.flow(
            saccade.MarkovChain.zipf(3, stay),
            t1=1.0,
            n_times=2,
            model=saccade.models.Embedded(d_model=5, d_key=2),
        )
        velocity, loss, *_ = saccade.models.Embedded(saccade.MarkovChain.zipf(3)).equations()
        sizes = [len(moving(velocity, loss)), len(bending(velocity))]
        first = sizes if stay == 0.3 else first  # noqa: F821  # of the pass before
    assert sizes == first


def test_another_vocabulary_does_not_compile_the_reduced_flow_again():
    from saccade.engines.flat_flow import moving

    sizes = []
    for n_vocab in (11, 13):
        task = saccade.SequenceClasses(
            np.array([[2.0, 1, 0], [2, 0, 1]]), n_vocab=n_vocab, normalise=True
        )
        system = saccade.models.ReducedPairwise(task)
        path = saccade.flow(system, t1=1.0, n_times=2)
        assert path.loss.values[0] == pytest.approx(np.log(n_vocab))
        sizes.append(len(moving(*system.equations()[:2])))
    assert sizes[0] == sizes[1]


def test_a_system_is_compiled_again_only_when_an_attribute_is_replaced():
    system = Saddle()
    before = system.equations()
    assert system.equations() is before
    system.size = np.array([5.0, 5.0, 5.0])
    assert system.equations() is not before
    start = Pair(np.full(3, 0.5), np.full(3, 0.5))
    assert saccade.flow(system, t1=1.0, n_times=2, start=start).loss.values[0, 0] == pytest.approx(
        3 * 5 * 0.75**2 / 2
    )


def test_names_of_tokens_and_classes_are_coordinates(tmp_path):
    path = tmp_path / "pets.csv"
    path.write_text(
        "class,query,the,cat,dog\nmeow,says,0.5,0.5,0\nwoof,says,0.4,0,0.6\n", encoding="utf-8"
    )
    task = saccade.SequenceClasses.from_csv(path)
    for record in (
        saccade.flow(task, t1=5.0, n_times=2),
        saccade.reduced_flow(task, t1=5.0, n_times=2),
        saccade.train(task, steps=2, keep=("attention", "attention_logits", "decoder")).isel(
            seed=0
        ),
    ):
        last = record.isel(time=-1)
        assert last.attention.sel({"class": "meow", "token": "cat"}) > last.attention.sel(
            {"class": "meow", "token": "dog"}
        )
        assert last.attention_logits.sel(query="says", token="dog").size == 1
    chain = saccade.MarkovChain.from_text("the cat the dog the cat the end the cat", n_vocab=3)
    for record in (
        saccade.flow(chain, t1=5.0, n_times=2),
        saccade.reduced_flow(chain, t1=5.0, n_times=2),
    ):
        assert record.attention.sel(query="the", token="cat").notnull().all()
        assert record.transition.sel(token="cat", next_token="the") > 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: saccade.flow(Saddle(), keep=["produkt"]), "Did you mean 'product'"),
        (lambda: saccade.flow(Saddle(), lr_decoder=2.0), "own `rates"),
        (lambda: saccade.flow(Saddle(), model=saccade.models.Pairwise()), "already"),
        (lambda: saccade.flow(Saddle(), seed=1, seeds=2), "one of them"),
        (lambda: saccade.flow(Saddle(), start=Pair(np.ones(2), np.ones(3))), "start"),
        (lambda: saccade.flow(Saddle(), start=Pair(np.full(3, np.nan), np.ones(3))), "finite"),
        (lambda: saccade.flow(saccade.models.Pairwise()), "without a task"),
        (
            lambda: saccade.train(Saddle(), context=3),
            "`context` is not a setting of training Saddle",
        ),
        (lambda: saccade.train(Saddle(), lr_decoder=2.0), "Saddle has its own `rates"),
        (lambda: saccade.train(Saddle), "make one of the class first, Saddle"),
        (
            lambda: saccade.train(saccade.models.RankOneEmbedded(saccade.MarkovChain.zipf(3))),
            "needs `batch`",
        ),
        (
            lambda: saccade.critical_point(Saddle(), near=saccade.flow(Saddle(), t1=1, n_times=2)),
            "isel\\(time=-1",
        ),
        (
            lambda: saccade.critical_point(
                Saddle(), near=saccade.flow(Saddle(), t1=1, n_times=2, keep=[])
            ),
            "parameter_x",
        ),
        (lambda: saccade.linearise(Saddle(), at=Weights(1, 2, 3, 4)), "`at`"),
    ],
)
def test_mistakes_are_named(call, words):
    with pytest.raises(saccade.InputError, match=words):
        call()


TAKEN = ("time", "seed", "rate", "loss", "stop_reason", "stop_time", "parameter_x")


@pytest.mark.parametrize(
    ("method", "result", "words"),
    [
        ("observe", {"product": np.ones(3)}, "Observable"),
        ("observe", {"product": saccade.Observable(("time",), np.ones(3))}, "other than time"),
        ("observe", {"product": saccade.Observable(("a", "b"), np.ones(3))}, "name for each axis"),
        ("observe", {"thing": saccade.Observable(("a",), np.ones(3), "1")}, "definition"),
        ("rates", {"z": 1.0}, "block of"),
        ("rates", {"x": -1.0}, "rates"),
        ("loss", np.ones(3), r"one number; it gives \(3,\)"),
        ("start", Pair(np.zeros(3, int), np.ones(3)), "`x` holds int"),
        ("start", Pair("three", np.ones(3)), "`x` holds <U5"),
        ("start", Pair(np.ones(3), np.full(3, np.nan)), "`y` must be finite"),
        ("start", Pair(np.ones(2), np.ones(3)), "`observe` of Broken fails for the parameters"),
        ("start", {}, "no parameters"),
        ("observe", None, "`observe` must give {name: Observable"),
        *(
            ("observe", {name: saccade.Observable((), 1.0, "1", "x")}, f"{name}.*has one already")
            for name in TAKEN
        ),
        *(
            ("data", {name: saccade.Observable((), 1.0, "1", "x")}, f"{name}.*has one already")
            for name in (*TAKEN, "product")
        ),
        *(("coordinates", {name: 1.0}, f"{name}.*has one already") for name in (*TAKEN, "product")),
        ("data", {"table": np.ones(3)}, "`data` must give a `Observable"),
        ("coordinates", {"direction": ["up", "down"]}, "'direction' needs 3 names"),
        ("coordinates", ["up"], "{axis: names}"),
    ],
)
def test_mistakes_in_a_system_are_named_before_it_is_followed(method, result, words, monkeypatch):
    monkeypatch.setattr("scipy.integrate.solve_ivp", None)
    system = type("Broken", (Saddle,), {method: lambda self, *parameters: result})()
    with pytest.raises(saccade.InputError, match=words):
        saccade.flow(system, t1=1.0, n_times=2)


def test_a_loss_that_asks_for_a_missing_block_is_a_sentence():
    class Forgetful(saccade.System):
        def start(self, rng):
            return {"x": np.ones(3)}

        def loss(self, parameters):
            return jnp.sum(parameters["z"])

    with pytest.raises(
        saccade.InputError,
        match="`loss` of Forgetful fails for the parameters that `start` gives: KeyError: 'z'",
    ):
        saccade.flow(Forgetful(), t1=1.0, n_times=2)


def test_the_loss_has_the_unit_that_the_system_says_and_none_of_its_own():
    class InNats(Saddle):
        loss_unit = "nats"

    units = [
        run(system).loss.attrs["units"]
        for system in (
            Saddle(),
            InNats(),
            saccade.models.Pairwise(saccade.SequenceClasses.syn_small()),
        )
        for run in (
            lambda one: saccade.flow(one, t1=1.0, n_times=2),
            lambda one: saccade.train(one, steps=2),
        )
    ]
    assert units == ["", "", "nats", "nats", "nats", "nats"]
    sequences = saccade.data.LabelledSequences.two_clue()
    kinds = [
        saccade.models.AttentionClassifier(sequences, loss_kind=kind).loss_unit
        for kind in ("logistic", "exponential")
    ]
    assert kinds == ["nats", ""]


def test_a_record_that_lacks_some_parameters_names_all_that_must_be_kept():
    task = saccade.SequenceClasses.syn_small()
    record = saccade.flow(task, t1=1.0, n_times=2).isel(time=-1)
    assert (
        "attention_logits" in record
    )  # a user who then kept the decoder alone would have lost these
    with pytest.raises(
        saccade.InputError,
        match=r"does not contain decoder: make it with keep=\['decoder', 'attention_logits'\]",
    ):
        saccade.linearise(task, at=record)


def test_mistakes_in_batches_are_named():
    class Ragged(Saddle):
        def batch(self, rng):
            return rng.normal(0, 0.1, rng.choice([1, 3]))

    class Half(Saddle):
        batch_loss = saccade.System.batch_loss

        def loss(self, parameters):
            return jnp.sum(parameters.x)

    with pytest.raises(saccade.InputError, match="same shapes at every step"):
        saccade.train(Ragged(), steps=20)
    with pytest.raises(saccade.InputError, match="it defines no `batch_loss`"):
        saccade.train(Half(), steps=2)


@pytest.mark.parametrize("reach", [-1.0, 1.5])
def test_a_loss_that_is_not_a_number_ends_a_flow(reach):
    """sqrt(reach - x^2) with x growing: no number from the start, or from somewhere on."""

    class Dome(saccade.System):
        def start(self, rng):
            return {"x": np.array(1.0)}

        def loss(self, parameters):
            return jnp.sqrt(reach - parameters["x"] ** 2)

        def velocity(self, parameters):
            return {"x": parameters["x"]}

    record = saccade.flow(Dome(), t1=1.0, n_times=50).isel(seed=0)
    assert record.stop_reason == "diverged"
    assert record.stop_time <= np.log(max(reach, 1.0)) / 2
    assert np.isnan(record.loss.values[-1])


@pytest.mark.parametrize("method", ["auto", "DOP853"])
def test_a_flow_that_reaches_infinity_stops_there_and_keeps_its_path(method):
    """x' = 4 x^3 from 1: x = (1 - 8t)^(-1/2), infinite at t = 1/8."""

    class Quartic(saccade.System):
        def start(self, rng):
            return np.ones(2)

        def loss(self, x):
            return -jnp.sum(x**4)

    record = saccade.flow(Quartic(), t1=10.0, seed=0, method=method)
    assert record.stop_reason == "solver failed"
    assert float(record.stop_time) == pytest.approx(1 / 8, rel=1e-5)
    before = record.time.values[record.time.values < 0.124]
    kept = record.loss.values[: len(before)]
    np.testing.assert_allclose(kept, -2 * (1 - 8 * before) ** -2, rtol=1e-4)
    assert np.isnan(record.loss.values[record.time.values > 1 / 8]).all()


@pytest.mark.parametrize(
    "wrong",
    [lambda pair: np.exp(pair.x).sum(), lambda pair: float(pair.x[0]), lambda pair: max(pair.x)],
)
def test_a_loss_that_jax_cannot_trace_is_said_in_a_sentence(wrong):
    system = type("Broken", (Saddle,), {"loss": lambda self, pair: wrong(pair)})()
    for engine in (saccade.flow, saccade.train):
        with pytest.raises(saccade.InputError, match="must be written in"):
            engine(system)


def test_the_loss_of_a_batch_that_jax_cannot_trace_is_said_in_a_sentence():
    table = np.arange(3.0)
    wrong = {
        "loss": lambda self, pair: jnp.sum(pair.x**2),
        "batch": lambda self, rng: rng.integers(3),
    }
    wrong["batch_loss"] = lambda self, pair, batch: table[batch] * pair.x.sum()
    with pytest.raises(saccade.InputError, match="`batch_loss` of Broken must be written in"):
        saccade.train(type("Broken", (Saddle,), wrong)(), steps=2)
    wrong["batch_loss"] = lambda self, pair, batch: batch * pair.x
    with pytest.raises(saccade.InputError, match="`batch_loss` of Broken must give one number"):
        saccade.train(type("Broken", (Saddle,), wrong)(), steps=2)


def test_only_classes_and_chains_have_a_reduced_flow():
    with pytest.raises(
        saccade.InputError, match=r"SequenceClasses or a MarkovChain.*`flow` follows any System"
    ):
        saccade.reduced_flow(Saddle())


def test_a_variant_of_a_built_in_model_keeps_its_assumptions():
    class Variant(saccade.models.Pairwise):
        pass

    task = saccade.SequenceClasses.syn_small()
    said = [
        saccade.flow(kind(task), t1=1.0, n_times=2).attrs["assumptions"]
        for kind in (saccade.models.Pairwise, Variant)
    ]
    assert said[0] == said[1] != "[]"


def test_signatures_are_real():
    import inspect

    for engine in (
        saccade.flow,
        saccade.train,
        saccade.reduced_flow,
        saccade.linearise,
        saccade.critical_point,
    ):
        parameters = inspect.signature(engine).parameters
        assert all(one.kind is not one.VAR_KEYWORD for one in parameters.values())


@pytest.mark.parametrize(
    "name",
    [
        "flow",
        "train",
        "models.Pairwise",
        "models.Embedded",
        "models.ReducedPairwise",
        "models.RankOneEmbedded",
        "lab.Film",
    ],
)
def test_help_explains_every_argument_in_a_row_of_its_own(name):
    import importlib
    import inspect
    import re

    room, _, last = f"saccade.{name}".rpartition(".")
    explained = getattr(importlib.import_module(room), last)
    rows = [
        line for line in (inspect.getdoc(explained) or "").splitlines() if line.startswith("| `")
    ]
    told = {word for row in rows for word in re.findall(r"`(\w+)`", row.split(" | ")[0])}
    assert set(inspect.signature(explained).parameters) <= told
    assert all(row.rstrip(" |").split(" | ")[-1].strip() for row in rows)


@pytest.mark.parametrize("method", ["LSODA", "DOP853", "BDF"])
def test_a_slope_that_is_not_a_number_at_the_start_is_a_sentence_whatever_the_solver(method):
    class Steep(saccade.System):
        def start(self, rng):
            return jnp.zeros(3)

        def loss(self, x):
            return jnp.sum(jnp.sqrt(x - 1))

    with pytest.raises(saccade.InputError, match="the velocity at the start is not a number"):
        saccade.flow(Steep(), t1=1.0, method=method)


def test_of_many_shapes_only_the_last_used_are_kept_compiled(monkeypatch):
    monkeypatch.setattr(flat_flow, "_MOST_KEPT", 3)
    doubled = flat_flow.Compiled(lambda x: 2 * x)
    for size in (2, 3, 5, 2, 7, 2):
        np.testing.assert_array_equal(doubled(np.ones(size, np.float32)), 2 * np.ones(size))
    assert len(doubled) == 3
    assert [key[1][0][0] for key in doubled._executables] == [(5,), (7,), (2,)]
