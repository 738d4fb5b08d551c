"""The project's rules that a compiler does not check.

    layers      every #include in engine/ and server/ is one that the tables in ARCHITECTURE.md allow
    raw_calls   files, sockets, clocks, randomness and threads are used only where they live (RULES below)
    planted     every bug of engine/base/planted_bug.h is where the table in tests/README.md says, and the test named there finds it
    decisions   pages in engine/docs/decisions/ are numbered without gaps, have one form, and stand in the index
    lengths     no function has more than 70 lines (lengths.py)
    words       comments, test names, messages and documents are plain English as far as a program sees it (words.py)
    mirror      tests/engine/io/x_test.cc tests engine/io/x.h or x.cc; tests of several files together stand in a folder scenarios/
    hygiene     no file over 1 MB, no left-overs (of a merge, too), #pragma once in headers, no tabs or trailing blanks in code, no machine's paths

    check.py [RULE...] [--root DIR]     all rules by default; prints one line per breach and ends with status 1 if there is one
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import lengths
import words

SOURCES = (".h", ".cc")
SKIPPED = {".git", "build", "data", ".venv", "__pycache__", ".cache"}


def project_files(root):
    """Yields the files that are, or would be, under version control."""
    if (root / ".git").exists() and shutil.which("git") is not None:
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True, check=False
        )
        if done.returncode == 0:
            names = [name for name in done.stdout.decode().split("\0") if name]
            return sorted({root / name for name in names if (root / name).is_file()})
    found = (path for path in root.rglob("*") if not SKIPPED & set(path.relative_to(root).parts))
    return sorted(path for path in found if path.is_file())


def code_files(root):
    for path in project_files(root):
        parts = path.relative_to(root).parts
        if path.suffix in SOURCES and parts[0] in ("engine", "server"):
            yield path


# --- layers


def read_table(text, name):
    """Returns the rows of the table under the marker `<!-- name -->` as {first cell: words of the second cell}."""
    marker = f"<!-- {name} -->"
    if marker not in text:
        raise SystemExit(f"ARCHITECTURE.md has no table marked '{marker}'")
    rows = {}
    for line in text.split(marker, 1)[1].strip().splitlines():
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows[cells[0]] = cells[1].split()
    rows = {key: words for key, words in list(rows.items())[2:]}  # without the heading and its rule
    if not rows:
        raise SystemExit(f"the table '{name}' in ARCHITECTURE.md is empty")
    return rows


INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
# A header belongs to a library if its first folder, or its file name without suffix, is one of these names.
LIBRARIES = {"xxhash", "lz4", "zstd", "asio", "spdlog", "fmt", "yaml-cpp", "prometheus", "boost", "CLI", "openssl", "rocksdb", "mimalloc", "jemalloc", "liburing", "hiredis", "lua5.1"}


def layer_of(parts, tables):
    """Returns the side and layer of a file: ('engine', 'table') for engine/table/x.h, ('engine', 'include/engine') for the
    contract, ('server', 'server') for server/x.cc. A layer with a row for one of its subdirectories needs a row for each of them:
    ('engine', 'db/purge') for engine/db/purge/x.h."""
    side = parts[0]
    if side == "engine" and parts[1] == "include":
        return side, "include/engine"
    if len(parts) > 3 and any(row.startswith(parts[1] + "/") for row in tables[side]):
        return side, f"{parts[1]}/{parts[2]}"
    return side, parts[1] if len(parts) > 2 else side


def check_layers(root):
    text = (root / "ARCHITECTURE.md").read_text()
    tables = {side: read_table(text, f"layers of {side}") for side in ("engine", "server")}
    libraries = read_table(text, "libraries of engine")
    for side, table in tables.items():
        known = set(table) | {"include/engine"} | LIBRARIES
        for layer, allowed in table.items():
            for word in allowed:
                if word not in known:
                    yield f"ARCHITECTURE.md: layer {side}/{layer} may include '{word}', which is neither a layer nor a library"
    for path in code_files(root):
        relative = path.relative_to(root)
        side, layer = layer_of(relative.parts, tables)
        if layer not in tables[side]:
            yield f"{relative}: ARCHITECTURE.md has no layer '{layer}' in {side}/"
            continue
        allowed = set(tables[side][layer]) | {layer}
        if side == "engine":
            allowed |= {"include/engine"} | {library for library, users in libraries.items() if layer in users}
        for match in INCLUDE.finditer(path.read_text()):
            target, line = included_layer(match[1], match[2], side, tables[side]), path.read_text().count("\n", 0, match.start()) + 1
            if target is not None and target not in allowed:
                yield f"{relative}:{line}: {side}/{layer} may not include {match[2]} ({target})"


def included_layer(bracket, name, side, table):
    """Returns the layer or library that an include names, or None for the standard library and the system."""
    first = name.split("/")[0]
    if first == "engine" and "/" in name:
        return "include/engine"
    room = "/".join(name.split("/")[:2])
    if name.count("/") > 1 and room in table:
        return room
    if "/" in name and first in table:
        return first
    stem = first.removesuffix(".hpp").removesuffix(".h")
    if stem in LIBRARIES:
        return stem
    if bracket == '"':  # "config.h" is a header at the top of server/; any other name is unknown and so refused
        return side if "/" not in name else name
    return None


# --- raw calls

# Each rule is (what, where it is allowed, headers that declare it, calls). Headers are the stronger half: without them the calls
# do not compile for long. Calls are matched outside comments and strings, if they are no members and no name of our own qualifies
# them.
RULES = [
    (
        "files",
        ("engine/io", "engine/base"),
        r"sys/(?:stat|statvfs|file|statfs|xattr)\.h|dirent\.h|fstream|filesystem|linux/(?:falloc|fs|io_uring)\.h",
        r"creat|openat|pread|pwrite|readv|writev|preadv2?|pwritev2?|fsync(?=\s*\(\s*[^)\s])|fdatasync|sync_file_range|fallocate|posix_fallocate|posix_fadvise|ftruncate|"
        r"mkdir|rmdir|opendir|readdir|flock|fopen|freopen|mkstemp|renameat2?|unlinkat|linkat",
    ),
    ("file descriptors", ("engine/io", "engine/base", "server/net", "server/admin"), r"fcntl\.h", r"fcntl|dup2|ioctl"),
    (
        "sockets",
        ("server/net", "server/admin"),
        r"sys/(?:socket|epoll|eventfd|un)\.h|netinet/\w+\.h|arpa/inet\.h|netdb\.h|asio\.hpp|asio/.*",
        r"socket|setsockopt|getsockopt|epoll_\w+|eventfd|accept4|getaddrinfo|recvmsg|sendmsg",
    ),
    (
        "clocks and sleeping",
        ("engine/base", "server/net"),
        r"sys/time\.h",
        r"(?:chrono::)?(?:system_clock|steady_clock|high_resolution_clock)::now|clock_gettime|gettimeofday|nanosleep|clock_nanosleep|usleep|"
        r"this_thread::sleep_\w+|sleep",
    ),
    ("randomness", ("engine/base",), r"random", r"srand|rand|rand_r|getrandom|getentropy|arc4random"),
    ("threads", ("engine/io", "engine/base", "server/net", "server/admin"), r"pthread\.h|future", r"async|pthread_create"),
]
# Any mention of these types is a use.
TYPES = {"threads": r"std::j?thread", "randomness": r"std::random_device|std::mt19937(?:_64)?"}
# Without `::`, these names are also those of our own functions, so only `::name(` counts as a call of the system.
GLOBAL_ONLY = r"open|read|write|close|rename|unlink|link|truncate|stat|fstat|connect|bind|listen|accept|recv|send|poll|time|remove"
GLOBAL_WHERE = ("engine/io", "engine/base", "server/net", "server/admin")

# Files whose paths begin like this are excepted from a rule, each for its reason.
EXCEPTIONS = {
    ("engine/wal/group_commit.", "threads"): "the log thread: without it, callers of write() do its work",
    ("engine/wal/log_thread.", "threads"): "the same: it has a name",
    ("server/dispatch/offload.", "threads"): "the real form of the interface Offload",
    ("server/main.", "files"): "umask and the working directory are set before the engine exists",
    ("server/server.", "threads"): "starts the engine's recovery beside the loops",
    ("server/server.", "sockets"): "asio's timers and signals",
    ("server/server.", "clocks and sleeping"): "the real form of ServerControl: where commands get the time from",
    ("server/server.", "randomness"): "the real form of ServerControl: where commands get their seeds from",
    ("server/config/config_keys.", "sockets"): "parses addresses, and opens no socket",
    ("server/config/live_config.", "files"): "rewrites the YAML, which lies apart from any data directory",
    ("server/config/users_file.", "files"): "writes the file of users, which does so, too",
    ("server/config/config.", "files"): "reads the YAML, which lies apart from any data directory",
    ("server/tls/tls_context.", "files"): "looks at the kind of a file before OpenSSL opens it",
    ("server/index/index_builder.", "threads"): "builds indexes beside the loops",
    ("server/checkpoint/", "threads"): "reads new backups for as long as that takes, beside all else",
    ("server/checkpoint/", "files"): "names and removes whole backups, which lie apart from any data directory",
    ("server/log/failure_log.", "files"): "writes the log's last line when nothing may be allocated",
    ("server/log/failure_log.", "file descriptors"): "the same",
    ("server/log/failure_log.", "clocks and sleeping"): "the same: the time of that line",
    ("server/log/server_log.", "files"): "looks at the kind of the log file when it opens it",
    ("server/log/server_log.", "file descriptors"): "opens the log file without a wait for the reader of a pipe",
    ("server/import/", "files"): "reads and writes the files of other servers, which lie apart from any data directory",
    ("server/import/", "clocks and sleeping"): "shows progress",
    ("server/machine/cgroup.", "files"): "reads the limits that control groups set",
    ("server/machine/directory_access.", "files"): "looks at the owner of the data directory before the engine opens it",
    ("server/machine/directory_access.", "file descriptors"): "the same: faccessat's constants",
    ("server/net/listener.", "files"): "the socket of the file system: its mode, and what is in its place",
    ("server/machine/service_manager.", "sockets"): "sends the datagrams that systemd expects",
    ("server/machine/machine.", "files"): "reads what the kernel says of memory and CPU quota",
}


def without_comments_and_strings(text):
    """Returns the text with comments and literals replaced by blanks, and with the same line numbers."""

    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])

    pattern = r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''
    return re.sub(pattern, lambda match: match[0] if match[0].startswith("'") and "\n" in match[0] else blank(match), text, flags=re.S)


def allowed_in(relative, places):
    return any(str(relative).startswith(place + "/") for place in places)


def excepted(relative, what):
    return any(str(relative).startswith(path) and what == rule for path, rule in EXCEPTIONS)


def check_raw_calls(root):
    for path in code_files(root):
        relative = path.relative_to(root)
        text = path.read_text()
        code = without_comments_and_strings(text)

        def found(pattern, source, relative=relative):
            for match in re.finditer(pattern, source, re.M):
                yield f"{relative}:{source.count(chr(10), 0, match.start()) + 1}", match[match.lastindex].strip()

        for what, places, headers, calls in RULES:
            if allowed_in(relative, places) or excepted(relative, what):
                continue
            for where, name in found(rf"^\s*#\s*include\s*<({headers})>", text):
                yield f"{where}: <{name}>: {what} belong to {', '.join(places)}"
            for where, name in found(rf"(?<![\w.:>~])(?:::|std::)?({calls})\s*[({{<]", code):
                yield f"{where}: {name}: {what} belong to {', '.join(places)}"
            if what in TYPES:
                for where, name in found(rf"(?<![\w.:>])({TYPES[what]})\b(?!::)", code):
                    yield f"{where}: {name}: {what} belong to {', '.join(places)}"
        if not allowed_in(relative, GLOBAL_WHERE) and not (excepted(relative, "files") or excepted(relative, "sockets")):
            for where, name in found(rf"(?<![\w>])::({GLOBAL_ONLY})\s*\(", code):
                yield f"{where}: ::{name}: raw system calls belong to {', '.join(GLOBAL_WHERE)}"


# --- planted bugs

PLANTED_BUGS = {"engine/base/planted_bug.h": "PlantedBug", "server/dispatch/planted_bug.h": "PlantedServerBug"}


def check_planted(root):
    """Checks the table of planted bugs. Its rows: | `kBug`: what it is | `file that has it` | `file of the test that finds it`,
    ... |"""
    bugs = {}  # {bug: (its place, its type)}
    for header, enumeration in PLANTED_BUGS.items():
        if not (root / header).exists():
            continue
        found = [bug for bug in re.findall(r"^  (k\w+),", (root / header).read_text(), re.M) if bug != "kNone"]
        if not found:
            yield f"{header}: has no bugs"
        bugs |= {bug: (header, enumeration) for bug in found}
    if not bugs:
        return
    rows = {}
    for line in (root / "tests/README.md").read_text().splitlines():
        cells = [re.search(r"`([^`]+)`", cell) for cell in line.strip("| ").split(" | ")]
        if line.startswith("| `k") and len(cells) == 3 and all(cells):
            rows[cells[0][1]] = (cells[1][1], cells[2][1])
    for bug in [*bugs, *sorted(set(rows) - set(bugs))]:
        if bug not in bugs or bug not in rows:
            first = next(iter(PLANTED_BUGS))
            yield f"{bugs[bug][0] if bug in bugs else 'tests/README.md'}: {bug} is not in {'tests/README.md' if bug in bugs else first}"
            continue
        type_name = bugs[bug][1]
        for name, call in zip(rows[bug], (f"planted({type_name}::{bug})", f"must_catch({type_name}::{bug},"), strict=True):
            if not (root / name).exists() or call not in (root / name).read_text():
                yield f"tests/README.md: {name} has no {call.rstrip(',').removesuffix(')')})"


# --- hygiene

LEFT_OVERS = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b|^(<{7}|>{7}|\|{7}) ")
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:home/\w+|root|work|Users/\w+)/[\w.]")
TEXT = {".h", ".cc", ".py", ".md", ".txt", ".cmake", ".yaml", ".yml", ".json", ".sh", ".service", ".go", ".java", ".js", ".html", ".css", ".xml", ""}
BIG = 1_000_000
# Catch2 indents the text behind the first ": " of a name to that column, in 79 columns. Beyond that it aborts instead of
# reporting a failure.
TEST_NAME = re.compile(r'TEST_CASE\(\s*"((?:[^"\\]|\\.)*)"')
LAST_COLON = 75
DOCUMENT = re.compile(r"(?<![\w/.:*<>{}-])((?:[\w.-]+/)*[\w-]+\.md)\b")


def missing_documents(root, path, text):
    """Yields documents that the text names and that do not exist, seen from the file's folder, the top, or the places of
    documents."""
    for match in DOCUMENT.finditer(text):
        if not any((place / match[1]).exists() for place in (path.parent, root, root / "engine/docs")):
            yield text.count("\n", 0, match.start()) + 1, match[1]


# A source file that a document names in backticks, with a folder.
NAMED_SOURCE = re.compile(r"`((?:[\w.-]+/)+[\w-]+\.(?:h|cc|py|yaml|sh))(?=[`:])")


def missing_sources(root, path, text):
    """Yields source files that a document names and that do not exist, seen from the document's folder or the top."""
    for match in NAMED_SOURCE.finditer(text):
        if not any((place / match[1]).exists() for place in (path.parent, root)):
            yield text.count("\n", 0, match.start()) + 1, match[1]


def check_hygiene(root):
    for path in project_files(root):
        relative = path.relative_to(root)
        size = path.stat().st_size
        if size > BIG:
            yield f"{relative}: {size} bytes; no file is larger than {BIG}"
            continue
        if path.suffix not in TEXT:
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            if path.suffix in SOURCES:
                yield f"{relative}: not UTF-8"
            continue
        if path.suffix == ".h" and not re.search(r"^#pragma once$", text, re.M):
            yield f"{relative}: no #pragma once"
        for number, name in missing_documents(root, path, text):
            yield f"{relative}:{number}: names {name}, which is not there"
        for number, name in missing_sources(root, path, text) if path.suffix == ".md" else ():
            yield f"{relative}:{number}: names {name}, which is not there; paths begin at the top, or in the document's folder"
        is_code = path.suffix in SOURCES
        for match in TEST_NAME.finditer(text) if is_code else ():
            if match[1].find(": ") > LAST_COLON:
                line = text.count("\n", 0, match.start()) + 1
                yield f"{relative}:{line}: Catch2 aborts where it prints a test name with its first ': ' behind column {LAST_COLON}"
        for number, line in enumerate(text.split("\n"), 1):
            if LEFT_OVERS.search(line):
                yield f"{relative}:{number}: left-over: {line.strip()[:80]}"
            if MACHINE_PATHS.search(line):
                yield f"{relative}:{number}: the path of a machine: {line.strip()[:80]}"
            if is_code and ("\t" in line or line != line.rstrip()):
                yield f"{relative}:{number}: a tab or a trailing blank"
        if is_code and text and not text.endswith("\n"):
            yield f"{relative}: no newline at its end"


DECISIONS = Path("engine/docs/decisions")
STATUS = re.compile(r"\*\d{4}-\d\d-\d\d, (accepted|replaced by \d{4})\*$")
SECTIONS = re.compile(r"Context, Decision, (Alternatives, )?(Measurements, )?Consequences")


def check_decisions(root):
    pages = sorted(path for path in project_files(root) if path.parent == root / DECISIONS and path.name != "README.md")
    index = root / DECISIONS / "README.md"
    rows = dict(re.findall(r"^\| (\d{4}) \| (.*) \|$", index.read_text(), re.M)) if index.exists() else {}
    for position, path in enumerate(pages, 1):
        name, number = path.relative_to(root), f"{position:04}"
        if not path.name.startswith(number + "-"):
            yield f"{name}: the next number is {number}"
            return
        text = path.read_text()
        title, blank, status, *_ = [*text.split("\n"), "", "", ""]
        if not title.startswith(f"# {number}: ") or blank or not STATUS.match(status):
            yield f"{name}: does not begin with '# {number}: title', an empty line, and '*date, accepted*'"
        if not SECTIONS.fullmatch(", ".join(re.findall(r"^## (.*)$", text, re.M))):
            yield f"{name}: the sections should be Context, Decision, Alternatives (if any), Measurements (if any), Consequences"
        date, _, state = status.strip("*").partition(", ")
        row = f"[{title.partition(': ')[2]}]({path.name}) | {date} | {state}"
        if rows.pop(number, None) != row:
            yield f"{DECISIONS}/README.md: the row of {number} should be | {number} | {row} |"
    for number in rows:
        yield f"{DECISIONS}/README.md: {number} has no page"


def check_words(root):
    return words.check_words(root, project_files(root))


def check_lengths(root):
    return lengths.check_lengths(root, code_files(root), without_comments_and_strings)


# --- mirror


def check_mirror(root):
    for path in project_files(root):
        relative = path.relative_to(root)
        if relative.parts[0] != "tests" or relative.parts[1] not in ("engine", "server") or not path.name.endswith("_test.cc"):
            continue
        tested = str(Path(*relative.parts[1:])).removesuffix("_test.cc")
        if relative.parts[-2] != "scenarios" and not any((root / (tested + suffix)).exists() for suffix in SOURCES):
            yield f"{relative}: there is no {tested}.h or .cc; a test of several files belongs in {relative.parent / 'scenarios'}"
        text = path.read_text()
        if "\nnamespace TEST_FILE {\n" not in text or "\nnamespace {\n" in text:
            yield f"{relative}: what it defines is not in `namespace TEST_FILE {{`; tests/CMakeLists.txt says why"


CHECKS = {
    "layers": check_layers,
    "raw_calls": check_raw_calls,
    "planted": check_planted,
    "decisions": check_decisions,
    "lengths": check_lengths,
    "words": check_words,
    "mirror": check_mirror,
    "hygiene": check_hygiene,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rules", nargs="*", metavar="RULE", help=", ".join(CHECKS))
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    options = parser.parse_args()
    for rule in options.rules:
        if rule not in CHECKS:
            parser.error(f"there is no rule '{rule}'; there are: {', '.join(CHECKS)}")
    breaches = 0
    for rule in options.rules or CHECKS:
        for breach in CHECKS[rule](options.root):
            print(f"{rule}: {breach}")
            breaches += 1
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
