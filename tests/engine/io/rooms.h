// Directories in which file-system tests run: a fresh, empty directory of each kind of file system.
#pragma once

#include <catch2/catch.hpp>

#include <cstdlib>
#include <string>

#include "io/file_names.h"
#include "io/memory_fs.h"

namespace ebbtide {

/// A directory of its own under the system's temporary directory. The destructor removes it with its contents.
class PosixRoom {
 public:
  PosixRoom() {
    const char* base = std::getenv("TMPDIR");
    dir_ = join_path(base == nullptr ? "/tmp" : base, "ebbtide-test-XXXXXX");
    REQUIRE(::mkdtemp(dir_.data()) != nullptr);
  }
  ~PosixRoom() { remove(dir_); }
  PosixRoom(const PosixRoom&) = delete;
  PosixRoom& operator=(const PosixRoom&) = delete;
  [[nodiscard]] FileSystem& fs() const { return *posix_file_system(); }
  [[nodiscard]] const std::string& dir() const { return dir_; }
  [[nodiscard]] std::string path(Bytes name) const { return join_path(dir_, name); }

 private:
  void remove(const std::string& dir) {
    const auto names = fs().list(dir);
    if (!names.is_ok()) return;
    for (const std::string& name : *names) {
      const std::string path = join_path(dir, name);
      if (!fs().unlink(path).is_ok()) remove(path);
    }
    (void)fs().remove_dir(dir);
  }
  std::string dir_;
};

class MemoryRoom {
 public:
  MemoryRoom() {
    REQUIRE(fs_.create_dir(dir_).is_ok());
    REQUIRE(fs_.sync_dir("").is_ok());
  }
  [[nodiscard]] MemoryFileSystem& fs() { return fs_; }
  [[nodiscard]] const std::string& dir() const { return dir_; }
  [[nodiscard]] std::string path(Bytes name) const { return join_path(dir_, name); }

 private:
  MemoryFileSystem fs_;
  std::string dir_ = "room";
};

/// Returns the value of a result, which must be ok.
template <typename T>
T value_of(Result<T> result) {
  INFO(result.status().to_string());
  REQUIRE(result.is_ok());
  return std::move(result).value();
}
inline void require_ok(const Status& status) {
  INFO(status.to_string());
  REQUIRE(status.is_ok());
}

/// Writes a new file with this content, and syncs it if `sync`.
inline void write_file(FileSystem& fs, const std::string& path, Bytes content, bool sync = true) {
  auto file = value_of(fs.create(path));
  require_ok(file->append(content));
  if (sync) require_ok(file->sync());
  require_ok(file->close());
}

}  // namespace ebbtide
