#include "compaction/name_debts.h"

#include <algorithm>

#include "base/oldest.h"
#include "compaction/key_ranges.h"

namespace ebbtide {

Millis NameDebts::birth_at(Bytes key) const {
  if (version_ == nullptr) return 0;
  Millis oldest = 0;
  for (std::size_t run = newest_run_; run < version_->runs.size(); ++run) {
    const auto& files = version_->runs[run].files;
    const auto ends_before = [](const FileMetaPtr& file, Bytes at) {
      const std::string end = range_of(file->stats).end;
      return !end.empty() && Bytes(end) < at;
    };
    // The loop examines at most two files: the file that ends at the key, and the file that contains the key.
    for (auto file = std::lower_bound(files.begin(), files.end(), key, ends_before); file != files.end(); ++file) {
      const TableStats& stats = (*file)->stats;
      if (Bytes(stats.smallest) > key) break;
      keep_oldest(&oldest, (*file)->oldest_obligation());
      keep_oldest(&oldest, records_birth(stats, *version_->records));
      if (stats.min_expiry != 0 && stats.min_expiry <= now_) keep_oldest(&oldest, stats.min_expiry);
    }
  }
  return oldest;
}

}  // namespace ebbtide
