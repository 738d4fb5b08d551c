// A tree of real tables in a simulated file system, the history of all writes to it, and checks that compare the two.
#pragma once

#include <catch2/catch.hpp>

#include <map>
#include <set>

#include "base/epoch.h"
#include "compaction/executor.h"
#include "compaction/key_ranges.h"
#include "compaction/table_files.h"
#include "engine/iter/entries.h"
#include "io/fault_fs.h"
#include "io/file_names.h"
#include "io/memory_fs.h"
#include "iter/run_iterator.h"
#include "iter/visible_iterator.h"

namespace ebbtide::testing {

class TreeFixture {
 public:
  explicit TreeFixture(std::uint64_t seed) : random(seed), cache_(std::uint64_t{1} << 20, epoch_) {
    REQUIRE(memory.create_dir("db").is_ok());
    context.settings.file_size = 16384;  // a few pages, padded to 4 KiB each if h > 1
    context.settings.page_size = 1024;
    context.settings.pages_per_tile = std::uint32_t{1} << random.uniform(3);
    context.now = 1000;
    env.fs = &fs;
    env.dir = "db";
    env.sub_merge_bytes = 16384;
    env.new_file = [this] { return next_file_++; };
    env.open_table = [this](const FileMeta& meta) { return TableReader::open({&fs, &cache_, "db", false}, files_of(meta)); };
    auto empty = std::make_shared<Version>();
    empty->tree = 1;
    version = empty;
  }

  /// Makes a memtable of random operations and flushes it as a run. Seqs continue from the last one.
  void flush_random(std::uint64_t keys, std::uint64_t operations) {
    Source table;
    for (std::uint64_t i = 0; i < operations; ++i) {
      const SeqNum seq = ++context.visible_seq;
      context.now += random.uniform(3);
      if (random.one_in(30)) {
        const DeleteKey lo = random.uniform(100);
        table.records.push_back({lo, random.one_in(8) ? kDeleteKeyEnd : lo + 1 + random.uniform(20), seq, context.now});
        continue;
      }
      if (random.one_in(25)) {
        std::string a = random_key(random, keys), b = random_key(random, keys);
        if (b < a) std::swap(a, b);
        if (random.one_in(10)) b.clear();
        if (a != b) table.tombstones.push_back({a, b, seq, context.now});
        continue;
      }
      Owned e{.key = random_key(random, keys), .seq = seq, .value = value_of(seq)};
      if (random.one_in(4)) {
        e.kind = EntryKind::kTombstone;
        e.value.clear();
        e.delete_key = context.now;
      } else if (random.one_in(6)) {
        e.expiry = context.now + random.uniform(200);
      } else if (random.one_in(3)) {
        e.delete_key = random.uniform(100);
      }
      if (e.kind != EntryKind::kTombstone && random.one_in(6)) e.debt = context.now;  // the put deletes all older versions
      table.entries.push_back(e);
    }
    sort_versions(&table.entries);
    flush(table);
  }

  void flush(const Source& table) {
    history.entries.insert(history.entries.end(), table.entries.begin(), table.entries.end());
    history.tombstones.insert(history.tombstones.end(), table.tombstones.begin(), table.tombstones.end());
    history.records.insert(history.records.end(), table.records.begin(), table.records.end());
    context.last_seq = context.visible_seq;
    VectorIterator it(&table.entries);
    auto tombstones = std::make_shared<FragmentedRangeTombstones>(std::span(table.tombstones));
    auto result = flush_to_run({{&it, tombstones, std::make_shared<const RecordSet>(table.records)}}, *version, context, env);
    INFO(result.status().to_string());
    REQUIRE(result.is_ok());
    REQUIRE(result->edit.flushes == version->flushes + 1);
    install(result->edit);
  }

  void install(const TreeEdit& edit) {
    auto next = apply(*version, edit);
    INFO(next.status().to_string());
    REQUIRE(next.is_ok());
    // Removes records that no entry needs. Views outlive their files here, so no record may be merged into another.
    TreeEdit tidy;
    for (const Record& record : next.value()->records->records()) {
      const RecordSet alone(std::span(&record, 1));
      bool needed = false;
      for (const Run& run : next.value()->runs) {
        for (const FileMetaPtr& file : run.files) needed = needed || records_birth(file->stats, alone) != 0;
      }
      if (!needed) tidy.removed_records.push_back(record.seq);
    }
    retired += tidy.removed_records.size();
    next = apply(*next.value(), tidy);
    REQUIRE(next.is_ok());
    for (const auto& [run, file] : edit.removed_files) {
      const bool moved = std::any_of(edit.added_files.begin(), edit.added_files.end(),
                                     [&, f = file](const auto& added) { return added.second.data_file == f; });
      if (!moved) remove_file(file);
    }
    version = next.value();
  }

  Result<CompactionResult> run(const Plan& plan) {
    auto result = execute(plan, *version, context, env);
    if (result.is_ok()) install(result->edit);
    return result;
  }

  /// Returns everything that a reader at `view` sees of the tables in a forward walk.
  std::vector<Owned> read(SeqNum view) {
    std::vector<std::unique_ptr<InternalIterator>> children;
    std::vector<TombstoneSource> tombstones;
    for (const Run& run : version->runs) {
      TombstoneSource source{children.size(), {}};
      for (const FileMetaPtr& file : run.files) source.sets.push_back(env.open_table(*file).value()->range_tombstones());
      tombstones.push_back(std::move(source));
      children.push_back(run_iterator(run));
    }
    VisibleIterator it(std::make_unique<MergingIterator>(std::move(children)), std::move(tombstones),
                       {.view_seq = view, .now = context.now, .records = {version->records}});
    std::vector<Owned> out;
    for (it.seek_to_first(); it.valid(); it.next()) {
      Owned e = Owned::of(it.entry());
      if (it.entry().is_large())
        e.value = *static_cast<const TableReader*>(it.entry().large.table)->read_large(it.entry().large).value();
      out.push_back(std::move(e));
    }
    INFO(it.status().to_string());
    REQUIRE(it.status().is_ok());
    return out;
  }

  std::unique_ptr<InternalIterator> run_iterator(const Run& run) {
    auto files = std::make_shared<std::vector<FileMetaPtr>>(run.files.begin(), run.files.end());
    return std::make_unique<RunIterator>(
        RunFiles{files->size(), [files](std::size_t i) -> const TableStats& { return (*files)[i]->stats; },
                 [files, this](std::size_t i) {
                   return env.open_table(*(*files)[i]).value()->new_iterator({{}, false, nullptr});
                 }},
        KeyRange{});
  }

  /// Checks that a reader sees the written data, and that each delete is pending while the files have data that it deleted.
  void check() {
    std::vector<Owned> expected = visible({history}, context.visible_seq, context.now), seen = read(context.visible_seq);
    for (Owned& e : seen) e.debt = 0, e.first = false;
    for (Owned& e : expected) e.debt = 0;
    REQUIRE(seen == expected);
    check_pending();
  }

  /// Checks each version on disk that a delete has hidden. A file over the version's key, in the same or a newer run, must have
  /// that delete's birth or an older one.
  void check_pending() {
    for (std::size_t r = 0; r < version->runs.size(); ++r) {
      auto it = run_iterator(version->runs[r]);
      for (it->seek_to_first(); it->valid(); it->next()) {
        const Entry& e = it->entry();
        if (e.is_tombstone()) continue;
        Millis birth = 0;
        const auto take = [&](SeqNum seq, Millis b) {
          if (seq > e.seq && (birth == 0 || b < birth)) birth = b;
        };
        for (const Owned& o : history.entries) {
          if (o.key == e.key && o.kind == EntryKind::kTombstone) take(o.seq, o.delete_key);
          if (o.key == e.key && o.debt != 0) take(o.seq, o.debt);
        }
        for (const RangeTombstone& t : history.tombstones) {
          if (t.covers(e.key)) take(t.seq, t.birth);
        }
        for (const Record& r : history.records) {
          if (deletes(r, e.key)) take(r.seq, r.birth);
        }
        if (birth == 0) continue;
        bool pending = false;
        for (std::size_t newer = 0; newer <= r; ++newer) {
          for (const FileMetaPtr& file : version->runs[newer].files) {
            Millis oldest = file->stats.oldest_obligation();
            const Millis covered = records_birth(file->stats, *version->records);
            if (oldest == 0 || (covered != 0 && covered < oldest)) oldest = covered;
            pending = pending || (range_of(file->stats).contains(e.key) && oldest != 0 && oldest <= birth);
          }
        }
        CAPTURE(e.key, e.seq, birth);
        REQUIRE(pending);
      }
      REQUIRE(it->status().is_ok());
    }
  }

  /// Returns true if the record deleted the key: the version that was current at the record's seq has the stamp.
  [[nodiscard]] bool deletes(const Record& record, Bytes key) const {
    const Owned* current = nullptr;
    for (const Owned& o : history.entries) {
      if (o.key == key && o.seq < record.seq && (current == nullptr || o.seq > current->seq)) current = &o;
    }
    if (current == nullptr || current->kind == EntryKind::kTombstone || !record.has(current->delete_key)) return false;
    return std::none_of(history.tombstones.begin(), history.tombstones.end(),
                        [&](const RangeTombstone& t) { return t.covers(key) && t.seq > current->seq && t.seq < record.seq; });
  }

  /// Returns the files on disk that are in no version.
  std::vector<std::string> leftovers() {
    const std::vector<std::string> listed = memory.list("db").value();
    std::set<std::string> names(listed.begin(), listed.end());
    for (const Run& run : version->runs) {
      for (const FileMetaPtr& file : run.files)
        names.erase(data_file_name(file->data_file)), names.erase(metadata_file_name(file->metadata_file));
    }
    return {names.begin(), names.end()};
  }

  static std::string value_of(SeqNum seq) {
    std::string value = "v" + std::to_string(seq) + "-";
    value.resize(seq % 97 == 0 ? kLargeValueBytes + 1000 : 100 + seq % 400, static_cast<char>('a' + seq % 26));
    return value;
  }

  /// Returns a plan for a merge of all files of runs [from, to].
  [[nodiscard]] Plan merge_of(std::size_t from, std::size_t to, PlanTarget target) const {
    Merge merge;
    for (std::size_t r = from; r <= to; ++r) {
      PlanInput input{version->runs[r].id, {}};
      for (const FileMetaPtr& file : version->runs[r].files) input.files.push_back(file->data_file);
      if (!input.files.empty()) merge.inputs.push_back(std::move(input));
    }
    merge.target = target;
    Plan plan;
    if (!merge.inputs.empty()) plan.action = std::move(merge);
    return plan;
  }

  MemoryFileSystem memory;
  FaultFileSystem fs{memory};
  Random random;
  VersionPtr version;
  CompactionContext context;
  CompactionEnv env;
  Source history;
  std::uint64_t retired = 0;  ///< number of records that no entry needed any more and that were removed

 private:
  void remove_file(FileNum data_file) {
    for (const Run& run : version->runs) {
      for (const FileMetaPtr& file : run.files) {
        if (file->data_file != data_file) continue;
        REQUIRE(memory.unlink("db/" + data_file_name(file->data_file)).is_ok());
        REQUIRE(memory.unlink("db/" + metadata_file_name(file->metadata_file)).is_ok());
      }
    }
  }

  Epoch epoch_;
  BlockCache cache_;
  std::atomic<FileNum> next_file_{1};
};

}  // namespace ebbtide::testing
