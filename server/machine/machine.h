// The processors, memory and limits of the machine or container, for the start and for INFO.
#pragma once

#include <cstdint>
#include <string>

namespace ebbtide {

/// How many processor cores this process may use: those of the affinity mask, or fewer by the cgroup's CPU quota; at least 1.
struct UsableCores {
  unsigned count = 1;
  std::string source;  ///< for the log: "8 cores", "the CPU quota 1.5 in /sys/fs/cgroup/x/cpu.max"
};
/// Returns the cores that this process may use. `root` is put before the paths in /proc and /sys: tests pass a directory tree.
UsableCores usable_cores(const std::string& root = "");
/// Returns the number of event loops for `cores` usable cores. For up to three cores that is one, since the engine needs another
/// core. For more cores it is half of them, at most 16.
unsigned event_loops_for(unsigned cores);
/// Returns the number of threads for merges on `cores` usable cores: a quarter of them, at least 1. The other cores are for event
/// loops, the log and flushes.
unsigned merge_threads_for(unsigned cores);

/// The memory that this process may use: that of the machine, or the smallest limit of the process's cgroups if that is less.
struct UsableMemory {
  std::uint64_t bytes = 0;
  std::string source;  ///< for the log: "the machine's 16011 MiB", "the limit 1024 MiB in /sys/fs/cgroup/x/memory.max"
};
UsableMemory usable_memory(const std::string& root = "");
/// Returns a text like "Linux 6.1.0 x86_64".
std::string system_name();
/// Return the resident bytes of this process: now, and their maximum so far.
std::uint64_t resident_bytes();
std::uint64_t peak_resident_bytes();

/// Makes mimalloc call `refused` with the bytes of each failed allocation, on the allocating thread, before the allocation
/// returns. It passes 0 if the size is unknown, and calls once more with 0 after each failure. Suppresses mimalloc's own
/// messages. Has no effect with another allocator, which calls std::get_new_handler() instead. Call it once.
void report_refused_allocations(void (*refused)(std::uint64_t bytes));
/// Returns the allocator's name: "mimalloc-2.0.9" or "libc".
std::string allocator_name();
/// Returns false in a build with a sanitizer, where resident_bytes() is several times the memory that the server uses.
bool keeps_to_budget();
/// Makes the allocator return freed memory to the system at once, instead of keeping it for idle threads.
void give_freed_memory_back();
/// Frees memory of this thread's heap that other threads have released, since only this thread can return it to the system. Takes
/// 10 us or more.
void collect_freed_memory();
/// The processor time of this process, in seconds.
struct CpuTimes {
  double user = 0, system = 0, user_children = 0, system_children = 0;
};
CpuTimes cpu_times();
/// Raises the limit of open files to the hard limit. If the hard limit is below `wanted` and the process is root, raises both
/// limits to `wanted`. Returns the new limit.
std::uint64_t raise_file_limit(std::uint64_t wanted);

/// How many files clients may open, and how many tables may. The other files are logs, outputs of merges, event loops and the
/// metrics port.
struct FileShares {
  std::uint64_t clients = 0, tables = 0;
};
/// Divides the limit of open files, without those reserved for other uses, between clients and tables. Clients get as many as
/// wanted, but at most two thirds; tables get the rest. Both parts are at least 1.
FileShares share_files(std::uint64_t limit, std::uint64_t wanted_clients);
/// Returns the smallest limit of open files with which share_files() gives a file to each of `clients`.
std::uint64_t file_limit_for(std::uint64_t clients);
/// Enables or disables core files.
void set_core_dumps(bool allowed);

}  // namespace ebbtide
