// Tests of the reasons why a data directory cannot be used. If the tests run as root, they take the rights of user 12345.
#include "machine/directory_access.h"

#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <cstdlib>
#include <fstream>
#include <string>

namespace ebbtide {
namespace TEST_FILE {

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

TEST_CASE("data directory belongs to the process, or is missing: no reason against its use is found") {
  const Directory directory;
  CHECK(why_unusable(directory.path()).empty());
  CHECK(why_unusable(directory.path() + "/data").empty());
  CHECK(why_unusable(directory.path() + "/data/").empty());
  CHECK(why_unusable(directory.path() + "/no/parent").empty());
}

TEST_CASE("data directory belongs to root: another user is refused, and the error has both users and the remedy") {
  if (!may_become_another()) return;
  const Directory directory;
  const std::string why = asked_as_other(directory.path());
  CHECK(why == directory.path() +
                   " belongs to user 0 (root), and this process is user 12345, which may not write to it: chown -R 12345:" +
                   std::to_string(::getegid()) + " " + directory.path());
}

TEST_CASE("data directory is missing, and its parent belongs to root: the error names the parent and a remedy") {
  if (!may_become_another()) return;
  const Directory directory;
  REQUIRE(::chmod(directory.path().c_str(), 0755) == 0);
  const std::string why = asked_as_other(directory.path() + "/data");
  CHECK(why.find(directory.path() + " belongs to user 0 (root)") == 0);
  CHECK(why.find("may not create " + directory.path() + "/data in it: chown 12345:") != std::string::npos);
}

TEST_CASE("parent of the data directory may not be entered: the error names the parent and asks for another directory") {
  if (!may_become_another()) return;
  const Directory directory;
  const std::string why = asked_as_other(directory.path() + "/data/x");
  CHECK(why.find(directory.path() + " belongs to user 0 (root)") == 0);
  CHECK(why.find("may not enter it: set storage.dir") != std::string::npos);
  CHECK(why.find("chown") == std::string::npos);
}

TEST_CASE("data directory can be read but not written: it is refused") {
  if (!may_become_another()) return;
  const Directory directory;
  REQUIRE(::chmod(directory.path().c_str(), 0755) == 0);
  CHECK(asked_as_other(directory.path()).find("may not write") != std::string::npos);
  REQUIRE(::chmod(directory.path().c_str(), 0777) == 0);
  CHECK(asked_as_other(directory.path()).empty());
}

TEST_CASE("owner has no rights to the data directory: the error names the directory's mode") {
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

TEST_CASE("mode or owner of a file forbids its use: the remedy names the file, its owner and the command") {
  const Directory directory;
  const std::string file = directory.path() + "/CURRENT", error = "I/O error: open " + file + ": Permission denied";
  std::ofstream(file) << "x";
  CHECK(remedy_for(error, directory.path(), 1024).empty());
  REQUIRE(::chmod(file.c_str(), 0) == 0);
  REQUIRE(::chmod(directory.path().c_str(), 0777) == 0);
  if (may_become_another()) {
    REQUIRE(::seteuid(kOther) == 0);
    const std::string why = remedy_for(error, directory.path(), 1024);
    REQUIRE(::seteuid(0) == 0);
    CHECK(why == file + " belongs to user 0 (root), its mode is 0000, and this process is user 12345: chown 12345:" +
                     std::to_string(::getegid()) + " " + file);
    REQUIRE(::chown(file.c_str(), kOther, ::getegid()) == 0);
    REQUIRE(::seteuid(kOther) == 0);
    const std::string own = remedy_for(error, directory.path(), 1024);
    REQUIRE(::seteuid(0) == 0);
    CHECK(own == file + " belongs to this process's user 12345, but its mode 0000 lacks rights: chmod u+rw " + file);
  }
  REQUIRE(::unlink(file.c_str()) == 0);
}

TEST_CASE("error comes from a limit or a drive: the remedy names the limit or the drive") {
  const auto remedy = [](const char* error) { return remedy_for(error, "data", 64); };
  CHECK(remedy("I/O error: open data/CURRENT: Too many open files") ==
        "this process may open 64 files: raise the limit (LimitNOFILE of the service, or ulimit -n)");
  CHECK(remedy("I/O error: open data/CURRENT: Too many open files in system").find("fs.file-max") != std::string::npos);
  CHECK(remedy("I/O error: read data/CURRENT: Input/output error").find("dmesg") != std::string::npos);
  CHECK(remedy("no space: write data/000001.wal: No space left on device").find("free space") == 0);
  CHECK(remedy("corruption: data/MANIFEST-000001: record checksum mismatch at 66").empty());
}

TEST_CASE("every user may write to the data directory: a warning names its mode, unless the sticky bit is set") {
  const Directory directory;
  CHECK(exposed_directory(directory.path()).empty());
  REQUIRE(::chmod(directory.path().c_str(), 0777) == 0);
  CHECK(exposed_directory(directory.path()).find(directory.path() + " has the mode 0777") == 0);
  REQUIRE(::chmod(directory.path().c_str(), 0755) == 0);
  CHECK(exposed_directory(directory.path()).empty());
  REQUIRE(::chmod(directory.path().c_str(), 01777) == 0);
  CHECK(exposed_directory(directory.path()).empty());
  CHECK(exposed_directory(directory.path() + "/missing").empty());
}

}  // namespace TEST_FILE
}  // namespace ebbtide
