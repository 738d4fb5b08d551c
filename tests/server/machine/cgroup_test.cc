// Tests of limits of control groups, with directory trees as systemd, Docker and Kubernetes make them.
#include "machine/cgroup.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "machine/machine.h"

namespace ebbtide {
namespace TEST_FILE {

namespace fs = std::filesystem;

// A root directory with files in /proc and /sys. The destructor removes it.
class Root {
 public:
  Root() : path_(fs::temp_directory_path() / ("ebbtide-cgroup-" + std::to_string(::getpid()))) { fs::remove_all(path_); }
  ~Root() { fs::remove_all(path_); }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  Root& file(const std::string& path, const std::string& text) {
    fs::create_directories((path_.string() + path).substr(0, (path_.string() + path).rfind('/')));
    std::ofstream(path_.string() + path) << text;
    return *this;
  }
  Root& version2(const std::string& group, const std::string& shown = "/") {
    file("/proc/self/cgroup", "0::" + group + "\n");
    return file("/proc/self/mountinfo", "22 27 0:21 / /proc rw - proc proc rw\n36 25 0:30 " + shown +
                                            " /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  Root& version1(const std::string& group, const std::string& shown = "/") {
    file("/proc/self/cgroup", "11:memory:" + group + "\n4:cpu,cpuacct:" + group + "\n1:name=systemd:/elsewhere\n");
    return file("/proc/self/mountinfo", "35 31 0:32 " + shown + " /sys/fs/cgroup/memory rw shared:1 - cgroup cgroup rw,memory\n" +
                                            "36 31 0:33 " + shown +
                                            " /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
                                            "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n");
  }
  std::string path() const { return path_.string(); }

 private:
  const fs::path path_;
};

TEST_CASE("cgroup: service's group of version 2 has a limit: this limit applies, and its file is named") {
  Root root;
  root.version2("/system.slice/db.service").file("/sys/fs/cgroup/system.slice/db.service/memory.max", "1073741824\n");
  root.file("/sys/fs/cgroup/system.slice/memory.max", "max\n");
  const auto limit = cgroup_memory_limit(root.path());
  REQUIRE(limit);
  CHECK(limit->value == 1073741824);
  CHECK(limit->file == "/sys/fs/cgroup/system.slice/db.service/memory.max");
}

TEST_CASE("cgroup: parent's limit is smaller than the group's: the parent's limit applies") {
  Root root;
  root.version2("/system.slice/db.service").file("/sys/fs/cgroup/system.slice/db.service/memory.max", "1073741824\n");
  root.file("/sys/fs/cgroup/system.slice/memory.max", "536870912\n");
  CHECK(cgroup_memory_limit(root.path())->file == "/sys/fs/cgroup/system.slice/memory.max");
}

TEST_CASE("cgroup: memory.high is below memory.max: memory.high applies") {
  Root root;
  root.version2("/a").file("/sys/fs/cgroup/a/memory.max", "1073741824\n").file("/sys/fs/cgroup/a/memory.high", "805306368\n");
  CHECK(cgroup_memory_limit(root.path())->value == 805306368);
  CHECK(cgroup_memory_limit(root.path())->file == "/sys/fs/cgroup/a/memory.high");
}

TEST_CASE("cgroup: sub-group of version 1 has a limit: the smallest limit of the group and its parents applies") {
  Root root;
  root.version1("/docker/abc").file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.file("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "2147483648\n");
  root.file("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "4294967296\n");
  root.file("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "150000\n");
  root.file("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
  root.file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n")
      .file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  CHECK(cgroup_memory_limit(root.path())->value == 2147483648);
  CHECK(cgroup_memory_limit(root.path())->file == "/sys/fs/cgroup/memory/docker/memory.limit_in_bytes");
  CHECK(cgroup_cpu_quota(root.path())->value == Approx(1.5));
  CHECK(cgroup_cpu_quota(root.path())->file == "/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us");
}

TEST_CASE("cgroup: container's mount shows only its own group: limits come from the files at the mount point") {
  Root root;
  SECTION("version 1, mount names the group") { root.version1("/docker/abc", "/docker/abc"); }
  SECTION("version 1, path unknown to the mount") { root.version1("/docker/abc", "/kubepods/x"); }
  SECTION("version 1, path does not exist below the mount point") { root.version1("/docker/abc"); }
  root.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n");
  // A group of the same name inside the container is another group.
  root.file("/sys/fs/cgroup/memory/other/memory.limit_in_bytes", "1\n");
  CHECK(cgroup_memory_limit(root.path())->value == 268435456);
  CHECK(cgroup_memory_limit(root.path())->file == "/sys/fs/cgroup/memory/memory.limit_in_bytes");
}

TEST_CASE("cgroup: version 2 path does not exist below the mount point: limits come from the root's files") {
  Root root;
  const std::string group = GENERATE("/kubepods/pod1/c1", "/", "/../../other");
  root.version2(group).file("/sys/fs/cgroup/memory.max", "268435456\n").file("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  CHECK(cgroup_memory_limit(root.path())->file == "/sys/fs/cgroup/memory.max");
  CHECK(cgroup_cpu_quota(root.path())->value == Approx(0.5));
}

TEST_CASE("cgroup: mount shows a subtree with the process's group: the limit is read at the group's path in the subtree") {
  Root root;
  root.version2("/pods/p1/db", "/pods/p1").file("/sys/fs/cgroup/db/memory.max", "1048576\n");
  root.file("/sys/fs/cgroup/memory.max", "2097152\n");
  CHECK(cgroup_memory_limit(root.path())->file == "/sys/fs/cgroup/db/memory.max");
}

TEST_CASE("cgroup: system has versions 1 and 2: the smaller of both limits applies") {
  Root root;
  root.file("/proc/self/cgroup", "3:memory:/a\n1:name=systemd:/a\n0::/b\n");
  root.file("/proc/self/mountinfo",
            "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
            "41 31 0:38 / /sys/fs/cgroup/uni\\040fied rw - cgroup2 cgroup2 rw\n");
  root.file("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "8388608\n");
  CHECK(cgroup_memory_limit(root.path())->value == 8388608);
  root.file("/sys/fs/cgroup/uni fied/b/memory.max", "4194304\n");
  CHECK(cgroup_memory_limit(root.path())->value == 4194304);
}

TEST_CASE("cgroup: no limit is set, or its files are unreadable: no limit applies") {
  Root root;
  SECTION("no /proc") {}
  SECTION("version 2, max") {
    root.version2("/a").file("/sys/fs/cgroup/a/memory.max", "max\n").file("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
  }
  SECTION("limit is not a number") {
    root.version2("no slash").file("/sys/fs/cgroup/memory.max", "none\n").file("/sys/fs/cgroup/cpu.max", "1 0\n");
    root.file("/proc/self/mountinfo", "\n- - -\n36 - cgroup2\n36 25 0:30 / /sys/fs/cgroup rw - cgroup2\n");
  }
  CHECK_FALSE(cgroup_memory_limit(root.path()));
  CHECK_FALSE(cgroup_cpu_quota(root.path()));
}

TEST_CASE("machine: group's limit is below the machine's memory: the limit applies, and the log names its source") {
  Root root;
  root.version2("/x").file("/proc/meminfo", "MemTotal:        4194304 kB\nMemFree: 1 kB\n");
  CHECK(usable_memory(root.path()).bytes == std::uint64_t{4} << 30);
  CHECK(usable_memory(root.path()).source == "the machine's 4096 MiB");
  root.file("/sys/fs/cgroup/x/memory.max", "1073741824\n");
  CHECK(usable_memory(root.path()).bytes == std::uint64_t{1} << 30);
  CHECK(usable_memory(root.path()).source == "the limit 1024 MiB in /sys/fs/cgroup/x/memory.max");
  root.file("/sys/fs/cgroup/x/memory.max", "8589934592\n");
  CHECK(usable_memory(root.path()).bytes == std::uint64_t{4} << 30);
}

TEST_CASE("machine: CPU quota is half a core: one core is usable") {
  Root root;
  root.version2("/x").file("/sys/fs/cgroup/x/cpu.max", "50000 100000\n");
  CHECK(usable_cores(root.path()).count == 1);
  root.file("/sys/fs/cgroup/x/cpu.max", "1000000000 100000\n");
  CHECK(usable_cores(root.path()).count == usable_cores("/nonexistent").count);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
