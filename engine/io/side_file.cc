#include <engine/side_file.h>

#include "io/file_names.h"
#include "io/file_system.h"

namespace ebbtide {

Result<std::string> read_side_file(const std::string& data_dir, const std::string& name, std::uint64_t max_bytes) {
  return read_file(*posix_file_system(), join_path(data_dir, name), max_bytes);
}

Status write_side_file(const std::string& data_dir, const std::string& name, Bytes content) {
  return write_file_atomically(*posix_file_system(), data_dir, name, content);
}

}  // namespace ebbtide
