#include "config/users_file.h"

#include <engine/durable_rename.h>

#include <filesystem>
#include <fstream>

namespace ebbtide {

Status write_users_file(const std::string& path, const std::string& text) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path file = fs::canonical(path, error);
  if (error) file = path;
  const std::string scratch = file.string() + ".new";
  fs::remove(scratch, error);
  std::ofstream out(scratch, std::ios::binary | std::ios::trunc);  // the umask makes the file private
  fs::permissions(scratch, fs::perms::owner_read | fs::perms::owner_write, error);
  out << text;
  out.close();
  Status status =
      out && !error ? rename_durably(nullptr, scratch, file.string()) : Status::io_error(scratch + ": cannot be written");
  if (!status.is_ok()) fs::remove(scratch, error);
  return status;
}

std::uint64_t users_file_bytes(const std::string& path) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  return error ? 0 : bytes;
}

}  // namespace ebbtide
