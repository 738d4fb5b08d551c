// Writes and reads whole log segments in tests.
#pragma once

#include <string>
#include <vector>

#include "engine/io/rooms.h"
#include "wal/log_reader.h"
#include "wal/log_writer.h"

namespace ebbtide {

inline Status append_one(LogWriter& log, Bytes payload) {
  const LogRecord record{payload};
  return log.append(std::span(&record, 1));
}

struct ReadBack {
  Status status;
  LogEnd end;
  std::vector<std::string> payloads;
  std::vector<std::uint64_t> offsets;
};

inline ReadBack read_back(FileSystem& fs, const std::string& dir, FileNum file) {
  ReadBack back;
  auto end = read_log(fs, dir, file, [&](std::string payload, std::uint64_t offset) {
    back.payloads.push_back(std::move(payload));
    back.offsets.push_back(offset);
    return Status::ok();
  });
  back.status = end.status();
  if (end.is_ok()) back.end = *end;
  return back;
}

/// Reads `bytes` as if they were segment `file`.
inline ReadBack read_bytes(const std::string& bytes, FileNum file) {
  MemoryFileSystem fs;
  write_file(fs, log_file_name(file), bytes);
  return read_back(fs, "", file);
}

/// Returns true if `b` begins with `a`.
inline bool is_prefix(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return a.size() <= b.size() && std::equal(a.begin(), a.end(), b.begin());
}

}  // namespace ebbtide
