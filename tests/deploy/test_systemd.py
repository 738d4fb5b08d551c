"""Tests the unit of deploy/systemd: systemd accepts it, its exposure is low, and its filter allows every system call of the
server."""

import re
import shutil
import socket
import subprocess

import pytest
from support.server import ROOT, Server

SYSTEMD = ROOT / "deploy" / "systemd"
UNIT = (SYSTEMD / "ebbtide.service").read_text()
MOST_EXPOSURE = 20  # the highest allowed exposure, in tenths; systemd-analyze calls everything below 4.0 "OK"


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def settings(name):
    return re.findall(rf"^{name}=(.*)$", UNIT, re.M)


def targets_of_the_readme():
    """Returns the targets that deploy/README.md builds before it installs them without the package."""
    readme = (ROOT / "deploy/README.md").read_text()
    return set(re.search(r"^    \./dev build (.*)\n    cmake --install build/release --component server ", readme, re.M)[1].split())


def test_build_before_the_installation_in_the_readme_names_every_program_that_is_installed():
    rule = re.search(r"install\(TARGETS (.*) RUNTIME COMPONENT server\)", (ROOT / "CMakeLists.txt").read_text())[1]
    of_dev = re.search(r"^readonly installed_programs=\((.*)\)$", (ROOT / "dev").read_text(), re.M)[1]
    of_image = re.search(r"cmake --build /build .*--target (.*) \\$", (ROOT / "docker/Dockerfile").read_text(), re.M)[1]
    assert targets_of_the_readme() == set(rule.split())
    assert set(of_dev.split()) == set(rule.split()) == set(of_image.split())


def test_example_of_users_is_installed_where_the_configuration_names_it():
    place = re.search(r"/usr/(share/ebbtide)/users\.acl", (ROOT / "config/ebbtide.yaml").read_text())[1]
    files = re.findall(r"install\(FILES (.*) DESTINATION \$\{CMAKE_INSTALL_DATADIR\}/ebbtide ", (ROOT / "CMakeLists.txt").read_text())
    assert place == "share/ebbtide" and any("config/users.acl" in line.split() for line in files)
    assert f"/installed/usr/{place}/users.acl /usr/{place}/" in (ROOT / "docker/Dockerfile").read_text()


def test_installed_files_have_the_paths_that_the_unit_and_systemd_read(tmp_path):
    run("cmake", "--install", str(ROOT / "build/release"), "--component", "server", "--prefix", str(tmp_path / "usr"))
    program, *arguments = settings("ExecStart")[0].split()
    assert "ebbtide-server" in run(str(tmp_path / program[1:]), "--version")
    installed = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert installed == {
        *(f"usr/bin/{program}" for program in targets_of_the_readme()),
        "usr/lib/systemd/system/ebbtide.service",
        "usr/lib/sysusers.d/ebbtide.conf",
        "usr/lib/tmpfiles.d/ebbtide.conf",
        "usr/share/ebbtide/ebbtide.yaml",
        "usr/share/ebbtide/users.acl",
    }
    # The unit's command line must be valid with the shipped configuration.
    arguments = [argument.replace("/etc/ebbtide/", f"{tmp_path}/usr/share/ebbtide/") for argument in arguments]
    assert "valid" in run(str(tmp_path / program[1:]), *arguments, "--check")


def test_systemd_analyze_accepts_the_unit(tmp_path):
    program = shutil.which("true")
    (tmp_path / "ebbtide.service").write_text(UNIT.replace("/usr/bin/ebbtide-server", program))
    assert run("systemd-analyze", "verify", "--man=no", str(tmp_path / "ebbtide.service")) == ""


def test_systemd_analyze_rates_the_exposure_of_the_unit_as_low():
    run("systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={MOST_EXPOSURE}", str(SYSTEMD / "ebbtide.service"))


def test_unit_sets_limits_of_open_files_and_core_dumps_and_private_modes():
    assert int(settings("LimitNOFILE")[0]) >= 2 * 10_000  # server.max_clients has the default 10,000; as many tables may be open
    assert settings("LimitCORE") == ["0"]
    assert settings("UMask") == ["0077"] and settings("StateDirectoryMode") == ["0700"]


def test_configuration_file_is_readable_by_the_server_and_writable_only_by_root(tmp_path):
    (tmp_path / "usr/share/ebbtide").mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    shutil.copy(ROOT / "config/ebbtide.yaml", tmp_path / "usr/share/ebbtide")
    run("systemd-sysusers", f"--root={tmp_path}", str(SYSTEMD / "ebbtide.sysusers"))
    user = re.search(r"^ebbtide:x:(\d+):(\d+):.*:/usr/sbin/nologin$", (tmp_path / "etc/passwd").read_text(), re.M)
    assert user and int(user[1]) != 0
    run("systemd-tmpfiles", f"--root={tmp_path}", "--create", str(SYSTEMD / "ebbtide.tmpfiles"))
    for path, mode in (("etc/ebbtide", 0o750), ("etc/ebbtide/ebbtide.yaml", 0o640)):
        status = (tmp_path / path).stat()
        assert (status.st_mode & 0o777, status.st_uid, status.st_gid) == (mode, 0, int(user[2])), path


def test_server_reports_its_start_heartbeats_and_end_to_the_service_manager():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, Server() as server:
        manager.settimeout(20)
        server.stop()
        manager.bind(f"{server.home}/notify")
        server.prefix = ["env", f"NOTIFY_SOCKET={server.home}/notify", "WATCHDOG_USEC=200000"]
        server.start()

        def read_until(wanted):
            reports = []
            while not any(wanted in report for report in reports):
                reports.append(manager.recv(4096).decode())
            return reports

        assert any("EXTEND_TIMEOUT_USEC=" in report for report in read_until("READY=1"))
        read_until("WATCHDOG=1")
        read_until("WATCHDOG=1")
        server.stop()
        read_until("STOPPING=1")


def system_calls(names, groups):
    """Returns the system calls of groups such as @file-system, and of groups inside them."""
    return {call for name in names for call in (system_calls(groups[name], groups) if name.startswith("@") else {name})}


def system_call_groups():
    groups, group = {}, None
    for line in run("systemd-analyze", "syscall-filter", "--no-pager").splitlines():
        if line.startswith("@"):
            group = groups.setdefault(line.strip(), [])
        elif group is not None and line.startswith("    ") and not line.strip().startswith("#"):
            group.append(line.strip())
    return groups


def allowed_system_calls():
    groups = system_call_groups()
    allowed = set()
    for line in settings("SystemCallFilter"):
        if line.startswith("~"):
            allowed -= system_calls(line[1:].split(), groups)
        else:
            allowed |= system_calls(line.split(), groups)
    return allowed


@pytest.mark.parametrize("io_uring", ["true", "false"])
def test_system_call_filter_of_the_unit_allows_every_call_of_the_server(tmp_path, io_uring):
    trace = tmp_path / "trace"
    small = {"storage.io_uring": io_uring, "storage.memory_budget": "32MiB", "storage.memtable_size": "1MiB", "storage.block_cache": "1MiB"}
    with Server(small, prefix=["strace", "-D", "-f", "-qq", "-o", str(trace), "-e", "trace=all", "-e", "signal=none"]) as server:
        client = server.client()
        for batch in range(4):
            with client.pipeline(transaction=False) as pipe:
                for i in range(500):
                    pipe.set(f"k{batch}-{i}", "v" * 1000)
                pipe.execute()
            client.execute_command("TREE.FLUSH")
        client.execute_command("STAMP.DELRANGE", "-", "1")
        client.execute_command("DELPREFIX", "k1-")
        client.execute_command("TREE.COMPACT")
        for i in range(500):
            client.get(f"k2-{i}")
        client.save()
        server.http("/metrics")
        client.execute_command("CONFIG", "SET", "storage.fsync", "always")
        client.set("k", "v")
        server.stop()
    used = set(re.findall(r"^\d+ +(\w+)\(", trace.read_text(errors="replace"), re.M))
    assert {"fdatasync", "epoll_wait", "mmap"} <= used
    # The server needs these system calls, too, on full disks, after damage and with other kernels.
    used |= {"fallocate", "ftruncate", "link", "linkat", "unlink", "io_uring_setup", "io_uring_enter", "io_uring_register", "statfs"}
    assert used <= allowed_system_calls(), used - allowed_system_calls()
