"""Sizes at which every claim has its verdict of the default size, in a few seconds."""

SMALL: dict[str, dict] = {
    "cycle": {"n_chains": 3, "n_times": 1000},
    "escape": {"widths": (2, 3), "starts": (20, 20), "scales": (3e-3, 3e-4)},
    "who-gains": {
        "t1": 1e4,
        "plain_steps": 2000,
        "lengths": (32, 2048),
        "seeds": 2,
        "depths": (2.25, 4.0),
    },
    "when-it-breaks": {
        "ratios": (0.01, 1.0, 10.0),
        "t1": 1e3,
        "turn_ratios": (1.0, 30.0),
        "limits": (0.8, 2.75),
        "seeds": 1,
    },
    "positional-prior": {"slopes": (0.0, 0.2, 0.75), "ratios": (0.1, 10.0)},
    "scan-then-snap": {"t1": 1e8, "n_times": 120},
    "plain-descent": {"ratios": (1.0, 100.0), "strong_features": (0.55,)},
    "first-force": {"windows": 300, "steps": 20},
    "reparameterisation": {"t1": 100.0},
    "joma": {"depths": (2,), "seeds": 1},
    "markov-contexts": {
        "laws": ("0.6 of 4",),
        "stays": (0.5,),
        "lengths": (20, 40),
        "n_sequences": 5000,
    },
    "saddle": {"laws": ("paper",), "stays": (0.3,), "displacements": (1e-2, 1e-3)},
    "condensation": {
        "laws": ("paper",),
        "stays": (0.3,),
        "seeds": 1,
        "equal_laws": ("0.75 of 4",),
        "equal_stays": (0.8,),
        "equal_seeds": 1,
    },
    "focus": {
        "zipf_stays": (-0.05, 0.5),
        "n_random": 1,
        "random_starts": ("zipf-6, stay -0.05",),
        "laws": ("paper",),
        "stays": (0.3,),
        "seeds": 1,
    },
}
