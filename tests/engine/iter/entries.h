// Vectors of versions, and walks over them: models for tests of iterators and merges.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "deletes/range_tombstone.h"
#include "deletes/record.h"
#include "iter/internal_iterator.h"

namespace ebbtide::testing {

/// An entry that owns its bytes.
struct Owned {
  std::string key{};
  SeqNum seq = 0;
  EntryKind kind = EntryKind::kValue;
  std::string value{};
  DeleteKey delete_key = kNoStamp;
  Millis expiry = 0;
  Millis debt = 0;
  bool first = false;

  [[nodiscard]] Entry view() const {
    Entry entry;
    entry.key = key;
    entry.seq = seq;
    entry.kind = kind;
    entry.value = value;
    entry.delete_key = delete_key;
    entry.expiry = expiry;
    entry.debt = debt;
    entry.first = first;
    return entry;
  }
  static Owned of(const Entry& e) {
    return {std::string(e.key), e.seq, e.kind, std::string(e.value), e.delete_key, e.expiry, e.debt, e.first};
  }
  bool operator==(const Owned&) const = default;
};

inline bool in_order(const Owned& a, const Owned& b) { return version_before(a.key, a.seq, b.key, b.seq); }
inline void sort_versions(std::vector<Owned>* entries) { std::sort(entries->begin(), entries->end(), in_order); }

/// Returns views into its own buffers, which the next move overwrites, so that code that keeps a view too long fails.
class VectorIterator final : public InternalIterator {
 public:
  explicit VectorIterator(const std::vector<Owned>* entries) : entries_(entries), at_(entries->size()) {}
  void seek_to_first() override { place(0); }
  void seek_to_last() override { place(entries_->empty() ? 0 : entries_->size() - 1); }
  void seek(Bytes key) override { place(first_from(key)); }
  void seek_before(Bytes key) override {
    const std::size_t i = first_from(key);
    place(i == 0 ? entries_->size() : i - 1);
  }
  void next() override { place(at_ + 1); }
  void prev() override { place(at_ == 0 ? entries_->size() : at_ - 1); }
  /// Makes every move fail from the n-th on (1 = the next move).
  void fail_after(int moves) { fail_after_ = moves; }

 private:
  [[nodiscard]] std::size_t first_from(Bytes key) const {
    return static_cast<std::size_t>(
        std::lower_bound(entries_->begin(), entries_->end(), key, [](const Owned& e, Bytes k) { return Bytes(e.key) < k; }) -
        entries_->begin());
  }
  void place(std::size_t i) {
    at_ = i;
    status_ = Status::ok();
    std::fill(key_.begin(), key_.end(), '!');
    std::fill(value_.begin(), value_.end(), '!');
    if (fail_after_ > 0 && --fail_after_ == 0) {
      fail_after_ = 1;
      valid_ = false;
      status_ = Status::io_error("planned");
      return;
    }
    valid_ = i < entries_->size();
    if (!valid_) return;
    entry_ = (*entries_)[i].view();
    key_.assign(entry_.key);
    value_.assign(entry_.value);
    entry_.key = key_;
    entry_.value = value_;
  }

  const std::vector<Owned>* entries_;
  std::size_t at_;
  int fail_after_ = 0;
  std::string key_, value_;
};

/// Returns a key of a small set in which keys are prefixes of each other and have zeros and 0xff.
inline std::string random_key(Random& random, std::uint64_t universe) {
  const std::uint64_t n = random.uniform(universe);
  static const std::string kTails[] = {"", std::string(1, '\0'), "a", "\xff", "bcdefghijk"};
  return "shared-" + std::string(1, static_cast<char>('a' + n / 5)) + kTails[n % 5];
}

/// The versions, range tombstones and records of one memtable or run.
struct Source {
  std::vector<Owned> entries;
  std::vector<RangeTombstone> tombstones;
  std::vector<Record> records{};
};

struct SourceOptions {
  std::size_t sources = 3;
  std::uint64_t keys = 30;
  std::uint64_t versions = 20;         ///< most versions of a source
  std::uint64_t range_tombstones = 2;  ///< most range tombstones of a source
  Millis now = 1000;
  std::uint64_t records = 0;  ///< most records of a source; above 0: entries have stamps
};

/// Returns sources in the order of their age, newest first, with seqs that fall with age as in a tree. Sets `last_seq` to the
/// greatest seq used.
inline std::vector<Source> random_sources(Random& random, const SourceOptions& options, SeqNum* last_seq) {
  std::vector<Source> sources(options.sources);
  SeqNum seq = 0;
  for (std::size_t age = options.sources; age-- > 0;) {
    Source& source = sources[age];
    std::uint64_t puts = random.uniform(options.versions + 1);
    std::uint64_t deletes = random.uniform(options.range_tombstones + 1);
    std::uint64_t records = options.records == 0 ? 0 : random.uniform(options.records + 1);
    while (puts + deletes > 0) {
      ++seq;
      if (records > 0 && random.one_in(5)) {
        --records;
        const DeleteKey lo = random.uniform(20);
        source.records.push_back({lo, random.one_in(6) ? kDeleteKeyEnd : lo + 1 + random.uniform(6), seq, 1 + seq});
        continue;
      }
      if (random.uniform(puts + deletes) < deletes) {
        --deletes;
        std::string a = random_key(random, options.keys), b = random_key(random, options.keys);
        if (b < a) std::swap(a, b);
        if (random.one_in(8)) b.clear();
        if (a == b) continue;
        source.tombstones.push_back({a, b, seq, 1 + seq});
        continue;
      }
      --puts;
      Owned e{.key = random_key(random, options.keys), .seq = seq, .value = "v" + std::to_string(seq)};
      if (random.one_in(4)) {
        e.kind = EntryKind::kTombstone;
        e.value.clear();
        e.delete_key = 1 + seq;
      } else if (random.one_in(5)) {
        e.expiry = options.now - 5 + random.uniform(10);
      }
      if (options.records > 0 && e.kind != EntryKind::kTombstone && !random.one_in(4)) e.delete_key = random.uniform(20);
      source.entries.push_back(e);
    }
    sort_versions(&source.entries);
  }
  *last_seq = seq;
  return sources;
}

/// Returns the entries that exist at (view, now), in key order.
inline std::vector<Owned> visible(const std::vector<Source>& sources, SeqNum view, Millis now) {
  std::vector<Owned> all;
  for (const Source& source : sources) all.insert(all.end(), source.entries.begin(), source.entries.end());
  sort_versions(&all);
  std::vector<Owned> out;
  const std::string* decided = nullptr;
  for (const Owned& e : all) {
    if (e.seq > view || (decided != nullptr && *decided == e.key)) continue;
    decided = &e.key;
    bool exists = e.kind != EntryKind::kTombstone && !(e.expiry != 0 && e.expiry <= now);
    for (const Source& source : sources) {
      for (const Record& r : source.records) exists = exists && !r.covers(e.delete_key, e.seq, view);
      for (const RangeTombstone& t : source.tombstones) exists = exists && !(t.seq <= view && t.seq > e.seq && t.covers(e.key));
    }
    if (exists) out.push_back(e);
  }
  return out;
}

}  // namespace ebbtide::testing
