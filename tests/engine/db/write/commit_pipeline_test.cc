// Tests of the pipeline without a database: log, memtables and trees are fakes that only note the calls.
#include "db/write/commit_pipeline.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace TEST_FILE {

using namespace ebbtide;

constexpr TreeId kFirstTree = 100;  // the tree of database 0; database d has tree 100 + d

/// Notes the steps of batches as text, in order.
struct Room {
  Mutex mutex;
  Publication published;
  std::vector<std::string> events;
  Status writable;
  Millis now = 1'000;
  Millis mark = ~Millis{0} >> 1;  ///< no later time may be written to the log
  std::map<TreeId, std::unique_ptr<MemTable>> memtables;
  bool noted = true;                      ///< true: events are kept
  std::atomic<std::uint8_t>* inserted{};  ///< by seq; for tests with threads
  SeqNum log_seq = 0;                     ///< seq of the last batch in the log; under the mutex
  std::atomic<bool> disorder{false};

  MemTable* memtable(TreeId tree) {
    auto& memtable = memtables[tree];
    if (memtable == nullptr) memtable = std::make_unique<MemTable>(1 << 16);
    return memtable.get();
  }
  void note(const std::string& event) {
    if (noted) events.push_back(event);
  }
  std::vector<std::string> take() { return std::exchange(events, {}); }
};

/// A fake environment. The newest database has no tree before its first write.
struct FakeEnv {
  Room* room;
  CommitPipeline<FakeEnv>** pipeline;
  std::vector<DatabaseId> made{};

  Status writable() { return room->writable; }
  Millis now() { return room->now; }
  Millis stamped(Millis now) { return std::min(now, room->mark); }
  static TreeId tree_of(DatabaseId database) { return kFirstTree + database; }
  TreeId place(WriteBatch& batch, std::size_t at, const WriteBatch::Op& op, Millis time, Inserts* inserts) {
    const DatabaseId database = op.tree;
    const TreeId tree = kFirstTree + database;
    if (database == 9 && made.empty()) {
      made.push_back(database);
      WriteBatch create;
      create.create_tree(database, tree, StampMode::kWriteTime);
      (*pipeline)->assign(create, time);
      log(create, {});
      inserts->remapped.emplace_back(database, nullptr);
    }
    batch.set_op_tree(at, tree);
    if (inserts->find(tree) == nullptr) inserts->add({tree, room->memtable(tree), StampMode::kWriteTime});
    room->note("place " + std::to_string(tree));
    return tree;
  }
  void change_mapping(WriteBatch&, std::size_t, const WriteBatch::Op& op, Millis, Inserts*, LogNotes*) {
    room->note("map " + std::to_string(op.lo));
  }
  void mapping_changed(SeqNum last) { room->note("mapping changed at " + std::to_string(last)); }
  void sequenced(TreeId tree, SeqNum first, SeqNum last) {
    room->note("tree " + std::to_string(tree) + " has " + std::to_string(first) + ".." + std::to_string(last));
  }
  void log(const WriteBatch& batch, std::span<const LogNote> notes) {
    if (batch.first_seq() != room->log_seq + 1) room->disorder = true;
    room->log_seq = batch.last_seq();
    std::string text = "log " + std::to_string(batch.first_seq()) + ".." + std::to_string(batch.last_seq()) + " at " +
                       std::to_string(batch.time());
    for (const LogNote& note : notes) text += " [" + std::to_string(note.tree) + " " + std::to_string(note.oldest_delete) + "]";
    room->note(text);
  }
  void insert(const Inserts::Target& target, const WriteBatch::Op& op, SeqNum seq, Millis) {
    if (room->published.visible_seq() >= seq) room->disorder = true;
    if (room->inserted != nullptr) room->inserted[seq].store(1, std::memory_order_relaxed);
    room->note("insert " + std::string(op.key) + " into " + std::to_string(target.tree) + " as " + std::to_string(seq));
  }
};

struct Pipeline : Room {
  CommitPipeline<FakeEnv>* self = &pipeline;
  CommitPipeline<FakeEnv> pipeline{FakeEnv{this, &self}, mutex, published};
};

WriteBatch puts(std::initializer_list<std::pair<DatabaseId, const char*>> keys) {
  WriteBatch batch;
  for (const auto& [database, key] : keys) batch.put(database, key, "v");
  return batch;
}

using Events = std::vector<std::string>;

TEST_CASE("batch is committed: it is placed, logged, inserted and then visible, in this order") {
  Pipeline p;
  WriteBatch batch = puts({{0, "a"}});
  REQUIRE(p.pipeline.commit(batch).is_ok());
  CHECK(p.take() == Events{"place 100", "tree 100 has 1..1", "log 1..1 at 1000 [100 0]", "insert a into 100 as 1"});
  CHECK(p.published.visible_seq() == 1);
  CHECK_FALSE(p.disorder);
}

TEST_CASE("batch has operations on two databases: adjacent ones of a database are placed once, and each has its own seq") {
  Pipeline p;
  p.pipeline.start(40);
  p.published.start(40);
  p.log_seq = 40;
  WriteBatch batch = puts({{0, "a"}, {0, "b"}, {1, "c"}, {0, "d"}});
  batch.del(1, "e");
  REQUIRE(p.pipeline.commit(batch).is_ok());
  CHECK(p.take() == Events{"place 100", "place 101", "place 100", "place 101", "tree 100 has 41..45", "tree 101 has 41..45",
                           "log 41..45 at 1000 [100 0] [101 1000]", "insert a into 100 as 41", "insert b into 100 as 42",
                           "insert c into 101 as 43", "insert d into 100 as 44", "insert e into 101 as 45"});
  CHECK(p.pipeline.last_seq() == 45);
  CHECK(p.published.visible_seq() == 45);
}

TEST_CASE("database gets its first write: its tree takes a seq before the batch's, and both become visible at once") {
  Pipeline p;
  WriteBatch batch = puts({{9, "a"}});
  REQUIRE(p.pipeline.commit(batch).is_ok());
  CHECK(p.take() ==
        Events{"log 1..1 at 1000", "place 109", "tree 109 has 2..2", "log 2..2 at 1000 [109 0]", "insert a into 109 as 2"});
  CHECK(p.published.visible_seq() == 2);
  CHECK_FALSE(p.disorder);
}

TEST_CASE("batch has a FLUSHDB: it takes a seq and goes into no memtable, and the next operation is placed again") {
  Pipeline p;
  WriteBatch batch = puts({{0, "a"}});
  batch.flush_database(0);
  batch.put(0, "b", "v");
  REQUIRE(p.pipeline.commit(batch).is_ok());
  CHECK(p.take() == Events{"place 100", "map 0", "place 100", "mapping changed at 3", "tree 100 has 1..3",
                           "log 1..3 at 1000 [100 0]", "insert a into 100 as 1", "insert b into 100 as 3"});
}

TEST_CASE("batch is refused: nothing is logged or inserted, and no seq is taken") {
  Pipeline p;
  WriteBatch batch = puts({{0, "a"}});
  p.writable = Status::read_only("the disk failed");
  CHECK(p.pipeline.commit(batch).code() == Code::kReadOnly);
  p.writable = Status::ok();
  batch.rely_on_expiry(900);
  CHECK(p.pipeline.commit(batch).code() == Code::kRetry);
  WriteBatch of_tree = puts({{0, "a"}});
  of_tree.rely_on_tree(kFirstTree + 1);
  CHECK(p.pipeline.commit(of_tree).code() == Code::kRetry);
  CHECK(p.take().empty());
  CHECK(p.pipeline.last_seq() == 0);
  CHECK(p.published.visible_seq() == 0);
}

TEST_CASE("batches get commit times: these never go back, and never pass the durable mark of engine time") {
  Pipeline p;
  const auto time_of_next = [&p] {
    WriteBatch batch = puts({{0, "a"}});
    REQUIRE(p.pipeline.commit(batch).is_ok());
    return batch.time();
  };
  CHECK(time_of_next() == 1'000);
  p.now = 800;
  CHECK(time_of_next() == 1'000);
  p.now = 5'000;
  p.mark = 2'000;
  CHECK(time_of_next() == 2'000);
  CHECK(p.pipeline.advance_time(3'000) == 3'000);
  CHECK(p.pipeline.advance_time(2'500) == 3'000);
  CHECK(time_of_next() == 3'000);
}

TEST_CASE("many threads commit: the log has operations in the order of seqs, and visible ones are in memtables", "[threads]") {
  constexpr unsigned kThreads = 4;
  constexpr SeqNum kBatches = 2'000, kAll = kThreads * kBatches * 2;
  Pipeline p;
  p.noted = false;
  p.memtable(kFirstTree);
  std::vector<std::atomic<std::uint8_t>> inserted(kAll + 1);
  p.inserted = inserted.data();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (SeqNum i = 0; i < kBatches; ++i) {
        WriteBatch batch = puts({{0, "a"}, {0, "b"}});
        if (!p.pipeline.commit(batch).is_ok() || p.published.visible_seq() < batch.last_seq()) p.disorder = true;
      }
    });
  }
  SeqNum checked = 0;
  while (checked < kAll) {
    const SeqNum visible = p.published.visible_seq();
    for (; checked < visible; ++checked) {
      if (inserted[checked + 1].load(std::memory_order_relaxed) == 0) p.disorder = true;
    }
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(p.disorder);
  CHECK(p.log_seq == kAll);
}

}  // namespace TEST_FILE
