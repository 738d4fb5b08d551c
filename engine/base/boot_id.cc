#include "base/boot_id.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "base/hash.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kBootSeed = 0x626f6f74;  // "boot"

/// Returns the first bytes of a file of /proc, or "" if the file cannot be read.
std::string read_proc(const char* path) {
  char text[512];
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t length = ::read(fd, text, sizeof(text));
  ::close(fd);
  return length > 0 ? std::string(text, static_cast<std::size_t>(length)) : std::string();
}

}  // namespace

// The result depends on the offsets of the time namespace, too, since time namespaces have different boot clocks.
std::uint64_t system_boot_id() {
  const std::string boot = read_proc("/proc/sys/kernel/random/boot_id");
  return boot.empty() ? 0 : hash_bytes(boot + read_proc("/proc/self/timens_offsets"), kBootSeed);
}

}  // namespace ebbtide
