"""Checks plain English as far as a program can: words that have a plainer word, and sentences of more than 30 words.

It checks comments of C++, Python, YAML and shell, names of tests, string literals, and documents. It skips code in backticks and
code blocks. NOT_YET lists places that are not checked. The list only becomes shorter, since a place on it without a breach is a
breach.
"""

import io
import re
import tokenize
from pathlib import Path

LONGEST_SENTENCE = 30

# These places still have breaches: files, or folders with all files below them.
NOT_YET = (
)

# These places are read. Test data, corpora and transcripts are input, not text.
PLACES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "dev", "config", "deploy", "docker", "engine", "examples", "server", "tests")
SUFFIXES = (".h", ".cc", ".py", ".md", ".yaml", ".yml", "")
LEFT_OUT = ("testdata", "corpus", "transcripts", "tidy", "clients", "console")

# Each entry is a pattern and the advice printed for it.
WORDS = [
    (r"told", "logged, reported, notified"),
    (r"somebody|someone|anybody|everybody", "the server, a client, a reader, every reader ..."),
    (r"nobody|no one", "no reader, no client, nothing ..."),
    (r"who(?:so)?ever", "the caller, a reader that ..."),
    (r"in vain", "false positive, for nothing"),
    (r"lets? go|letting go", "releases, frees, drops"),
    (r"owes?|owed", "has pending deletes"),
    (r"(?:is|are|was|be) news", "is new"),
    (r"lest", "so that ... not"),
    (r"anew", "again"),
    (r"hence(?:forth)?|thereof|therein|whence|thus far", "so, from then on, of it"),
]
PATTERNS = [(re.compile(rf"\b(?:{word})\b", re.I), instead) for word, instead in WORDS]
# A comment must not begin with these words.
OPENING = re.compile(r"(?:Whoever|Whether or not|That which|Of (?:what|those|which)|Who)\b")

BULLET = re.compile(r"\s*(?:[-*+]|\d+\.|\||#+|>)\s")
COLUMNS = re.compile(r"\S {3,}\S")  # a row of a table whose columns are separated by spaces
SENTENCE_END = re.compile(r"(?<=[.?!:;])[)\"*]*\s+")
CODE = re.compile(r"`[^`]*`|https?://\S+|\]\([^)]*\)")
CPP_STRING = r'"(?:[^"\\\n]|\\.)*"'
CPP_TOKEN = re.compile(rf'R"(\w*)\((?s:.*?)\)\1"|{CPP_STRING}|\'(?:[^\'\\\n]|\\.)\'|//[^\n]*')
EXCUSED = re.compile(r"NOLINT|clang-format|namespace \w|#include")


def blocks_of_lines(lines):
    """Joins (number, text) pairs to paragraphs. Returns for each a list of (line number, word)."""
    block, last = [], None
    for number, text in lines:
        starts = last is None or number != last + 1 or not text.strip() or BULLET.match(text) or COLUMNS.search(text)
        if starts and block:
            yield block
            block = []
        block += [(number, word) for word in CODE.sub(lambda m: "x" * min(1, len(m[0])), text).split()]
        last = number
    if block:
        yield block


def cpp_text(source):
    """Returns the paragraphs of comments, and each string and test name as a paragraph, with line numbers."""
    comments, strings = [], []
    line, place = 1, 0
    for match in CPP_TOKEN.finditer(source):
        line += source.count("\n", place, match.start())
        place = match.start()
        token = match[0]
        if token.startswith("//"):
            text = re.sub(r"^//[/<!]*", "", token)
            if EXCUSED.search(text):
                continue
            if source[source.rfind("\n", 0, place) + 1 : place].strip():
                strings.append([(line, text)])  # a comment beside code is a paragraph of its own
            else:
                comments.append((line, text))
        elif token.startswith('"') and token.count(" ") >= 2:
            strings.append([(line, token[1:-1])])
    return [*blocks_of_lines(comments), *(block for lines in strings for block in blocks_of_lines(lines))]


def python_text(source):
    lines, others = [], []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            lines.append((token.start[0], token.string.lstrip("#")))
        elif token.type == tokenize.STRING and token.string.count(" ") >= 2:
            others.append([(token.start[0] + i, text) for i, text in enumerate(token.string.strip("rbfu\"'").split("\n"))])
        elif token.type == tokenize.NAME and token.string.startswith("test_"):
            others.append([(token.start[0], token.string.replace("_", " "))])
    return [*blocks_of_lines(lines), *(block for part in others for block in blocks_of_lines(part))]


def markdown_text(source):
    lines, fenced = [], False
    for number, text in enumerate(source.split("\n"), 1):
        if text.lstrip().startswith("```"):
            fenced = not fenced
        if fenced or text.startswith("    ") or text.startswith("<!--"):
            text = ""
        if text.startswith("|"):
            yield from (block for cell in text.strip("|").split("|") for block in blocks_of_lines([(number, cell)]))
            text = ""
        lines.append((number, text))
    yield from blocks_of_lines(lines)


def hash_text(source):
    """Returns the paragraphs of lines that begin with #, as in YAML and shell."""
    pairs = ((number, text.strip()) for number, text in enumerate(source.split("\n"), 1))
    return blocks_of_lines([(number, text.lstrip("#")) for number, text in pairs if text.startswith("#") and not text.startswith("#!")])


READERS = {".h": cpp_text, ".cc": cpp_text, ".py": python_text, ".md": markdown_text, ".yaml": hash_text, ".yml": hash_text, "": hash_text}


def breaches_of(source, suffix):
    """Yields (line, message) for each breach in the text of one file."""
    for block in READERS[suffix](source):
        joined = " ".join(word for _, word in block)
        for pattern, instead in PATTERNS:
            for match in pattern.finditer(joined):
                yield block[joined.count(" ", 0, match.start())][0], f"'{match[0]}': rather {instead}"
        if OPENING.match(joined):
            yield block[0][0], f"begins with '{block[0][1]}': begin with subject and verb"
        at = 0
        for sentence in SENTENCE_END.split(joined):
            words = sum(bool(re.search(r"\w", word)) for word in sentence.split())
            if words > LONGEST_SENTENCE:
                yield block[at][0], f"a sentence of {words} words; {LONGEST_SENTENCE} at most: {sentence[:60]}..."
            at += len(sentence.split())


def checked_files(root, files):
    for path in files:
        relative = path.relative_to(root)
        if relative.parts[0] in PLACES and path.suffix in SUFFIXES and not set(LEFT_OUT) & set(relative.parts):
            if path.suffix or relative.name == "dev":
                yield path, str(relative)


def excuse(name, not_yet):
    return next((place for place in not_yet if name == place or name.startswith(place.rstrip("/") + "/")), None)


def check_words(root, files, not_yet=NOT_YET):
    unused = set(not_yet)
    for path, name in checked_files(root, files):
        place = excuse(name, not_yet)
        if place is not None and place not in unused:
            continue
        for line, message in breaches_of(path.read_text(), path.suffix):
            if place is not None:
                unused.discard(place)
                break
            yield f"{name}:{line}: {message}"
    for place in sorted(unused):
        yield f"tests/tidy/words.py: '{place}' has no breach any more: take it off NOT_YET"


if __name__ == "__main__":  # prints counts by folder, excused places included
    from check import project_files

    top, counts = Path(__file__).resolve().parents[2], {}
    for path, name in checked_files(top, project_files(top)):
        found = sum(1 for _ in breaches_of(path.read_text(), path.suffix))
        folder = "/".join(name.split("/")[:3 if name.startswith("tests/") else 2])
        counts[folder] = counts.get(folder, 0) + found
    for folder, count in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"{count:5} {folder}")
