#include "tree/shape.h"

#include <algorithm>
#include <set>

#include "base/invariant.h"

namespace ebbtide {
namespace {

/// Every key of `a` lies before every key of `b`.
bool before(const FileShape& a, const FileShape& b) {
  return !a.unbounded && (a.largest_exclusive ? a.largest <= b.smallest : a.largest < b.smallest);
}
bool ends_before(const FileShape& file, Bytes key) {
  return !file.unbounded && (file.largest_exclusive ? Bytes(file.largest) <= key : Bytes(file.largest) < key);
}

std::string check_bounds(const FileShape& file) {
  const std::string who = "file " + std::to_string(file.num);
  if (file.num == kNoFile) return "a file has number 0";
  if (file.unbounded)
    return file.largest.empty() && !file.largest_exclusive ? "" : who + " is unbounded and yet has a largest key";
  if (file.largest_exclusive ? file.smallest >= file.largest : file.smallest > file.largest)
    return who + " ends before it starts";
  return "";
}

}  // namespace

bool FileShape::overlaps(const FileShape& other) const { return !before(*this, other) && !before(other, *this); }

bool FileShape::overlaps(Bytes start, Bytes end) const {
  return (end.empty() || Bytes(smallest) < end) && !ends_before(*this, start);
}

KeyRange FileShape::range() const {
  if (unbounded) return {smallest, ""};
  // The first key after an inclusive bound is that bound and a zero byte.
  return {smallest, largest_exclusive ? largest : largest + '\0'};
}

KeyRange hull(const KeyRange& a, const KeyRange& b) {
  return {std::min(a.start, b.start), a.end.empty() || b.end.empty() ? std::string() : std::max(a.end, b.end)};
}

std::uint64_t RunShape::bytes() const {
  std::uint64_t sum = 0;
  for (const FileShape& file : files) sum += file.bytes;
  return sum;
}

std::uint64_t RunShape::entries() const {
  std::uint64_t sum = 0;
  for (const FileShape& file : files) sum += file.entries;
  return sum;
}

std::pair<std::size_t, std::size_t> RunShape::overlapping(Bytes start, Bytes end) const {
  const auto first = std::partition_point(files.begin(), files.end(), [&](const FileShape& f) { return ends_before(f, start); });
  const auto last =
      std::partition_point(first, files.end(), [&](const FileShape& f) { return end.empty() || Bytes(f.smallest) < end; });
  return {static_cast<std::size_t>(first - files.begin()), static_cast<std::size_t>(last - files.begin())};
}

const RunShape* TreeShape::run(RunId id) const {
  for (const RunShape& run : runs) {
    if (run.id == id) return &run;
  }
  return nullptr;
}

std::uint64_t TreeShape::bytes() const {
  std::uint64_t sum = 0;
  for (const RunShape& run : runs) sum += run.bytes();
  return sum;
}

int TreeShape::last_level() const {
  int last = 0;
  for (const RunShape& run : runs) {
    if (!run.files.empty()) last = std::max(last, run.level);
  }
  return last;
}

bool TreeShape::is_final(RunId id, Bytes start, Bytes end) const {
  const auto at = std::find_if(runs.begin(), runs.end(), [id](const RunShape& run) { return run.id == id; });
  ASSERT(at != runs.end());
  return std::none_of(at + 1, runs.end(), [&](const RunShape& older) {
    const auto [first, last] = older.overlapping(start, end);
    return first != last;
  });
}

std::string check(const TreeShape& shape) {
  std::set<RunId> run_ids;
  std::set<FileNum> file_nums;
  int level = 0;
  for (const RunShape& run : shape.runs) {
    const std::string who = "run " + std::to_string(run.id);
    if (run.id == 0) return "a run has id 0";
    if (!run_ids.insert(run.id).second) return who + " is there twice";
    if (run.level < level) return who + " of level " + std::to_string(run.level) + " lies behind level " + std::to_string(level);
    level = run.level;
    for (std::size_t i = 0; i < run.files.size(); ++i) {
      const FileShape& file = run.files[i];
      if (std::string wrong = check_bounds(file); !wrong.empty()) return who + ": " + wrong;
      if (!file_nums.insert(file.num).second) return who + ": file " + std::to_string(file.num) + " is there twice";
      if (i > 0 && !before(run.files[i - 1], file)) {
        return who + ": files " + std::to_string(run.files[i - 1].num) + " and " + std::to_string(file.num) +
               " overlap or are out of order";
      }
    }
  }
  return "";
}

}  // namespace ebbtide
