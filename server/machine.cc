#include "machine.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>
#ifdef EBBTIDE_WITH_MIMALLOC
#include <mimalloc.h>
#endif

#include <algorithm>
#include <fstream>
#include <sstream>

namespace ebbtide {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// The cgroup's quota in cores, rounded up; 0 = none. Version 2, then version 1.
unsigned quota_cores() {
  std::istringstream v2(first_line("/sys/fs/cgroup/cpu.max"));
  double quota = 0, period = 0;
  if (v2 >> quota >> period && period > 0) return static_cast<unsigned>((quota + period - 1) / period);
  std::istringstream v1_quota(first_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"));
  std::istringstream v1_period(first_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us"));
  if (v1_quota >> quota && v1_period >> period && quota > 0 && period > 0)
    return static_cast<unsigned>((quota + period - 1) / period);
  return 0;
}

std::uint64_t cgroup_memory() {
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::istringstream line(first_line(path));
    std::uint64_t bytes = 0;
    if (line >> bytes) return bytes;
  }
  return ~std::uint64_t{0};
}

// A line "<name>: <n> kB" of a file in /proc.
std::uint64_t proc_kilobytes(const char* path, const std::string& name) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    if (line.compare(0, name.size() + 1, name + ":") != 0) continue;
    std::istringstream value(line.substr(name.size() + 1));
    std::uint64_t kilobytes = 0;
    if (value >> kilobytes) return kilobytes << 10;
  }
  return 0;
}

double seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; }

}  // namespace

unsigned usable_cores() {
  unsigned cores = 1;
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) cores = static_cast<unsigned>(std::max(CPU_COUNT(&set), 1));
  const unsigned quota = quota_cores();
  return quota == 0 ? cores : std::max(1u, std::min(cores, quota));
}

std::uint64_t usable_memory() { return std::min(proc_kilobytes("/proc/meminfo", "MemTotal"), cgroup_memory()); }

std::string system_name() {
  utsname name{};
  if (::uname(&name) != 0) return "unknown";
  return std::string(name.sysname) + " " + name.release + " " + name.machine;
}

std::uint64_t resident_bytes() { return proc_kilobytes("/proc/self/status", "VmRSS"); }
std::uint64_t peak_resident_bytes() { return proc_kilobytes("/proc/self/status", "VmHWM"); }

void give_freed_memory_back() {
#ifdef EBBTIDE_WITH_MIMALLOC
  // A thread gives back what it freed the next time that it allocates: after a merge of gigabytes that may be hours.
  mi_option_set_default(mi_option_decommit_delay, 0);
#endif
}

CpuTimes cpu_times() {
  rusage self{}, children{};
  (void)::getrusage(RUSAGE_SELF, &self);
  (void)::getrusage(RUSAGE_CHILDREN, &children);
  return {seconds(self.ru_utime), seconds(self.ru_stime), seconds(children.ru_utime), seconds(children.ru_stime)};
}

std::uint64_t raise_file_limit(std::uint64_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  if (limit.rlim_cur < wanted) {
    rlimit raised = limit;
    raised.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
    if (limit.rlim_max < wanted) {  // root may go further
      const rlimit further{wanted, wanted};
      if (::setrlimit(RLIMIT_NOFILE, &further) == 0) return wanted;
    }
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return limit.rlim_cur;
}

void set_core_dumps(bool allowed) {
  if (allowed) return;
  const rlimit none{0, 0};
  (void)::setrlimit(RLIMIT_CORE, &none);
  (void)::prctl(PR_SET_DUMPABLE, 0);
}

}  // namespace ebbtide
