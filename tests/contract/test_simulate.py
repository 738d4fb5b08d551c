"""Tests of the command line of ebbtide-simulate: its flags, a configuration, tables and plots, and its refusals."""

import csv
import io
import subprocess

from support.server import ROOT, binary

HEADER = ["policy", "flushes", "write_amp", "avg_runs", "max_runs", "space_amp", "transient_space_amp"]


def simulate(*arguments, status=0):
    done = subprocess.run([str(binary("ebbtide-simulate")), *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def rows_of(text):
    reader = csv.DictReader(io.StringIO(text))
    assert reader.fieldnames == HEADER
    return list(reader)


def test_simulate_prints_one_csv_row_per_requested_number_of_flushes():
    rows = rows_of(simulate("--policy", "binomial", "--k", 6, "--flushes", 20000, "--at", "1000,3000,5000", "--format", "csv"))
    assert [(row["policy"], row["flushes"]) for row in rows] == [("binomial", "1000"), ("binomial", "3000"), ("binomial", "5000")]
    for row in rows:
        assert 1 <= float(row["avg_runs"]) <= int(row["max_runs"]) <= 6
        assert 1 < float(row["write_amp"]) < 20
        assert float(row["space_amp"]) == 1 and 1 < float(row["transient_space_amp"]) <= 2


def test_simulate_compares_policies_and_a_configuration_file_in_one_table():
    config = ROOT / "config" / "ebbtide.yaml"
    common = ("--config", config, "--policy", "tiered:T=3,minlatency:k=5", "--flushes", 500, "--at", 500, "--updates", 0.3, "--deletes", 0.1)
    rows = rows_of(simulate(*common, "--sizes", "random", "--format", "csv"))
    assert [row["policy"] for row in rows] == ["one_leveling", "tiering", "min_latency"]
    assert all(float(row["space_amp"]) > 1 for row in rows)
    again = simulate(*common, "--sizes", "random", "--format", "csv")
    assert rows_of(again) == rows
    assert rows_of(simulate(*common, "--format", "csv", "--as-engine")) != rows
    table = simulate(*common)
    assert "write amp" in table and len(table.splitlines()) == 4


def test_simulate_draws_one_line_per_policy_as_text_and_svg():
    common = ("--policy", "bigtable,constant", "--k", 4, "--flushes", 300, "--metric", "avg_runs")
    plot = simulate(*common, "--format", "plot")
    assert plot.startswith("sorted runs, average over flushes") and "  a  bigtable\n  b  constant\n" in plot
    svg = simulate(*common, "--format", "svg", "--log")
    assert svg.startswith("<svg ") and svg.count("<polyline") == 2


def test_simulate_refuses_wrong_arguments_and_names_them(tmp_path):
    assert "no policy" in simulate("--flushes", 10, status=2)
    assert "allowed: a whole number from 1 to 64" in simulate("--policy", "binomial", "--k", 65, status=2)
    assert "none of the named policies has this parameter" in simulate("--policy", "tiering", "--lambda", 2, status=2)
    assert "file choice" in simulate("--policy", "leveling", "--file-choice", "best", status=2)
    assert "--at" in simulate("--policy", "leveling", "--flushes", 10, "--at", 11, status=2)
    config = tmp_path / "no-policy.yaml"
    config.write_text("server: { port: 1 }\n")
    assert "tree.policy.name is missing" in simulate("--config", config, status=2)
