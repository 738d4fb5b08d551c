#include "tree/shape.h"

#include <algorithm>
#include <set>

#include "base/invariant.h"
#include "base/oldest.h"

namespace ebbtide {
namespace {

/// Returns true if every key of `a` is before every key of `b`.
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
    return file.largest.empty() && !file.largest_exclusive ? "" : who + " has no upper bound, but has a largest key";
  if (file.largest_exclusive ? file.smallest >= file.largest : file.smallest > file.largest)
    return who + " ends before it starts";
  return "";
}

}  // namespace

bool FileShape::is_before(const FileShape& other) const { return before(*this, other); }

bool FileShape::overlaps(const FileShape& other) const { return !before(*this, other) && !before(other, *this); }

bool FileShape::overlaps(Bytes start, Bytes end) const {
  return (end.empty() || Bytes(smallest) < end) && !ends_before(*this, start);
}

KeyRange FileShape::range() const {
  if (unbounded) return {smallest, ""};
  // The first key after an inclusive bound is the bound followed by a zero byte.
  return {smallest, largest_exclusive ? largest : largest + '\0'};
}

KeyRange hull(const KeyRange& a, const KeyRange& b) {
  return {std::min(a.start, b.start), a.end.empty() || b.end.empty() ? std::string() : std::max(a.end, b.end)};
}

ShapeSums ShapeSums::of(std::span<const FileShape> files) {
  ShapeSums sums;
  for (const FileShape& file : files) {
    sums.bytes += file.bytes;
    sums.busy_bytes += file.busy ? file.bytes : 0;
    sums.entries += file.entries;
    sums.busy += file.busy ? 1 : 0;
    sums.quarantined += file.quarantined ? 1 : 0;
    sums.most_tombstones = std::max(sums.most_tombstones, file.tombstones + file.range_tombstones);
    sums.pending += file.tombstones + file.range_tombstones + file.dead + file.oldest_birth != 0 ? 1 : 0;
    keep_oldest(&sums.oldest_birth, file.oldest_birth);
    keep_oldest(&sums.deadline, file.deadline);
    keep_oldest(&sums.min_expiry, file.min_expiry);
    sums.min_num = std::min(sums.min_num, file.num);
    sums.max_num = std::max(sums.max_num, file.num);
  }
  return sums;
}

std::uint64_t RunShape::bytes() const {
  std::uint64_t sum = 0;
  files.for_each_sums([&](const ShapeSums& chunk) { sum += chunk.bytes; });
  return sum;
}

std::uint64_t RunShape::entries() const {
  std::uint64_t sum = 0;
  files.for_each_sums([&](const ShapeSums& chunk) { sum += chunk.entries; });
  return sum;
}

std::uint64_t RunShape::busy_bytes() const {
  std::uint64_t sum = 0;
  files.for_each_sums([&](const ShapeSums& chunk) { sum += chunk.busy_bytes; });
  return sum;
}

bool RunShape::is_busy() const {
  bool busy = false;
  files.for_each_sums([&](const ShapeSums& chunk) { busy |= chunk.busy != 0; });
  return busy;
}

void set_busy(RunShape* run, std::span<const FileNum> files, bool busy) {
  for (std::size_t c = 0; c < run->files.chunks(); ++c) {
    const FileShapes::Chunk& chunk = run->files.at_chunk(c);
    const ShapeSums sums = FileShapes::sums_of(chunk);
    const auto from = std::lower_bound(files.begin(), files.end(), sums.min_num);
    const auto to = std::upper_bound(from, files.end(), sums.max_num);
    if (from == to) continue;
    const std::size_t start = run->files.start_of(c), count = chunk.items.size();
    for (std::size_t i = start; i < start + count; ++i) {
      const FileShape& file = run->files[i];
      if (file.busy != busy && std::binary_search(from, to, file.num)) run->files.edit(i).busy = busy;
    }
  }
  run->files.seal();
}

std::pair<std::size_t, std::size_t> RunShape::overlapping(Bytes start, Bytes end) const {
  const auto first = files.partition_point([&](const FileShape& f) { return ends_before(f, start); });
  if (first == files.end()) return {files.size(), files.size()};
  const auto last =
      end.empty() ? files.end() : files.partition_point([&](const FileShape& f) { return Bytes(f.smallest) < end; });
  const auto at = static_cast<std::size_t>(first - files.begin());
  return {at, std::max(at, static_cast<std::size_t>(last - files.begin()))};
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
    if (!run_ids.insert(run.id).second) return who + " occurs twice";
    if (run.level < level)
      return who + " of level " + std::to_string(run.level) + " comes after a run of level " + std::to_string(level);
    level = run.level;
    for (std::size_t i = 0; i < run.files.size(); ++i) {
      const FileShape& file = run.files[i];
      if (std::string wrong = check_bounds(file); !wrong.empty()) return who + ": " + wrong;
      if (!file_nums.insert(file.num).second) return who + ": file " + std::to_string(file.num) + " occurs twice";
      if (i > 0 && !before(run.files[i - 1], file)) {
        return who + ": files " + std::to_string(run.files[i - 1].num) + " and " + std::to_string(file.num) +
               " overlap or are out of order";
      }
    }
  }
  return "";
}

}  // namespace ebbtide
