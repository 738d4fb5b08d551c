#include "compaction/survivors.h"

#include <algorithm>

#include "base/invariant.h"
#include "base/oldest.h"
#include "base/planted_bug.h"

namespace ebbtide {

void Survivors::begin(Bytes key, std::span<const Cover> covers) {
  key_.assign(key);
  covers_ = covers;
  used_ = 0;
  first_met_ = false;
}

/// Returns the oldest birth of the entry's pending deletes: its delete debt, and the birth of its death if it is dead or a
/// tombstone.
Millis Survivors::pending_birth_of(const Entry& entry) const {
  Millis pending = entry.debt;
  if (entry.is_tombstone()) {
    pending = older(pending, entry.birth());
  } else if (entry.expired(judgement_.now)) {
    pending = older(pending, entry.expiry);
  }
  return pending;
}

void Survivors::add(const Entry& entry) {
  DEBUG_ASSERT(used_ == 0 || entry.seq < candidates_[used_ - 1].entry.seq);
  first_met_ = entry.first;
  const SeqNum stripe = judgement_.stripe(entry.seq);
  if (used_ > 0 && candidates_[used_ - 1].stripe == stripe) {
    Candidate& newer = candidates_[used_ - 1];
    newer.shadowed = older(newer.shadowed, older(pending_birth_of(entry), oldest_cover_birth(entry.seq, kMaxSeqNum)));
    // A record deletes only the version of a key that is current at the record's seq. This version was current until the next
    // newer version.
    newer.shadowed = older(newer.shadowed, record_birth(entry, last_seq_));
    last_seq_ = entry.seq;
    return;
  }
  last_seq_ = entry.seq;
  if (used_ == candidates_.size()) candidates_.emplace_back();
  Candidate& candidate = candidates_[used_++];
  candidate.entry = entry;
  candidate.entry.key = key_;
  candidate.stripe = stripe;
  candidate.shadowed = 0;
  if (!entry.is_large() && entry.shared == nullptr) {
    candidate.value.assign(entry.value);
    candidate.entry.value = candidate.value;
  }
}

/// Returns the newest range tombstone over `entry` that is in its stripe, or null.
const Survivors::Cover* Survivors::cover_in_stripe(const Entry& entry, SeqNum stripe) const {
  for (const Cover& cover : covers_) {
    if (cover.seq <= entry.seq) break;
    if (cover.seq <= stripe) return &cover;
  }
  return nullptr;
}

/// Returns the oldest birth of the range tombstones over the key with a seq in (above, up_to]; 0 if there are none.
Millis Survivors::oldest_cover_birth(SeqNum above, SeqNum up_to) const {
  Millis oldest = 0;
  for (const Cover& cover : covers_) {
    if (cover.seq <= above) break;
    if (cover.seq <= up_to) oldest = older(oldest, cover.birth);
  }
  return oldest;
}

/// Returns the oldest birth of the records over `entry` with a seq in (entry.seq, up_to]; 0 if there are none.
Millis Survivors::record_birth(const Entry& entry, SeqNum up_to) const {
  if (records_ == nullptr || entry.is_tombstone() || entry.delete_key == kNoStamp) return 0;
  return records_->oldest_birth(entry.delete_key, entry.seq, up_to);
}

/// Returns true if the entry is a header whose elements may still exist. It must stay even if it has expired or a record covers
/// it: the reaper finds the elements by the header, and writes a range tombstone over them.
bool Survivors::is_held_by_elements(const Entry& entry, SeqNum stripe) const {
  if (entry.kind != EntryKind::kHeader) return false;
  if (entry.expired(std::min(judgement_.now, judgement_.reaped.expiry))) return false;
  return record_birth(entry, std::min(stripe, judgement_.reaped.record)) == 0;
}

/// Changes the candidate to its surviving form; returns false if it does not survive.
bool Survivors::judge(Candidate* candidate, bool nothing_below) const {
  Entry& entry = candidate->entry;
  const bool covered = cover_in_stripe(entry, candidate->stripe) != nullptr;
  const bool expired = !entry.is_tombstone() && entry.expired(judgement_.now);
  const Millis record_birth = this->record_birth(entry, candidate->stripe);
  const bool died = expired || record_birth != 0;
  const bool dead = entry.is_tombstone() || covered || (died && !is_held_by_elements(entry, candidate->stripe));
  if (nothing_below || (entry.is_tombstone() && planted(PlantedBug::kDropTombstoneEarly))) {
    entry.debt = 0;
    return !dead;
  }
  entry.debt = older(entry.debt, candidate->shadowed);
  if (planted(PlantedBug::kDropDebt)) entry.debt = 0;
  if (!dead) return true;

  const Millis pending = older(older(pending_birth_of(entry), record_birth), entry.debt);
  const Millis cover_birth = covered ? oldest_cover_birth(entry.seq, candidate->stripe) : 0;
  if (covered && (pending == 0 || pending >= cover_birth))
    return false;  // the range tombstone hides the same versions, and was born no later
  if (!entry.is_tombstone()) {
    entry.kind = EntryKind::kTombstone;
    entry.delete_key = older(older(cover_birth, record_birth), expired ? entry.expiry : 0);
    entry.expiry = 0;
    entry.value = {};
    entry.shared = nullptr;
    entry.large = {};
  }
  if (entry.debt >= entry.birth()) entry.debt = 0;  // not needed: the tombstone's birth is as old as the debt, or older
  return true;
}

void Survivors::note_unapplied(const Entry& entry) {
  if (records_ == nullptr || entry.is_tombstone() || entry.delete_key == kNoStamp) return;
  const SeqNum cover = records_->oldest_cover_above(entry.delete_key, entry.seq);
  if (cover != 0) applied_seq_ = std::min(applied_seq_, cover - 1);
}

std::span<const Entry> Survivors::finish(const KeyFacts& facts) {
  out_.clear();
  applied_seq_ = kMaxSeqNum;
  const bool nothing_older = facts.nothing_below || first_met_;
  bool nothing_below = nothing_older;
  for (std::size_t i = used_; i-- > 0;) {
    Candidate& candidate = candidates_[i];
    if (!judge(&candidate, nothing_below)) continue;
    candidate.entry.first = nothing_below && (first_met_ || facts.mark_first);
    nothing_below = false;
    note_unapplied(candidate.entry);
    out_.push_back(candidate.entry);
  }
  std::reverse(out_.begin(), out_.end());
  return out_;
}

std::vector<FragmentedRangeTombstones::Cover> surviving_covers(std::span<const FragmentedRangeTombstones::Cover> covers,
                                                               const Judgement& judgement, bool final) {
  std::vector<FragmentedRangeTombstones::Cover> out;
  SeqNum stripe = 0;
  for (const auto& cover : covers) {
    const SeqNum own = judgement.stripe(cover.seq);
    if (!out.empty() && own == stripe) {
      out.back().birth = older(out.back().birth, cover.birth);
      continue;
    }
    stripe = own;
    out.push_back(cover);
  }
  if (final) std::erase_if(out, [&](const auto& cover) { return !judgement.seen_before(cover.seq); });
  return out;
}

}  // namespace ebbtide
