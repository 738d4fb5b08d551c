#include "iter/barrier_iterator.h"

#include <algorithm>
#include <utility>

namespace ebbtide {

BarrierIterator::BarrierIterator(const TableStats& stats, Bytes start, Status why)
    : stats_(stats), start_(std::max(start, Bytes(stats.smallest))), why_(std::move(why)), text_(why_.message()) {}

void BarrierIterator::stand_at(Bytes key) {
  status_ = Status::ok();
  key_.assign(std::max(key, Bytes(start_)));
  valid_ = !stats_.ends_before(key_);
  if (!valid_) return;
  entry_ = {};
  entry_.key = key_;
  entry_.seq = stats_.max_seq;  // a range tombstone that covers the barrier then covers all versions of its keys in the table
  entry_.kind = EntryKind::kTombstone;
  entry_.value = text_;
}

void BarrierIterator::seek_before(Bytes key) {
  if (key > Bytes(start_)) return fail();
  valid_ = false;
  status_ = Status::ok();
}

void BarrierIterator::next() {
  std::string after = key_;
  after.push_back('\0');
  stand_at(after);
}

void BarrierIterator::fail() {
  valid_ = false;
  status_ = why_;
}

Status barrier_status(const Entry& entry) {
  return entry.is_barrier() ? Status::corruption(std::string(entry.value)) : Status::ok();
}

}  // namespace ebbtide
