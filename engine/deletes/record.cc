#include "deletes/record.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "base/invariant.h"
#include "base/oldest.h"

namespace ebbtide {
namespace {

// A scan of this many records costs about as much as a search in a set of a few hundred.
constexpr std::size_t kRecordLogSlots = 16;

}  // namespace

std::string to_text(const Record& r) {
  return std::to_string(r.seq) + " on stamps " + std::to_string(r.lo) + ".." +
         (r.hi == kDeleteKeyEnd ? "*" : "<" + std::to_string(r.hi)) + ", born " + std::to_string(r.birth);
}

RecordSet::RecordSet(std::span<const Record> records) {
  for (const Record& record : records) {
    ASSERT_MSG(record.lo < record.hi && record.hi <= kDeleteKeyEnd, "a record must have a valid range that is not empty");
  }
  by_range_ = by_range_.changed({}, {records.begin(), records.end()});
  by_seq_ = by_seq_.changed({}, {records.begin(), records.end()});
}

std::vector<Record> RecordSet::records() const {
  std::vector<Record> out;
  out.reserve(size());
  by_seq_.walk([](const RecordPart&) { return true; },
               [&](const Record& record) {
                 out.push_back(record);
                 return false;
               });
  return out;
}

const Record* RecordSet::find(SeqNum seq) const {
  const std::size_t i = by_seq_.rank([seq](const Record& r) { return r.seq >= seq; });
  if (i == size()) return nullptr;
  const Record& record = at(i);
  return record.seq == seq ? &record : nullptr;
}

Result<RecordSet> RecordSet::changed(std::span<const SeqNum> removed, std::span<const Record> added) const {
  std::vector<SeqNum> seqs(removed.begin(), removed.end());
  std::sort(seqs.begin(), seqs.end());
  std::vector<Record> gone;
  for (std::size_t i = 0; i < seqs.size(); ++i) {
    const Record* const record = i > 0 && seqs[i] == seqs[i - 1] ? nullptr : find(seqs[i]);
    if (record == nullptr) return Status::corruption("record " + std::to_string(seqs[i]) + " is not in the tree");
    gone.push_back(*record);
  }
  std::unordered_set<SeqNum> fresh;
  for (const Record& record : added) {
    const bool stays = find(record.seq) != nullptr && !std::binary_search(seqs.begin(), seqs.end(), record.seq);
    if (stays || !fresh.insert(record.seq).second) {
      return Status::corruption("record " + std::to_string(record.seq) + " is added, but is already in the tree");
    }
  }
  RecordSet out;
  out.by_range_ = by_range_.changed(gone, {added.begin(), added.end()});
  out.by_seq_ = by_seq_.changed(std::move(gone), {added.begin(), added.end()});
  return out;
}

bool RecordSet::covers(DeleteKey d, SeqNum entry_seq, SeqNum view_seq) const {
  return by_range_.stab(
      d, [&](const RecordPart& p) { return p.max_seq > entry_seq && p.min_seq <= view_seq; },
      [&](const Record& r) { return r.seq > entry_seq && r.seq <= view_seq; });
}

SeqNum RecordSet::newest_cover(DeleteKey d, SeqNum view_seq) const {
  SeqNum newest = 0;
  by_range_.stab(
      d, [&](const RecordPart& p) { return p.max_seq > newest && p.min_seq <= view_seq; },
      [&](const Record& r) {
        if (r.seq <= view_seq) newest = std::max(newest, r.seq);
        return false;
      });
  return newest;
}

SeqNum RecordSet::oldest_cover_above(DeleteKey d, SeqNum entry_seq) const {
  SeqNum oldest = 0;
  by_range_.stab(
      d, [&](const RecordPart& p) { return p.max_seq > entry_seq && (oldest == 0 || p.min_seq < oldest); },
      [&](const Record& r) {
        if (r.seq > entry_seq) oldest = oldest == 0 ? r.seq : std::min(oldest, r.seq);
        return false;
      });
  return oldest;
}

Millis RecordSet::oldest_birth(DeleteKey d, SeqNum above, SeqNum up_to) const {
  Millis oldest = 0;
  by_range_.stab(
      d, [&](const RecordPart& p) { return p.max_seq > above && p.min_seq <= up_to && (oldest == 0 || p.min_birth < oldest); },
      [&](const Record& r) {
        if (r.seq > above && r.seq <= up_to) oldest = older(oldest, known_birth(r.birth));
        return false;
      });
  return oldest;
}

bool RecordSet::covers_all(DeleteKey min, DeleteKey max, SeqNum max_seq, SeqNum view_seq) const {
  if (min > max) return false;
  DeleteKey reach = min;  // every delete key from min up to here is covered
  bool gap = false;
  const auto wanted = [&](const RecordPart& p) {
    if (gap || reach > max || p.max_hi <= reach) return false;
    gap = p.min_lo > reach;  // later records begin at or after this record, so none of them can close the gap
    if (gap || p.max_seq <= max_seq || p.min_seq > view_seq) return false;
    if (!p.gapless || p.min_seq <= max_seq || p.max_seq > view_seq) return true;
    reach = p.max_hi;
    return false;
  };
  by_range_.walk(wanted, [&](const Record& r) {
    gap = r.lo > reach;
    if (!gap && max_seq < r.seq && r.seq <= view_seq) reach = std::max(reach, r.hi);
    return gap || reach > max;
  });
  return reach > max;
}

// Returns true if a search in the tree by range is faster than a search in the tree by seq. A search by range reads every record
// that overlaps [min, max]. A search by seq begins with the oldest record above the seq. It can mostly end with the first record
// that overlaps [min, max], since that record has the oldest birth.
bool RecordSet::is_narrow(DeleteKey min, DeleteKey max, SeqNum above) const {
  const std::size_t first = by_range_.rank([min](const Record& r) { return r.lo > min; });
  const std::size_t last = by_range_.rank([max](const Record& r) { return r.lo > max; });
  const std::size_t over = last - first + 1;
  const std::size_t newer = size() - by_seq_.rank([above](const Record& r) { return r.seq > above; });
  return over < newer / over;
}

Millis RecordSet::oldest_birth_over(DeleteKey min, DeleteKey max, SeqNum min_seq, SeqNum applied_seq) const {
  const SeqNum above = std::max(min_seq, applied_seq);
  if (newest() <= above || min > max) return 0;
  Millis oldest = 0;
  const auto wanted = [&](const RecordPart& p) {
    if (oldest != 0 && p.min_birth >= oldest) return false;
    if (p.min_seq <= above || !p.all_overlap(min, max)) return true;
    oldest = p.min_birth;  // all records of the part qualify, so its summary is enough
    return false;
  };
  visit_over(min, max, above, wanted, [&](const Record& r) { oldest = older(oldest, known_birth(r.birth)); });
  return oldest;
}

std::size_t RecordSet::memory_bytes() const { return sizeof(*this) + by_range_.memory_bytes() + by_seq_.memory_bytes(); }

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
    // Takes the oldest of the newer records that contain this record, since its birth is the nearest. That record may then be
    // merged into a newer record in turn.
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

/// The sets, the oldest and largest first, and the log, which has the records that were added after the sets were made. Slots of
/// the log are filled once, in order.
struct RecordLog::State {
  [[nodiscard]] std::span<const Record> filled() const { return {log.data(), used.load(std::memory_order_acquire)}; }

  std::vector<SharedRecords> sets;
  std::array<Record, kRecordLogSlots> log{};
  std::atomic<std::size_t> used{0};
};

RecordLog::RecordLog() = default;
RecordLog::~RecordLog() = default;

void RecordLog::insert(const Record& record) {
  ASSERT_MSG(record.lo < record.hi && record.hi <= kDeleteKeyEnd, "a record must have a valid range that is not empty");
  MutexLock lock(mutex_);
  if (states_.empty() || states_.back()->used.load(std::memory_order_relaxed) == kRecordLogSlots) {
    auto next = std::make_unique<State>();
    std::size_t bytes = sizeof(State);
    if (!states_.empty()) {
      const State& full = *states_.back();
      next->sets = full.sets;
      std::vector<Record> all(full.log.begin(), full.log.end());
      for (; !next->sets.empty() && next->sets.back()->size() <= all.size(); next->sets.pop_back()) {
        const std::vector<Record> more = next->sets.back()->records();
        all.insert(all.end(), more.begin(), more.end());
      }
      next->sets.push_back(std::make_shared<const RecordSet>(all));
      bytes += next->sets.back()->memory_bytes() + next->sets.capacity() * sizeof(SharedRecords);
    }
    states_.push_back(std::move(next));
    memory_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  State& state = *states_.back();
  const std::size_t slot = state.used.load(std::memory_order_relaxed);
  state.log[slot] = record;
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
  return std::any_of(state->sets.begin(), state->sets.end(),
                     [&](const SharedRecords& set) { return set->covers(d, entry_seq, view_seq); });
}

std::vector<SharedRecords> RecordLog::sets() const {
  const State* state = state_.load(std::memory_order_acquire);
  if (state == nullptr) return {};
  std::vector<SharedRecords> out = state->sets;
  if (const auto log = state->filled(); !log.empty()) out.push_back(std::make_shared<const RecordSet>(log));
  return out;
}

SharedRecords RecordLog::snapshot() const {
  std::vector<SharedRecords> all = sets();
  if (all.empty()) return no_records();
  if (all.size() == 1) return all.front();
  std::vector<Record> list;
  for (const SharedRecords& set : all) {
    const std::vector<Record> more = set->records();
    list.insert(list.end(), more.begin(), more.end());
  }
  return std::make_shared<const RecordSet>(list);
}

}  // namespace ebbtide
