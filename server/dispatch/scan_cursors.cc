#include "dispatch/scan_cursors.h"

#include <algorithm>
#include <utility>

#include "dispatch/arg_cursor.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

constexpr int kCounterBits = 33;
constexpr std::uint64_t kEpochMask = (std::uint64_t{1} << 20) - 1;
constexpr std::size_t kEntryBytes = 128;  // list node, map node, string header

}  // namespace

ScanCursors::ScanCursors(std::uint64_t seed, std::size_t max_cursors, std::size_t max_bytes)
    : epoch_(((seed ^ (seed >> 32)) & kEpochMask) << kCounterBits),
      max_cursors_(max_cursors),
      largest_bytes_(max_bytes),
      max_bytes_(max_bytes) {}

void ScanCursors::set_budget(std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  max_bytes_ = std::min<std::uint64_t>(largest_bytes_, bytes / kBudgetPart);
  evict();
}

std::uint64_t ScanCursors::add(DatabaseId database, std::string resume_key) {
  std::lock_guard lock(mutex_);
  counter_ = (counter_ + 1) & ((std::uint64_t{1} << kCounterBits) - 1);
  if (counter_ == 0) counter_ = 1;
  const std::uint64_t id = epoch_ | counter_;
  bytes_ += resume_key.size() + kEntryBytes;
  fresh_.push_back({id, database, std::move(resume_key)});
  by_id_[id] = std::prev(fresh_.end());
  evict();
  return id;
}

std::optional<std::string> ScanCursors::find(DatabaseId database, std::uint64_t cursor) {
  std::lock_guard lock(mutex_);
  const auto it = by_id_.find(cursor);
  if (it == by_id_.end() || it->second->database != database) return std::nullopt;
  Entry& entry = *it->second;
  used_.splice(used_.end(), entry.used ? used_ : fresh_, it->second);
  entry.used = true;
  return entry.key;
}

std::size_t ScanCursors::size() const {
  std::lock_guard lock(mutex_);
  return by_id_.size();
}

void ScanCursors::evict() {
  // Keeps the newest cursor even if it alone exceeds the limits, since a scan is about to use it.
  while (by_id_.size() > 1 && (by_id_.size() > max_cursors_ || bytes_ > max_bytes_)) {
    List& list = used_.empty() ? fresh_ : used_;
    const Entry& oldest = list.front();
    bytes_ -= oldest.key.size() + kEntryBytes;
    by_id_.erase(oldest.id);
    list.pop_front();
  }
  memory.follow(bytes_);
}

Result<std::uint64_t> parse_scan_cursor(Bytes text) {
  if (text.empty()) return std::uint64_t{0};
  const bool negative = text.front() == '-';
  if (negative || text.front() == '+') text.remove_prefix(1);
  const auto number = parse_unsigned(text);
  if (!number) return reply_error("ERR invalid cursor");
  return negative ? 0 - *number : *number;
}

Result<std::string> resume_scan(ScanCursors& cursors, DatabaseId database, std::uint64_t cursor) {
  if (cursor == 0) return std::string();
  auto resume = cursors.find(database, cursor);
  if (resume) return std::move(*resume);
  return reply_error(
      "ERR unknown cursor: it belongs to another database, was evicted, or is from before a restart. Start again with 0");
}

}  // namespace ebbtide
