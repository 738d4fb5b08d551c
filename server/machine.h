// What the machine, or the container around us, has. Read at start and for INFO.
#pragma once

#include <cstdint>
#include <string>

namespace ebbtide {

/// Processor cores that may be used: of the machine, the affinity mask and the cgroup's CPU quota the least, at least 1.
unsigned usable_cores();
/// Bytes of memory of the machine or, if that is less, of the cgroup's limit.
std::uint64_t usable_memory();
/// "Linux 6.1.0 x86_64".
std::string system_name();
/// Bytes of this process in memory, now and at most.
std::uint64_t resident_bytes();
std::uint64_t peak_resident_bytes();
/// What is freed goes back to the system at once, where the allocator would keep it for threads that are idle by then.
void give_freed_memory_back();
/// Seconds of processor time of this process.
struct CpuTimes {
  double user = 0, system = 0, user_children = 0, system_children = 0;
};
CpuTimes cpu_times();
/// Raises the limit of open files as far as allowed, up to `wanted`; returns what it is now.
std::uint64_t raise_file_limit(std::uint64_t wanted);
/// Core files are written, or not.
void set_core_dumps(bool allowed);

}  // namespace ebbtide
