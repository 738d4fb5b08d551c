// Changes to files that an operator or a drive makes without the engine.
#pragma once

#include <string>
#include <utility>

#include <engine/bytes.h>
#include "io/file_system.h"
#include "support/finding.h"

namespace ebbtide {

/// Replaces a file, or makes one, with these bytes. Other names of the old file keep its bytes.
inline void rewrite(FileSystem& fs, const std::string& path, Bytes bytes) {
  if (fs.exists(path)) demand_ok(fs.unlink(path), "unlink");
  auto file = fs.create(path);
  demand_ok(file.status(), "create");
  demand_ok((*file)->append(bytes), "append");
  demand_ok((*file)->close(), "close");
}

/// Returns the bytes with some bits of one byte changed.
inline std::string flipped(std::string bytes, std::size_t at, unsigned char bits = 1) {
  demand(at < bytes.size(), "the byte to flip lies behind the end of the file");
  bytes[at] = static_cast<char>(static_cast<unsigned char>(bytes[at]) ^ bits);
  return bytes;
}
inline void flip(FileSystem& fs, const std::string& path, std::size_t at, unsigned char bits = 1) {
  auto bytes = read_file(fs, path);
  demand_ok(bytes.status(), "read");
  rewrite(fs, path, flipped(std::move(bytes).value(), at, bits));
}

}  // namespace ebbtide
