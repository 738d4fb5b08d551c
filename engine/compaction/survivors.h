// Which versions of a key live through a flush or a merge. Values in, values out: no I/O, no clock.
//
//   open views:        w1             w2            visible_seq
//   seq     ------------|--------------|----------------|----- - - ->
//   stripes    (.., w1]     (w1, w2]      (w2, visible]    each seq its own
//
//   1. Two versions in one stripe are told apart by no reader, now or later: only the newest lives, it shadows the others. Seqs
//      above visible_seq may still become a reader's view one by one, so each is a stripe of its own.
//   2. Then the survivor is judged. It is dead if a range tombstone of the same stripe covers it, or if it has expired; expiry
//      knows no stripes (no view protects what has expired). Choosing first and judging after matters: an expired newest
//      version must not give way to an older one that has not expired.
//   3. What is dead becomes a tombstone with its own seq, born when it died. A tombstone goes if nothing lies below it: no older
//      version of the key in an older run (the run is final for the key, or the key's `first` version is among the input), and
//      none in the output. A covered version goes too if the covering range tombstone, which stays as long as anything lies
//      below, owes all that it owes.
//   4. Debts: whoever shadows a tombstone or a dead version while something lies below owes its deletion to the deadline, and
//      takes over its birth, and the debts it had itself. With nothing below, the debt is paid.
//   5. Seqs never change.
//   6. A record (secondary range delete) acts on the survivor of a stripe as a tombstone just above it, with the record's seq and
//      birth, would: it covers by the delete key of that one version. What it covers becomes a tombstone with the version's own
//      seq, whatever else stays: the record hides that version and no older one.
//
// Range tombstones are judged beside: of the covers of one stripe the newest stays, with the oldest birth of all. Where the run
// is final they go when no view is older than they are: then everything that they cover goes in the same merge.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "base/entry.h"
#include "deletes/range_tombstone.h"
#include "deletes/record.h"

namespace ebbtide {

/// The moment that versions are judged by.
struct Judgement {
  std::vector<SeqNum> view_seqs{};  ///< open leased views, ascending
  SeqNum visible_seq = kMaxSeqNum;  ///< greatest seq that a reader can have at the time
  Millis now = 0;

  /// The greatest seq of the stripe that `seq` lies in.
  [[nodiscard]] SeqNum stripe(SeqNum seq) const;
  /// Whether some view is older than `seq`, so that what an operation of this seq hid may still be seen.
  [[nodiscard]] bool seen_before(SeqNum seq) const {
    return seq > visible_seq || (!view_seqs.empty() && view_seqs.front() < seq);
  }
};

/// Whether a dead header must be kept: elements lie below it until a range tombstone over them is committed. `covered`: by one.
inline bool is_held_by_elements(const Entry& entry, bool covered) { return entry.kind == EntryKind::kHeader && !covered; }

/// What is known of the key from outside the input.
struct KeyFacts {
  bool nothing_below = false;  ///< no older version outside the input: the run is final for the key, or filters say so
  bool mark_first = false;     ///< say so with the `first` flag on the oldest survivor (flushes)
};

/// Takes the versions of one key after the other. Keeps buffers from key to key. Not thread-safe.
class Survivors {
 public:
  using Cover = FragmentedRangeTombstones::Cover;

  /// `records`: those that may cover entries of the input; must live as long. Null: there are none.
  explicit Survivors(const Judgement& judgement, const RecordSet* records = nullptr)
      : judgement_(judgement), records_(records == nullptr || records->empty() ? nullptr : records) {}

  /// `covers`: of all range tombstones in the input, those over this key, newest first; they must live until finish(). Forgets
  /// the key before.
  void begin(Bytes key, std::span<const Cover> covers);
  /// Newest first. Copies what it keeps; large and shared values stay where they are.
  void add(const Entry& entry);
  /// The key that begin() was given, as a copy.
  [[nodiscard]] const std::string& key() const { return key_; }
  /// The survivors, newest first; valid until begin().
  std::span<const Entry> finish(const KeyFacts& facts);
  /// After finish(): the greatest seq such that no record up to it covers a survivor. Readers of an old view, or elements that
  /// wait for their range tombstone, may keep what is covered.
  [[nodiscard]] SeqNum applied_seq() const { return applied_seq_; }

 private:
  struct Candidate {
    Entry entry;
    std::string value;  // the bytes of entry.value, unless they are shared or large
    SeqNum stripe = 0;
    Millis shadowed = 0;  // oldest birth owed by what it shadows
  };
  [[nodiscard]] Millis owed_by(const Entry& entry) const;
  [[nodiscard]] const Cover* cover_in_stripe(const Entry& entry, SeqNum stripe) const;
  [[nodiscard]] Millis oldest_cover_birth(SeqNum above, SeqNum stripe) const;
  [[nodiscard]] Millis record_birth(const Entry& entry, SeqNum up_to) const;
  bool judge(Candidate* candidate, bool nothing_below) const;
  void note_unapplied(const Entry& entry);

  const Judgement& judgement_;
  const RecordSet* const records_;
  std::string key_;
  std::span<const Cover> covers_;
  std::deque<Candidate> candidates_;  // the first used_ of them; the rest keep their buffers. A deque: entries point into them
  std::size_t used_ = 0;
  bool first_met_ = false;
  SeqNum last_seq_ = 0;  // of the version added last
  SeqNum applied_seq_ = kMaxSeqNum;
  std::vector<Entry> out_;
};

/// Which covers of one fragment stay. `final`: no older run overlaps the fragment. Newest first, as the input.
std::vector<FragmentedRangeTombstones::Cover> surviving_covers(std::span<const FragmentedRangeTombstones::Cover> covers,
                                                               const Judgement& judgement, bool final);

}  // namespace ebbtide
