"""Tests parsers and calculations of the benchmarks, where a bug would print a wrong measurement."""

import argparse
import io
import json
import math
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import growth
import tuning
from common import fio, load, plots, proc, programs, redis_benchmark, report, resp
from papers import fade, kiwi
from support.sockets import ReplyError, read_reply

CSV = '''"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
"SET","108695.65","0.242","0.088","0.239","0.359","0.423","1.231"
'''
FIO = {"jobs": [{"read": {"iops": 51234.5, "clat_ns": {"percentile": {"50.000000": 70000, "99.000000": 180000, "99.900000": 900000}}}}]}
STRACE = """syscall                calls
------------ --------- ----------------
sendto                    50000
recvfrom                  50001
epoll_wait                 1203
------------ --------- ----------------
total                    101204
"""


class ParsesOutputOfPrograms(unittest.TestCase):
    def test_redis_benchmark_csv_of_one_test_is_parsed_and_other_output_is_refused(self):
        self.assertEqual(redis_benchmark.parse(CSV), {"throughput": 108695.65, "p50_ms": 0.239, "p99_ms": 0.423, "max_ms": 1.231})
        for text in ("", "WARNING: Could not fetch server CONFIG\n", CSV + '"GET","1","1","1","1","1","1","1"\n'):
            with self.assertRaises(ValueError):
                redis_benchmark.parse(text)

    def test_fio_json_after_a_warning_is_parsed(self):
        seen = fio.parse("fio: warning\n" + json.dumps(FIO))
        self.assertEqual(seen, {"iops": 51234.5, "p50_us": 70, "p99_us": 180, "p999_us": 900})

    def test_strace_table_gives_calls_by_name(self):
        self.assertEqual(proc.parse_strace_counts(STRACE), {"sendto": 50000, "recvfrom": 50001, "epoll_wait": 1203})

    def test_info_reply_is_parsed_to_fields_and_numbers_become_numbers(self):
        info = resp.parse_info("# Server\r\nredis_version:7.2.0\r\nport:6379\r\n\r\n# CPU\r\nused:1.50\r\nexecutable:/a:b\r\n")
        self.assertEqual(info, {"redis_version": "7.2.0", "port": 6379, "used": 1.5, "executable": "/a:b"})

    def test_cpu_seconds_are_read_from_proc_stat_if_the_process_name_has_brackets(self):
        # The name may contain blanks and brackets. utime, stime and the same two of the children are fields 14 to 17.
        fields = ["S", *map(str, range(4, 14)), "100", "20", "3", "4", *map(str, range(18, 53))]
        self.assertEqual(proc.stat_cpu_seconds("7 (a) b (c)) " + " ".join(fields)), (120 / proc.TICKS, 7 / proc.TICKS))

    def test_sizes_in_proc_status_are_converted_to_bytes(self):
        text = "Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t5\nread_bytes: 4096\nSigQ:\t0/9\n"
        self.assertEqual(proc.numbers_of(text), {"VmRSS": 2048 << 10, "Threads": 5, "read_bytes": 4096})

    def test_own_peak_memory_is_at_least_the_anonymous_memory(self):
        seen = proc.memory("self")
        self.assertGreaterEqual(seen["peak"], seen["anonymous"])


class SpeaksTheProtocol(unittest.TestCase):
    def test_replies_are_read_as_values_and_error_replies_are_raised(self):
        stream = io.BytesIO(b"+OK\r\n$5\r\nhe\r\no\r\n$-1\r\n:42\r\n*2\r\n:1\r\n*1\r\n$0\r\n\r\n-ERR no\r\n")
        self.assertEqual([read_reply(stream) for _ in range(5)], ["OK", "he\r\no", None, 42, [1, [""]]])
        with self.assertRaisesRegex(ReplyError, "ERR no"):
            read_reply(stream)
        with self.assertRaises(ConnectionError):
            read_reply(stream)


class Computes(unittest.TestCase):
    def test_sizes_with_units_are_parsed_and_invalid_sizes_are_refused(self):
        self.assertEqual([report.size(text) for text in ("64MiB", "2.5GiB", "7B", "10")], [64 << 20, 5 << 29, 7, 10])
        for text in ("64MB", "-1MiB", "", "x"):
            with self.assertRaises(argparse.ArgumentTypeError):
                report.size(text)
        self.assertEqual([report.human(count) for count in (0, 1023, 1536, 500 << 20, 3 << 50)], ["0 B", "1023 B", "1.5 KiB", "500 MiB", "3072 TiB"])

    def test_counts_with_units_are_parsed_and_invalid_counts_are_refused(self):
        self.assertEqual(report.count_list("1,10k,2.5M,1_000"), [1, 10_000, 2_500_000, 1000])
        for text in ("", "0", "1,,2", "1.5", "-3", "k"):
            with self.assertRaises(argparse.ArgumentTypeError):
                report.count_list(text)

        self.assertEqual(report.count("5M"), 5_000_000)
        with self.assertRaises(argparse.ArgumentTypeError):
            report.count("1,2")

    def test_combined_runs_have_the_median_of_each_key(self):
        runs = [{"a": 1, "b": None, "c": "x", "d": True}, {"a": 3, "b": 5, "c": "y", "d": False}, {"a": 8, "b": 7, "c": "z", "d": True}]
        self.assertEqual(report.median_of(runs), {"a": 3, "b": 6, "c": "z", "d": True})

    def test_slopes_are_computed_over_the_numbers_of_keys_and_of_loops(self):
        self.assertAlmostEqual(growth.slope([(0, 1), (1, 3), (2, 5)]), 2)
        self.assertIsNone(growth.slope([(1, 3), (1, 5)]))
        figures = [
            {"load": "GET", "server": "ebbtide", "loops": loops, "keys": keys, "median": {"cpu_us": 2 + 0.5 * math.log10(keys / 1000) + 0.25 * math.log2(loops)}}
            for loops in (1, 2, 4)
            for keys in (1000, 10_000, 100_000)
        ]
        found = growth.slopes(figures)
        self.assertEqual(len(found), 6)
        for one in found:
            self.assertAlmostEqual(one["us_per_step"], 0.5 if one["by"] == "keys" else 0.25)
        self.assertAlmostEqual(found[0]["relative"], 0.25)

    def test_load_arguments_leave_out_false_and_none(self):
        line = load.arguments_of(7, value_bytes=100, set=True, absent=False, seed=None)
        self.assertEqual(line[1:], ["--port", "7", "--value-bytes", "100", "--set"])


    def test_program_arguments_have_dashes_and_leave_out_false_and_none(self):
        self.assertEqual(programs.arguments_of(pages_per_tile=8, correlated=True, selectivity=[0.1, 0.5], ttl=None, quick=False),
                         ["--pages-per-tile", "8", "--correlated", "--selectivity", "0.1", "0.5"])  # fmt: skip

    def test_output_lines_of_a_program_become_figures_text_and_exit_status(self):
        said = []
        script = "import sys; print('progress: half'); print('figure: {\"a\": 1}'); print('text'); sys.exit(3)"
        found = list(programs.lines([sys.executable, "-c", script], said.append))
        self.assertEqual(found, [("figure", {"a": 1}), ("text", "text"), ("status", 3)])
        self.assertEqual(said, ["half"])

    def test_run_whose_figures_are_in_the_result_file_is_not_repeated(self):
        with tempfile.TemporaryDirectory() as folder, redirect_stderr(io.StringIO()):
            path = Path(folder) / "try.json"
            report.Result("try", path, {"n": 1}).add_run("one: bench_x --n 1", [{"a": 1}])
            resumed = report.Result("try", path, {"n": 1})
            resumed.resume()
            programs.remember(resumed)
            self.assertEqual(programs.figures("x", "one", n=1), [{"a": 1}])
            programs.remember(None)
            with self.assertRaises(SystemExit):
                report.Result("try", path, {"n": 2}).resume()

    def test_late_after_counts_the_tombstones_that_are_older_than_an_age(self):
        figure = {"tombstones_by_age": [[0, 100], [1, 60], [2, 7], [3, 0]]}
        self.assertEqual([fade.late_after(figure, seconds) for seconds in (0, 1, 1.5, 3, 9)], [100, 60, 7, 0, 0])

    def test_clean_at_returns_the_time_from_which_the_value_stays_low(self):
        of = lambda *values: {"timeline": [[at, value] for at, value in enumerate(values)]}  # noqa: E731
        self.assertEqual([fade.clean_at(of(*values), 1) for values in ((5, 3, 0, 0), (5, 0, 2, 0), (0, 0), (5, 1))], [2, 3, 0, None])

    def test_relative_divides_the_bytes_of_one_run_by_those_of_the_other_over_time(self):
        run = lambda per_second: {"asked": {"seconds": 30}, "timeline": [[at / 2, per_second * at / 2] for at in range(1, 61)]}  # noqa: E731
        ratios = fade.relative(run(300), run(200))
        self.assertEqual(len(ratios), 15)
        for at, ratio in ratios:
            self.assertAlmostEqual(ratio, 1.5)

    def test_best_of_rocksdb_is_the_run_with_the_fewest_bytes_read_and_written(self):
        figures = [{"engine": engine, "read_bytes": read, "written_bytes": 5} for engine, read in (("ebbtide", 1), ("rocksdb", 9), ("rocksdb", 7))]
        self.assertEqual(kiwi.best_of_rocksdb(figures)["read_bytes"], 7)


class Prints(unittest.TestCase):
    def test_table_aligns_its_columns(self):
        self.assertEqual(report.table([["a", "1"], ["bcd", 22]], ["x", "n"]), "x     n\n---  --\na     1\nbcd  22")

    def test_bar_of_several_values_shows_the_highest_value(self):
        self.assertEqual(plots.bars([0, 1, 4, 8, None], 8), "▁▁▄█ ")
        self.assertEqual(len(plots.bars(range(1000), 999)), math.ceil(1000 / math.ceil(1000 / plots.TEXT_WIDTH)))
        self.assertEqual(plots.bars([1] * 71 + [9] + [1] * 72, 9).count("█"), 1)

    def test_points_of_one_x_are_bars(self):
        panel = plots.Panel("pages", lines={"before": [(10, 1.5)], "after": [(10, 1)]})
        self.assertEqual(plots.only_x([panel]), 10)
        panel.lines["after"].append((20, 2))
        self.assertIsNone(plots.only_x([panel]))
        self.assertIsNone(plots.only_x([plots.Panel("pages")]))

    def test_targets_are_printed_and_every_point_is_saved_at_once(self):
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as said:
            result = report.Result("try", Path(folder) / "a" / "try.json", {"n": 1})
            result.target("good", 4, 5, unit="ms")
            result.target("bad", 0.6, 0.7, at_most=False)
            result.target("missing", None, 1)
            result.add(x=1)
            half = json.loads(result.path.read_text())
            result.finish()
            whole = json.loads(result.path.read_text())
        self.assertEqual([half["finished"], whole["finished"], whole["figures"]], [False, True, [{"x": 1}]])
        self.assertEqual([target["met"] for target in whole["targets"]], [True, False, False])
        self.assertIn("MISSED  bad: 0.6 (at least 0.7)", said.getvalue())
        self.assertIn("met     good: 4 ms (at most 5 ms)", said.getvalue())


class ComparesTunings(unittest.TestCase):
    def test_shares_of_each_session_sum_to_1_and_steady_sessions_stay_near_the_expected_mix(self):
        for expected in tuning.EXPECTED.values():
            for name in ("drift", "steady"):
                mixes = tuning.sequence(name, expected)
                self.assertGreaterEqual(len(mixes), 5)
                for mix in mixes.values():
                    self.assertAlmostEqual(sum(mix), 1)
            self.assertGreater(tuning.divergence(tuning.SESSIONS["writes"], tuning.EXPECTED["w11"]), 2)

    def test_pairs_of_tunings_count_only_if_their_costs_differ_by_a_tenth(self):
        self.assertEqual(tuning.ordered_alike([(1, 1), (2, 2), (3, 2.1)]), (2, 2))  # 2 and 2.1 differ too little
        self.assertEqual(tuning.ordered_alike([(1, 2), (2, 1)]), (0, 1))

    def test_rate_of_several_sessions_is_weighted_by_their_times(self):
        self.assertAlmostEqual(tuning.rate_of([{"per_second": 100}, {"per_second": 300}]), 150)


if __name__ == "__main__":
    unittest.main()
