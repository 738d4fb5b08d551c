#include "iter/visible_iterator.h"

#include <engine/collection_keys.h>

#include <algorithm>
#include <utility>

#include "base/invariant.h"
#include "iter/barrier_iterator.h"

namespace ebbtide {
namespace {

// Numbers of steps after which the iterator seeks instead: over ten sources, a seek takes about as long as 16 steps.
constexpr std::uint32_t kManyVersions = 16;
constexpr std::uint32_t kManyCovered = 8;

}  // namespace

VisibleIterator::VisibleIterator(std::unique_ptr<MergingIterator> source, std::vector<TombstoneSource> tombstones,
                                 VisibleOptions options)
    : source_(std::move(source)), coverage_(std::move(tombstones), options.view_seq), options_(std::move(options)) {}

void VisibleIterator::begin_move() {
  valid_ = false;
  paused_ = false;
  if (!status_.is_ok()) status_ = Status::ok();
  covered_in_row_ = 0;
  total_steps_ += steps_;
  steps_ = 0;
}

void VisibleIterator::end() {
  valid_ = false;
  if (status_.is_ok()) status_ = source_->status();
}

void VisibleIterator::seek_to_first() { seek(options_.bounds.start); }

void VisibleIterator::seek(Bytes target) {
  resume_key_.assign(std::max(target, Bytes(options_.bounds.start)));  // the target may be a view of an entry of this iterator
  begin_move();
  forward_ = true;
  if (resume_key_.empty()) {
    source_->seek_to_first();
  } else {
    source_->seek(resume_key_);
  }
  find_forward();
}

void VisibleIterator::seek_to_last() {
  if (!options_.bounds.end.empty()) return seek_before(options_.bounds.end);
  begin_move();
  forward_ = false;
  source_->seek_to_last();
  find_backward();
}

void VisibleIterator::seek_before(Bytes target) {
  const Bytes limit = options_.bounds.end;
  resume_key_.assign(limit.empty() ? target : std::min(target, limit));
  begin_move();
  forward_ = false;
  source_->seek_before(resume_key_);
  find_backward();
}

void VisibleIterator::next() {
  ASSERT(valid_);
  begin_move();
  if (forward_) {
    source_->next();  // the source is at key_: no comparison is needed
    leave_key_forward(1);
  } else {
    forward_ = true;
    key_.push_back('\0');
    source_->seek(key_);
  }
  find_forward();
}

void VisibleIterator::prev() {
  ASSERT(valid_);
  begin_move();
  if (forward_) {
    forward_ = false;
    source_->prev();
    leave_key_backward();
  }
  find_backward();
}

/// Pauses and returns true if the move has used up max_steps. Sets resume_key() to `key`, or, if `behind` is true, to the key
/// just after `key`.
bool VisibleIterator::pause_at(Bytes key, bool behind) {
  if (options_.max_steps == 0 || steps_ < options_.max_steps) return false;
  valid_ = false;
  paused_ = true;
  resume_key_.assign(key);
  if (behind) resume_key_.push_back('\0');
  return true;
}

/// Ends the iteration at a barrier. If a range tombstone of a newer source covers the barrier, skips that range instead.
void VisibleIterator::meet_barrier(const Entry& barrier, std::size_t child) {
  if (!coverage_.empty()) {
    const Coverage::Answer& cover = coverage_.at(barrier.key);
    if (cover.seq > barrier.seq && child > cover.age) {
      covered_in_row_ = kManyCovered;
      leaps_ = true;
      cover_ = cover;
      return;
    }
  }
  status_ = barrier_status(barrier);
}

/// Returns true if the key whose newest version in view is `entry` exists. Updates covered_in_row_ and cover_.
bool VisibleIterator::exists(const Entry& entry, std::size_t child) {
  if (entry.is_barrier()) [[unlikely]] {
    meet_barrier(entry, child);
    return false;
  }
  if (!coverage_.empty()) {
    const Coverage::Answer& cover = coverage_.at(entry.key);
    if (cover.seq > entry.seq) {
      covered_in_row_ = child > cover.age ? covered_in_row_ + 1 : 0;
      cover_ = cover;
      return false;
    }
  }
  covered_in_row_ = 0;
  if (entry.is_tombstone() || entry.expired(options_.now)) return false;
  return options_.records.empty() || !deleted_by_record(entry);
}

bool VisibleIterator::deleted_by_record(const Entry& entry) const {
  return std::any_of(options_.records.begin(), options_.records.end(), [&](const SharedRecords& records) {
    return records->covers(entry.delete_key, entry.seq, options_.view_seq);
  });
}

void VisibleIterator::find_forward() {
  while (source_->valid()) {
    if (!options_.bounds.end.empty() && source_->entry().key >= Bytes(options_.bounds.end)) break;
    if (passes_over_elements()) [[unlikely]] {
      const std::string after = element_range(main_key_of(source_->entry().key)).end;
      ++steps_;
      source_->seek(after);
      if (pause_at(after, false)) return;
      continue;
    }
    key_.assign(source_->entry().key);
    const bool in_view = skip_newer();
    if (in_view && exists(source_->entry(), source_->child())) {
      shown_ = &source_->entry();
      valid_ = true;
      return;
    }
    if (in_view) ++steps_;
    if (!source_->status().is_ok() || !status_.is_ok()) break;
    if (!leaps_ && pause_at(key_, true)) return;  // does not pause at a skipped barrier, which is not a key
    leaps_ = false;
    if (covered_in_row_ >= kManyCovered) jump_forward();
    if (in_view) leave_key_forward();
  }
  end();
}

/// Skips the versions of key_ that are newer than the view; returns false if key_ has no older version.
bool VisibleIterator::skip_newer() {
  while (source_->entry().seq > options_.view_seq) {
    source_->next();
    ++steps_;
    if (!on_key()) return false;
  }
  return true;
}

/// Skips the remaining versions of key_. `passed`: the number of its versions that were skipped before.
void VisibleIterator::leave_key_forward(std::uint32_t passed) {
  for (; on_key(); ++passed) {
    if (passed == kManyVersions) {
      std::string after = key_;
      after.push_back('\0');
      return source_->seek(after);
    }
    source_->next();
    if (passed != 0) ++steps_;
  }
}

void VisibleIterator::jump_forward() {
  ++steps_;
  covered_in_row_ = 0;
  source_->skip_older(cover_.age, cover_.end);
}

void VisibleIterator::find_backward() {
  while (source_->valid()) {
    if (source_->entry().key < Bytes(options_.bounds.start)) break;
    if (passes_over_elements()) [[unlikely]] {
      const std::string before = element_range(main_key_of(source_->entry().key)).start;
      ++steps_;
      source_->seek_before(before);
      if (pause_at(before, false)) return;
      continue;
    }
    key_.assign(source_->entry().key);
    const bool in_view = newest_in_view_backward();
    if (!source_->status().is_ok()) break;
    if (in_view && exists(saved_, saved_child_)) {
      shown_ = &saved_;
      valid_ = true;
      return;
    }
    if (!status_.is_ok()) break;
    ++steps_;
    if (pause_at(key_, false)) return;
    if (covered_in_row_ >= kManyCovered && source_->valid()) jump_backward();
  }
  end();
}

/// Reads all versions of key_ and saves the newest one in view; returns false if there is none. Leaves the source at the previous
/// key.
bool VisibleIterator::newest_in_view_backward() {
  bool found = false;
  for (std::uint32_t passed = 0; on_key(); ++passed) {
    if (source_->entry().seq > options_.view_seq) {  // all further versions are newer than the view, too
      leave_key_backward();
      return found;
    }
    if (passed == kManyVersions) return newest_in_view_by_seek();
    save(source_->entry());
    found = true;
    source_->prev();
    if (passed != 0) ++steps_;
  }
  return found;
}

/// Like newest_in_view_backward(), for a key with many versions: seeks to the newest version and reads forward.
bool VisibleIterator::newest_in_view_by_seek() {
  source_->seek(key_);
  const bool found = on_key() && skip_newer();
  if (found) save(source_->entry());
  if (!source_->status().is_ok()) return false;
  source_->seek_before(key_);
  return found;
}

void VisibleIterator::leave_key_backward() {
  for (std::uint32_t passed = 0; on_key(); ++passed) {
    if (passed == kManyVersions) return source_->seek_before(key_);
    source_->prev();
    ++steps_;
  }
}

void VisibleIterator::jump_backward() {
  ++steps_;
  covered_in_row_ = 0;
  source_->skip_older_backward(cover_.age, cover_.start);
}

/// Copies data that the source's next move would invalidate. Large values are not copied.
void VisibleIterator::save(const Entry& entry) {
  saved_ = entry;
  saved_.key = key_;
  saved_child_ = source_->child();
  if (!entry.is_large() && entry.shared == nullptr) {
    saved_value_.assign(entry.value);
    saved_.value = saved_value_;
  }
}

}  // namespace ebbtide
