#include "version/version.h"

#include <algorithm>
#include <set>
#include <utility>

namespace ebbtide {
namespace {

std::string name_of(const FileMeta& file) { return "file " + std::to_string(file.data_file); }

bool before(const TableStats& a, const TableStats& b) { return a.ends_before(b.smallest); }

std::string check_file(const FileMeta& file) {
  const TableStats& stats = file.stats;
  const std::string who = name_of(file);
  if (file.data_file == kNoFile || file.metadata_file == kNoFile) return "a file has number 0";
  if (stats.unbounded) {
    if (!stats.largest.empty() || stats.largest_exclusive) return who + " has no upper bound, but has a largest key";
  } else if (stats.largest_exclusive ? stats.smallest >= stats.largest : stats.smallest > stats.largest) {
    return who + " ends before it starts";
  }
  if (stats.entries + stats.range_tombstones != 0 && stats.min_seq > stats.max_seq)
    return who + " has a smallest seq above its largest seq";
  return "";
}

std::string overlap_text(const FileMeta& a, const FileMeta& b) {
  return name_of(a) + " and " + name_of(b) + " overlap or are out of order";
}

std::string check_files(const Run& run, std::vector<std::pair<FileNum, RunId>>* numbers) {
  const FileMeta* last = nullptr;
  for (const FileMetaPtr& pointer : run.files) {
    const FileMeta& file = *pointer;
    if (std::string wrong = check_file(file); !wrong.empty()) return wrong;
    numbers->emplace_back(file.data_file, run.id);
    if (last != nullptr && !before(last->stats, file.stats)) return overlap_text(*last, file);
    last = &file;
  }
  return "";
}

std::string twice_text(RunId run, FileNum file) {
  return "run " + std::to_string(run) + ": file " + std::to_string(file) + " occurs twice";
}

/// Checks runs and records, but not the files.
std::string check_frame(const Version& version) {
  if (version.records->newest() > version.flushed_seq) {
    return "record " + std::to_string(version.records->newest()) + " is newer than the flushed seq " +
           std::to_string(version.flushed_seq);
  }
  std::set<RunId> ids;
  int level = 0;
  for (const Run& run : version.runs) {
    const std::string who = "run " + std::to_string(run.id);
    if (run.id == 0) return "a run has id 0";
    if (!ids.insert(run.id).second) return who + " occurs twice";
    if (run.id >= version.next_run) return who + " is not below the next run id " + std::to_string(version.next_run);
    if (run.level < 0 || run.level > kMaxLevel) return who + " has level " + std::to_string(run.level) + ", which does not exist";
    if (run.level < level)
      return who + " of level " + std::to_string(run.level) + " comes after a run of level " + std::to_string(level);
    level = run.level;
  }
  return "";
}

auto first_numbered(const NumberedFiles& files, FileNum num) {
  return files.partition_point([num](const NumberedFile& file) { return file.num < num; });
}

}  // namespace

bool Version::is_numbered() const {
  std::size_t files = 0;
  for (const Run& run : runs) files += run.files.size();
  return files == by_number.size();
}

FileMetaPtr Version::find(FileNum data_file) const {
  if (is_numbered()) {
    const auto at = first_numbered(by_number, data_file);
    return at != by_number.end() && at->num == data_file ? at->file : nullptr;
  }
  for (const Run& run : runs) {
    if (FileMetaPtr file = find(run, data_file); file != nullptr) return file;
  }
  return nullptr;
}

FileMetaPtr Version::find(const Run& run, FileNum data_file) const {
  if (is_numbered()) {
    const auto numbered = first_numbered(by_number, data_file);
    if (numbered == by_number.end() || numbered->num != data_file) return nullptr;
    const Bytes smallest = numbered->file->stats.smallest;
    const auto at = run.files.partition_point([&](const FileMetaPtr& file) { return Bytes(file->stats.smallest) < smallest; });
    return at != run.files.end() && (*at)->data_file == data_file ? *at : nullptr;
  }
  for (const FileMetaPtr& file : run.files) {
    if (file->data_file == data_file) return file;
  }
  return nullptr;
}

bool Version::has_quarantined() const {
  bool any = false;
  for (const Run& run : runs) run.files.for_each_sums([&](const FileSums& sums) { any |= sums.quarantined != 0; });
  return any;
}

FileSums Version::sums() const {
  FileSums all;
  for (const Run& run : runs) run.files.for_each_sums([&](const FileSums& sums) { all.add(sums); });
  return all;
}

TreeShape Version::shape_at(std::uint64_t memtable_size, std::uint64_t file_bytes, Millis now, const DeadlineRule* rule) const {
  TreeShape out;
  out.memtable_bytes = FlushShare::bytes(flush_share, memtable_size);
  out.file_bytes = file_bytes;
  out.cursors = cursors;
  out.flushes = flushes;
  out.levels = levels;
  for (const Run& run : runs) {
    RunShape& shape = out.runs.emplace_back(RunShape{run.id, run.level, {}});
    for (std::size_t c = 0; c < run.files.chunks(); ++c) {
      shape.files.push_chunk(shapes_of(run.files.at_chunk(c), now, records, rule));
    }
  }
  return out;
}

std::string check(const Version& version) {
  if (std::string wrong = check_frame(version); !wrong.empty()) return wrong;
  std::vector<std::pair<FileNum, RunId>> numbers;  // data files and their runs
  for (const Run& run : version.runs) {
    if (std::string wrong = check_files(run, &numbers); !wrong.empty()) return "run " + std::to_string(run.id) + ": " + wrong;
  }
  std::stable_sort(numbers.begin(), numbers.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto twice =
      std::adjacent_find(numbers.begin(), numbers.end(), [](const auto& a, const auto& b) { return a.first == b.first; });
  return twice == numbers.end() ? "" : twice_text((twice + 1)->second, twice->first);
}

std::string check_added(const Version& version, std::span<const std::pair<RunId, FileMeta>> added) {
  if (std::string wrong = check_frame(version); !wrong.empty()) return wrong;
  for (const auto& [id, file] : added) {
    const auto run = std::find_if(version.runs.begin(), version.runs.end(), [id = id](const Run& r) { return r.id == id; });
    if (run == version.runs.end()) continue;  // a later part of the edit removed the run
    const std::string who = "run " + std::to_string(id) + ": ";
    if (std::string wrong = check_file(file); !wrong.empty()) return who + wrong;
    // `run` already contains the new file. Starts at the first file with the same smallest key, and compares neighbours up to the
    // new file's end.
    auto at =
        run->files.partition_point([&file = file](const FileMetaPtr& f) { return f->stats.smallest < file.stats.smallest; });
    const FileMeta* last = at == run->files.begin() ? nullptr : std::prev(at)->get();
    for (; at != run->files.end() && (last == nullptr || last->stats.smallest <= file.stats.smallest); ++at) {
      if (last != nullptr && !before(last->stats, (*at)->stats)) return who + overlap_text(*last, **at);
      last = at->get();
    }
    const auto numbered = first_numbered(version.by_number, file.data_file);
    if (numbered == version.by_number.end()) continue;
    const auto next = std::next(numbered);
    if (next != version.by_number.end() && next->num == file.data_file) return twice_text(id, file.data_file);
  }
  return "";
}

}  // namespace ebbtide
