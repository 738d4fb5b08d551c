"""Tests that long functions are found, and which lines count."""

import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
import check
import lengths


def lines(count):
    return "  work();\n" * count


def lengths_of(code):
    """Returns {name: lines}."""
    return {name: count for _, count, name in lengths.functions(check.without_comments_and_strings(code))}


class Functions(unittest.TestCase):
    def test_length_of_a_function_is_counted_from_brace_to_brace(self):
        self.assertEqual(lengths_of("int f(int a,\n      int b) {\n  work();\n}\n"), {"f": 3})

    def test_functions_in_namespaces_and_classes_are_found_by_name(self):
        code = "namespace a {\nnamespace {\nclass C final : public B<int> {\n public:\n  void f() const {\n  }\n};\n}\nStatus C::g() && {\n\n}\n}\n"
        self.assertEqual(lengths_of(code), {"f": 2, "C::g": 3})

    def test_constructor_initializers_do_not_count_as_lines_of_a_function(self):
        code = "C::C(int a)\n    : a_{a},\n      b_([this](int x) { return x; }, {.c = 1}),\n      d_(2) {\n  work();\n}\n"
        self.assertEqual(lengths_of(code), {"C::C": 3})

    def test_lines_of_a_constant_table_do_not_count_as_lines_of_a_function(self):
        code = "void f() {\n  static constexpr int kTable[][2] = {\n    {1, 2},\n    {3, 4},\n  };\n  work();\n}\n"
        self.assertEqual(lengths_of(code), {"f": 4})

    def test_constant_table_outside_of_functions_is_not_a_function(self):
        code = "constexpr Row kRows[] = {\n" + "  {.run = f, .key = first(1)},\n" * 100 + "};\nstd::map<int, int> m{{1, f(2)}};\nvoid g() {}\n"
        self.assertEqual(lengths_of(code), {"g": 1})

    def test_lambdas_and_loops_count_as_lines_of_the_function_around_them(self):
        code = "void f() {\n  const auto g = [](int x) {\n    return x;\n  };\n  for (;;) {\n  }\n}\nvoid h() {}\n"
        self.assertEqual(lengths_of(code), {"f": 7, "h": 1})

    def test_braces_in_strings_comments_and_macros_are_ignored(self):
        code = '#define OPEN(x) \\\n  if (x) {\nvoid f() {\n  say("}");  // }\n  put(\'{\');\n}\n'
        self.assertEqual(lengths_of(code), {"f": 4})


class Rule(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def breaches(self, code, exceptions):
        path = self.root / "server/a.cc"
        path.parent.mkdir(exist_ok=True)
        path.write_text(code)
        with mock.patch.object(lengths, "EXCEPTIONS", exceptions):
            return list(check.CHECKS["lengths"](self.root))

    def test_function_of_70_lines_is_accepted(self):
        self.assertEqual(self.breaches("void f() {\n" + lines(68) + "}\n", {}), [])

    def test_function_of_71_lines_is_refused_with_its_line(self):
        found = self.breaches("\nvoid f() {\n" + lines(69) + "}\n", {})
        self.assertEqual(found, ["server/a.cc:2: f has 71 lines; no function has more than 70"])

    def test_listed_exception_for_a_long_function_is_accepted_and_an_unneeded_one_refused(self):
        exceptions = {("server/a.cc", "f"): "a reason"}
        self.assertEqual(self.breaches("void f() {\n" + lines(69) + "}\n", exceptions), [])
        found = self.breaches("void f() {\n}\n", exceptions)
        self.assertEqual(found, ["server/a.cc: the exception of f in tests/tidy/lengths.py is not needed"])

    def test_missing_brace_is_refused_with_its_line(self):
        self.assertEqual(len(self.breaches("void f() {\n  if (a) {\n}\n", {})), 1)
        self.assertIn("server/a.cc:2", self.breaches("void f() {}\n}\n", {})[0])


if __name__ == "__main__":
    unittest.main()
