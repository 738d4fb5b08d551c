// Limits of the control groups (cgroups) that this process is in.
//
// A service manager or container runtime puts the process into a group. This group and each of its ancestors may set a limit; the
// smallest one applies. /proc/self/cgroup names the group of each hierarchy. /proc/self/mountinfo says where a hierarchy is
// mounted and which of its groups the mount point shows. Version 1 has a hierarchy for each controller, version 2 has one
// hierarchy, and hybrid systems have both. A container often sees only its own group, mounted as if it were the root. Then the
// path in /proc/self/cgroup does not exist below the mount point, and the files of the mount point itself apply.
//
// memory.high is taken as a limit like memory.max: above it the kernel throttles the process, and a larger memory budget would
// keep the server throttled. memory.soft_limit_in_bytes of version 1 is ignored: it applies only while the host is short of
// memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ebbtide {

/// A limit and the file that sets it, such as /sys/fs/cgroup/system.slice/db.service/memory.max.
template <typename T>
struct CgroupLimit {
  T value{};
  std::string file;
};

/// Returns the smallest memory limit in bytes of the process's group and its ancestors; nullopt if none sets a limit. `root` is
/// put before every path that is read, but not in `file`: tests pass a directory tree.
std::optional<CgroupLimit<std::uint64_t>> cgroup_memory_limit(const std::string& root = "");
/// Returns the smallest CPU quota of the same groups, in cores (1.5 = 150 ms of CPU time in each 100 ms).
std::optional<CgroupLimit<double>> cgroup_cpu_quota(const std::string& root = "");

}  // namespace ebbtide
