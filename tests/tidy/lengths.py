"""Finds functions that are longer than a reader can hold in mind.

A function is counted from the line of its opening brace to the line of its closing one. The initializers of a constructor and the
lines of tables (`= {...}`) in a function do not count: they have no order and no branches. Braces are found in code as clang-format
leaves it: a body's brace follows a blank, an initializer's does not.
"""

import re

LONGEST = 70

# Functions that may be longer, by file and name, each for its reason.
EXCEPTIONS = {
    ("engine/tools/tune_main.cc", "main"): "adds the options of all subcommands, in the order of the help",
}

PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
PREFIX = re.compile(r"^(?:template\s*<.*?>\s*(?=[a-z])|\[\[[^\]]*\]\]\s*|inline\s+)*", re.S)
SCOPE = re.compile(r"(?:namespace|class|struct|union|extern)\b(?!.*\)\s*(?:const\s*)?$)", re.S)
NAME = re.compile(r"([\w:~]+|operator[^\w\s(]+)\s*\(")


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def kind_of(head, code, at):
    """Returns what the brace at `at` opens at the level of a namespace or class: a scope, a function, or something else. `head` is
    the code before it, back to the end of the last declaration."""
    if code[at - 1 : at] not in (" ", "\n", ""):
        return "value"
    head = PREFIX.sub("", head.strip())
    if SCOPE.match(head):
        return "scope"
    is_complete = head.count("(") == head.count(")")  # else the brace is that of a lambda, in the initializers of a constructor
    if "(" in head and is_complete and not head.endswith(("=", ",")):
        return "function"
    return "value"


def functions(code):
    """Yields (line of the opening brace, lines that count, name) for each function. `code` has no comments and strings. A brace
    without its counterpart raises ValueError with its line."""
    code = PREPROCESSOR.sub(blank, code)
    open_braces = []  # (kind, place, head)
    head_start = 0
    tables = 0  # newlines in tables of the current function
    for match in re.finditer(r"[{};]", code):
        at, outside = match.start(), not open_braces or open_braces[-1][0] == "scope"
        if match[0] == ";":
            head_start = at + 1 if outside else head_start
        elif match[0] == "{":
            if outside:
                head = code[head_start:at]
                open_braces.append((kind_of(head, code, at), at, head))
                tables = 0
                if open_braces[-1][0] == "scope":
                    head_start = at + 1
            else:
                open_braces.append(("table" if code[:at].rstrip().endswith("=") else "inner", at, ""))
        else:
            if not open_braces:
                raise ValueError(code.count("\n", 0, at) + 1)
            kind, start, head = open_braces.pop()
            lines = code.count("\n", start, at)
            if kind == "table" and not any(outer[0] == "table" for outer in open_braces):
                tables += lines
            if kind == "function":
                name = NAME.search(head)
                yield code.count("\n", 0, start) + 1, lines + 1 - tables, name[1] if name else "a function"
            if kind in ("function", "scope"):
                head_start = at + 1
    if open_braces:
        raise ValueError(code.count("\n", 0, open_braces[-1][1]) + 1)


def check_lengths(root, files, without_comments_and_strings):
    unused = {name: why for name, why in EXCEPTIONS.items() if (root / name[0]).exists()}
    for path in files:
        relative = path.relative_to(root)
        try:
            found = list(functions(without_comments_and_strings(path.read_text())))
        except ValueError as error:
            yield f"{relative}:{error}: a brace without its counterpart, as this rule reads the file"
            continue
        for line, lines, name in found:
            if lines > LONGEST and unused.pop((str(relative), name), None) is None:
                yield f"{relative}:{line}: {name} has {lines} lines; no function has more than {LONGEST}"
    for place, name in unused:
        yield f"{place}: the exception of {name} in tests/tidy/lengths.py is not needed"
