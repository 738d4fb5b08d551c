"""Tests that DBSIZE is exact up to a million entries, and within two percent beyond, even if runs overlap."""


def fill(client, first, last, step=1, size=8):
    with client.pipeline(transaction=False) as pipe:
        for start in range(first, last, 2000 * step):
            pipe.mset({f"key:{i:08d}": "x" * size for i in range(start, min(start + 2000 * step, last), step)})
        pipe.execute()


def test_dbsize_of_up_to_a_million_entries_is_exact(fresh):
    fresh.start()
    client = fresh.client()
    fill(client, 0, 30_000)
    client.execute_command("TREE.FLUSH")
    fill(client, 10_000, 20_000)  # this overwrites a part
    client.delete(*[f"key:{i:08d}" for i in range(0, 30_000, 3)])
    client.execute_command("DELRANGE", "key:00025000", "key:00026000")
    assert client.dbsize() == sum(1 for i in range(30_000) if i % 3 and not 25_000 <= i < 26_000)


def test_dbsize_beyond_a_million_entries_is_within_two_percent(fresh):
    fresh.start()
    client = fresh.client()
    keys = 1_200_000
    fill(client, 0, keys)
    client.execute_command("TREE.COMPACT")
    fill(client, 0, keys // 2, step=4)  # these overwrites are in other runs and in the memtable
    client.execute_command("TREE.FLUSH")
    fill(client, keys, keys + 60_000)  # these are beyond the end of the largest run
    deleted = range(200_000, 800_000, 5)
    for start in range(0, len(deleted), 5000):
        client.delete(*[f"key:{i:08d}" for i in deleted[start : start + 5000]])
    client.execute_command("DELPREFIX", "key:009")  # keys 900,000 to 999,999
    there = keys + 60_000 - len(deleted) - 100_000
    guess = client.dbsize()
    assert abs(guess - there) < 0.02 * there, (guess, there)


def test_dbsize_is_exact_if_nearly_all_of_a_million_entries_are_elements_of_collections(fresh):
    fresh.start()
    client = fresh.client()
    with client.pipeline(transaction=False) as pipe:
        for start in range(0, 1_300_000, 1000):
            pipe.sadd("set", *[f"member:{i:08d}" for i in range(start, start + 1000)])
            if start % 100_000 == 0:
                pipe.execute()
        pipe.execute()
    fill(client, 0, 2000)
    client.mset({f"z{i}": "after the set" for i in range(300)})
    client.execute_command("TREE.FLUSH")
    client.delete(*[f"key:{i:08d}" for i in range(0, 2000, 2)])
    assert client.dbsize() == 1 + 1000 + 300
