// Writes frozen memtables as a run. Survivors and tables are made as in merges; only flushes set the `first` flag.
//
// A key's oldest version in these memtables is the oldest in the tree if no run has the key. A run does not have the key if no
// file's bounds contain the key, or if the filter of the file whose bounds contain it denies it. Then deletes of the key need no
// tombstone, and later merges may drop tombstones that are merged with the version flagged as `first`.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "base/planted_bug.h"
#include "compaction/executor.h"
#include "compaction/merge_part.h"
#include "compaction/output_writer.h"
#include "compaction/partitions.h"
#include "compaction/plan_inputs.h"
#include "table/loaded_filter.h"

namespace ebbtide {
namespace {

/// Wraps an iterator of the caller, so that a merge may own the wrapper.
class BorrowedIterator final : public InternalIterator {
 public:
  explicit BorrowedIterator(InternalIterator* it) : it_(it) {}
  void seek_to_first() override { it_->seek_to_first(), settle(); }
  void seek_to_last() override { it_->seek_to_last(), settle(); }
  void seek(Bytes key) override { it_->seek(key), settle(); }
  void seek_before(Bytes key) override { it_->seek_before(key), settle(); }
  void next() override { it_->next(), settle(); }
  void prev() override { it_->prev(), settle(); }

 private:
  void settle() {
    valid_ = it_->valid();
    if (valid_) {
      entry_ = it_->entry();
    } else {
      status_ = it_->status();
    }
  }
  InternalIterator* it_;
};

/// Checks keys, in ascending order, with the filters of every run. The largest run comes first, since it most likely has the key;
/// one filter that does not deny the key is enough. At most kMostAsked filters are searched for a key. With more filters, mostly
/// one of them would give a false positive, and a flush into a thousand runs would spend most of its time on filters.
class RunProbe final : public KeysBelow {
 public:
  static constexpr int kMostAsked = 64;
  RunProbe(const Version& version, const CompactionEnv& env) : env_(env) {
    for (const Run& run : version.runs) {
      if (run.files.empty()) continue;
      One one{run.files};
      run.files.for_each_sums([&](const FileSums& sums) { one.entries += sums.entries; });
      runs_.push_back(std::move(one));
    }
    std::stable_sort(runs_.begin(), runs_.end(), [](const One& a, const One& b) { return a.entries > b.entries; });
  }

  void announce(Bytes key) override {
    const std::uint64_t hash = hash_key(key);
    int asked = 0;
    for (One& run : runs_) {
      if (!find(&run, key)) continue;
      if (run.table == nullptr || ++asked > kMostAsked) return;  // absent() will not deny the key
      run.filter->prefetch(hash);
    }
  }
  bool absent(Bytes key) override {
    const LookupKey lookup{key, hash_key(key)};
    // A table counts as having the key if it cannot be opened or its filter is not in memory.
    int asked = 0;
    return std::none_of(runs_.begin(), runs_.end(), [&](One& run) {
      if (!find(&run, key)) return false;
      return run.table == nullptr || ++asked > kMostAsked || run.table->may_contain(lookup, *run.filter);
    });
  }

 private:
  struct One {
    FileList files;
    std::uint64_t entries = 0;
    const FileMeta* at = nullptr;  // the first file that does not end before the last checked key; null before the first key
    std::shared_ptr<TableReader> table{};  // table of this file, if a key was within the file's bounds
    // The table's filter at the time when the table was opened: another thread may drop slices of the present one.
    std::shared_ptr<const LoadedFilter> filter{};
    bool opened = false;
  };

  /// Moves `run` on to the file whose bounds contain the key, and opens the file. Returns false if there is no such file. Keys
  /// ascend from call to call.
  bool find(One* run, Bytes key) const {
    if (run->at == nullptr || run->at->stats.ends_before(key)) move_to(run, key);
    if (run->at == nullptr || Bytes(run->at->stats.smallest) > key) return false;
    if (!run->opened) {
      run->table = table_of(*run->at);
      run->filter = run->table == nullptr ? nullptr : run->table->filter();
      run->opened = true;
    }
    return true;
  }
  /// Returns the file's table; null if its index is not in memory, or if the table cannot be opened.
  [[nodiscard]] std::shared_ptr<TableReader> table_of(const FileMeta& file) const {
    if (env_.find_table) return env_.find_table(file);
    auto table = env_.open_table(file);
    return table.is_ok() ? std::move(table).value() : nullptr;
  }
  static void move_to(One* run, Bytes key) {
    const auto at = run->files.partition_point([&](const FileMetaPtr& file) { return file->stats.ends_before(key); });
    run->at = at == run->files.end() ? nullptr : at->get();
    run->table = nullptr;
    run->filter = nullptr;
    run->opened = false;
  }

  const CompactionEnv& env_;
  std::vector<One> runs_;
};

// One entry in this many is a sample for partitions. A sample stands for the bytes of all entries since the last sample.
constexpr std::uint64_t kEntriesPerSample = 16;

/// Returns the bytes in a table per byte of keys and values, measured on the newest run with data.
double stored_share(const Version& version) {
  for (const Run& run : version.runs) {
    std::uint64_t stored = 0, plain = 0;
    for (const FileMetaPtr& file : run.files) {
      stored += file->data_bytes;
      plain += file->stats.key_bytes + file->stats.value_bytes;
    }
    if (plain != 0) return std::clamp(static_cast<double>(stored) / static_cast<double>(plain), 1.0 / 64, 2.0);
  }
  return 1;
}

/// Sets `bounds` to the smallest and the largest key of the memtables' entries; returns false if there are no entries.
Result<bool> bounds_of(const std::vector<FlushInput>& inputs, KeyRange* bounds) {
  bool any = false;
  for (const FlushInput& input : inputs) {
    for (const bool last : {false, true}) {
      if (last) {
        input.entries->seek_to_last();
      } else {
        input.entries->seek_to_first();
      }
      TRY(input.entries->status());
      if (!input.entries->valid()) break;
      const Bytes key = input.entries->entry().key;
      if (!any || key < Bytes(bounds->start)) bounds->start.assign(key);
      if (!any || key > Bytes(bounds->end)) bounds->end.assign(key);
      any = true;
    }
  }
  return any;
}

/// Returns the range of all entries and range tombstones.
Result<KeyRange> range_of_flush(const std::vector<FlushInput>& inputs) {
  KeyRange range;
  TRY_ASSIGN(any, bounds_of(inputs, &range));
  if (any) range.end.push_back('\0');
  for (const FlushInput& input : inputs) {
    if (input.range_tombstones == nullptr || input.range_tombstones->empty()) continue;
    const auto& fragments = input.range_tombstones->fragments();
    const KeyRange covered{std::string(Bytes(fragments.front().start)), std::string(Bytes(fragments.back().end))};
    range = any ? hull(range, covered) : covered;
    any = true;
  }
  if (!any) range.end.push_back('\0');  // if there are only records, no file is written, so a range of the empty key is enough
  return range;
}

/// Sets the keys at which the flush's files end; sets none for Partitioning::kSize, with which a file ends when it is full. For a
/// global range, also sets the common prefix of all keys.
Status divide_flush(const std::vector<FlushInput>& inputs, const Version& version, const TreeSettings& settings, MergePart* part,
                    std::optional<std::string>* key_space) {
  PartitionRequest request{settings.partitioning, settings.file_size, {}, {}};
  if (settings.partitioning == Partitioning::kSize) return Status::ok();
  TRY_ASSIGN(any, bounds_of(inputs, &request.keys));
  if (!any) return Status::ok();
  if (settings.partitioning == Partitioning::kGlobalRange) {
    request.prefix = shared_prefix_with(version.key_space, request.keys.start, request.keys.end);
    *key_space = request.prefix;
  }
  request.keys.end.push_back('\0');
  const KeySpace space = key_space_of(request);
  const double share = stored_share(version);
  StreamingHistogram bytes(1024);
  for (const FlushInput& input : inputs) {
    std::uint64_t entries = 0;
    double since = 0;  // bytes since the last sample
    for (input.entries->seek_to_first(); input.entries->valid(); input.entries->next()) {
      const Entry& entry = input.entries->entry();
      since += share * static_cast<double>(entry.key.size() + entry.value_length());
      if (++entries % kEntriesPerSample == 0) bytes.add(space.position(entry.key), std::exchange(since, 0));
    }
    TRY(input.entries->status());
  }
  for (const Partition& partition : partitions_of(request, &bytes)) part->partitions.push_back(partition.start);
  part->partitions.erase(part->partitions.begin());  // the first file begins where the first partition begins
  return Status::ok();
}

}  // namespace

Result<CompactionResult> flush_to_run(const std::vector<FlushInput>& inputs, const Version& version,
                                      const CompactionContext& context, const CompactionEnv& env) {
  const Judgement judgement{context.visible_seq, context.now, context.reaped};
  TRY_ASSIGN(touched, range_of_flush(inputs));
  const Finality finality = finality_of(version, touched);
  RunProbe probe(version, env);

  MergePart part;
  std::vector<Record> records;
  for (const FlushInput& input : inputs) {
    part.sources.push_back(std::make_unique<BorrowedIterator>(input.entries));
    if (input.range_tombstones != nullptr) part.tombstones.push_back(input.range_tombstones);
    const std::vector<Record> more = input.records->records();
    records.insert(records.end(), more.begin(), more.end());
  }
  // The version's records are older than every entry of the memtables, so they cover none of these entries.
  const RecordSet all(records);
  part.applied_seq = context.last_seq;
  part.keys_below = &probe;
  part.mark_first = true;
  part.limits = limits_of(context.settings, 0);
  std::optional<std::string> key_space;
  TRY(divide_flush(inputs, version, context.settings, &part, &key_space));
  part.compression = context.settings.compression;
  part.filter_slices = context.filter_slices(version.next_run);
  part.points_at = context.settings.points_at;
  std::atomic<bool> failed{false};
  MergePartResult done = run_merge_part(std::move(part), {&env, &context.settings, &judgement, &finality, &all, &failed});
  const bool has_names = !done.outputs.empty() && !planted(PlantedBug::kSkipDirectorySync);
  if (done.status.is_ok() && has_names) done.status = env.fs->sync_dir(env.dir);
  if (!done.status.is_ok()) {
    unlink_outputs(env, done.outputs);
    return done.status;
  }

  CompactionResult result;
  result.edit.tree = version.tree;
  result.edit.flushes = version.flushes + 1;
  result.edit.flushed_seq = context.last_seq;
  result.edit.added_records = all.records();
  if (!done.outputs.empty()) {
    const RunId id = version.next_run;
    result.edit.added_runs.push_back({id, 0, version.runs.empty() ? RunId{0} : version.runs.front().id, true});
    result.edit.next_run = id + 1;
    for (const FileMeta& output : done.outputs) result.edit.added_files.emplace_back(id, output);
  }
  if (key_space) note_key_space(*key_space, version, &result.edit);
  result.bytes_written = done.bytes_written;
  result.entries_in = done.entries_in;
  result.entries_out = done.entries_out;
  result.sub_merges = 1;
  result.outputs = std::move(done.outputs);
  return result;
}

}  // namespace ebbtide
