// Salvage: writes the new databases.
//
// Each tree becomes one run. The code of flushes selects the entries and builds the tables, so tombstones, range tombstones,
// secondary range tombstones and expiries are applied by the same rules. Before that, keys are divided: a key is doubtful if a
// lost part may have had a newer operation for it.
#include <algorithm>
#include <set>

#include "compaction/executor.h"
#include "compaction/table_files.h"
#include "deletes/range_tombstone.h"
#include "io/file_names.h"
#include "iter/merging_iterator.h"
#include "tools/inspect_salvage.h"
#include "version/manifest.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kSalvageWriteCacheBytes = std::uint64_t{8} << 20;

/// An iterator that only moves forward; a flush needs no more.
class ForwardIterator : public InternalIterator {
 public:
  void seek_to_last() override { valid_ = false; }
  void seek(Bytes) override { valid_ = false; }
  void seek_before(Bytes) override { valid_ = false; }
  void prev() override { valid_ = false; }
};

/// Iterates over the good ranges of a table, one after the other.
class GoodParts final : public ForwardIterator {
 public:
  explicit GoodParts(const SalvageTable& table) : table_(table) {}
  void seek_to_first() override {
    next_ = 0;
    part_.reset();
    settle();
  }
  void next() override {
    part_->next();
    settle();
  }

 private:
  void settle() {
    while (part_ == nullptr || !part_->valid()) {
      if (part_ != nullptr && !part_->status().is_ok()) {
        status_ = part_->status();  // an error ends the iteration; when salvage read this range before, it found no error
        valid_ = false;
        return;
      }
      valid_ = next_ < table_.good.size();
      if (!valid_) return;
      part_ = table_.reader->new_iterator({.bounds = table_.good[next_++], .fill_cache = false});
      part_->seek_to_first();
    }
    valid_ = true;
    shown_ = &part_->entry();
  }
  const SalvageTable& table_;
  std::size_t next_ = 0;
  std::unique_ptr<InternalIterator> part_;
};

class RescuedEntries final : public ForwardIterator {
 public:
  explicit RescuedEntries(const SalvageTable& table) : table_(table) {}
  void seek_to_first() override { show(0); }
  void next() override { show(at_ + 1); }

 private:
  void show(std::size_t at) {
    at_ = at;
    valid_ = at < table_.rescued.size();
    if (!valid_) return;
    entry_ = table_.rescued[at].entry;
    entry_.key = table_.rescued[at].key;
    if (!entry_.is_large()) entry_.value = table_.rescued[at].value;
  }
  const SalvageTable& table_;
  std::size_t at_ = 0;
};

/// Returns each version once, even if two tables have it: the input and the output of a merge may both exist. Selects certain
/// keys, doubtful keys, or all keys.
class Chosen final : public ForwardIterator {
 public:
  Chosen(std::vector<std::unique_ptr<InternalIterator>> sources, const SalvageTree& tree, const SalvageTarget& target)
      : merged_(std::move(sources)), tree_(tree), target_(target) {}
  void seek_to_first() override {
    merged_.seek_to_first();
    any_ = false;
    settle();
  }
  void next() override {
    merged_.next();
    settle();
  }

 private:
  void settle() {
    for (; merged_.valid(); merged_.next()) {
      const Entry& entry = merged_.entry();
      const bool same_key = any_ && entry.key == Bytes(key_);
      if (same_key && entry.seq == seq_) continue;
      seq_ = entry.seq;
      if (!same_key) {
        key_.assign(entry.key);
        any_ = true;
        wanted_ = tree_.in_doubt(key_, seq_) ? target_.doubtful : target_.certain;
      }
      if (!wanted_) continue;
      valid_ = true;
      shown_ = &merged_.entry();
      return;
    }
    valid_ = false;
    status_ = merged_.status();
  }
  MergingIterator merged_;
  const SalvageTree& tree_;
  const SalvageTarget& target_;
  bool any_ = false, wanted_ = false;
  std::string key_;
  SeqNum seq_ = 0;
};

class Writer {
 public:
  Writer(FileSystem& fs, const SalvageTarget& target, const Salvaged& salvaged)
      : fs_(fs), target_(target), salvaged_(salvaged), cache_(kSalvageWriteCacheBytes, epoch_) {}
  ~Writer() {
    if (!finished_) clear_away();
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  Result<SalvageWritten> run() {
    made_directory_ = !fs_.exists(target_.dir);
    TRY(fs_.create_dir(target_.dir));
    for (const auto& [id, tree] : salvaged_.trees) {
      if (tree.all_in_doubt() ? target_.doubtful : target_.certain || !tree.doubts.empty()) TRY(write_tree(tree));
    }
    if (target_.stop != nullptr && *target_.stop) return Status::aborted("interrupted");
    if (written_.keys == 0 && !target_.certain) return written_;
    TRY(finish());
    return written_;
  }

 private:
  Status write_tree(const SalvageTree& tree) {
    std::vector<std::unique_ptr<InternalIterator>> sources;
    std::vector<RangeTombstone> tombstones;
    std::vector<Record> records;
    const auto add = [&](const SharedTombstones& more) {
      for (std::size_t i = 0; i < more->size(); ++i) tombstones.push_back(more->tombstone(i));
    };
    if (tree.memtable != nullptr) {
      sources.push_back(tree.memtable->new_iterator());
      add(tree.memtable->range_tombstones());
      records = tree.memtable->records().snapshot()->records();
    }
    for (const SalvageTable& table : tree.tables) {
      sources.push_back(std::make_unique<GoodParts>(table));
      if (!table.rescued.empty()) sources.push_back(std::make_unique<RescuedEntries>(table));
      add(table.reader->range_tombstones());
    }
    if (tree.version != nullptr) {
      const std::vector<Record> known = tree.version->records->records();
      records.insert(records.end(), known.begin(), known.end());
    }
    Chosen chosen(std::move(sources), tree, target_);
    const FlushInput input{&chosen, std::make_shared<FragmentedRangeTombstones>(tombstones),
                           std::make_shared<RecordSet>(records)};
    Version empty;
    empty.tree = tree.id;
    empty.stamp = tree.stamp;
    TRY_ASSIGN(result, flush_to_run({input}, empty, context(tree), env()));
    take(tree, std::move(result));
    return Status::ok();
  }

  [[nodiscard]] CompactionContext context(const SalvageTree& tree) const {
    CompactionContext context;
    context.now = salvaged_.time;
    context.stamp = tree.stamp;
    context.settings.stamp = tree.stamp;
    context.visible_seq = context.last_seq = salvaged_.last_seq;
    return context;
  }
  CompactionEnv env() {
    CompactionEnv env;
    env.fs = &fs_;
    env.dir = target_.dir;
    env.abort = target_.stop;
    env.new_file = [this] {
      for (const std::string& name : {data_file_name(next_file_), metadata_file_name(next_file_)}) made_.push_back(name);
      return next_file_++;
    };
    env.open_table = [this](const FileMeta& meta) {
      TableReaderOptions options;
      options.fs = &fs_;
      options.cache = &cache_;
      options.dir = target_.dir;
      return TableReader::open(options, files_of(meta));
    };
    return env;
  }

  void take(const SalvageTree& tree, CompactionResult result) {
    for (const FileMeta& table : result.outputs) {
      written_.tables += 1;
      written_.bytes += table.data_bytes + table.metadata_bytes;
    }
    std::uint64_t keys = result.entries_out;
    written_.keys += keys;
    for (const auto& [database, id] : salvaged_.databases) {
      if (id == tree.id) written_.keys_by_database[database] = keys;
    }
    TreeEdit& edit = edit_.trees.emplace_back(std::move(result.edit));
    edit.create = true;
    edit.stamp = tree.stamp;
    edit.flushes.reset();
    edit.added_records.clear();  // the records are already applied to the entries of the new tables
    if (tree.version != nullptr) edit.deadlines = tree.version->deadlines;
  }

  // Writes CURRENT last: an interrupted salvage has no CURRENT, and its directory does not open.
  Status finish() {
    std::set<TreeId> there;
    for (const TreeEdit& tree : edit_.trees) there.insert(tree.tree);
    for (const auto& [database, id] : salvaged_.databases) {
      if (there.contains(id)) edit_.databases.emplace_back(database, id);
    }
    const FileNum manifest = next_file_++;
    edit_.next_file = next_file_;
    edit_.next_tree = std::max<TreeId>(salvaged_.state.next_tree, there.empty() ? 1 : *there.rbegin() + 1);
    edit_.last_seq = edit_.databases_seq = edit_.complete_seq = salvaged_.last_seq;
    edit_.time_mark = salvaged_.time;
    TRY_ASSIGN(state, apply(VersionState{}, edit_));
    std::string record;
    VersionEdit edit = snapshot(state);
    edit.writer = EBBTIDE_VERSION;
    edit.encode(&record);
    TRY(fs_.sync_dir(target_.dir));
    made_.push_back(manifest_file_name(manifest));
    TRY(ManifestWriter::create(fs_, target_.dir, manifest, record).status());
    made_.emplace_back(kCurrentFileName);
    TRY(write_current(fs_, target_.dir, manifest));
    TRY(fs_.sync_dir(parent_path(target_.dir)));
    finished_ = true;
    return Status::ok();
  }

  void clear_away() {
    std::reverse(made_.begin(), made_.end());  // CURRENT first: a partly removed database must not open
    for (const std::string& name : made_) (void)fs_.unlink(join_path(target_.dir, name));
    if (made_directory_) (void)fs_.remove_dir(target_.dir);
  }

  FileSystem& fs_;
  const SalvageTarget& target_;
  const Salvaged& salvaged_;
  Epoch epoch_;
  BlockCache cache_;
  FileNum next_file_ = 1;
  VersionEdit edit_;
  SalvageWritten written_;
  std::vector<std::string> made_;
  bool made_directory_ = false, finished_ = false;
};

}  // namespace

Result<SalvageWritten> write_salvaged(FileSystem& fs, const SalvageTarget& target, const Salvaged& salvaged) {
  return Writer(fs, target, salvaged).run();
}

}  // namespace ebbtide
