#include "deletes/record.h"

#include <algorithm>
#include <limits>

#include "base/invariant.h"
#include "base/oldest.h"

namespace ebbtide {
namespace {

constexpr std::size_t kMinTail = 16;  // a scan of so many records costs about as much as a search in a set of a few hundred
// The tail of a set of n records has n / 8: each set is 9/8 of the one before, and all together have 9 times the last.
constexpr std::size_t kTailFactor = 8;

/// A record without a known birth counts as the oldest possible.
Millis known(Millis birth) { return std::max<Millis>(birth, 1); }

}  // namespace

std::string to_text(const Record& r) {
  return std::to_string(r.seq) + " on stamps " + std::to_string(r.lo) + ".." +
         (r.hi == kDeleteKeyEnd ? "*" : "<" + std::to_string(r.hi)) + ", born " + std::to_string(r.birth);
}

RecordSet::RecordSet(std::span<const Record> records) : records_(records.begin(), records.end()) {
  if (records_.empty()) return;
  std::sort(records_.begin(), records_.end(), [](const Record& a, const Record& b) { return a.seq < b.seq; });
  for (const Record& record : records_) {
    ASSERT_MSG(record.lo < record.hi && record.hi <= kDeleteKeyEnd, "a record has a range");
    borders_.push_back(record.lo);
    borders_.push_back(record.hi);
  }
  std::sort(borders_.begin(), borders_.end());
  borders_.erase(std::unique(borders_.begin(), borders_.end()), borders_.end());
  // A bottom-up segment tree: leaf i is node leaves + i, the parent of node n is n / 2, node 0 is not used. The range [l, r) of
  // leaves is split into O(log) nodes.
  const std::size_t leaves = borders_.size();
  const auto for_each_node = [&](const Record& record, const auto& visit) {
    const auto at = [&](DeleteKey d) {
      return static_cast<std::size_t>(std::lower_bound(borders_.begin(), borders_.end(), d) - borders_.begin()) + leaves;
    };
    for (std::size_t l = at(record.lo), r = at(record.hi); l < r; l /= 2, r /= 2) {
      if (l % 2 != 0) visit(l++);
      if (r % 2 != 0) visit(--r);
    }
  };
  first_of_.assign(2 * leaves + 1, 0);
  for (const Record& record : records_) for_each_node(record, [&](std::size_t node) { ++first_of_[node + 1]; });
  for (std::size_t node = 0; node < 2 * leaves; ++node) first_of_[node + 1] += first_of_[node];
  covers_.resize(first_of_.back());
  std::vector<std::uint32_t> next(first_of_.begin(), first_of_.end() - 1);
  for (auto record = records_.rbegin(); record != records_.rend(); ++record) {
    for_each_node(*record, [&](std::size_t node) {
      const std::uint32_t i = next[node]++;
      const Millis before = i == first_of_[node] ? 0 : covers_[i - 1].oldest_birth;
      covers_[i] = {record->seq, known(record->birth), older(known(record->birth), before)};
    });
  }
}

template <typename Visit>
void RecordSet::visit_nodes(DeleteKey d, Visit visit) const {
  if (records_.empty() || d < borders_.front() || d >= borders_.back()) return;
  const auto leaf = static_cast<std::size_t>(std::upper_bound(borders_.begin(), borders_.end(), d) - borders_.begin()) - 1;
  for (std::size_t node = leaf + borders_.size(); node != 0; node /= 2) {
    const std::uint32_t first = first_of_[node], last = first_of_[node + 1];
    if (first != last) visit(std::span<const Cover>(covers_.data() + first, covers_.data() + last));
  }
}

SeqNum RecordSet::newest_cover(DeleteKey d, SeqNum view_seq) const {
  SeqNum newest = 0;
  visit_nodes(d, [&](std::span<const Cover> covers) {
    auto at = covers.begin();
    if (at->seq > view_seq) {
      at = std::partition_point(covers.begin(), covers.end(), [&](const Cover& c) { return c.seq > view_seq; });
      if (at == covers.end()) return;
    }
    newest = std::max(newest, at->seq);
  });
  return newest;
}

SeqNum RecordSet::oldest_cover_above(DeleteKey d, SeqNum entry_seq) const {
  SeqNum oldest = 0;
  visit_nodes(d, [&](std::span<const Cover> covers) {
    const auto end = std::partition_point(covers.begin(), covers.end(), [&](const Cover& c) { return c.seq > entry_seq; });
    if (end == covers.begin()) return;
    const SeqNum seq = std::prev(end)->seq;
    oldest = oldest == 0 ? seq : std::min(oldest, seq);
  });
  return oldest;
}

Millis RecordSet::oldest_birth(DeleteKey d, SeqNum above, SeqNum up_to) const {
  Millis oldest = 0;
  visit_nodes(d, [&](std::span<const Cover> covers) {
    const auto end = std::partition_point(covers.begin(), covers.end(), [&](const Cover& c) { return c.seq > above; });
    if (end == covers.begin()) return;
    if (covers.front().seq <= up_to) {
      oldest = older(oldest, std::prev(end)->oldest_birth);
      return;
    }
    for (auto at = covers.begin(); at != end; ++at) {
      if (at->seq <= up_to) oldest = older(oldest, at->birth);
    }
  });
  return oldest;
}

bool RecordSet::covers_all(DeleteKey min, DeleteKey max, SeqNum max_seq, SeqNum view_seq) const {
  if (records_.empty() || min > max || min < borders_.front() || max >= borders_.back()) return false;
  auto border = std::upper_bound(borders_.begin(), borders_.end(), min);  // the border after min's leaf
  for (DeleteKey d = min;; d = *border++) {
    if (newest_cover(d, view_seq) <= max_seq) return false;
    if (*border > max) return true;
  }
}

Millis RecordSet::oldest_birth_over(DeleteKey min, DeleteKey max, SeqNum min_seq, SeqNum applied_seq) const {
  Millis oldest = 0;
  for (auto record = records_.rbegin(); record != records_.rend(); ++record) {
    if (record->seq <= std::max(min_seq, applied_seq)) break;
    if (record->lo <= max && min < record->hi) oldest = older(oldest, known(record->birth));
  }
  return oldest;
}

std::size_t RecordSet::memory_bytes() const {
  return sizeof(*this) + records_.capacity() * sizeof(Record) + borders_.capacity() * sizeof(DeleteKey) +
         first_of_.capacity() * sizeof(std::uint32_t) + covers_.capacity() * sizeof(Cover);
}

const SharedRecords& no_records() {
  static const SharedRecords kNone = std::make_shared<const RecordSet>();
  return kNone;
}

std::vector<Record> merge_subsumed(std::vector<Record> records, Millis max_gap) {
  std::sort(records.begin(), records.end(), [](const Record& a, const Record& b) { return a.seq < b.seq; });
  const auto stay_apart = [&](const Record& a, const Record& b) { return b.birth > a.birth && b.birth - a.birth > max_gap; };
  std::vector<Record> out;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Record& record = records[i];
    // Takes the oldest that qualifies, since its birth is nearest. Later ones may subsume that one in turn.
    const auto by = std::find_if(records.begin() + static_cast<std::ptrdiff_t>(i) + 1, records.end(),
                                 [&](const Record& r) { return r.lo <= record.lo && record.hi <= r.hi; });
    if (by != records.end() && !stay_apart(record, *by)) {
      by->birth = older(by->birth, record.birth);
    } else {
      out.push_back(record);
    }
  }
  return out;
}

/// A set, and the records added after it. Slots of the tail are filled once, in order.
struct RecordLog::State {
  explicit State(SharedRecords records) : base(std::move(records)), tail(std::max(kMinTail, base->size() / kTailFactor)) {}
  [[nodiscard]] std::span<const Record> filled() const { return {tail.data(), used.load(std::memory_order_acquire)}; }
  [[nodiscard]] std::vector<Record> all() const {
    std::vector<Record> out = base->records();
    const auto rest = filled();
    out.insert(out.end(), rest.begin(), rest.end());
    return out;
  }

  const SharedRecords base;
  std::vector<Record> tail;
  std::atomic<std::size_t> used{0};
};

RecordLog::RecordLog() = default;
RecordLog::~RecordLog() = default;

void RecordLog::insert(const Record& record) {
  ASSERT_MSG(record.lo < record.hi && record.hi <= kDeleteKeyEnd, "a record has a range");
  MutexLock lock(mutex_);
  if (states_.empty() || states_.back()->used.load(std::memory_order_relaxed) == states_.back()->tail.size()) {
    SharedRecords base = states_.empty() ? no_records() : std::make_shared<const RecordSet>(states_.back()->all());
    const std::size_t bytes = states_.empty() ? 0 : base->memory_bytes();
    states_.push_back(std::make_unique<State>(std::move(base)));
    memory_bytes_.fetch_add(sizeof(State) + bytes + states_.back()->tail.size() * sizeof(Record), std::memory_order_relaxed);
  }
  State& state = *states_.back();
  const std::size_t slot = state.used.load(std::memory_order_relaxed);
  state.tail[slot] = record;
  state.used.store(slot + 1, std::memory_order_release);
  state_.store(&state, std::memory_order_release);
  size_.fetch_add(1, std::memory_order_relaxed);
}

bool RecordLog::covers(DeleteKey d, SeqNum entry_seq, SeqNum view_seq) const {
  const State* state = state_.load(std::memory_order_acquire);
  if (state == nullptr) return false;
  for (const Record& record : state->filled()) {
    if (record.covers(d, entry_seq, view_seq)) return true;
  }
  return state->base->covers(d, entry_seq, view_seq);
}

SharedRecords RecordLog::snapshot() const {
  const State* state = state_.load(std::memory_order_acquire);
  if (state == nullptr) return no_records();
  if (state->filled().empty()) return state->base;
  return std::make_shared<const RecordSet>(state->all());
}

}  // namespace ebbtide
