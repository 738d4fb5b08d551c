#include "iter/run_iterator.h"

#include <algorithm>

#include "base/invariant.h"

namespace ebbtide {
namespace {

class ErrorIterator final : public InternalIterator {
 public:
  explicit ErrorIterator(Status status) { status_ = std::move(status); }
  void seek_to_first() override {}
  void seek_to_last() override {}
  void seek(Bytes) override {}
  void seek_before(Bytes) override {}
  void next() override {}
  void prev() override {}
};

/// Returns the first index in [lo, hi) for which `holds` is true; hi if there is none. `holds` must be true for all later
/// indexes, too.
template <typename Predicate>
std::size_t first_where(std::size_t lo, std::size_t hi, Predicate holds) {
  while (lo < hi) {
    const std::size_t middle = lo + (hi - lo) / 2;
    if (holds(middle)) {
      hi = middle;
    } else {
      lo = middle + 1;
    }
  }
  return lo;
}

}  // namespace

std::unique_ptr<InternalIterator> error_iterator(Status status) { return std::make_unique<ErrorIterator>(std::move(status)); }

RunIterator::RunIterator(RunFiles run, KeyRange bounds) : run_(std::move(run)) {
  begin_ = first_where(0, run_.files, [&](std::size_t i) { return !run_.stats(i).ends_before(bounds.start); });
  end_ = bounds.end.empty()
             ? run_.files
             : first_where(begin_, run_.files, [&](std::size_t i) { return Bytes(run_.stats(i).smallest) >= Bytes(bounds.end); });
  current_ = end_;
}

/// Makes `file` the current file; returns false if there is no such file.
bool RunIterator::enter(std::size_t file) {
  valid_ = false;
  status_ = Status::ok();
  if (file < begin_ || file >= end_) return false;
  if (current_ != file || !child_) {
    child_ = run_.open(file);
    current_ = file;
  }
  return true;
}

void RunIterator::settle() {
  valid_ = child_->valid();
  if (valid_) {
    shown_ = &child_->entry();
  } else {
    status_ = child_->status();
  }
}

/// If the current file has ended without an error, moves to the start of the next file that has an entry.
void RunIterator::skip_forward() {
  settle();
  while (!valid_ && status_.is_ok() && enter(current_ + 1)) {
    child_->seek_to_first();
    settle();
  }
}

void RunIterator::skip_backward() {
  settle();
  while (!valid_ && status_.is_ok() && current_ > begin_ && enter(current_ - 1)) {
    child_->seek_to_last();
    settle();
  }
}

void RunIterator::seek_to_first() {
  if (!enter(begin_)) return;
  child_->seek_to_first();
  skip_forward();
}

void RunIterator::seek_to_last() {
  if (end_ == 0 || !enter(end_ - 1)) return;
  child_->seek_to_last();
  skip_backward();
}

void RunIterator::seek(Bytes key) {
  if (!enter(first_where(begin_, end_, [&](std::size_t i) { return !run_.stats(i).ends_before(key); }))) return;
  child_->seek(key);
  skip_forward();
}

void RunIterator::seek_before(Bytes key) {
  const std::size_t after = first_where(begin_, end_, [&](std::size_t i) { return Bytes(run_.stats(i).smallest) >= key; });
  if (after == begin_ || !enter(after - 1)) {
    valid_ = false;
    status_ = Status::ok();
    return;
  }
  child_->seek_before(key);
  skip_backward();
}

void RunIterator::next() {
  DEBUG_ASSERT(valid_);
  child_->next();
  if (child_->valid()) [[likely]] {
    shown_ = &child_->entry();
  } else {
    skip_forward();
  }
}

void RunIterator::prev() {
  DEBUG_ASSERT(valid_);
  child_->prev();
  if (child_->valid()) [[likely]] {
    shown_ = &child_->entry();
  } else {
    skip_backward();
  }
}

}  // namespace ebbtide
