// Tests that memtables which keep the log's oldest segment, or which have too much memory, are frozen and flushed.
#include <catch2/catch.hpp>

#include <memory>
#include <string>
#include <vector>

#include "db/write/memtable_relief.h"
#include "engine/db/trees/registry_env.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20, kMemTableBytes = 64 << 10;

struct Bed {
  SimulatedClock clock;
  Epoch epoch;
  SeqNum last_seq = 0;
  std::uint64_t log_bytes = 0, piece_bytes = 0;
  std::vector<SeqNum> given_up;
  std::vector<TreeId> hurried;
  std::shared_ptr<MemoryAccount> account = std::make_shared<MemoryAccount>();
  MemoryBudget budget{
      {.account = account, .clock = &clock, .set_cache_capacity = [](std::uint64_t) {}, .flushes_fail = [] { return false; }},
      kMiB};
  TreeRegistry trees{registry_env(clock, epoch, Millis{1000}, [this] { return last_seq; }), databases_of(4, kMemTableBytes)};
  MemTableRelief relief{
      {.trees = &trees,
       .budget = &budget,
       .most_log_bytes = [] { return std::uint64_t{1000}; },
       .empty_memtable_bytes = [] { return MemTable(kMemTableBytes).memory_bytes(); },
       .log_bytes = [this] { return log_bytes; },
       .pending_piece_bytes = [this] { return piece_bytes; },
       .give_up_pieces_before = [this](SeqNum seq) { given_up.push_back(seq); },
       .oldest_needed = [](SeqNum seq) { return static_cast<FileNum>(seq / 10); },  // each segment has ten operations
       .hurry = [this](const TreePtr& tree) { hurried.push_back(tree->id); }}};

  TreePtr make(TreeId id, SeqNum first) {
    MutexLock lock(trees.commit_mutex);
    TreePtr tree = trees.make(id, static_cast<DatabaseId>(id), StampMode::kWriteTime);
    tree->active->insert_range({"a", "b", first, 1000});
    trees.mark_active(id, first, first);
    last_seq = std::max(last_seq, first);
    return tree;
  }
  void freeze(Tree& tree) {
    MutexLock lock(trees.commit_mutex);
    trees.freeze(tree);
  }
};

TEST_CASE("log is within its limit: no memtable is flushed") {
  Bed bed;
  bed.make(1, 5);
  bed.log_bytes = 1000;
  bed.relief.relieve_log();
  CHECK((bed.hurried.empty() && bed.given_up.empty()));
}

TEST_CASE("log exceeds its limit: all memtables that keep its oldest segment are flushed") {
  Bed bed;
  const TreePtr a = bed.make(1, 15), b = bed.make(2, 11), c = bed.make(3, 20);
  bed.log_bytes = 1001;
  bed.relief.relieve_log();
  CHECK(bed.hurried == std::vector<TreeId>{1, 2});
  CHECK((a->frozen.size() == 1 && b->frozen.size() == 1 && c->frozen.empty()));
  CHECK(bed.given_up == std::vector<SeqNum>{11});  // batches that began before all memtables
}

TEST_CASE("only pieces of staged batches make the log exceed its limit: no staged batch loses its pieces in the log") {
  Bed bed;
  bed.log_bytes = 1500;
  bed.piece_bytes = 600;
  bed.relief.relieve_log();
  CHECK(bed.given_up.empty());
  bed.piece_bytes = 400;
  bed.relief.relieve_log();
  CHECK(bed.given_up.size() == 1);
}

TEST_CASE("frozen memtable keeps the oldest segment: it is flushed, and no other is frozen meanwhile") {
  Bed bed;
  const TreePtr a = bed.make(1, 5), b = bed.make(2, 8);
  bed.freeze(*a);
  bed.log_bytes = 2000;
  bed.relief.relieve_log();
  CHECK(bed.hurried == std::vector<TreeId>{1});
  CHECK(b->frozen.empty());
}

TEST_CASE("memtables exceed the memory budget: the chosen ones are frozen and flushed") {
  Bed bed;
  const TreePtr a = bed.make(1, 1), b = bed.make(2, 2);
  bed.relief.relieve_memory();
  CHECK(bed.hurried.empty());
  for (SeqNum seq = 10; a->active->memory_bytes() < 2 * kMiB; ++seq)
    a->active->insert_range({std::string(1000, 'a') + std::to_string(seq), "b", seq, 1000});
  bed.relief.relieve_memory();
  CHECK(bed.hurried == std::vector<TreeId>{1});
  CHECK((a->frozen.size() == 1 && b->frozen.empty()));
}

}  // namespace TEST_FILE
