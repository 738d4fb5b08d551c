#include "machine/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <cstddef>
#include <cstring>
#include <string>

namespace ebbtide {
namespace TEST_FILE {

// The service manager's end of the socket.
class Manager {
 public:
  explicit Manager(std::string name) : name_(std::move(name)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name_.data(), name_.size());
    if (name_[0] == '@') address.sun_path[0] = '\0';
    if (name_[0] == '/') ::unlink(name_.c_str());
    fd_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size());
    REQUIRE(::bind(fd_, reinterpret_cast<sockaddr*>(&address), length) == 0);
  }
  ~Manager() {
    ::close(fd_);
    if (name_[0] == '/') ::unlink(name_.c_str());
  }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  // Returns the next datagram; "" if there is none.
  [[nodiscard]] std::string read() const {
    std::string text(4096, '\0');
    const ssize_t got = ::recv(fd_, text.data(), text.size(), 0);
    return got < 0 ? "" : text.substr(0, static_cast<std::size_t>(got));
  }

 private:
  const std::string name_;
  int fd_ = -1;
};

std::string unique(const std::string& prefix) { return prefix + "ebbtide-notify-" + std::to_string(::getpid()); }

TEST_CASE("service manager: socket is a path: the manager gets each report as one datagram") {
  const Manager manager(unique("/tmp/"));
  const ServiceManager service(manager.name());
  service.starting("replaying the log", 30'000);
  service.ready();
  service.alive();
  service.stopping();
  CHECK(manager.read() == "EXTEND_TIMEOUT_USEC=30000000\nSTATUS=replaying the log");
  CHECK(manager.read() == "READY=1\nSTATUS=ready to accept connections");
  CHECK(manager.read() == "WATCHDOG=1");
  CHECK(manager.read() == "STOPPING=1\nSTATUS=stopping");
  CHECK(manager.read().empty());
}

TEST_CASE("service manager: socket is an abstract name: the manager gets the report") {
  const Manager manager(unique("@"));
  CHECK(ServiceManager(manager.name()).report("READY=1").empty());
  CHECK(manager.read() == "READY=1");
}

TEST_CASE("service manager does not exist: a report does nothing") { CHECK(ServiceManager("").report("READY=1").empty()); }

TEST_CASE("service manager: address is not that of a socket: the error names the address") {
  for (const std::string& address : {unique("/tmp/nothing-"), std::string("relative"), std::string("/"), std::string(200, '/')})
    for (const std::string& error : {ServiceManager(address).report("READY=1"), ServiceManager(address).starting("x", 1000)})
      CHECK_THAT(error, Catch::Contains("NOTIFY_SOCKET '" + address + "'"));
}

TEST_CASE("service manager: manager does not read: a report returns an error instead of waiting") {
  const Manager manager(unique("@full-"));
  const ServiceManager service(manager.name());
  std::string error;
  for (int i = 0; i < 100'000 && error.empty(); ++i) error = service.report("WATCHDOG=1");
  CHECK_FALSE(error.empty());
}

TEST_CASE("systemd watchdog is for this process: the period is half of its limit, and otherwise 0") {
  CHECK(watchdog_period_ms("30000000", "", 7) == 15'000);
  CHECK(watchdog_period_ms("30000000", "7", 7) == 15'000);
  CHECK(watchdog_period_ms("30000000", "8", 7) == 0);
  CHECK(watchdog_period_ms("1", "7", 7) == 1);
  for (const char* usec : {"", "0", "-5", "x", "5x"}) CHECK(watchdog_period_ms(usec, "7", 7) == 0);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
