// Checks survivors by brute force: every history of one key over a few seqs, for every visible seq and every kind of older
// version below.
#include "compaction/survivors.h"

#include <catch2/catch.hpp>

#include <optional>

#include "engine/iter/entries.h"

namespace ebbtide {
namespace TEST_FILE {

using testing::Owned;
using Cover = FragmentedRangeTombstones::Cover;

constexpr Millis kNow = 1000;
constexpr SeqNum kBelowSeq = 1;  // the version in an older run
constexpr SeqNum kFirstSeq = 2;  // the versions of the input have seqs from here on
constexpr int kSlots = 5;

enum Slot { kNone, kValue, kExpired, kPoint, kRange, kOwing, kSlotKinds, kStamped = kSlotKinds, kRecord, kAllSlotKinds };
constexpr DeleteKey kStamp = 7;  // the delete key of kStamped, the only kind of version that records cover
enum class Below { kFinal, kOldValue, kNothingButUnknown, kFirstFlag };

struct History {
  std::vector<Owned> versions;  // newest first
  std::vector<Cover> covers;    // newest first
  std::vector<Record> records;
};

Millis birth_of(SeqNum seq) { return 100 + seq; }

History make_history(const int (&slots)[kSlots], Below below) {
  History h;
  for (int i = kSlots; i-- > 0;) {
    const SeqNum seq = kFirstSeq + static_cast<SeqNum>(i);
    if (slots[i] == kNone) continue;
    if (slots[i] == kRange) {
      h.covers.push_back({seq, birth_of(seq)});
      continue;
    }
    if (slots[i] == kRecord) {
      h.records.push_back({kStamp - 2, kStamp + 3, seq, birth_of(seq)});
      continue;
    }
    Owned e{.key = "key", .seq = seq, .value = "v" + std::to_string(seq)};
    if (slots[i] == kStamped) e.delete_key = kStamp;
    if (slots[i] == kOwing) {  // a put with a debt of its own
      e.kind = EntryKind::kCompact;
      e.debt = birth_of(seq);
    }
    if (slots[i] == kPoint) {
      e.kind = EntryKind::kTombstone;
      e.value.clear();
      e.delete_key = birth_of(seq);
    } else if (slots[i] == kExpired) {
      e.expiry = birth_of(seq);
    }
    h.versions.push_back(e);
  }
  if (below == Below::kFirstFlag && !h.versions.empty()) h.versions.back().first = true;
  return h;
}

/// Returns the seq of the version that a reader at `view` finds; nullopt if it finds none.
std::optional<SeqNum> read(const std::vector<Owned>& versions, const std::vector<Cover>& covers,
                           const std::vector<Record>& records, bool old_value, SeqNum view) {
  Owned found;
  for (const Owned& e : versions) {
    if (e.seq <= view && e.seq > found.seq) found = e;
  }
  if (found.seq == 0 && old_value && view >= kBelowSeq) found = {.key = "key", .seq = kBelowSeq, .value = "old"};
  if (found.seq == 0 || found.kind == EntryKind::kTombstone || (found.expiry != 0 && found.expiry <= kNow)) return std::nullopt;
  for (const Cover& cover : covers) {
    if (cover.seq <= view && cover.seq > found.seq) return std::nullopt;
  }
  for (const Record& record : records) {
    if (record.covers(found.delete_key, found.seq, view)) return std::nullopt;
  }
  return found.seq;
}

struct Outcome {
  std::vector<Owned> versions;
  std::vector<Cover> covers;
  SeqNum applied_seq = 0;
};

Outcome survive(const History& before, const Judgement& judgement, Below below) {
  const RecordSet records(before.records);
  Survivors survivors(judgement, &records);
  survivors.begin("key", before.covers);
  for (const Owned& e : before.versions) {
    Owned scratch = e;  // add() must copy the data that it keeps
    survivors.add(scratch.view());
    scratch.value.assign(scratch.value.size(), '!');
  }
  Outcome out;
  for (const Entry& e : survivors.finish({.nothing_below = below == Below::kFinal})) out.versions.push_back(Owned::of(e));
  out.applied_seq = survivors.applied_seq();
  out.covers = surviving_covers(before.covers, judgement, below == Below::kFinal);
  return out;
}

/// Returns the oldest pending birth of the outcome.
Millis pending(const Outcome& out, const std::vector<Record>& records) {
  Millis oldest = 0;
  const auto take = [&](Millis birth) { oldest = birth != 0 && (oldest == 0 || birth < oldest) ? birth : oldest; };
  for (const Owned& e : out.versions) {
    take(e.debt);
    if (e.kind == EntryKind::kTombstone) take(e.delete_key);
    if (e.expiry != 0) take(e.expiry);
    // The file's stats show if a record may cover an entry of the file.
    for (const Record& record : records) {
      if (e.kind == EntryKind::kValue && record.covers(e.delete_key, e.seq, kMaxSeqNum)) take(record.birth);
    }
  }
  for (const Cover& c : out.covers) take(c.birth);
  return oldest;
}

/// Returns the first fault of `after`; "" if there is none.
std::string check(const History& before, const Outcome& after, const Judgement& judgement, Below below) {
  const bool old_value = below == Below::kOldValue;
  std::vector<SeqNum> readers;
  for (SeqNum seq = judgement.visible_seq; seq <= kFirstSeq + kSlots; ++seq) readers.push_back(seq);
  for (const SeqNum view : readers) {
    if (read(before.versions, before.covers, before.records, old_value, view) !=
        read(after.versions, after.covers, before.records, old_value, view)) {
      return "a reader at " + std::to_string(view) + " sees something else";
    }
  }
  const bool nothing_older = below == Below::kFinal || (below == Below::kFirstFlag && !before.versions.empty());
  for (std::size_t i = 0; i < after.versions.size(); ++i) {
    const Owned& e = after.versions[i];
    const bool oldest = i + 1 == after.versions.size();
    if (!oldest && e.seq <= after.versions[i + 1].seq) return "out of order";
    if (!oldest && judgement.stripe(e.seq) == judgement.stripe(after.versions[i + 1].seq)) return "two survivors in one stripe";
    if (e.kind != EntryKind::kTombstone && e.value != "v" + std::to_string(e.seq)) return "wrong value";
    if (e.kind == EntryKind::kTombstone && (!e.value.empty() || e.expiry != 0 || e.delete_key == 0)) return "malformed tombstone";
    if (e.expiry != 0) return "an expired entry stays";
    if (oldest && nothing_older && (e.kind == EntryKind::kTombstone || e.debt != 0))
      return "a pending birth without older versions";
    if (e.first != (oldest && nothing_older && below == Below::kFirstFlag)) return "first flag";
    const auto origin =
        std::find_if(before.versions.begin(), before.versions.end(), [&](const Owned& b) { return b.seq == e.seq; });
    if (origin == before.versions.end()) return "a seq that was not there";
    if (e.kind != EntryKind::kTombstone && e.kind != origin->kind) return "another kind";
  }
  // Every delete that still has older versions must be pending.
  const SeqNum lowest = nothing_older ? (after.versions.empty() ? kMaxSeqNum : after.versions.back().seq) : kBelowSeq;
  const Millis still = pending(after, before.records);
  const auto is_pending = [&](SeqNum seq, Millis birth) { return lowest >= seq || (still != 0 && still <= birth); };
  for (const Cover& c : before.covers) {
    if (!is_pending(c.seq, c.birth)) return "a range delete is forgotten";
  }
  SeqNum applied = kMaxSeqNum;
  for (const Record& r : before.records) {
    // A record deletes the current version, unless a range delete or an older record has deleted it before.
    for (std::size_t i = 0; i < before.versions.size(); ++i) {
      const bool current = i == 0 || before.versions[i - 1].seq > r.seq;
      if (current && r.covers(before.versions[i].delete_key, before.versions[i].seq, kMaxSeqNum) &&
          before.versions[i].kind == EntryKind::kValue && !is_pending(r.seq, r.birth)) {
        return "a delete by stamp is forgotten";
      }
    }
    for (const Owned& e : after.versions) {
      if (e.kind == EntryKind::kValue && r.covers(e.delete_key, e.seq, kMaxSeqNum)) applied = std::min(applied, r.seq - 1);
    }
  }
  if (after.applied_seq != applied) return "what was applied";
  for (const Owned& e : before.versions) {
    if (e.kind == EntryKind::kTombstone && !is_pending(e.seq, e.delete_key)) return "a delete is forgotten";
    if (e.expiry != 0 && !is_pending(e.seq, e.expiry)) return "an expiry is forgotten";
    if (e.debt != 0 && !is_pending(e.seq, e.debt)) return "a debt is forgotten";
  }
  // If readers see all versions, hidden versions must stay only if they are still needed.
  if (judgement.visible_seq >= kFirstSeq + kSlots) {
    if (after.versions.size() > 1) return "more than one version";
    if (below == Below::kFinal && !after.covers.empty()) return "a range tombstone at the end";
    if (applied != kMaxSeqNum) return "covered by a record, and stays";
  }
  return "";
}

TEST_CASE("key has any short history: survivors keep what every reader sees, and every pending delete") {
  std::uint64_t cases = 0;
  int slots[kSlots] = {};
  const int histories = 7776;  // kSlotKinds ^ kSlots
  for (int history = 0; history < histories; ++history) {
    for (int i = 0, rest = history; i < kSlots; ++i, rest /= kSlotKinds) slots[i] = rest % kSlotKinds;
    for (const Below below : {Below::kFinal, Below::kOldValue, Below::kNothingButUnknown, Below::kFirstFlag}) {
      const History before = make_history(slots, below);
      for (SeqNum visible = kBelowSeq; visible <= kFirstSeq + kSlots; ++visible) {
        const Judgement judgement{.visible_seq = visible, .now = kNow};
        ++cases;
        const std::string wrong = check(before, survive(before, judgement, below), judgement, below);
        if (!wrong.empty()) {
          CAPTURE(slots[0], slots[1], slots[2], slots[3], slots[4], static_cast<int>(below), visible);
          FAIL(wrong);
        }
      }
    }
  }
  REQUIRE(cases == 7776u * 4 * (kFirstSeq + kSlots - kBelowSeq + 1));
}

TEST_CASE("no view lies between versions of a key: only the newest survives, unless a delete by stamp covers it") {
  constexpr int kUsed = 4, kHistories = kAllSlotKinds * kAllSlotKinds * kAllSlotKinds * kAllSlotKinds;
  for (int history = 0; history < kHistories; ++history) {
    int slots[kSlots] = {};
    for (int i = 0, rest = history; i < kUsed; ++i, rest /= kAllSlotKinds) slots[i] = rest % kAllSlotKinds;
    for (const Below below : {Below::kFinal, Below::kOldValue, Below::kNothingButUnknown, Below::kFirstFlag}) {
      const History before = make_history(slots, below);
      if (before.records.empty()) continue;
      for (SeqNum visible = kBelowSeq; visible <= kFirstSeq + kSlots; ++visible) {
        const Judgement judgement{.visible_seq = visible, .now = kNow};
        const std::string wrong = check(before, survive(before, judgement, below), judgement, below);
        if (!wrong.empty()) {
          CAPTURE(slots[0], slots[1], slots[2], slots[3], static_cast<int>(below), visible);
          FAIL(wrong);
        }
      }
    }
  }
}

TEST_CASE("delete by stamp covers a collection's header: the merge keeps the header, and applied_seq() stays below the delete") {
  const RecordSet records(std::vector<Record>{{5, 10, 20, 300}});
  const Judgement judgement{.now = kNow};
  Survivors survivors(judgement, &records);
  survivors.begin("key", {});
  Owned header{.key = "key", .seq = 7, .value = "h"};
  header.kind = EntryKind::kHeader;
  header.delete_key = kStamp;
  survivors.add(header.view());
  const auto kept = survivors.finish({.nothing_below = true});
  REQUIRE(kept.size() == 1);
  CHECK(kept[0].kind == EntryKind::kHeader);
  CHECK(survivors.applied_seq() == 19);
}

TEST_CASE("put replaces a tombstone: merges keep the put's delete debt until no older version is below") {
  const Judgement judgement{.visible_seq = 100, .now = kNow};
  // After DEL k; SET k: the new value hides the tombstone, and takes over its birth.
  History h;
  h.versions = {{.key = "key", .seq = 9, .value = "v9"},
                {.key = "key", .seq = 7, .kind = EntryKind::kTombstone, .delete_key = 107}};
  Outcome out = survive(h, judgement, Below::kOldValue);
  REQUIRE(out.versions.size() == 1);
  REQUIRE(out.versions[0].debt == 107);
  // After a second SET k the newest value takes over the debt.
  h.versions = {{.key = "key", .seq = 12, .value = "v12"}, out.versions[0]};
  out = survive(h, judgement, Below::kOldValue);
  REQUIRE(out.versions[0].debt == 107);
  // A range tombstone with a younger birth covers the key: a tombstone keeps the debt.
  h.versions = out.versions;
  h.covers = {{20, 500}};
  out = survive(h, judgement, Below::kOldValue);
  REQUIRE(out.versions.size() == 1);
  REQUIRE(out.versions[0].kind == EntryKind::kTombstone);
  REQUIRE(out.versions[0].seq == 12);
  REQUIRE(out.versions[0].delete_key == 500);
  REQUIRE(out.versions[0].debt == 107);
  // In the bottommost run debts end.
  h.versions = out.versions;
  out = survive(h, judgement, Below::kFinal);
  REQUIRE(out.versions.empty());
  REQUIRE(out.covers.empty());
}

TEST_CASE("put has a delete debt: newer puts and deletes take over the debt, until no older version is below") {
  const Judgement judgement{.visible_seq = 100, .now = kNow};
  const Owned owing{.key = "key", .seq = 7, .kind = EntryKind::kCompact, .value = "v7", .debt = 107};
  History h;
  h.versions = {owing};
  Outcome out = survive(h, judgement, Below::kOldValue);
  REQUIRE(out.versions.size() == 1);
  CHECK(out.versions[0] == owing);
  // A newer put without a debt hides the one with a debt, and takes it over.
  h.versions = {{.key = "key", .seq = 9, .value = "v9"}, owing};
  out = survive(h, judgement, Below::kOldValue);
  REQUIRE(out.versions.size() == 1);
  CHECK(out.versions[0].seq == 9);
  CHECK(out.versions[0].debt == 107);
  // A newer delete takes over the debt, too; its own birth is younger.
  h.versions = {{.key = "key", .seq = 9, .kind = EntryKind::kTombstone, .delete_key = 200}, owing};
  out = survive(h, judgement, Below::kOldValue);
  REQUIRE(out.versions.size() == 1);
  CHECK(out.versions[0].delete_key == 200);
  CHECK(out.versions[0].debt == 107);
  // A newer put with a younger debt: the older birth is kept.
  h.versions = {{.key = "key", .seq = 9, .value = "v9", .debt = 200}, owing};
  out = survive(h, judgement, Below::kOldValue);
  REQUIRE(out.versions.size() == 1);
  CHECK(out.versions[0].debt == 107);
  // If some reader cannot see the newer put yet, each version keeps its own debt.
  const Judgement early{.visible_seq = 8, .now = kNow};
  out = survive(h, early, Below::kOldValue);
  REQUIRE(out.versions.size() == 2);
  CHECK(out.versions[0].debt == 200);
  CHECK(out.versions[1].debt == 107);
  // In the bottommost run the older version's debt ends. The newer version keeps its debt while the older one is below.
  out = survive(h, early, Below::kFinal);
  REQUIRE(out.versions.size() == 2);
  CHECK(out.versions[0].debt == 200);
  CHECK(out.versions[1].debt == 0);
  out = survive(h, judgement, Below::kFinal);
  REQUIRE(out.versions.size() == 1);
  CHECK(out.versions[0].debt == 0);
}

TEST_CASE("range tombstone covers a value without pending deletes: a merge keeps only the range tombstone") {
  const Judgement judgement{.visible_seq = 100, .now = kNow};
  History h;
  h.versions = {{.key = "key", .seq = 5, .value = "v5"}};
  h.covers = {{20, 500}, {10, 300}};
  const Outcome out = survive(h, judgement, Below::kOldValue);
  REQUIRE(out.versions.empty());
  REQUIRE(out.covers.size() == 1);
  REQUIRE(out.covers[0].seq == 20);
  REQUIRE(out.covers[0].birth == 300);
}

TEST_CASE("header of a collection has expired: merges keep it until a range tombstone covers the elements") {
  const Judgement judgement{.visible_seq = 100, .now = kNow};
  History h;
  h.versions = {{.key = "key", .seq = 5, .kind = EntryKind::kHeader, .value = "h", .expiry = 900}};
  REQUIRE(survive(h, judgement, Below::kFinal).versions.size() == 1);
  REQUIRE(survive(h, judgement, Below::kOldValue).versions[0].kind == EntryKind::kHeader);
  h.covers = {{7, 950}};
  REQUIRE(survive(h, judgement, Below::kFinal).versions.empty());
}

TEST_CASE("reaper has deleted an expired collection's elements: its header is dropped like any other dead entry") {
  Judgement judgement{.visible_seq = 100, .now = kNow};
  History h;
  h.versions = {{.key = "key", .seq = 5, .kind = EntryKind::kHeader, .value = "h", .expiry = 900}};
  judgement.reaped.expiry = 899;
  CHECK(survive(h, judgement, Below::kFinal).versions.size() == 1);
  judgement.reaped.expiry = 900;
  CHECK(survive(h, judgement, Below::kFinal).versions.empty());
  const Outcome above = survive(h, judgement, Below::kOldValue);
  REQUIRE(above.versions.size() == 1);
  CHECK(above.versions[0].kind == EntryKind::kTombstone);
  CHECK(above.versions[0].delete_key == 900);

  h.versions = {{.key = "key", .seq = 5, .kind = EntryKind::kHeader, .value = "h", .delete_key = 40}};
  h.records = {{0, 50, 9, 800}};
  judgement.reaped = {.expiry = 5000, .record = 8};
  CHECK(survive(h, judgement, Below::kFinal).versions.size() == 1);
  judgement.reaped.record = 9;
  CHECK(survive(h, judgement, Below::kFinal).versions.empty());
}

TEST_CASE("flushed key is in no older run: its oldest surviving version is flagged `first`") {
  const Judgement judgement{.visible_seq = 100, .now = kNow};
  Survivors survivors(judgement);
  const std::vector<Owned> versions = {{.key = "key", .seq = 5, .value = "b"}, {.key = "key", .seq = 4, .value = "a"}};
  survivors.begin("key", {});
  for (const Owned& e : versions) survivors.add(e.view());
  auto out = survivors.finish({.nothing_below = true, .mark_first = true});
  REQUIRE(out.size() == 1);
  REQUIRE(out[0].first);
  survivors.begin("key", {});
  for (const Owned& e : versions) survivors.add(e.view());
  out = survivors.finish({.nothing_below = true});
  REQUIRE_FALSE(out[0].first);
}

TEST_CASE("versions have large or shared values: survivors refer to the values without copying them") {
  const Judgement judgement{.visible_seq = 100, .now = kNow};
  Survivors survivors(judgement);
  const auto shared = std::make_shared<const std::string>(100, 's');
  Entry entry;
  entry.key = "key";
  entry.seq = 3;
  entry.value = *shared;
  entry.shared = &shared;
  survivors.begin("key", {});
  survivors.add(entry);
  const auto out = survivors.finish({});
  REQUIRE(out[0].value.data() == shared->data());
  REQUIRE(out[0].shared == &shared);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
