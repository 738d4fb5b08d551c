"""Shows the delete deadline in a minute: ./dev demo.

Ebbtide with a short deadline and a redis-server with an append-only file run side by side, in a temporary directory. Both servers
store a secret and delete it. Then grep searches the disk for the secret.

The demo proves its claim, or says that it could not. It exits with status 0 only if no file of Ebbtide's directory has the
secret's name or value at the deadline. Unlinked files that are still open are searched, too.

    demo.py [--deadline 20s] [--server PATH] [--plain]
"""

import argparse
import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.server import Server, binary, redis_server, wait_until  # noqa: E402
from support.sockets import Link, ReplyError  # noqa: E402

COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
BLANK = "  "
LOOK_SECONDS = 0.2  # time between two searches of the disk
LATE_SECONDS = 1.0  # allowed delay of the last search, which is due at the deadline


class Screen:
    """Prints output for people: coloured and with a changing line on a terminal, otherwise plain lines."""

    def __init__(self, plain):
        self.live = sys.stdout.isatty() and not plain and os.environ.get("TERM", "dumb") != "dumb"
        self.colour = self.live and not os.environ.get("NO_COLOR")
        self.width = shutil.get_terminal_size((100, 24)).columns
        self.open_line = False
        self.last = None

    def paint(self, colour, text):
        return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m" if self.colour else text

    def say(self, text=""):
        self.end_line()
        print(text, flush=True)

    def step(self, number, title):
        self.say()
        self.say(self.paint("bold", f"{number}. {title}"))

    def progress(self, text, what):
        """Prints a line that replaces the one before. Without a terminal, prints a line whenever `what` has changed."""
        if self.live:
            print("\r\x1b[2K" + text, end="", flush=True)
            self.open_line = True
        elif what != self.last:
            print(text, flush=True)
        self.last = what

    def end_line(self):
        if self.open_line:
            print()
        self.open_line = False


# --- searching the disk


def grep(words, directory):
    """Returns the names of the files below `directory` in which grep finds one of the words."""
    patterns = [part for word in words for part in ("-e", word)]
    for _ in range(20):
        done = subprocess.run(["grep", "-rlaF", *patterns, "."], cwd=directory, capture_output=True, text=True, check=False)
        if done.returncode < 2 or not re.search("No such file", done.stderr):
            break  # if a file was removed meanwhile, grep runs again for the other files
    if done.returncode > 1:
        raise RuntimeError(f"grep: {done.stderr.strip()}")
    return sorted(line.removeprefix("./") for line in done.stdout.splitlines())


def unlinked(words, pid, directory):
    """Returns the names of unlinked files of `directory` that the process still holds open and that contain one of the words."""
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            target = os.readlink(link)
            if not target.startswith(str(directory)) or not target.endswith(" (deleted)"):
                continue
            content = link.read_bytes()
            if any(word.encode() in content for word in words):
                found.append(Path(target.removesuffix(" (deleted)")).name + " (unlinked, still open)")
    return found


def traces(words, server):
    return grep(words, server.data) + unlinked(words, server.pid, server.data.resolve())


# --- the two servers


def has_deadlines(deadline):
    done = subprocess.run([str(binary()), "--check", "--set", f"tree.deletes.deadline={deadline}"], capture_output=True, text=True, check=False)
    return done.returncode == 0, (done.stderr or done.stdout).strip()


@contextlib.contextmanager
def ebbtide(directory, deadline):
    # There is no compression, so that grep can read all data.
    settings = {
        "tree.deletes.deadline": deadline, "storage.compression": "none", "storage.compression_last_level": "none",
        "storage.memory_budget": "64MiB", "server.bind": "127.0.0.1",
    }  # fmt: skip
    directory.mkdir()
    server = Server(settings, directory, config=None)
    try:
        yield server.start()
    finally:
        server.close()


@contextlib.contextmanager
def redis(directory):
    directory.mkdir()
    with redis_server(directory, "--appendonly", "yes") as port:
        yield port


# --- the demo


def listed(files):
    return ", ".join(files) if files else "nothing"


def seconds_of(text):
    match = re.fullmatch(r"(\d+)(s|m)", text)
    if not match or not 2 <= int(match[1]) * {"s": 1, "m": 60}[match[2]] <= 3600:
        raise argparse.ArgumentTypeError("a duration from 2s to 60m, for example 20s")
    return int(match[1]) * {"s": 1, "m": 60}[match[2]]


class Demo:
    def __init__(self, screen, deadline):
        self.screen, self.deadline = screen, deadline
        self.name, self.value = f"patient:{secrets.token_hex(8)}", secrets.token_hex(24)
        self.words = (self.name, self.value)

    def tell(self, who, text):
        self.screen.say(BLANK + self.screen.paint("cyan", f"{who:<8}") + " " + text)

    def run(self, home):
        screen = self.screen
        screen.step(1, "Two servers, one secret")
        with ebbtide(home / "ebbtide", f"{self.deadline}s") as server, redis(home / "redis") as port:
            ours, theirs = Link(server.port), Link(port)
            self.tell("Ebbtide", f"delete deadline {self.deadline} s; compression is off, so that grep sees all data")
            self.tell("Redis", "with an append-only file")
            for link in (ours, theirs):
                link.call("MSET", *(word for i in range(5000) for word in (f"other:{i:05}", secrets.token_hex(40))))
                link.call("SET", self.name, self.value)
            ours.call("TREE.FLUSH")  # the secret is now in a table as well as in the log
            self.both(f"SET {self.name} {self.value[:12]}...", "OK, among 5000 other keys")
            with contextlib.suppress(AssertionError):  # both servers write their logs to the disk within a second
                wait_until(lambda: traces(self.words, server) and grep(self.words, home / "redis"), 10, "the secret is on both disks")
            screen.step(2, "It is on the disk, of course")
            here, there = traces(self.words, server), grep(self.words, home / "redis")
            if not here or not there:
                screen.say(BLANK + screen.paint("red", "grep does not find the secret before its deletion, so there is nothing to show."))
                return 1
            self.tell("Ebbtide", f"grep finds it in {listed(here)}")
            self.tell("Redis", f"grep finds it in {listed(there)}")
            screen.step(3, "Delete it")
            ticket, began = self.delete(ours, theirs)
            self.tell("Ebbtide", f"and on disk? Still in {listed(traces(self.words, server))}")
            self.tell("Redis", f"and on disk? Still in {listed(grep(self.words, home / 'redis'))}")
            screen.say(BLANK + "Every store works like this: a delete only hides the data at first. The question is when the data leaves the disk.")
            screen.step(4, "Wait for the deadline without any writes")
            took = self.wait(ours, server, began)
            return self.conclude(ours, server, home, ticket, took)

    def both(self, command, meaning):
        self.screen.say(BLANK + self.screen.paint("dim", "> ") + command + self.screen.paint("dim", f"   {meaning}"))

    def delete(self, ours, theirs):
        began = time.monotonic()
        for link in (ours, theirs):
            if link.call("DEL", self.name) != 1 or link.call("GET", self.name) is not None:
                raise RuntimeError("DEL did not delete")
        self.both(f"DEL {self.name}", "both reply 1, and nil to GET")
        ticket = ours.call("PURGE.TICKET")
        self.both("PURGE.TICKET", f"{ticket}, for every delete until now")
        return ticket, began

    def wait(self, ours, server, began):
        """Searches until nothing is left or the deadline has come, and once more at the deadline. Returns the seconds, or None if
        something is left."""
        while True:
            passed = time.monotonic() - began
            left = traces(self.words, server)
            if not left and passed > self.deadline + LATE_SECONDS:
                raise RuntimeError("the machine was too busy to search at the deadline")
            if not left:
                self.screen.progress(f"{BLANK}after {passed:4.1f} s  {self.screen.paint('green', 'nothing is left')}", "gone")
                return passed
            if passed >= self.deadline:
                return None
            share = int(20 * passed / self.deadline)
            bar = "=" * share + "-" * (20 - share)
            line = f"{BLANK}[{self.screen.paint('yellow', bar)}] due in {self.deadline - passed:4.1f} s  still in {listed(left)}"
            self.screen.progress(line[: self.screen.width + 9], left)
            time.sleep(min(LOOK_SECONDS, self.deadline - passed))

    def report(self, ours, ticket):
        """Prints the server's own report on the ticket."""
        self.tell("Ebbtide", f"PURGE.WAIT {ticket} 2000 replies {ours.call('PURGE.WAIT', ticket, 2000)}; PURGE.REPORT for auditors:")
        report = json.loads(ours.call("PURGE.REPORT", ticket))
        for name in ("state", "born_by", "deadline", "gone_at_the_latest", "in_time", "scope"):
            if name in report:
                self.screen.say(BLANK * 6 + self.screen.paint("dim", f"{name:<19}") + str(report[name]))

    def conclude(self, ours, server, home, ticket, took):
        screen = self.screen
        screen.step(5, "Search once more")
        left, there = traces(self.words, server), grep(self.words, home / "redis")
        kept = ours.call("GET", "other:00042") is not None and ours.call("EXISTS", self.name) == 0
        self.report(ours, ticket)
        self.tell("Redis", f"grep still finds it in {listed(there)}, until that file is rewritten")
        if left:
            self.tell("Ebbtide", screen.paint("red", f"grep still finds it in {listed(left)}"))
        else:
            self.tell("Ebbtide", "grep finds nothing: no name, no value, in no file" + ("" if took is None else f"; gone after {took:.1f} s of {self.deadline} s"))
        screen.say()
        if left or took is None:
            screen.say(screen.paint("red", "NOT PROVED: ") + "the secret was in Ebbtide's directory at its deadline. This is a fault; please report it.")
            return 1
        if not kept:
            screen.say(screen.paint("red", "NOT PROVED: ") + "other data is missing, or the key still exists.")
            return 1
        screen.say(screen.paint("green", "PROVED: ") + "deleted on time, without further writes, and all other data is still there.")
        return 0


def main():
    parser = argparse.ArgumentParser(prog="./dev demo", description="Shows in a minute what a delete deadline does.")
    parser.add_argument("--deadline", type=seconds_of, default=20, metavar="20s", help="the delete deadline, from 2s to 60m (default: 20s)")
    parser.add_argument("--plain", action="store_true", help="no colours and no changing line")
    options = parser.parse_args()
    screen = Screen(options.plain)

    def interrupted(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupted)
    able, why = has_deadlines(f"{options.deadline}s")
    if not able:
        screen.say(screen.paint("red", "NOT PROVED: ") + "this server has no delete deadline to show.\n" + BLANK + why)
        return 1
    home = Path(tempfile.mkdtemp(prefix="ebbtide-demo-"))
    try:
        return Demo(screen, options.deadline).run(home)
    except KeyboardInterrupt:
        screen.say()
        screen.say("Interrupted; everything is cleaned up.")
        return 130
    except (AssertionError, ReplyError, RuntimeError, OSError) as error:
        screen.say(screen.paint("red", "NOT PROVED: ") + str(error))
        return 1
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
