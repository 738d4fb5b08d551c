"""Tests of the command line of ebbtide-tune: its subcommands, files and flags, and its refusals."""

import json
import signal
import subprocess

import pytest

from support.server import Server, binary

WORKLOAD = ("--entries", "100M", "--entry-size", "200", "--memory", "512MiB")
LAYOUTS = ("leveling", "tiering", "lazy_leveling", "one_leveling", "fluid", "klsm", "garnering")
MIX = ("--workload", "0.2,0.4,0.1,0.3")


def tune(*arguments, status=0):
    done = subprocess.run([str(binary("ebbtide-tune")), *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def test_tune_help_explains_the_subcommands_and_their_units():
    text = tune("--help")
    assert "ebbtide-tune advise --entries" in text and "Costs are page reads" in text
    for command in ("explain", "advise", "yaml", "compare", "what-if", "monkey"):
        text = tune(command, "--help")
        assert "powers of 1000" in text and f"ebbtide-tune {command} " in text


def test_tune_explain_prints_costs_and_levels():
    text = tune("explain", *WORKLOAD, *MIX, "--layout", "tiering", "--size-ratio", 4)
    assert text.startswith("tiering, T = 4, buffer 64 MiB") and "write amplification" in text


def test_tune_advise_reads_a_workload_file_and_flags_replace_values_of_the_file(tmp_path):
    file = tmp_path / "workload.yaml"
    file.write_text("entries: 100M\nentry_size: 200\nmemory: 512MiB\nworkload: {empty_read: 0.2, read: 0.4, range: 0.1, write: 0.3}\n")
    text = tune("advise", "--file", file)
    assert text == tune("advise", *WORKLOAD, *MIX)
    assert "memtable_size:" in text and "bits_per_key:" in text
    other = tune("advise", "--file", file, "--layouts", "tiering", "--rho", 0.5)
    assert "worst" in other and "lazy_leveling" not in other


def test_tune_advise_as_json_has_the_tuning_with_its_cost_and_the_engine_settings():
    arguments = ("--rho", 0.5, "--entries", 10_000_000, "--entry-size", 1024, "--memory-bits-per-entry", 10, "--page-size", 4096, "--format", "json")
    advice = json.loads(tune("advise", "--workload", "0.25,0.25,0.25,0.25", *arguments))
    assert advice["policy"] in LAYOUTS and 2 <= advice["size_ratio"] <= 100
    assert all(1 <= runs < advice["size_ratio"] for runs in advice["runs_per_level"])
    # Buffer and filters have the memory together.
    assert abs(advice["buffer_bytes"] * 8 / 10_000_000 + advice["filter_bits_per_entry"] - 10) < 1e-6
    assert set(advice["cost"]) == {"empty_read", "read", "range", "write", "mean", "worst"} and advice["cost"]["worst"] >= advice["cost"]["mean"]
    assert advice["engine"]["policy"] and advice["engine"]["parameters"]["size_ratio"] == advice["size_ratio"]
    worst = [advice["cost"]["worst"]] + [other["cost"]["worst"] for other in advice["alternatives"]]
    assert len(worst) == len(LAYOUTS) and worst == sorted(worst)
    assert advice == json.loads(tune("advise", "--workload", "w0", *arguments))


def test_tune_advise_with_layouts_advises_only_these_layouts():
    for layout in LAYOUTS:
        advice = json.loads(tune("advise", *WORKLOAD, *MIX, "--layouts", layout, "--format", "json"))
        assert advice["policy"] == layout and advice["alternatives"] == []


def test_tune_explain_as_json_has_a_list_of_levels():
    found = json.loads(tune("explain", *WORKLOAD, *MIX, "--layout", "tiering", "--size-ratio", 4, "--format", "json"))
    assert [level["level"] for level in found["levels"]] == list(range(1, len(found["runs_per_level"]) + 1))
    assert found["runs_per_level"] == [3] * len(found["levels"])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_server_accepts_the_yaml_that_tune_prints(layout, tmp_path):
    file = tmp_path / "tuned.yaml"
    file.write_text(tune("yaml", *WORKLOAD, *MIX, "--rho", 0.5, "--layouts", layout, "--page-size", "16KiB"))
    assert "page_size: 16384B" in file.read_text()
    done = subprocess.run([str(binary()), "--config", str(file), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + file.read_text()


def test_server_starts_with_the_yaml_that_tune_prints(tmp_path):
    file = tmp_path / "tuned.yaml"
    file.write_text(tune("yaml", *WORKLOAD, "--workload", "w7", "--rho", 0.5, "--layouts", "klsm"))
    with Server(config=file) as server:
        client = server.client()
        assert list(client.config_get("tree.policy.name").values()) in (["klsm"], [b"klsm"])
        assert client.set("k", "v") and client.get("k") in ("v", b"v")


def test_tune_compare_judges_nominal_robust_and_given_tunings_by_sampled_workloads():
    text = tune("compare", *WORKLOAD, "--workloads", "w7,w11", "--rhos", "0.5,1", "--samples", 200, "--layouts", "leveling,tiering", "--layout", "tiering")
    assert "Judged by 200 sampled workloads" in text
    assert [line.split()[0] for line in text.splitlines() if line.startswith("w7 ")] == ["w7"] * 4
    found = json.loads(tune("compare", *WORKLOAD, *MIX, "--rhos", 1, "--samples", 200, "--format", "json"))
    (workload,) = found["workloads"]
    assert workload["workload"] == [0.2, 0.4, 0.1, 0.3] and [one["name"] for one in workload["tunings"]] == ["nominal", "rho 1"]
    assert workload["tunings"][0]["mean_delta"] == 0
    everything = json.loads(tune("compare", *WORKLOAD, "--layouts", "leveling", "--rhos", 1, "--samples", 10, "--format", "json"))
    assert [one["name"] for one in everything["workloads"]] == [f"w{i}" for i in range(15)]
    assert "w0 to w14" in tune("compare", *WORKLOAD, "--workloads", "w99", status=2)


def test_tune_device_prints_values_for_other_subcommands_and_removes_its_test_file(tmp_path):
    directory = tmp_path / "disk"
    directory.mkdir()
    file = tmp_path / "device.yaml"
    file.write_text(tune("device", directory, "--size", "4MiB"))
    assert list(directory.iterdir()) == []
    assert {line.split(":")[0] for line in file.read_text().splitlines() if not line.startswith("#")} == {"page_size", "write_asymmetry", "sequential_cost"}
    workload = tmp_path / "workload.yaml"
    workload.write_text("entries: 100M\nentry_size: 200\nmemory: 512MiB\nworkload: w7\n")
    with_device = tune("advise", "--file", file, "--file", workload, "--layouts", "leveling")
    # A flag replaces the value of a file.
    assert with_device != tune("advise", "--file", file, "--file", workload, "--layouts", "leveling", "--write-asymmetry", 1000)
    assert json.loads(tune("device", directory, "--size", "4MiB", "--format", "json"))["page_size"] >= 4096
    assert "bytes free; the test needs" in tune("device", directory, "--size", "1000TiB", status=1)
    assert "allowed: 1MiB or more" in tune("device", directory, "--size", "1KiB", status=2)
    assert "missing" in tune("device", tmp_path / "missing", status=1)
    assert "ebbtide-tune device " in tune("device", "--help")


def test_interrupted_tune_device_removes_its_test_file(tmp_path):
    process = subprocess.Popen([str(binary("ebbtide-tune")), "device", str(tmp_path), "--size", "256MiB"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        while process.poll() is None and not list(tmp_path.iterdir()):
            pass
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1 and b"the measurement was stopped; the test file is removed" in error
    assert list(tmp_path.iterdir()) == []


def test_tune_advise_computes_mix_and_rho_from_a_history_file(tmp_path):
    file = tmp_path / "windows.csv"
    file.write_text("empty,read,range,write\n4000,4000,1000,1000\n1000,1000,4000,4000\n")
    text = tune("advise", *WORKLOAD, "--history", file, "--layouts", "leveling,tiering")
    assert "Expected: 25.0 % empty reads" in text and "Uncertainty: rho = 0.193" in text


def test_tune_what_if_prints_one_row_per_change():
    text = tune("what-if", *WORKLOAD, *MIX, "--change", "memory=1GiB", "--change", "workload=0,0,0,1")
    assert [line.split()[0] for line in text.splitlines() if line.startswith(("now", "memory", "workload"))][:3] == ["now", "memory=1GiB", "workload=0,0,0,1"]


def test_tune_with_wrong_arguments_prints_the_reason(tmp_path):
    assert "workload is missing" in tune("advise", *WORKLOAD, status=2)
    assert "allowed: four shares" in tune("advise", *WORKLOAD, "--workload", "w15", status=2)
    assert "cannot be given together" in tune("advise", *WORKLOAD, *MIX, "--memory-bits-per-entry", 10, status=2)
    assert "allowed: a number above 0" in tune("advise", *WORKLOAD[:4], *MIX, "--memory-bits-per-entry", 0, status=2)
    assert "two whole numbers from 2 to 1024" in tune("advise", *WORKLOAD, *MIX, "--size-ratios", "2,1025", status=2)
    assert "table,json" in tune("advise", *WORKLOAD, *MIX, "--format", "xml", status=2).replace(" ", "").replace("json,table", "table,json")
    assert "entries is missing" in tune("explain", *MIX, status=2)
    assert "allowed: leveling" in tune("explain", *WORKLOAD, *MIX, "--layout", "levelled", status=2)
    assert "the engine's pages have 1KiB to 64KiB" in tune("yaml", *WORKLOAD, *MIX, "--page-size", 512, status=2)
    assert "no tuning of the given layouts keeps the limits" in tune("advise", *WORKLOAD, *MIX, "--max-read", 0.1, status=2)
    assert "cannot change" in tune("what-if", *WORKLOAD, *MIX, "--change", "speed=3", status=2)
    assert "No such file" in tune("advise", "--file", tmp_path / "missing.yaml", status=1)


def test_tune_monkey_keeps_the_given_bounds_of_costs():
    free = tune("monkey", *WORKLOAD, *MIX).splitlines()
    columns = dict(zip(free[2].replace("filter bits", "bits").replace("point read", "read").split(), free[3].replace(" MiB", "").split(), strict=True))
    write = float(columns["write"])
    bound = tune("monkey", *WORKLOAD, *MIX, "--max-write", write / 2).splitlines()
    assert float(bound[3].split()[-2]) <= write / 2 * 1.001 and float(bound[3].split()[-1]) >= float(columns["mean"])
    assert "no design keeps the bounds" in tune("monkey", *WORKLOAD, *MIX, "--max-write", 1e-9, status=2)


def test_tune_monkey_divides_the_memory_by_algorithm_5_of_the_paper():
    def design(*arguments):
        lines = tune("monkey", *WORKLOAD, *MIX, *arguments).splitlines()
        policy, ratio, _, buffer, _, bits, *costs = lines[lines.index("With a whole T, and the memory divided by Algorithm 5:") + 2].split()
        return {"policy": policy, "T": float(ratio), "write": float(costs[-2]), "mean": float(costs[-1]), "memory": float(buffer) + float(bits) * 100e6 / 8 / 2**20}

    free = design()
    assert free["T"] == int(free["T"]) and free["memory"] == pytest.approx(512, rel=0.02)
    bound = design("--max-write", free["write"] / 2)
    assert bound["write"] <= free["write"] / 2 * 1.001 and bound["mean"] >= free["mean"]
    ten = design("--size-ratios", "10,10", "--layouts", "leveling")
    assert (ten["policy"], ten["T"]) == ("leveling", 10) and ten["mean"] >= free["mean"]
    assert "neither leveling nor tiering" in tune("monkey", *WORKLOAD, *MIX, "--layouts", "klsm", status=2)


def test_tune_explain_simulates_stack_based_policies():
    text = tune("explain", *WORKLOAD, *MIX, "--policy", "binomial:k=6")
    assert text.startswith("binomial, k = 6, buffer 64 MiB") and "Simulated" in text
    assert "cannot be given together" in tune("explain", *WORKLOAD, *MIX, "--policy", "binomial", "--layout", "tiering", status=2)
    assert "takes a layout" in tune("what-if", *WORKLOAD, *MIX, "--policy", "binomial", "--change", "memory=1GiB", status=2)
