// Tests of the reasons why a data directory cannot be used. If the tests run as root, they take the rights of user 12345.
#include "machine/directory_access.h"

#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <cstdlib>
#include <string>

namespace ebbtide {
namespace {

constexpr uid_t kOther = 12345;

class Directory {
 public:
  Directory() {
    char name[] = "/tmp/ebbtide-access-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path_ = name;
  }
  ~Directory() {
    (void)::chmod(path_.c_str(), 0700);
    ::rmdir(path_.c_str());
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Root has every right, so the call is made as another user, to whom root's directories do not belong.
std::string asked_as_other(const std::string& path) {
  REQUIRE(::seteuid(kOther) == 0);
  std::string why = why_unusable(path);
  REQUIRE(::seteuid(0) == 0);
  return why;
}

/// Returns true if the test can become another user, which only root can. Otherwise the test case prints that it did not run.
bool may_become_another() {
  if (::geteuid() == 0) return true;
  WARN("not run: this case needs root");
  return false;
}

TEST_CASE("directory is the process's own, or it or its parent is missing: no reason is given") {
  const Directory directory;
  CHECK(why_unusable(directory.path()).empty());
  CHECK(why_unusable(directory.path() + "/data").empty());
  CHECK(why_unusable(directory.path() + "/data/").empty());
  CHECK(why_unusable(directory.path() + "/no/parent").empty());
}

TEST_CASE("directory belongs to root: another user is refused, and the error has both users and the remedy") {
  if (!may_become_another()) return;
  const Directory directory;
  const std::string why = asked_as_other(directory.path());
  CHECK(why == directory.path() +
                   " belongs to user 0 (root), and this process is user 12345, which may not write to it: chown -R 12345:" +
                   std::to_string(::getegid()) + " " + directory.path());
}

TEST_CASE("directory is missing in a parent of root: the error names the parent and has a remedy for a volume") {
  if (!may_become_another()) return;
  const Directory directory;
  REQUIRE(::chmod(directory.path().c_str(), 0755) == 0);
  const std::string why = asked_as_other(directory.path() + "/data");
  CHECK(why.find(directory.path() + " belongs to user 0 (root)") == 0);
  CHECK(why.find("may not create " + directory.path() + "/data in it: chown 12345:") != std::string::npos);
}

TEST_CASE(
    "directory that cannot be entered has another inside: the error for the inner names the outer and asks for another place") {
  if (!may_become_another()) return;
  const Directory directory;
  const std::string why = asked_as_other(directory.path() + "/data/x");
  CHECK(why.find(directory.path() + " belongs to user 0 (root)") == 0);
  CHECK(why.find("may not enter it: set storage.dir") != std::string::npos);
  CHECK(why.find("chown") == std::string::npos);
}

TEST_CASE("directory can be read but not written: it is refused") {
  if (!may_become_another()) return;
  const Directory directory;
  REQUIRE(::chmod(directory.path().c_str(), 0755) == 0);
  CHECK(asked_as_other(directory.path()).find("may not write") != std::string::npos);
  REQUIRE(::chmod(directory.path().c_str(), 0777) == 0);
  CHECK(asked_as_other(directory.path()).empty());
}

TEST_CASE("owner has no rights to the directory: the error has its mode as the reason") {
  const Directory directory;
  REQUIRE(::chmod(directory.path().c_str(), 0500) == 0);
  std::string why;
  if (::geteuid() == 0) {
    REQUIRE(::chown(directory.path().c_str(), kOther, kOther) == 0);
    why = asked_as_other(directory.path());
  } else {
    why = why_unusable(directory.path());
  }
  CHECK(why.find("its mode lacks rights: chmod u+rwx " + directory.path()) != std::string::npos);
}

}  // namespace
}  // namespace ebbtide
