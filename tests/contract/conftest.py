"""Gives servers to the tests of this folder. Sets the time limit and the number of open files of each test."""

import faulthandler
import os
import resource
import shutil
import signal
import sys

import pytest

from support.server import Server

TEST_SECONDS = 300  # no test takes a fifth of this
SETTINGS = {"storage.memory_budget": "128MiB", "server.bind": "127.0.0.1"}  # so that results do not depend on the machine


# These files take longest. They begin first, so that no worker has a long file left when the others have ended.
LONG_FILES = ["test_large_collections", "test_stalls", "test_dashboards", "test_command_memory", "test_lost_files", "test_damage_matrix",
              "test_deadline", "test_linearizability", "test_large_values", "test_field_expiry"]  # fmt: skip

# If EBBTIDE_EVERY_NTH is set, as in CI, only every n-th test of these files runs. EBBTIDE_SEED, which CI takes from the commit, says which.
ROTATED_FILES = ["test_large_collections", "test_stalls", "test_command_memory", "test_lost_files", "test_damage_matrix", "test_large_values"]


def pytest_collection_modifyitems(config, items):
    def place(item):
        name = item.path.stem
        return LONG_FILES.index(name) if name in LONG_FILES else len(LONG_FILES)

    items.sort(key=place)
    every, first = int(os.environ.get("EBBTIDE_EVERY_NTH", "1")), int(os.environ.get("EBBTIDE_SEED", "0")) // 1000
    rotated = [item for item in items if item.path.stem in ROTATED_FILES]
    left_out = {item for i, item in enumerate(rotated) if (i - first) % every != 0}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def pytest_configure(config):
    # An assertion on a thread of a test fails the test.
    config.addinivalue_line("filterwarnings", "error::pytest.PytestUnhandledThreadExceptionWarning")
    # Some tests open a thousand connections.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8192 if hard == resource.RLIM_INFINITY else min(8192, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

    def interrupted(*_):
        raise KeyboardInterrupt  # so that fixtures stop the servers

    signal.signal(signal.SIGTERM, interrupted)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """Shows the end of each server's log when a test fails."""
    report = (yield).get_result()
    if report.failed:
        item.has_failed = True
        report.sections += [(f"log of {server.home}", server.log_tail()) for server in Server.all]


@pytest.fixture(autouse=True)
def within_time():
    """Makes a test that hangs fail after TEST_SECONDS, and prints the stacks of its threads."""

    def too_late(*_):
        faulthandler.dump_traceback(file=sys.__stderr__)
        raise TimeoutError(f"the test took over {TEST_SECONDS} s")

    signal.signal(signal.SIGALRM, too_late)
    signal.alarm(TEST_SECONDS)
    yield
    signal.alarm(0)


@pytest.fixture(autouse=True)
def without_data_of_passed_tests(request, tmp_path):
    """Removes what a test that passed has stored: all tests together store 50 GB."""
    yield
    if not getattr(request.node, "has_failed", False):
        shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture
def fresh(tmp_path):
    """A server that the test starts itself."""
    server = Server(SETTINGS, tmp_path, config=None)
    yield server
    server.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server shared by the tests of a file."""
    running = Server(SETTINGS, tmp_path_factory.mktemp("server"), config=None).start()
    try:
        yield running
        assert running.stop() == 0, running.log_tail()
    finally:
        running.close()
