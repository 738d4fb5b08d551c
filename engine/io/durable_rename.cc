#include <engine/durable_rename.h>

#include <algorithm>

#include "io/file_system.h"

namespace ebbtide {
namespace {

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return "";
  return path.substr(0, std::max<std::size_t>(slash, 1));
}

}  // namespace

Status rename_durably(FileSystem* fs, const std::string& from, const std::string& to) {
  FileSystem& files = fs != nullptr ? *fs : *posix_file_system();
  TRY(files.sync_file(from));
  TRY(files.rename(from, to));
  return files.sync_dir(directory_of(to));
}

}  // namespace ebbtide
