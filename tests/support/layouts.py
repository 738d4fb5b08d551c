"""Makes random layouts of a tree: merge policy and its parameters, tiles, partitioning, choice of files, compression. They are
for tests whose property must hold for all layouts.

    deal = layouts(random.Random(SEED))
    with Server(settings={**settings, **next(deal)}) as server:   # in the form of --set
        ...
        server.kill()
        change(server, next(deal))                                # from the next start on
        server.start()
        server.client().execute_command(*switch(next(deal)))      # at once, until the next start
"""

import os
import random

# These values make a difference with a few megabytes, and are within the ranges of engine/docs/policies.md.
POLICIES = {
    "one_leveling": {"size_ratio": (2, 3, 6), "level0_runs": (1, 2, 4)},
    "leveling": {"size_ratio": (2, 4, 10)},
    "tiering": {"size_ratio": (2, 3, 4)},
    "lazy_leveling": {"size_ratio": (2, 3, 4)},
    "klsm": {"size_ratio": (4, 6), "runs": (1, 2), "runs_0": (0, 3)},
    "garnering": {"size_ratio": (2, 3), "scaling_ratio": (0.5, 0.8), "level0_runs": (1, 4)},
    "bigtable": {"k": (2, 4, 8)},
    "constant": {"k": (1, 4, 8)},
    "exploring": {"k": (3, 5)},
    "concurrent": {"k": (4, 12)},
    "min_latency": {"k": (2, 4, 8)},
    "binomial": {"k": (2, 4, 8)},
}
OTHERS = {
    "tree.pages_per_tile": (1, 1, 3, 8, "auto"),
    "tree.partitioning": ("size", "local_range", "global_range"),
    "tree.file_choice": ("least_overlap", "round_robin", "most_tombstones", "oldest"),
    "storage.compression": ("none", "lz4", "zstd"),
    "storage.compression_last_level": ("none", "lz4", "zstd"),
}
POLICY = "tree.policy."


def layouts(choose):
    """Yields layouts without end. All policies occur before one occurs again. `choose`, a random.Random, makes all choices."""
    while True:
        for name in choose.sample(sorted(POLICIES), len(POLICIES)):
            parameters = {POLICY + key: choose.choice(values) for key, values in POLICIES[name].items()}
            yield {POLICY + "name": name, **parameters, **{key: choose.choice(values) for key, values in OTHERS.items()}}


def chosen(what, but=()):
    """Returns one layout for the test `what`, and prints it with its seed: EBBTIDE_SEED or a random one. `but`: keys that the
    test sets itself."""
    seed = int(os.environ.get("EBBTIDE_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
    layout = {key: value for key, value in next(layouts(random.Random(f"{seed}-{what}"))).items() if key not in but}
    print(f"EBBTIDE_SEED={seed}: {text_of(layout)}")
    return layout


def change(server, layout):
    """Sets the layout of a server from its next start on."""
    for key in [key for key in server.settings if key.startswith(POLICY)]:
        del server.settings[key]  # parameters of the previous policy
    server.settings.update(layout)


def switch(layout):
    """Returns the command that gives a running server the layout's policy, until its next start."""
    parameters = [str(part) for key, value in layout.items() if key.startswith(POLICY) and key != POLICY + "name"
                  for part in (key.removeprefix(POLICY), value)]  # fmt: skip
    return ("TREE.POLICY", layout[POLICY + "name"], *parameters)


def text_of(layout):
    return ", ".join(f"{key.removeprefix('tree.')}={value}" for key, value in layout.items())
