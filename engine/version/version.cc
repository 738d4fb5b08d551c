#include "version/version.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace ebbtide {
namespace {

// A record subsumed by a newer one is merged into it if their births are close, or if there are many records: entries that only
// the newer one covers then have the older one's deadline.
constexpr Millis kSameTime = 60'000;
constexpr std::size_t kFewRecords = 64;

std::string name_of(const FileMeta& file) { return "file " + std::to_string(file.data_file); }

bool before(const TableStats& a, const TableStats& b) { return a.ends_before(b.smallest); }

std::string check_file(const FileMeta& file) {
  const TableStats& stats = file.stats;
  const std::string who = name_of(file);
  if (file.data_file == kNoFile || file.metadata_file == kNoFile) return "a file has number 0";
  if (stats.unbounded) {
    if (!stats.largest.empty() || stats.largest_exclusive) return who + " is unbounded and yet has a largest key";
  } else if (stats.largest_exclusive ? stats.smallest >= stats.largest : stats.smallest > stats.largest) {
    return who + " ends before it starts";
  }
  if (stats.entries + stats.range_tombstones != 0 && stats.min_seq > stats.max_seq)
    return who + " has its smallest seq above its largest";
  return "";
}

std::string check_files(const Run& run, std::vector<std::pair<FileNum, RunId>>* numbers) {
  for (std::size_t i = 0; i < run.files.size(); ++i) {
    const FileMeta& file = *run.files[i];
    if (std::string wrong = check_file(file); !wrong.empty()) return wrong;
    numbers->emplace_back(file.data_file, run.id);
    if (i > 0 && !before(run.files[i - 1]->stats, file.stats)) {
      return name_of(*run.files[i - 1]) + " and " + name_of(file) + " overlap or are out of order";
    }
  }
  return "";
}

}  // namespace

RecordChanges tidy_records(const Version& version) {
  RecordChanges changes;
  const std::vector<Record>& records = version.records->records();
  if (records.empty()) return changes;
  std::vector<bool> needed(records.size());
  for (const Run& run : version.runs) {
    for (const FileMetaPtr& file : run.files) {
      const TableStats& stats = file->stats;
      for (std::size_t i = records.size(); i-- > 0 && records[i].seq > std::max(stats.min_seq, stats.applied_seq);) {
        needed[i] = needed[i] || (records[i].lo <= stats.max_delete_key && stats.min_delete_key < records[i].hi &&
                                  stats.min_delete_key <= stats.max_delete_key);
      }
    }
  }
  std::vector<Record> kept;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (needed[i]) kept.push_back(records[i]);
  }
  const Millis gap = kept.size() > kFewRecords ? std::numeric_limits<Millis>::max() : kSameTime;
  kept = merge_subsumed(std::move(kept), gap);
  auto at = kept.begin();
  for (const Record& record : records) {
    const bool stays = at != kept.end() && at->seq == record.seq;
    if (!stays || !(*at == record)) changes.removed.push_back(record.seq);
    if (stays && !(*at == record)) changes.added.push_back(*at);
    if (stays) ++at;
  }
  return changes;
}

std::string check(const Version& version) {
  if (!version.records->empty() && version.records->records().back().seq > version.flushed_seq) {
    return "record " + std::to_string(version.records->records().back().seq) + " is newer than what was flushed, " +
           std::to_string(version.flushed_seq);
  }
  std::set<RunId> ids;
  std::vector<std::pair<FileNum, RunId>> numbers;  // data files and the runs that they are in
  int level = 0;
  for (const Run& run : version.runs) {
    const std::string who = "run " + std::to_string(run.id);
    if (run.id == 0) return "a run has id 0";
    if (!ids.insert(run.id).second) return who + " is there twice";
    if (run.id >= version.next_run) return who + " is not below the next run id " + std::to_string(version.next_run);
    if (run.level < 0 || run.level > kMaxLevel) return who + " has level " + std::to_string(run.level);
    if (run.level < level) return who + " of level " + std::to_string(run.level) + " lies behind level " + std::to_string(level);
    level = run.level;
    if (std::string wrong = check_files(run, &numbers); !wrong.empty()) return who + ": " + wrong;
  }
  std::stable_sort(numbers.begin(), numbers.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto twice =
      std::adjacent_find(numbers.begin(), numbers.end(), [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice == numbers.end()) return "";
  return "run " + std::to_string((twice + 1)->second) + ": file " + std::to_string(twice->first) + " is there twice";
}

}  // namespace ebbtide
