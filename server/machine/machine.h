// Processors, memory and limits of the machine or container. Read at start and for INFO.
#pragma once

#include <cstdint>
#include <string>

namespace ebbtide {

/// Processor cores that the affinity mask and the cgroup's CPU quota allow, whichever is less; at least 1.
struct UsableCores {
  unsigned count = 1;
  std::string source;  ///< for the log: "8 cores", "the CPU quota 1.5 in /sys/fs/cgroup/x/cpu.max"
};
/// `root` is prepended to the paths in /proc and /sys: tests pass a directory tree.
UsableCores usable_cores(const std::string& root = "");
/// Memory of the machine or, if that is less, the limit of a cgroup on the way from this process's up to the root.
struct UsableMemory {
  std::uint64_t bytes = 0;
  std::string source;  ///< for the log: "the machine's 16011 MiB", "the limit 1024 MiB in /sys/fs/cgroup/x/memory.max"
};
UsableMemory usable_memory(const std::string& root = "");
/// "Linux 6.1.0 x86_64".
std::string system_name();
/// Bytes of this process in memory, now and at most.
std::uint64_t resident_bytes();
std::uint64_t peak_resident_bytes();

/// Makes mimalloc call `refused` with the bytes of each failed allocation, on its thread, before the allocation returns.
/// Suppresses mimalloc's own messages. Has no effect with another allocator, which calls std::get_new_handler() instead. Call it
/// once.
void report_refused_allocations(void (*refused)(std::uint64_t bytes));
/// "mimalloc-2.0.9", "libc".
std::string allocator_name();
/// True if resident_bytes() says how much memory is used. A sanitizer's is a multiple of that.
bool keeps_to_budget();
/// Makes the allocator return freed memory to the system at once, instead of keeping it for idle threads.
void give_freed_memory_back();
/// Collects memory of this thread that other threads have freed, since they cannot return it themselves. Takes 10 us or more.
void collect_freed_memory();
/// Seconds of processor time of this process.
struct CpuTimes {
  double user = 0, system = 0, user_children = 0, system_children = 0;
};
CpuTimes cpu_times();
/// Raises the limit of open files to the hard limit. If that is below `wanted`, root raises both to `wanted`. Returns the limit.
std::uint64_t raise_file_limit(std::uint64_t wanted);

/// Parts of the limit of open files. The rest is for logs, files that merges write, event loops and the metrics port.
struct FileShares {
  std::uint64_t clients = 0, tables = 0;
};
/// All clients that are wanted get a file if two thirds of what the rest leaves suffice; tables get what remains. Both get at least 1.
FileShares share_files(std::uint64_t limit, std::uint64_t wanted_clients);
/// The limit from which share_files() serves all clients that are wanted.
std::uint64_t file_limit_for(std::uint64_t clients);
/// Enables or disables core files.
void set_core_dumps(bool allowed);

}  // namespace ebbtide
