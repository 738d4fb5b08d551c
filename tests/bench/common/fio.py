"""Runs fio, which measures the drive itself."""

import json
import os
import subprocess
import tempfile
from contextlib import contextmanager

from common import report

PERCENTILES = {"50.000000": "p50_us", "90.000000": "p90_us", "99.000000": "p99_us", "99.900000": "p999_us"}

MOST_FILES = 800  # fio allows 4 KiB for all file names together


def parse(text):
    """Returns {iops, p50_us, ...} from the JSON of one read job. fio may print warnings before the JSON."""
    read = json.loads(text[text.index("{") :])["jobs"][0]["read"]
    latency = read["clat_ns"].get("percentile", {})
    return {"iops": read["iops"], **{name: latency[key] / 1000 for key, name in PERCENTILES.items() if key in latency}}


@contextmanager
def linked(files):
    """Makes a folder beside `files` with hard links to them, named 0, 1, ... The links survive if the owner deletes the files,
    and their names are short enough for fio's single line of names."""
    if not files:
        raise SystemExit("fio: there are no files to read")
    with tempfile.TemporaryDirectory(prefix="fio-", dir=files[0].parent.parent) as folder:
        for number, file in enumerate(files[:MOST_FILES]):
            os.link(file, os.path.join(folder, str(number)))
        yield folder


def random_reads(files, depth, seconds, block="4k", engine="libaio"):
    """Runs fio: random reads of `block` bytes past the page cache, `depth` at a time, over existing files. Returns the result of
    parse()."""
    with linked(files) as folder, tempfile.NamedTemporaryFile("w", prefix="fio-", suffix=".job") as job:
        job.write(
            f"[reads]\nrw=randread\nbs={block}\ndirect=1\nioengine={engine}\niodepth={depth}\ntime_based=1\nruntime={seconds}\nrandrepeat=0\n"
            f"norandommap=1\nfile_service_type=random\nallow_file_create=0\ndirectory={folder}\nfilename={':'.join(sorted(os.listdir(folder)))}\n"
        )
        job.flush()
        process = subprocess.Popen(["fio", "--readonly", "--output-format=json", job.name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ticker = report.Ticker(f"fio, {block} random reads, {depth} at a time")
        while True:
            try:
                out, err = process.communicate(timeout=1)
                break
            except subprocess.TimeoutExpired:
                ticker.tick(f"of {seconds} s")
            except BaseException:
                process.kill()
                raise
    ticker.done()
    if process.returncode:
        raise SystemExit(f"fio ended with status {process.returncode}: {err or out[:500]}")
    return parse(out)
