"""Tests of the command line of ebbtide-tune: its subcommands, files and flags, and its refusals."""

import subprocess

from support.server import binary

WORKLOAD = ("--entries", "100M", "--entry-size", "200", "--memory", "512MiB")
MIX = ("--mix", "0.2,0.4,0.1,0.3")


def tune(*arguments, status=0):
    done = subprocess.run([str(binary("ebbtide-tune")), *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def test_help_explains_the_subcommands_and_their_units():
    text = tune("--help")
    assert "ebbtide-tune what-if --file workload.yaml" in text and "Costs are page reads" in text
    for command in ("model", "tune", "what-if", "monkey"):
        assert "powers of 1000" in tune(command, "--help")


def test_model_prints_costs_and_levels():
    text = tune("model", *WORKLOAD, *MIX, "--layout", "tiering", "--size-ratio", 4)
    assert text.startswith("tiering, T = 4, buffer 64 MiB") and "write amplification" in text


def test_tune_takes_a_file_and_flags_replace_its_values(tmp_path):
    file = tmp_path / "workload.yaml"
    file.write_text("entries: 100M\nentry_size: 200\nmemory: 512MiB\nmix: {empty_read: 0.2, read: 0.4, range: 0.1, write: 0.3}\n")
    text = tune("tune", "--file", file)
    assert text == tune("tune", *WORKLOAD, *MIX)
    assert "memtable_size:" in text and "bits_per_key:" in text
    other = tune("tune", "--file", file, "--layouts", "tiering", "--rho", 0.5)
    assert "worst" in other and "lazy_leveling" not in other


def test_history_gives_mix_and_rho(tmp_path):
    file = tmp_path / "windows.csv"
    file.write_text("empty,read,range,write\n4000,4000,1000,1000\n1000,1000,4000,4000\n")
    text = tune("tune", *WORKLOAD, "--history", file, "--layouts", "leveling,tiering")
    assert "Expected: 25.0 % empty reads" in text and "Uncertain by rho = 0.193" in text


def test_what_if_replies_to_each_question():
    text = tune("what-if", *WORKLOAD, *MIX, "--change", "memory=1GiB", "--change", "mix=0,0,0,1")
    assert [line.split()[0] for line in text.splitlines() if line.startswith(("now", "memory", "mix"))][:3] == ["now", "memory=1GiB", "mix=0,0,0,1"]


def test_wrong_use_is_explained(tmp_path):
    assert "mix is missing" in tune("tune", *WORKLOAD, status=2)
    assert "entries is missing" in tune("model", *MIX, status=2)
    assert "allowed: leveling" in tune("model", *WORKLOAD, *MIX, "--layout", "levelled", status=2)
    assert "no tuning of the given layouts keeps the limits" in tune("tune", *WORKLOAD, *MIX, "--max-read", 0.1, status=2)
    assert "cannot change" in tune("what-if", *WORKLOAD, *MIX, "--change", "speed=3", status=2)
    assert "No such file" in tune("tune", "--file", tmp_path / "missing.yaml", status=1)


def test_monkey_keeps_bounds():
    free = tune("monkey", *WORKLOAD, *MIX).splitlines()
    columns = dict(zip(free[2].replace("filter bits", "bits").replace("point read", "read").split(), free[3].replace(" MiB", "").split(), strict=True))
    write = float(columns["write"])
    bound = tune("monkey", *WORKLOAD, *MIX, "--max-write", write / 2).splitlines()
    assert float(bound[3].split()[-2]) <= write / 2 * 1.001 and float(bound[3].split()[-1]) >= float(columns["mean"])
    assert "no design keeps the bounds" in tune("monkey", *WORKLOAD, *MIX, "--max-write", 1e-9, status=2)


def test_stack_policies_are_simulated():
    text = tune("model", *WORKLOAD, *MIX, "--policy", "binomial:k=6")
    assert text.startswith("binomial, k = 6, buffer 64 MiB") and "Simulated" in text
    assert "exclude each other" in tune("model", *WORKLOAD, *MIX, "--policy", "binomial", "--layout", "tiering", status=2)
    assert "takes a layout" in tune("what-if", *WORKLOAD, *MIX, "--policy", "binomial", "--change", "memory=1GiB", status=2)
