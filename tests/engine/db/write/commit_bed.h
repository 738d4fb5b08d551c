// All components that a commit uses, around a log in a simulated file system. There is no database.
#pragma once

#include <catch2/catch.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "db/write/commit_counter.h"
#include "db/write/commit_pipeline.h"
#include "db/write/committer.h"
#include "db/write/staged_writer.h"
#include "engine/db/trees/registry_env.h"
#include "io/file_names.h"
#include "io/memory_fs.h"
#include "wal/batch_group.h"
#include "wal/log_reader.h"

namespace ebbtide::testing {

struct CommitBed {
  static constexpr Millis kNow = 1'000'000;
  static constexpr std::uint64_t kMemTableBytes = 64 << 10, kBudget = 64 << 20;
  static constexpr DatabaseId kDatabases = 4;

  /// The environment of pipeline and committer.
  struct Env {
    CommitBed* bed;
    bool log_failed() { return bed->log_failed; }
    Status log_status() { return Status::io_error("the log failed"); }
    bool read_only() { return !bed->writable.is_ok(); }
    Status write_status() { return bed->writable; }
    bool disk_full() { return bed->disk_full; }
    Status writable() { return bed->writable; }
    Millis now() { return kNow; }
    Millis stamped(Millis now) { return now; }
    static TreeId tree_of(DatabaseId /*database*/) { return kNoTree; }
    TreeId place(WriteBatch& batch, std::size_t at, const WriteBatch::Op& op, Millis time,
                 Inserts* inserts) NO_THREAD_SAFETY_ANALYSIS {
      return bed->placer.place(batch, at, op, time, inserts);
    }
    void change_mapping(WriteBatch& batch, std::size_t at, const WriteBatch::Op& op, Millis time, Inserts* inserts,
                        LogNotes* notes) NO_THREAD_SAFETY_ANALYSIS {
      bed->placer.change_mapping(batch, at, op, time, inserts, notes);
    }
    void mapping_changed(SeqNum) {}
    void sequenced(TreeId tree, SeqNum first, SeqNum last) NO_THREAD_SAFETY_ANALYSIS {
      bed->trees.mark_active(tree, first, last);
    }
    void log(const WriteBatch& batch, std::span<const LogNote> notes) { bed->log.enqueue(batch, notes); }
    void insert(const Inserts::Target& target, const WriteBatch::Op& op, SeqNum seq, Millis time) {
      insert_operation(*target.memtable, op, seq, time, target.stamp);
    }
  };

  MemoryFileSystem files;
  SimulatedClock clock;
  Epoch epoch;
  FileNum last_file = 0;
  TreeId last_tree = 0;
  bool log_failed = false, disk_full = false;
  Status writable;
  int runs = 0;  ///< runs of the tree that causes the pressure: above 10, writes are delayed; at 110, they stop
  int measured = 0, relieved = 0, mappings = 0, tasks = 0;
  Publication published;
  Counters counters;
  std::shared_ptr<MemoryAccount> account = std::make_shared<MemoryAccount>();
  MemoryBudget budget{{.account = account,
                       .clock = &clock,
                       .set_cache_capacity = [](std::uint64_t) {},
                       .flushes_fail = [] { return false; },
                       .cache_bytes = [] { return std::uint64_t{0}; }},
                      kBudget};
  WriteController writes{{.clock = &clock,
                          .threads = false,
                          .load = [this] { return load(); },
                          .divide = [](const MemoryUse&) {},
                          .write_status = [this] { return writable; },
                          .closing = [] { return false; },
                          .pending_drops = [] { return std::uint64_t{0}; },
                          .run_task =
                              [this] {
                                ++tasks;
                                runs = 0;
                                writes.measure();
                                return true;
                              }}};
  TreeRegistry trees{registry_env(clock, epoch, kNow, [this] { return pipeline.last_seq(); }),
                     databases_of(kDatabases, kMemTableBytes)};
  TreePlacer placer{{.trees = &trees,
                     .new_tree = [this] { return ++last_tree; },
                     .sequence =
                         [this](WriteBatch& creation, TreeId tree, Millis time) {
                           pipeline.assign(creation, time);
                           const LogNote note{tree, 0, 0};
                           log.enqueue(creation, std::span(&note, 1));
                         },
                     .mapping_changed = [this] { ++mappings; }}};
  GroupCommit log{log_options()};
  CommitPipeline<Env> pipeline{Env{this}, trees.commit_mutex, published};
  CommitCounter counter{
      {.clock = &clock, .counters = &counters, .budget = &budget, .writes = &writes, .relieve = [this] { ++relieved; }}};
  StagedWriter staged{
      {.trees = &trees,
       .placer = &placer,
       .published = &published,
       .budget = &budget,
       .memory = account,
       .counter = &counter,
       .log = [this]() -> GroupCommit& { return log; },
       .begin = [this](const WriteBatch& batch, Inserts* inserts, Millis* time) { return pipeline.begin(batch, inserts, time); },
       .assign = [this](WriteBatch& batch, Millis time) { pipeline.assign(batch, time); },
       .last_seq = [this] { return pipeline.last_seq(); }}};
  Committer<Env> committer{Env{this},
                           {.pipeline = pipeline,
                            .writes = writes,
                            .staged = staged,
                            .counter = counter,
                            .memory = *account,
                            .databases = kDatabases}};

  CommitBed() {
    REQUIRE(files.create_dir("db").is_ok());
    REQUIRE(log.start({}, 0).is_ok());
    clock.advance(10'000);
    counter.note_tick();
  }

  GroupCommitOptions log_options() {
    GroupCommitOptions options;
    options.fs = &files;
    options.dir = "db";
    options.clock = &clock;
    options.new_file = [this] { return ++last_file; };
    options.own_thread = false;
    options.piece_bytes = 1024;
    return options;
  }
  WriteLoad load() {
    ++measured;
    WriteLoad load;
    load.trees = {{.runs = runs, .slowdown_runs = 10, .stop_runs = 110}};
    load.memtable_size = kMemTableBytes;
    load.memory_budget = kBudget;
    return load;
  }

  TreePtr tree(DatabaseId database) { return trees.tree_of(database); }
  /// Returns the value of the key in the tree's memtables, as readers see it: "" = a tombstone, "(none)" = no entry.
  std::string get(DatabaseId database, const std::string& key) {
    const TreePtr of = tree(database);
    if (of == nullptr) return "(no tree)";
    for (const auto& memtable : trees.view_of(*of)->memtables) {
      Entry entry;
      FragmentedRangeTombstones::Cover cover;
      const SeqNum seq = published.visible_seq();
      const bool found = memtable->get({key, hash_key(key)}, seq, &entry);
      const bool covered = memtable->newest_cover(key, seq, &cover);
      if (covered && (!found || cover.seq > entry.seq)) return "";
      if (found) return entry.is_tombstone() ? "" : std::string(entry.value);
    }
    return "(none)";
  }
  /// Returns every batch in the log's files: "first..last", with the trees that its operations name.
  std::vector<std::string> logged() {
    while (log.write()) {
    }
    std::vector<std::string> out;
    LogPieces pieces(files, "db", kNoFile);
    const auto on_record = [&](const std::string& payload, std::uint64_t) {
      return each_batch(payload, [&](Bytes bytes) -> Status {
        TRY_ASSIGN(batch, WriteBatch::parse(std::string(bytes)));
        std::string text = std::to_string(batch.first_seq()) + ".." + std::to_string(batch.last_seq());
        TreeId last = kNoTree;
        std::size_t cursor = 0;
        for (WriteBatch::Op op; batch.next_op(&cursor, &op);) {
          if (op.tree != last) text += " " + std::to_string(op.tree);
          last = op.tree;
        }
        out.push_back(text);
        return Status::ok();
      });
    };
    for (const LogSegment& segment : log.segments()) {
      REQUIRE(read_log(files, "db", segment.file, {.on_record = on_record, .pieces = &pieces}).is_ok());
    }
    return out;
  }
};

}  // namespace ebbtide::testing
