#include "compaction/name_debts.h"

#include "base/oldest.h"
#include "compaction/key_ranges.h"

namespace ebbtide {

NameDebts::NameDebts(const Version& version, std::size_t newest, Millis now) {
  for (std::size_t run = newest; run < version.runs.size(); ++run) {
    for (const FileMetaPtr& file : version.runs[run].files) {
      Millis birth = older(file->oldest_obligation(), records_birth(file->stats, *version.records));
      if (file->stats.min_expiry != 0 && file->stats.min_expiry <= now) keep_oldest(&birth, file->stats.min_expiry);
      if (birth != 0) owed_.emplace_back(range_of(file->stats), birth);
    }
  }
}

void NameDebts::add(Millis birth) {
  if (birth != 0) owed_.emplace_back(KeyRange{}, birth);
}

Millis NameDebts::birth_at(Bytes key) const {
  Millis oldest = 0;
  for (const auto& [range, birth] : owed_) {
    if (Bytes(range.start) <= key && (range.end.empty() || key <= Bytes(range.end))) keep_oldest(&oldest, birth);
  }
  return oldest;
}

}  // namespace ebbtide
