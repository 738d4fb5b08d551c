"""Shared parts of the tests of the tuner."""

# A policy far from the best one for a load of writes: each flush merges with all of level 1.
POOR_FOR_WRITES = {
    "storage.memtable_size": "64KiB",
    "storage.block_cache": "1MiB",
    "storage.memory_budget": "64MiB",
    "tree.file_size": "256KiB",
    "tree.policy.name": "leveling",
    "tree.policy.size_ratio": "20",
}
TUNED = ("policy.name", "memtable_size", "filters.bits_per_key", "filters.memory", "policy.size_ratio", "policy.runs", "policy.level0_runs")


def tuned_settings(client, database=0):
    """Returns the settings of a database that the tuner may change."""
    return {name: client.config_get(f"databases.{database}.{name}").get(f"databases.{database}.{name}") for name in TUNED}
