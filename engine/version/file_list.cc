#include "version/file_list.h"

#include <array>
#include <limits>

#include "base/mutex.h"
#include "base/oldest.h"

namespace ebbtide {
namespace {

constexpr Millis kEnd = std::numeric_limits<Millis>::max();

FileShapes::ChunkPtr make_shapes(const FileList::Chunk& chunk, Millis now, const RecordSet& records, const DeadlineRule* rule) {
  auto shapes = std::make_shared<FileShapes::Chunk>();
  shapes->items.reserve(chunk.items.size());
  for (const FileMetaPtr& file : chunk.items) {
    FileShape& shape = shapes->items.emplace_back(file->shape(0, now, records));
    if (rule == nullptr || shape.oldest_birth == 0) continue;
    const Millis due = rule->due(shape.oldest_birth);
    shape.deadline = due == DeadlineRule::kNever ? 0 : due;
  }
  shapes->sums = ShapeSums::of(shapes->items);
  shapes->sealed = true;
  return shapes;
}

}  // namespace

/// Keeps the last results of shapes_of() for one chunk: one with deadlines, and one without.
class ShapeCache {
 public:
  FileShapes::ChunkPtr get(const FileList::Chunk& chunk, Millis now, const SharedRecords& records, const DeadlineRule* rule)
      EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    Known& known = known_[rule == nullptr ? 0 : 1];
    const bool same_rule = rule == nullptr || known.no_births || known.rule == *rule;
    if (known.shapes != nullptr && known.from <= now && now < known.until && known.records == records && same_rule) {
      return known.shapes;
    }
    known.records = records;
    if (rule != nullptr) known.rule = *rule;
    known.from = 0;
    known.until = kEnd;
    for (const FileMetaPtr& file : chunk.items) {  // a file's shape changes when an expiry passes
      const Millis expiry = file->stats.min_expiry;
      if (expiry == 0) continue;
      if (expiry <= now) known.from = std::max(known.from, expiry);
      if (expiry > now) known.until = std::min(known.until, expiry);
    }
    Known& other = known_[rule == nullptr ? 1 : 0];
    if (other.shapes != nullptr && other.no_births && other.from <= now && now < other.until && other.records == records) {
      known.shapes = other.shapes;  // no file has a deadline, so both results are the same
    } else {
      known.shapes = make_shapes(chunk, now, *records, rule);
    }
    known.no_births = known.shapes->sums.oldest_birth == 0;
    return known.shapes;
  }

 private:
  struct Known {
    FileShapes::ChunkPtr shapes{};
    SharedRecords records{};
    DeadlineRule rule{};
    Millis from = 0, until = 0;  // `shapes` are valid from `from` until `until`
    bool no_births = false;
  };
  Mutex mutex_;
  std::array<Known, 2> known_ GUARDED_BY(mutex_);
};

FileSums FileSums::of(std::span<const FileMetaPtr> files) {
  FileSums sums;
  for (const FileMetaPtr& file : files) {
    sums.entries += file->stats.entries;
    sums.file_bytes += file->data_bytes - file->punched_bytes + file->metadata_bytes;
    sums.live_bytes += file->live_bytes();
    sums.tombstones += file->stats.tombstones + file->stats.range_tombstones;
    sums.not_punched += file->dead_bytes - file->punched_bytes;
    sums.files_with_dead += file->dead_bytes != 0 ? 1 : 0;
    sums.quarantined += file->quarantined() ? 1 : 0;
    sums.ranged += file->stats.range_tombstones != 0 ? 1 : 0;
    sums.collections += file->stats.collections;
    sums.headers += file->stats.headers;
    keep_oldest(&sums.oldest_obligation, file->oldest_obligation());
    keep_oldest(&sums.lingering_birth, file->lingering_birth);
    keep_oldest(&sums.min_expiry, file->stats.min_expiry);
  }
  sums.shapes = std::make_shared<ShapeCache>();
  return sums;
}

void FileSums::add(const FileSums& other) {
  entries += other.entries;
  file_bytes += other.file_bytes;
  live_bytes += other.live_bytes;
  tombstones += other.tombstones;
  not_punched += other.not_punched;
  files_with_dead += other.files_with_dead;
  quarantined += other.quarantined;
  ranged += other.ranged;
  collections += other.collections;
  headers += other.headers;
  keep_oldest(&oldest_obligation, other.oldest_obligation);
  keep_oldest(&lingering_birth, other.lingering_birth);
  keep_oldest(&min_expiry, other.min_expiry);
}

FileShapes::ChunkPtr shapes_of(const FileList::Chunk& chunk, Millis now, const SharedRecords& records, const DeadlineRule* rule) {
  if (!chunk.sealed) return make_shapes(chunk, now, *records, rule);
  return chunk.sums.shapes->get(chunk, now, records, rule);
}

}  // namespace ebbtide
