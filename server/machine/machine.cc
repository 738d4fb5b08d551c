#include "machine/machine.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <cstring>
#include <string_view>
#ifdef EBBTIDE_WITH_MIMALLOC
#include <mimalloc.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "machine/cgroup.h"

namespace ebbtide {
namespace {

// Returns the number in a line "<name>: <n> kB" of a file in /proc, in bytes.
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

std::string in_units(std::uint64_t bytes) {
  return bytes < (std::uint64_t{1} << 20) ? std::to_string(bytes) + " B" : std::to_string(bytes >> 20) + " MiB";
}

}  // namespace

UsableCores usable_cores(const std::string& root) {
  unsigned cores = 1;
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) cores = static_cast<unsigned>(std::max(CPU_COUNT(&set), 1));
  const auto quota = cgroup_cpu_quota(root);
  if (!quota || std::ceil(quota->value) >= cores) return {cores, std::to_string(cores) + (cores == 1 ? " core" : " cores")};
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", quota->value);
  return {std::max(1u, static_cast<unsigned>(std::ceil(quota->value))),
          "the CPU quota " + std::string(text) + " in " + quota->file};
}

unsigned event_loops_for(unsigned cores) { return cores <= 2 ? 1 : std::min(cores / 2, 16u); }

unsigned merge_threads_for(unsigned cores) { return std::clamp(cores / 4, 1u, 256u); }

UsableMemory usable_memory(const std::string& root) {
  const std::uint64_t machine = proc_kilobytes((root + "/proc/meminfo").c_str(), "MemTotal");
  const auto limit = cgroup_memory_limit(root);
  if (!limit || limit->value >= machine) return {machine, "the machine's " + in_units(machine)};
  return {limit->value, "the limit " + in_units(limit->value) + " in " + limit->file};
}

std::string system_name() {
  utsname name{};
  if (::uname(&name) != 0) return "unknown";
  return std::string(name.sysname) + " " + name.release + " " + name.machine;
}

// Reads /proc/self/statm: about 10 us, a fraction of reading VmRSS from /proc/self/status.
std::uint64_t resident_bytes() {
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::uint64_t pages = 0;
  if (std::FILE* const file = std::fopen("/proc/self/statm", "re"); file != nullptr) {
    if (std::fscanf(file, "%*s %" SCNu64, &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return pages * page;
}
std::uint64_t peak_resident_bytes() { return proc_kilobytes("/proc/self/status", "VmHWM"); }

std::string allocator_name() {
#ifdef EBBTIDE_WITH_MIMALLOC
  const int version = mi_version();  // 209: 2.0.9
  return "mimalloc-" + std::to_string(version / 100) + "." + std::to_string(version / 10 % 10) + "." +
         std::to_string(version % 10);
#else
  return "libc";
#endif
}

#ifdef EBBTIDE_WITH_MIMALLOC
namespace {

// Gets mimalloc's messages. mimalloc may end the process without calling the new handler. Only its message has the number of
// bytes that it could not allocate. Must not allocate.
void hear_mimalloc(const char* text, void* refused) {
  constexpr std::string_view kMark = "unable to allocate memory (";
  const char* at = std::strstr(text, kMark.data());
  if (at == nullptr) return;
  std::uint64_t bytes = 0;
  for (at += kMark.size(); *at >= '0' && *at <= '9'; ++at) bytes = bytes * 10 + static_cast<std::uint64_t>(*at - '0');
  (*static_cast<void (**)(std::uint64_t)>(refused))(bytes);
}

// mimalloc calls this after each error, since the first allocation of a thread may fail without a message that has its size. Must
// not allocate.
void hear_error(int error, void* refused) {
  if (error == ENOMEM) (*static_cast<void (**)(std::uint64_t)>(refused))(0);
  if (error == EFAULT) std::abort();  // the heap is damaged
}

}  // namespace
#endif

void report_refused_allocations([[maybe_unused]] void (*refused)(std::uint64_t bytes)) {
#ifdef EBBTIDE_WITH_MIMALLOC
  static void (*listener)(std::uint64_t) = nullptr;
  listener = refused;
  mi_register_output(hear_mimalloc, &listener);
  mi_register_error(hear_error, &listener);
  mi_option_enable(mi_option_show_errors);
#endif
}

bool keeps_to_budget() {
#ifdef EBBTIDE_WITH_MIMALLOC
  return true;
#else
  return false;
#endif
}

void give_freed_memory_back() {
#ifdef EBBTIDE_WITH_MIMALLOC
  // By default, a thread returns freed memory at its next allocation, which after a merge of gigabytes may be hours later.
  mi_option_set_default(mi_option_decommit_delay, 0);
  mi_option_set_default(mi_option_segment_decommit_delay, 0);
#endif
}

void collect_freed_memory() {
#ifdef EBBTIDE_WITH_MIMALLOC
  mi_collect(false);
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
  if (limit.rlim_max < wanted) {  // only root may raise the hard limit
    const rlimit further{wanted, wanted};
    if (::setrlimit(RLIMIT_NOFILE, &further) == 0) return wanted;
  }
  // The system may refuse a hard limit of "infinity".
  for (const rlim_t most : {limit.rlim_max, std::min<rlim_t>(wanted, limit.rlim_max)}) {
    const rlimit raised{most, limit.rlim_max};
    if (limit.rlim_cur < most && ::setrlimit(RLIMIT_NOFILE, &raised) == 0) return most;
  }
  return limit.rlim_cur;
}

namespace {

constexpr std::uint64_t kOtherFiles = 128;  // for logs, files being written, event loops and the metrics port

}  // namespace

FileShares share_files(std::uint64_t limit, std::uint64_t wanted_clients) {
  const std::uint64_t shared = limit - std::min(kOtherFiles, limit / 4);
  const std::uint64_t clients = std::min(wanted_clients, std::max<std::uint64_t>(shared / 3 * 2, 1));
  return {clients, std::max<std::uint64_t>(shared - std::min(clients, shared), 1)};
}

std::uint64_t file_limit_for(std::uint64_t clients) { return kOtherFiles + (clients + 1) / 2 * 3; }

void set_core_dumps(bool allowed) {
  if (allowed) return;
  const rlimit none{0, 0};
  (void)::setrlimit(RLIMIT_CORE, &none);
  (void)::prctl(PR_SET_DUMPABLE, 0);
}

}  // namespace ebbtide
