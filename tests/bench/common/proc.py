"""Reads the kernel's counts for processes (CPU time, memory, disk reads, system calls) and for the rest of the machine."""

import os
import re
import signal
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def stat_cpu_seconds(text):
    """Returns (own, children's) user and system time in seconds from the text of /proc/PID/stat. The kernel counts children once
    they have been waited for."""
    fields = text.rsplit(")", 1)[1].split()  # the name in brackets may contain any characters
    return (int(fields[11]) + int(fields[12])) / TICKS, (int(fields[13]) + int(fields[14])) / TICKS


_ended_threads = {}  # {pid: CPU seconds of threads that have ended}, as far as known


def cpu_seconds(pid):
    """Returns the user and system time, in seconds, of all threads of a process and of its ended children.

    The resolution is a nanosecond if the kernel has the scheduler's statistics per thread, otherwise a tick of 10 ms. Only the
    ticks include ended threads: if the ticks exceed the sum of the threads by more than rounding, the difference belongs to ended
    threads.
    """
    own, children = stat_cpu_seconds(Path(f"/proc/{pid}/stat").read_text())
    exact = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            exact += int((task / "schedstat").read_text().split()[0])
        except (OSError, IndexError):
            continue  # the thread has just ended, or the kernel has no statistics
    ended = _ended_threads.get(pid, 0)
    if own - exact / 1e9 > ended + 3 / TICKS:
        ended = _ended_threads[pid] = own - exact / 1e9
    return exact / 1e9 + ended + children


def numbers_of(text):
    """Returns {name: number} of lines such as `VmRSS:   123 kB` or `read_bytes: 5`. Values in kB become bytes."""
    found = re.findall(r"^(\w+):\s+(\d+)( kB)?\s*$", text, re.M)
    return {name: int(number) << (10 if kib else 0) for name, number, kib in found}


def memory(pid):
    """Returns {"rss", "anonymous", "file", "peak"} of a process in bytes."""
    found = numbers_of(Path(f"/proc/{pid}/status").read_text())
    return {"rss": found["VmRSS"], "anonymous": found["RssAnon"], "file": found["RssFile"], "peak": found["VmHWM"]}


def disk_read_bytes(pid):
    """Returns the bytes that a process has read from the disk, or None if the kernel does not count them."""
    try:
        return numbers_of(Path(f"/proc/{pid}/io").read_text()).get("read_bytes")
    except OSError:
        return None


def forget_cached(directory):
    """Drops the files of a directory from the system's page cache, except for dirty pages."""
    os.sync()
    for path in Path(directory).rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Bystanders:
    """Measures the share of the machine that processes other than the benchmark take, from construction to share()."""

    def __init__(self):
        self.busy, self.stolen, self.all = self._machine()
        self.ours = self._ours()

    @staticmethod
    def _machine():
        # The columns are user nice system idle iowait irq softirq steal, in ticks.
        fields = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        return (sum(fields) - fields[3] - fields[4] - fields[7]) / TICKS, fields[7] / TICKS, sum(fields) / TICKS

    @staticmethod
    def _ours():
        """Returns the CPU seconds of this process and its descendants."""
        parents, seconds = {}, {}
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            try:
                text = Path(entry.path, "stat").read_text()
            except OSError:
                continue  # the process has ended meanwhile
            parents[int(entry.name)] = int(text.rsplit(")", 1)[1].split()[1])
            seconds[int(entry.name)] = sum(stat_cpu_seconds(text))
        family = {os.getpid()}
        while more := {pid for pid, parent in parents.items() if parent in family} - family:
            family |= more
        return sum(seconds.get(pid, 0) for pid in family)

    def share(self):
        """Returns {"other_processes", "stolen"} as fractions of the machine's time. Interrupts count as other processes."""
        busy, stolen, everything = self._machine()
        span = max(everything - self.all, 1e-9)
        others = max(0.0, (busy - self.busy) - (self._ours() - self.ours))
        return {"other_processes": round(others / span, 4), "stolen": round((stolen - self.stolen) / span, 4)}


def parse_strace_counts(text):
    """Returns {name: calls} from the table of `strace -c -U name,calls`."""
    rows = (line.split() for line in text.split("\n"))
    return {words[0]: int(words[1]) for words in rows if len(words) == 2 and words[1].isdigit() and words[0] != "total"}


@contextmanager
def counted_system_calls(pid):
    """Counts the system calls of a process during the block. Yields a dictionary that becomes {name: calls} at the end, or stays
    empty if strace may not attach. strace slows the process down many times over."""
    calls = {}
    with tempfile.NamedTemporaryFile("r", prefix="strace-") as output:
        strace = subprocess.Popen(["strace", "-f", "-c", "-U", "name,calls", "-o", output.name, "-p", str(pid)], stderr=subprocess.PIPE, text=True)
        attached = "attached" in strace.stderr.readline()
        try:
            yield calls
        finally:
            if attached:
                strace.send_signal(signal.SIGINT)
            strace.communicate()
        if attached:
            calls.update(parse_strace_counts(output.read()))


class MemoryCgroup:
    """An existing memory cgroup for a server, whose limit includes the system's page cache.

    The user makes it and passes its folder, since a benchmark often lacks the rights to make one.
    """

    def __init__(self, folder):
        self.folder = Path(folder)
        for name in ("memory.max", "memory.limit_in_bytes"):
            if (self.folder / name).exists():
                text = (self.folder / name).read_text().strip()
                self.limit = int(text) if text.isdigit() else None
                break
        else:
            raise SystemExit(f"{folder} is no memory cgroup: it has neither memory.max nor memory.limit_in_bytes")
        if not os.access(self.folder / "cgroup.procs", os.W_OK):
            raise SystemExit(f"{folder}/cgroup.procs cannot be written: no process can be put into that cgroup")

    def take(self, pid):
        (self.folder / "cgroup.procs").write_text(str(pid))
