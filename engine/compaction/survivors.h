// Decides which versions of a key survive a flush or a merge. Pure: no I/O, no clock.
//
//   seq     --------------------------------|visible_seq|----- - - ->
//   stripes            (.., visible]                       each seq is a stripe
//
//   1. No future reader can distinguish two versions in one stripe: only the newest version survives and shadows the older
//      versions. Seqs above visible_seq may still become visible one by one, so each of these seqs is a stripe of its own. A
//      merge can ignore open views, since they keep the files that they read.
//   2. Then the survivor is judged. It is dead if a range tombstone of the same stripe covers it, or if it has expired; expiry
//      applies to all readers. The order matters: an expired newest version must not be replaced by an older version that has not
//      expired.
//   3. A dead version becomes a tombstone with the version's seq, born when the version died. A tombstone is dropped if no older
//      version is below it, in an older run or in the output. No older run has one if the run is final (bottommost) for the key,
//      or if the key's `first` version is in the input. A covered version is also dropped if the covering range tombstone is at
//      least as old as the version's deletes. That range tombstone stays as long as older versions exist.
//   4. Delete debts: an entry that shadows a tombstone or a dead version takes over that version's birth and debts, as long as
//      older versions exist. When no older version exists, the debt ends.
//   5. Seqs never change.
//   6. A record (secondary range tombstone) acts on the survivor of a stripe like a tombstone just above it, with the record's
//      seq and birth. It covers that one version, by its delete key. A covered version becomes a tombstone with the version's
//      seq: the record hides that version and no older version.
//
// Range tombstones are judged separately: the newest cover of each stripe stays, with the oldest birth of all covers of the
// stripe. Where the run is final, range tombstones are dropped if every future reader sees them: everything they cover is dropped
// in the same merge.
#pragma once

#include <algorithm>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "base/entry.h"
#include "deletes/range_tombstone.h"
#include "deletes/reaped.h"
#include "deletes/record.h"

namespace ebbtide {

/// The state by which versions are judged.
struct Judgement {
  SeqNum visible_seq = kMaxSeqNum;  ///< the visible seq at the start: every later reader has this seq or a greater one
  Millis now = 0;
  Reaped reaped{};  ///< the reaper has deleted the elements of headers that died by then: these headers may be dropped

  /// Returns the greatest seq of the stripe of `seq`. Every future reader sees all seqs of a stripe or none of them.
  [[nodiscard]] SeqNum stripe(SeqNum seq) const { return std::max(seq, visible_seq); }
  /// Returns true if some reader may not see an operation with this seq. Such a reader needs the versions that the operation
  /// hides.
  [[nodiscard]] bool seen_before(SeqNum seq) const { return seq > visible_seq; }
};

/// Facts about a key that its input versions do not show.
struct KeyFacts {
  /// True if no older version is outside the input: the run is final for the key, or filters deny it.
  bool nothing_below = false;
  bool mark_first = false;  ///< true for flushes: if nothing_below, the oldest survivor is flagged as `first`
};

/// Processes the versions of one key after the other, and reuses its buffers. Not thread-safe.
class Survivors {
 public:
  using Cover = FragmentedRangeTombstones::Cover;

  /// `records`: the records that may cover entries of the input; must outlive this object. Null: there are none.
  explicit Survivors(const Judgement& judgement, const RecordSet* records = nullptr)
      : judgement_(judgement), records_(records == nullptr || records->empty() ? nullptr : records) {}

  /// Begins a key. `covers`: the range tombstones of the input that cover the key, newest first; must live until finish().
  void begin(Bytes key, std::span<const Cover> covers);
  /// Adds versions, newest first. Copies versions that may survive, but not their large and shared values.
  void add(const Entry& entry);
  /// A copy of the key given to begin().
  [[nodiscard]] const std::string& key() const { return key_; }
  /// Returns the survivors, newest first; valid until begin().
  std::span<const Entry> finish(const KeyFacts& facts);
  /// Returns, after finish(), the greatest seq such that no record up to this seq covers a survivor. A covered entry survives in
  /// two cases: some readers do not see the record yet, or the entry is a header and the reaper has not deleted its elements yet.
  [[nodiscard]] SeqNum applied_seq() const { return applied_seq_; }

 private:
  struct Candidate {
    Entry entry;
    std::string value;  // the bytes of entry.value, unless they are shared or large
    SeqNum stripe = 0;
    Millis shadowed = 0;  // oldest birth of the deleted versions that this candidate shadows
  };
  [[nodiscard]] Millis pending_birth_of(const Entry& entry) const;
  [[nodiscard]] const Cover* cover_in_stripe(const Entry& entry, SeqNum stripe) const;
  [[nodiscard]] Millis oldest_cover_birth(SeqNum above, SeqNum stripe) const;
  [[nodiscard]] Millis record_birth(const Entry& entry, SeqNum up_to) const;
  [[nodiscard]] bool is_held_by_elements(const Entry& entry, SeqNum stripe) const;
  bool judge(Candidate* candidate, bool nothing_below) const;
  void note_unapplied(const Entry& entry);

  const Judgement& judgement_;
  const RecordSet* const records_;
  std::string key_;
  std::span<const Cover> covers_;
  // The first used_ candidates are in use; the others keep their buffers for reuse. A deque, since entries point into its
  // elements.
  std::deque<Candidate> candidates_;
  std::size_t used_ = 0;
  bool first_met_ = false;
  SeqNum last_seq_ = 0;  // seq of the version added last
  SeqNum applied_seq_ = kMaxSeqNum;
  std::vector<Entry> out_;
};

/// Returns the range tombstones over one fragment (covers) that stay, newest first, as in the input. `final`: no older run
/// overlaps the fragment.
std::vector<FragmentedRangeTombstones::Cover> surviving_covers(std::span<const FragmentedRangeTombstones::Cover> covers,
                                                               const Judgement& judgement, bool final);

}  // namespace ebbtide
