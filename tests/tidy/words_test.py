"""Tests that forbidden words and long sentences are reported with their line, and that code, backticks and test data are not
checked."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import words

LONG = " ".join(["word"] * 31)


class Words(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def breaches(self, name, text, not_yet=()):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return list(words.check_words(self.root, [path], not_yet))

    def assert_one(self, name, text, part):
        found = self.breaches(name, text)
        self.assertEqual(len(found), 1, found)
        self.assertIn(part, found[0])

    def test_forbidden_word_in_a_comment_is_reported_with_file_and_line(self):
        self.assert_one("engine/base/a.h", "int x;\n\n/// The caller is told.\n", "engine/base/a.h:3: 'told'")

    def test_forbidden_word_in_the_second_line_of_a_comment_is_reported_with_the_second_line(self):
        self.assert_one("server/a.cc", "// A comment of two lines that\n// somebody wrote.\n", "server/a.cc:2: 'somebody'")

    def test_forbidden_phrase_across_two_lines_is_reported(self):
        self.assert_one("server/a.cc", "// reads a page in\n// vain\n", "server/a.cc:1: 'in vain'")

    def test_forbidden_words_in_messages_and_test_names_are_reported(self):
        self.assert_one("engine/a.cc", 'return "nobody reads it";\n', "engine/a.cc:1: 'nobody'")
        self.assert_one("tests/engine/a_test.cc", 'TEST_CASE("a client is told of it") {}\n', "tests/engine/a_test.cc:1")
        self.assert_one("tests/contract/test_a.py", "def test_nobody_waits():\n    pass\n", "tests/contract/test_a.py:1")

    def test_words_in_code_and_backticks_are_not_checked(self):
        for text in ("int told = 0;\n", "// `told` is a field\n", "f('\"'); g(told);  // ok\n"):
            self.assertEqual(self.breaches("engine/a.cc", text), [])
        self.assertEqual(self.breaches("README.md", "    told nobody\n\n```\nwhoever\n```\n"), [])

    def test_sentence_of_31_words_is_reported_and_of_30_is_not(self):
        self.assert_one("README.md", LONG + ".\n", "a sentence of 31 words")
        self.assertEqual(self.breaches("README.md", LONG.removesuffix(" word") + ". " + LONG.removesuffix(" word") + ".\n"), [])

    def test_list_items_and_table_cells_are_sentences_of_their_own(self):
        half = " ".join(["word"] * 20)
        self.assertEqual(self.breaches("README.md", f"- {half}\n- {half}\n\n| {half} | {half} |\n"), [])

    def test_words_in_test_data_are_not_checked(self):
        self.assertEqual(self.breaches("tests/engine/testdata/a.yaml", "# told\n"), [])

    def test_excused_place_without_a_breach_is_reported(self):
        self.assertEqual(self.breaches("engine/db/a.h", "// told\n", ("engine/db",)), [])
        (found,) = self.breaches("engine/db/a.h", "// reported\n", ("engine/db",))
        self.assertIn("take it off NOT_YET", found)


if __name__ == "__main__":
    unittest.main()
