#include "db/admin/workload_history.h"

#include <algorithm>
#include <iterator>

#include "base/checksum.h"
#include "base/coding.h"

namespace ebbtide {
namespace {

constexpr std::size_t kHeaderBytes = 8, kChecksumBytes = 8;

/// Merges the windows before `fine` that begin in the same hour, and leaves out windows that end before `kept`.
std::vector<WorkloadWindow> aged(const std::vector<WorkloadWindow>& windows, Millis kept, Millis fine) {
  std::vector<WorkloadWindow> out;
  for (const WorkloadWindow& window : windows) {
    if (window.start + window.length <= kept) continue;
    const bool merges =
        !out.empty() && window.start < fine && out.back().start / WorkloadHistory::kHour == window.start / WorkloadHistory::kHour;
    if (!merges) {
      out.push_back(window);
      continue;
    }
    out.back().length = window.start + window.length - out.back().start;
    out.back().counts += window.counts;
  }
  return out;
}

/// Decodes the next window. In files of version 1 windows have no counts of deletes.
bool get_window(Bytes* in, std::uint32_t version, Millis* end, WorkloadWindow* window) {
  std::uint64_t gap = 0;
  OperationCounts& c = window->counts;
  constexpr Millis kMost = Millis{1} << 60;  // keeps the sum of two times in range
  if (!get_varint(in, &gap) || gap > kMost || !get_varint(in, &window->length) || window->length > kMost) return false;
  window->start = *end + gap;
  *end = window->start + window->length;
  return *end <= kMost && get_varint(in, &c.empty_reads) && get_varint(in, &c.reads) && get_varint(in, &c.ranges) &&
         get_varint(in, &c.writes) && get_varint(in, &c.range_entries) &&
         (version < 2 || (get_varint(in, &c.deletes) && get_varint(in, &c.stamp_deletes)));
}

}  // namespace

void WorkloadHistory::add(DatabaseId database, const WorkloadWindow& window) {
  if (window.counts == OperationCounts()) return;
  windows_[database].push_back(window);
}

void WorkloadHistory::age(Millis now) {
  const Millis kept = now - std::min(now, kKept), fine = now - std::min(now, kFine);
  for (auto& [database, windows] : windows_) windows = aged(windows, kept, fine);
  std::erase_if(windows_, [](const auto& item) { return item.second.empty(); });
  if (windows_.empty()) return;
  const std::size_t share = std::max<std::size_t>(1, kMostWindows / windows_.size());
  for (auto& [database, windows] : windows_) {
    if (windows.size() > share) windows.erase(windows.begin(), windows.end() - static_cast<std::ptrdiff_t>(share));
  }
}

const std::vector<WorkloadWindow>& WorkloadHistory::windows(DatabaseId database) const {
  static const std::vector<WorkloadWindow> kNone;
  const auto at = windows_.find(database);
  return at == windows_.end() ? kNone : at->second;
}

std::string WorkloadHistory::encode() const {
  std::string out;
  put_u32(&out, kMagic);
  put_u32(&out, kVersion);
  put_varint(&out, windows_.size());
  for (const auto& [database, windows] : windows_) {
    put_varint(&out, database);
    put_varint(&out, windows.size());
    Millis end = 0;
    for (const WorkloadWindow& window : windows) {
      put_varint(&out, window.start - end);
      put_varint(&out, window.length);
      for (const std::uint64_t count :
           {window.counts.empty_reads, window.counts.reads, window.counts.ranges, window.counts.writes,
            window.counts.range_entries, window.counts.deletes, window.counts.stamp_deletes})
        put_varint(&out, count);
      end = window.start + window.length;
    }
  }
  put_u64(&out, block_checksum(out, kNoFile, 0));
  return out;
}

Result<WorkloadHistory> WorkloadHistory::decode(Bytes file) {
  if (file.size() < kHeaderBytes + kChecksumBytes) return Status::corruption("the file is too short");
  if (load_fixed<std::uint32_t>(file.data()) != kMagic) return Status::corruption("the magic number is wrong");
  const auto version = load_fixed<std::uint32_t>(file.data() + 4);
  if (version > kVersion) {
    return Status::unsupported("the format has version " + std::to_string(version) + ", and this program reads up to version " +
                               std::to_string(kVersion));
  }
  Bytes in = file.substr(0, file.size() - kChecksumBytes);
  if (load_fixed<std::uint64_t>(file.data() + in.size()) != block_checksum(in, kNoFile, 0))
    return Status::corruption("the checksum is wrong");
  in.remove_prefix(kHeaderBytes);
  const Status malformed = Status::corruption("the checksum is right, but the content is malformed");
  WorkloadHistory history;
  std::uint64_t databases = 0;
  if (!get_varint(&in, &databases)) return malformed;
  for (std::uint64_t i = 0; i < databases; ++i) {
    std::uint32_t database = 0;
    std::uint64_t count = 0;
    if (!get_varint32(&in, &database) || !get_varint(&in, &count) || count > kMostWindows) return malformed;
    std::vector<WorkloadWindow>& windows = history.windows_[database];
    if (!windows.empty() || count == 0) return malformed;
    Millis end = 0;
    for (std::uint64_t w = 0; w < count; ++w) {
      WorkloadWindow window;
      if (!get_window(&in, version, &end, &window)) return malformed;
      windows.push_back(window);
    }
  }
  if (!in.empty()) return malformed;
  return history;
}

}  // namespace ebbtide
