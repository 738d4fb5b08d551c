"""Tests that each rule finds its breaches: each case plants one breach in a small project and expects exactly that line."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import check
import summary

ENGINE_BUGS, SERVER_BUGS = check.PLANTED_BUGS

TABLES = """# A
<!-- layers of engine -->
| engine layer | may include | what |
|---|---|---|
| include/engine | | contract |
| base | | base |
| tree | base | shape |
| table | base tree | tables |
| db/purge | base | a room of db |
| db | base table db/purge | wiring |

<!-- layers of server -->
| server layer | may include | what |
|---|---|---|
| resp | | protocol |
| store | include/engine | types |
| net | resp asio | sockets |
| server | resp store net include/engine | main |

<!-- libraries of engine -->
| library | used by |
|---|---|
| xxhash | base |
"""


class Rules(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        self.write("ARCHITECTURE.md", TABLES)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def breaches(self, rule, name, text):
        self.write(name, text)
        return list(check.CHECKS[rule](self.root))

    def assert_clean(self, rule, name, text):
        self.assertEqual(self.breaches(rule, name, text), [])

    def assert_one(self, rule, name, text, part):
        found = self.breaches(rule, name, text)
        self.assertEqual(len(found), 1, found)
        self.assertIn(part, found[0])

    # layers
    def test_include_of_a_lower_layer_is_accepted(self):
        self.assert_clean("layers", "engine/table/a.cc", '#include "table/a.h"\n#include "base/b.h"\n#include <engine/db.h>\n#include <vector>\n')

    def test_include_of_a_higher_layer_is_refused_with_its_line(self):
        self.assert_one("layers", "engine/base/a.h", '#include <vector>\n#include "table/x.h"\n', "engine/base/a.h:2")

    def test_include_of_a_layer_that_is_not_in_the_table_row_is_refused(self):
        self.assert_one("layers", "engine/tree/a.h", '#include "table/x.h"\n', "(table)")

    def test_server_must_not_include_a_private_header_of_the_engine(self):
        self.assert_one("layers", "server/store/a.cc", '#include "base/coding.h"\n', "base/coding.h")

    def test_server_resp_must_not_include_any_header_of_the_engine(self):
        self.assert_one("layers", "server/resp/a.cc", "#include <engine/db.h>\n", "include/engine")

    def test_library_outside_its_layer_is_refused(self):
        self.assert_one("layers", "engine/tree/a.cc", "#include <xxhash.h>\n", "xxhash")
        (self.root / "engine/tree/a.cc").unlink()
        self.assert_clean("layers", "engine/base/a.cc", "#include <xxhash.h>\n")

    def test_file_in_an_unknown_layer_is_refused(self):
        self.assert_one("layers", "engine/misc/a.cc", "\n", "no layer 'misc'")

    def test_subdirectory_with_a_table_row_may_include_itself_and_the_layers_of_the_row(self):
        self.assert_clean("layers", "engine/db/purge/a.cc", '#include "db/purge/a.h"\n#include "base/b.h"\n')
        self.assert_clean("layers", "engine/db/a.cc", '#include "db/purge/a.h"\n#include "db/db_impl.h"\n')

    def test_subdirectory_with_a_table_row_must_not_include_headers_of_its_parent_directory(self):
        self.assert_one("layers", "engine/db/purge/a.cc", '#include "db/db_impl.h"\n', "engine/db/purge may not include db/db_impl.h (db)")

    def test_layer_must_not_include_a_subdirectory_that_its_table_row_does_not_name(self):
        self.assert_one("layers", "engine/table/a.cc", '#include "db/purge/a.h"\n', "(db/purge)")

    def test_subdirectory_without_a_table_row_is_refused_if_another_one_has_a_row(self):
        self.assert_one("layers", "engine/db/misc/a.cc", "\n", "no layer 'db/misc'")

    # raw calls
    def test_raw_calls_are_refused(self):
        for line in ("int f = ::open(p, 0);", "pread(fd, b, n, 0);", "auto t = std::chrono::steady_clock::now();", "std::thread t(f);",
                     "std::this_thread::sleep_for(d);", "int x = rand();", "#include <fstream>", "#include <sys/socket.h>", "std::random_device r{};",
                     "#include <fcntl.h>", "::fsync(fd);", "usleep(5);"):  # fmt: skip
            with self.subTest(line):
                self.assertGreaterEqual(len(self.breaches("raw_calls", "engine/table/a.cc", line + "\n")), 1)

    def test_layers_that_own_raw_calls_may_use_them(self):
        self.assert_clean("raw_calls", "engine/base/a.cc", "std::thread t(f);\nclock_gettime(a, b);\n")
        self.assert_clean("raw_calls", "engine/io/a.cc", "#include <fcntl.h>\nint f = ::open(p, 0);\n")
        self.assert_clean("raw_calls", "server/net/a.cc", "#include <sys/epoll.h>\nepoll_wait(a);\n::close(fd);\n")

    def test_functions_of_the_project_named_like_raw_calls_are_accepted(self):
        code = "file->read(0, 4, b);\nDb::open(s, c);\nfs.rename(a, b);\nfs_.unlink(p);\nrandom_.next();\nclock->mono_ns();\n"
        self.assert_clean("raw_calls", "engine/table/a.cc", code + "Status open(const std::string& p);\nmerge.sleeping(2);\n")

    def test_raw_calls_in_comments_and_strings_are_accepted(self):
        self.assert_clean("raw_calls", "engine/table/a.cc", '// pread(fd) and std::thread\nlog("fsync(x)");\n/* usleep(3) */\n')

    # planted bugs
    def test_planted_bug_without_a_row_a_place_or_a_test_is_refused(self):
        self.write("engine/a.cc", "if (planted(PlantedBug::kOne)) return;\n")
        self.write("tests/a_test.cc", "must_catch(PlantedBug::kOne, proof);\n")
        row = "| `kOne`: what | `engine/a.cc` | `tests/a_test.cc`, so |\n"
        self.write("tests/README.md", row)
        header = "enum class PlantedBug {\n  kNone,\n  kOne,  ///< what\n"
        self.assert_clean("planted", ENGINE_BUGS, header)
        self.assert_one("planted", ENGINE_BUGS, header + "  kTwo,\n", "kTwo is not in tests/README.md")
        self.write(ENGINE_BUGS, header)
        self.assert_one("planted", "tests/README.md", row + row.replace("kOne", "kOld"), "kOld is not in engine")
        self.assert_one("planted", "tests/README.md", row.replace("a_test", "b_test"), "tests/b_test.cc has no must_catch(PlantedBug::kOne)")
        self.write("tests/README.md", row)
        self.assert_one("planted", "engine/a.cc", "", "engine/a.cc has no planted(PlantedBug::kOne)")
        self.write("engine/a.cc", "if (planted(PlantedBug::kOne)) return;\n")
        self.write("server/b.cc", "if (planted(PlantedServerBug::kTwo)) return;\n")
        self.write("tests/b_test.cc", "must_catch(PlantedServerBug::kTwo, proof);\n")
        self.write("tests/README.md", row + "| `kTwo`: what | `server/b.cc` | `tests/b_test.cc`, so |\n")
        self.assert_clean("planted", SERVER_BUGS, header.replace("PlantedBug", "PlantedServerBug").replace("kOne", "kTwo"))
        self.assert_one("planted", "tests/b_test.cc", "", "tests/b_test.cc has no must_catch(PlantedServerBug::kTwo)")

    # decisions
    def test_decisions_without_number_date_or_index_entry_are_refused(self):
        folder, name = "engine/docs/decisions", "0001-one" + ".md"
        page = "# 0001: One\n\n*2026-01-02, accepted*\n\n## Context\n\n## Decision\n\nSo.\n\n## Consequences\n"
        row = f"| 0001 | [One]({name}) | 2026-01-02 | accepted |\n"
        self.write(f"{folder}/README.md", row)
        self.assert_clean("decisions", f"{folder}/{name}", page)
        for bad in (page.replace("0001: ", ""), page.replace("2026-01-02", "lately"), page.replace("\n\n*", "\n*"), page.replace(", accepted", "")):
            with self.subTest(bad):
                self.assertIn("does not begin", self.breaches("decisions", f"{folder}/{name}", bad)[0])
        for bad in (page.replace("Context", "Why"), page.replace("## Decision\n", ""), page + "## Alternatives\n"):
            with self.subTest(bad):
                self.assert_one("decisions", f"{folder}/{name}", bad, "the sections should be")
        self.write(f"{folder}/{name}", page)
        self.assert_one("decisions", f"{folder}/README.md", "", "should be " + row.strip())
        self.assert_one("decisions", f"{folder}/README.md", row + row.replace("0001", "0002"), "0002 has no page")
        self.write(f"{folder}/README.md", row)
        self.assert_one("decisions", f"{folder}/0003-three" + ".md", page.replace("0001", "0003"), "the next number is 0002")

    # mirror
    def test_unit_test_must_be_beside_its_subject_or_in_scenarios(self):
        cases = "#include <a>\n\nnamespace TEST_FILE {\n}\n"
        self.assert_one("mirror", "tests/engine/io/disk_test.cc", cases, "there is no engine/io/disk.h or .cc")
        self.write("engine/io/disk.h", "")
        self.assert_clean("mirror", "tests/engine/io/disk_test.cc", cases)
        self.assert_clean("mirror", "tests/engine/io/scenarios/power_test.cc", cases)

    def test_unit_test_must_stand_in_a_namespace_of_its_own(self):
        self.write("engine/io/disk.h", "")
        self.assert_one("mirror", "tests/engine/io/disk_test.cc", "TEST_CASE() {}\n", "not in `namespace TEST_FILE {`")
        self.assert_one("mirror", "tests/engine/io/disk_test.cc", "\nnamespace TEST_FILE {\n}\nnamespace {\n}\n", "not in")

    # hygiene
    def test_hygiene_rule_finds_a_breach_of_each_kind(self):
        left_over = "TO" + "DO"
        for name, text, part in (
            ("engine/base/a.h", "int x;\n", "#pragma once"),
            ("engine/base/b.cc", f"// {left_over}: later\n", "left-over"),
            ("engine/base/c.cc", "<" * 7 + " ours\n", "left-over"),
            ("README.md", "see /ho" + "me/somebody/x\n", "path of a machine"),
            ("tests/clients/x/Test.java", f"// {left_over}: later\n", "left-over"),
            ("server/net/c.cc", "\tint x;\n", "tab"),
            ("server/net/d.cc", "int x; \n", "blank"),
            ("server/net/e.cc", "int x;", "newline"),
            ("tests/engine/a_test.cc", 'TEST_CASE(\n    "' + "x" * 76 + ': y") {}\n', "Catch2 aborts"),
            ("engine/base/f.h", "#pragma once\n// see GONE" + ".md, section 5\n", "not there"),
            ("README.md", "see `io/gone.h`\n", "paths begin at the top"),
            ("tests/big.bin", "x" * (check.BIG + 1), "bytes"),
        ):
            with self.subTest(name):
                self.assert_one("hygiene", name, text, part)
                (self.root / name).unlink()
        self.assert_clean("hygiene", "engine/base/a.h", "#pragma once\n// ARCHITECTURE.md says why\n")


class Summary(unittest.TestCase):
    """tests/tools/summary.py counts cases, and counts a crash as a failure."""

    def test_output_of_a_test_binary_gives_the_numbers_of_passed_and_failed_cases(self):
        passed = "0.001 s: a\n0.002 s: b\n====\nAll tests passed (5 assertions in 2 test cases)\n"
        failed = "0.001 s: a\n===\ntest cases: 5 | 3 passed | 2 failed\nassertions: 9 | 7 passed | 2 failed\n"
        self.assertEqual(summary.catch_counts(passed, True), (2, 0))
        self.assertEqual(summary.catch_counts(failed, False), (3, 2))
        self.assertEqual(summary.catch_counts("test cases: 2 | 2 failed\n", False), (0, 2))
        self.assertEqual(summary.catch_counts("0.001 s: a\nSegmentation fault", False), (1, 1))
        self.assertEqual(summary.catch_counts(passed + "LeakSanitizer: detected memory leaks", False), (2, 1))
        self.assertEqual(summary.catch_counts("", True), (1, 0))

    @staticmethod
    def status(folder):
        with contextlib.redirect_stdout(io.StringIO()):
            return summary.main(folder)

    def test_whole_run_fails_if_a_step_has_no_result(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.status(folder), 1)
            (Path(folder) / "contract.xml").write_text('<testsuites><testsuite><testcase classname="a" name="b" time="1"/></testsuite></testsuites>')
            self.assertEqual(self.status(folder), 0)
            (Path(folder) / "broken").write_text("asan: does not build\n")
            self.assertEqual(self.status(folder), 1)

    def test_whole_run_fails_if_a_result_file_is_truncated(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "contract.xml").write_text('<testsuites><testsuite><testcase classname="a" name="b" time="1"/></testsuite></testsuites>')
            (Path(folder) / "asan.xml").write_text('<testsuite name="x"><testcase name="engine.wal"')
            self.assertEqual(self.status(folder), 1)


if __name__ == "__main__":
    unittest.main()
