#include "compaction/output_writer.h"

#include <algorithm>
#include <utility>

#include "base/invariant.h"
#include "compaction/table_files.h"
#include "io/file_names.h"

namespace ebbtide {
namespace {

// CompactionEnv::may_write is called once for this many bytes, which a slow disk writes in a few ms. For small files it is called
// once for each quarter of a file.
constexpr std::uint64_t kRoomBytes = std::uint64_t{256} << 10;
constexpr std::uint64_t kRequestsPerFile = 4;

// Most bytes of bounds of range tombstones in one file, after the last key. finish() begins another file for further tombstones.
constexpr std::uint64_t kMostTombstoneBytes = std::uint64_t{4} << 20;

std::uint64_t room_bytes(std::uint64_t file_size) { return std::min(kRoomBytes, file_size / kRequestsPerFile); }

/// Returns the time when the key was deleted or will expire; 0 = never.
Millis birth_of_delete(const Entry& newest) { return newest.is_tombstone() ? newest.birth() : newest.expiry; }

}  // namespace

void OutputWriter::open() {
  TableBuilderOptions table;
  table.fs = options_.env->fs;
  table.dir = options_.env->dir;
  table.data_file = options_.env->new_file();
  table.metadata_file = options_.env->new_file();
  table.page_size = options_.settings->page_size;
  table.pages_per_tile = options_.settings->pages_per_tile;
  table.filter_slices = options_.filter_slices;
  table.points_at = options_.points_at;
  table.compression = options_.compression;
  table.applied_seq = options_.applied_seq;
  builder_ = std::make_unique<TableBuilder>(std::move(table));
}

Status OutputWriter::add(std::span<const Entry> versions, SeqNum applied_seq) {
  const Bytes key = versions.front().key;
  const bool should_close = splitter_.should_close(key, builder_ == nullptr ? 0 : builder_->data_bytes());
  if (builder_ != nullptr && should_close) TRY(close(splitter_.close_before(key, birth_of_delete(versions.front()))));
  if (builder_ == nullptr) {
    open();
  } else {
    ASSERT_MSG(Bytes(last_key_) < key, "keys of an output must ascend");
  }
  for (std::size_t i = 0; i < versions.size(); ++i) {
    ASSERT_MSG(i == 0 || versions[i].seq < versions[i - 1].seq, "versions of a key must descend by seq");
    TRY(builder_->add(versions[i]));
  }
  builder_->lower_applied_seq(applied_seq);
  last_key_.assign(key);
  return ask_for_room(room_bytes(options_.settings->file_size));
}

// Writes the remaining range tombstones to the last file. A file's range tombstones are in memory together, so very many are
// divided among several files. No tombstone is cut: a file begins only where no earlier tombstone continues.
Status OutputWriter::finish() {
  std::vector<RangeTombstone> file, rest = splitter_.close_last();
  if (builder_ == nullptr) {
    if (rest.empty()) return Status::ok();
    open();
  }
  std::uint64_t bytes = 0;
  SharedKey end;  // the greatest end of the tombstones in `file`
  bool unbounded = false;
  for (RangeTombstone& tombstone : rest) {
    if (bytes >= kMostTombstoneBytes && !unbounded && end <= tombstone.start && Bytes(last_key_) < Bytes(tombstone.start)) {
      TRY(close(std::exchange(file, {})));
      open();
      bytes = 0;
    }
    bytes += tombstone.start.size() + tombstone.end.size();
    unbounded = unbounded || tombstone.end.empty();
    if (end < tombstone.end) end = tombstone.end;
    file.push_back(std::move(tombstone));
  }
  return close(std::move(file));
}

Status OutputWriter::close(std::vector<RangeTombstone> tombstones) {
  for (const RangeTombstone& tombstone : tombstones) builder_->add_range_tombstone(tombstone);
  Result<BuiltTable> built = builder_->finish();
  builder_.reset();  // if the builder failed, its destructor unlinks its files
  if (!built.is_ok()) return built.status();
  outputs_.push_back(meta_of(*built));
  closed_bytes_ += built->data_bytes + built->metadata_bytes;
  TRY(ask_for_room(1));  // at least once for each file, however small
  // The written table is opened, and so checked, before it is used.
  return options_.env->open_table(outputs_.back()).status();
}

std::uint64_t OutputWriter::bytes_written() const { return closed_bytes_; }

/// Calls CompactionEnv::may_write if at least `at_least` bytes were written since its last call.
Status OutputWriter::ask_for_room(std::uint64_t at_least) {
  const CompactionEnv& env = *options_.env;
  if (!env.may_write) return Status::ok();
  const std::uint64_t bytes = closed_bytes_ + (builder_ == nullptr ? 0 : builder_->data_bytes());
  if (bytes < asked_at_bytes_ + at_least) return Status::ok();
  asked_at_bytes_ = bytes;
  return env.may_write(room_bytes(options_.settings->file_size));
}

void unlink_outputs(const CompactionEnv& env, const std::vector<FileMeta>& outputs) {
  for (const FileMeta& output : outputs) {
    (void)env.fs->unlink(join_path(env.dir, data_file_name(output.data_file)));
    (void)env.fs->unlink(join_path(env.dir, metadata_file_name(output.metadata_file)));
  }
}

}  // namespace ebbtide
