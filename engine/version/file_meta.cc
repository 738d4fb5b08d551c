#include "version/file_meta.h"

#include <algorithm>
#include <limits>

#include "base/coding.h"
#include "base/oldest.h"
#include "base/planted_bug.h"
#include "io/file_names.h"

namespace ebbtide {

void FileMeta::encode(std::string* out) const {
  put_varint(out, data_file);
  put_varint(out, metadata_file);
  put_varint(out, data_bytes);
  put_varint(out, metadata_bytes);
  put_u64(out, data_checksum);
  put_u64(out, metadata_checksum);
  stats.encode(out);
  put_varint(out, dead_bytes);
  put_varint(out, punched_bytes);
  put_varint(out, lingering_birth);
  put_varint(out, dead_birth);
}

Result<FileMeta> FileMeta::decode(Bytes* in) {
  FileMeta file;
  if (!get_varint(in, &file.data_file) || !get_varint(in, &file.metadata_file) || !get_varint(in, &file.data_bytes) ||
      !get_varint(in, &file.metadata_bytes) || !get_u64(in, &file.data_checksum) || !get_u64(in, &file.metadata_checksum)) {
    return Status::corruption("manifest entry of a table: too short");
  }
  if (file.data_file == kNoFile || file.metadata_file == kNoFile) {
    return Status::corruption("manifest entry of a table: file number 0, but numbers begin at 1");
  }
  if (std::max(file.data_file, file.metadata_file) > kMaxFileNum) {
    return Status::corruption("manifest entry of a table: file number " +
                              std::to_string(std::max(file.data_file, file.metadata_file)) + " exceeds the maximum");
  }
  TRY_ASSIGN(stats, TableStats::decode(in));
  file.stats = std::move(stats);
  if (planted(PlantedBug::kForgetBirths)) {
    file.stats.oldest_tombstone = file.stats.oldest_range_tombstone = file.stats.oldest_debt = 0;
  }
  if (in->empty()) return file;  // an older version of the format ends here
  if (!get_varint(in, &file.dead_bytes) || !get_varint(in, &file.punched_bytes) || !get_varint(in, &file.lingering_birth) ||
      !get_varint(in, &file.dead_birth)) {
    return Status::corruption("manifest entry of a table: too short");
  }
  if (file.dead_bytes > file.data_bytes || file.punched_bytes > file.dead_bytes)
    return Status::corruption("manifest entry of a table: more dead bytes than data, or more punched bytes than dead ones");
  return file;
}

Millis FileMeta::oldest_obligation() const { return older(stats.oldest_obligation(), older(lingering_birth, dead_birth)); }

Millis records_birth(const TableStats& stats, const RecordSet& records) {
  if (records.empty() || stats.min_delete_key > stats.max_delete_key) return 0;
  return records.oldest_birth_over(stats.min_delete_key, stats.max_delete_key, stats.min_seq, stats.applied_seq);
}

FileShape FileMeta::shape(Millis delete_deadline, Millis now, const RecordSet& records) const {
  FileShape out;
  out.num = data_file;
  out.smallest = stats.smallest;
  out.largest = stats.largest;
  out.largest_exclusive = stats.largest_exclusive;
  out.unbounded = stats.unbounded;
  out.bytes = live_bytes();
  out.entries = stats.entries;
  out.tombstones = stats.tombstones;
  out.range_tombstones = stats.range_tombstones;
  // A tombstone invalidates at least the version for which it was written. A range tombstone is assumed to invalidate one entry:
  // a better estimate needs the fences of older files, as in db/read/key_estimate.h.
  out.invalidated = stats.tombstones + stats.range_tombstones;
  out.oldest_birth = stats.oldest_obligation();  // lingering names and dead pages are purged without a merge
  if (stats.min_expiry != 0 && stats.min_expiry <= now) {
    // An expired entry is a tombstone born at its expiry. At least one entry has expired; the number is unknown.
    out.dead = 1;
    out.oldest_birth = older(out.oldest_birth, stats.min_expiry);
  }
  if (const Millis birth = records_birth(stats, records); birth != 0) {
    ++out.dead;  // stands for the entries that records cover: their number is unknown, and may be 0
    out.oldest_birth = older(out.oldest_birth, birth);
  }
  if (delete_deadline != 0 && out.oldest_birth != 0) {
    constexpr Millis kEnd = std::numeric_limits<Millis>::max();
    out.deadline = out.oldest_birth > kEnd - delete_deadline ? kEnd : out.oldest_birth + delete_deadline;
  }
  out.min_seq = stats.min_seq;
  out.max_seq = stats.max_seq;
  out.min_delete_key = stats.min_delete_key;
  out.max_delete_key = stats.max_delete_key;
  out.min_expiry = stats.min_expiry;
  out.max_expiry = stats.max_expiry;
  out.quarantined = quarantined();
  return out;
}

}  // namespace ebbtide
