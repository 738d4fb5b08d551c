#include "machine/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>

namespace ebbtide {
namespace {

// Returns `text` as a number; -1 if it is not a number.
std::int64_t number_of(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : -1;
}

}  // namespace

std::string ServiceManager::starting(std::string_view text, std::uint64_t extend_ms) const {
  return report("EXTEND_TIMEOUT_USEC=" + std::to_string(extend_ms * 1000) + "\nSTATUS=" + std::string(text));
}

std::string ServiceManager::report(std::string_view state) const {
  if (socket_.empty()) return "";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_.size() >= sizeof(address.sun_path) || (socket_[0] != '/' && socket_[0] != '@') || socket_.size() < 2)
    return "NOTIFY_SOCKET '" + socket_ + "' is not the address of a socket; allowed: an absolute path, or @name";
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  // An address in the abstract namespace begins with a zero byte. No zero byte ends its name: the address's length does.
  if (socket_[0] == '@') address.sun_path[0] = '\0';
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::string("a socket for the service manager: ") + std::strerror(errno);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  const ssize_t sent =
      ::sendto(fd, state.data(), state.size(), MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&address), length);
  const int error = errno;
  ::close(fd);
  return sent == static_cast<ssize_t>(state.size()) ? "" : "NOTIFY_SOCKET '" + socket_ + "': " + std::strerror(error);
}

std::uint64_t watchdog_period_ms(std::string_view usec, std::string_view pid, std::int64_t own_pid) {
  const std::int64_t limit = number_of(usec);
  if (limit <= 0 || (!pid.empty() && number_of(pid) != own_pid)) return 0;
  return static_cast<std::uint64_t>(limit < 2000 ? 1 : limit / 2000);
}

}  // namespace ebbtide
