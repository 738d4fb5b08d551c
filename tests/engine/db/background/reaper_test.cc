// Tests of when trees are searched for dead headers, what is written about them, and when the progress moves on.
#include "db/background/reaper.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <engine/collection_keys.h>
#include "base/hash.h"
#include "db/read/view_parts.h"
#include "engine/db/trees/registry_env.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

constexpr DatabaseId kDatabase = 2;
constexpr Millis kDeadline = 64'000;  // a search is due every second

// One tree, whose memtable has headers. Work that is submitted runs when the test calls run().
struct Bed {
  SimulatedClock clock;
  Epoch epoch;
  Millis now = 1'000'000;
  SeqNum seq = 0;
  const std::shared_ptr<MemoryAccount> account = std::make_shared<MemoryAccount>();
  ReadEnv reads{.epoch = epoch, .memory = *account, .first_stamp_mode = [](DatabaseId) { return StampMode::kWriteTime; }};
  LeaseRegistry leases;
  TreeRegistry trees{registry_env(clock, epoch, now, [this] { return seq; }), databases_of(4, 1 << 20)};
  TreePtr tree;

  bool writable = true;
  Status sync_status, commit_status;
  std::vector<std::function<void()>> submitted;
  std::vector<WriteBatch> commits;
  std::vector<SeqNum> synced;
  std::vector<TreeId> progressed;
  std::vector<std::string> log;

  Reaper reaper{{.trees = &trees,
                 .now = [this] { return now; },
                 .fence = [this] { return now; },
                 .lease =
                     [this](const TreePtr& of, DatabaseId database, Millis at) {
                       auto lease = trees.lease(
                           of, leases, [this] { return seq; }, [this] { return now; });
                       return lease == nullptr ? ReadView() : ViewParts::leased_view(reads, database, std::move(lease), at);
                     },
                 .commit = [this](WriteBatch& batch) { return commit(batch); },
                 .wait_synced =
                     [this](SeqNum up_to) {
                       synced.push_back(up_to);
                       return sync_status;
                     },
                 .progressed = [this](const TreePtr& of) { progressed.push_back(of->id); },
                 .submit = [this](std::function<void()> work) { submitted.push_back(std::move(work)); },
                 .writable = [this] { return writable; },
                 .log = [this](Severity, const std::string& text) { log.push_back(text); }}};

  Bed() {
    reads.values = std::make_shared<LargeValues>(account, [] {});
    MutexLock lock(trees.commit_mutex);
    tree = trees.make(1, kDatabase, StampMode::kWriteTime);
    trees.map(kDatabase, tree);
    trees.settle();
  }
  void put_header(const std::string& key, Generation generation, Millis expiry) {
    const std::string value = header_start(1, 0, generation);
    Entry entry;
    entry.key = key;
    entry.seq = ++seq;
    entry.kind = EntryKind::kHeader;
    entry.value = value;
    entry.expiry = expiry;
    MutexLock lock(trees.commit_mutex);
    tree->active->insert({key, hash_key(key)}, entry);
    trees.mark_active(1, seq, seq);
  }
  Status commit(WriteBatch& batch) {
    if (!commit_status.is_ok()) return commit_status;
    batch.set_header(seq + 1, now, 0);
    seq = batch.last_seq();
    commits.push_back(batch);
    return Status::ok();
  }
  void tick(Millis shortest_deadline = kDeadline) {
    std::vector<TreeLoad> loads = trees.loads([](TreeId) { return false; });
    for (TreeLoad& load : loads) load.shortest_deadline = shortest_deadline;
    reaper.tick(loads);
  }
  void run() {
    for (const auto& work : std::exchange(submitted, {})) work();
  }
  void search() {
    tick();
    run();
  }
  // Returns whether a search begins after this time, with a search before.
  bool due_after(Millis ms, Millis shortest_deadline = kDeadline) {
    now += ms;
    tick(shortest_deadline);
    return !submitted.empty();
  }
};

TEST_CASE("collection has expired: the reaper commits and syncs a range tombstone over its elements, born at the expiry") {
  Bed bed;
  bed.put_header("c1", 11, bed.now - 500);
  bed.put_header("c2", 12, bed.now + 500);
  bed.search();
  REQUIRE(bed.commits.size() == 1);
  const WriteBatch& batch = bed.commits.front();
  CHECK((batch.count() == 1 && batch.relied_tree() == 1));
  std::size_t cursor = 0;
  WriteBatch::Op op;
  REQUIRE(batch.next_op(&cursor, &op));
  const KeyRange elements = element_range("c1", 11);
  CHECK((op.kind == OpKind::kRangeTombstone && op.tree == kDatabase && op.birth == bed.now - 500));
  CHECK((op.key == elements.start && op.end == elements.end));
  CHECK(bed.synced == std::vector<SeqNum>{batch.last_seq()});
  CHECK(bed.tree->reaped() == Reaped{bed.now, 2});
  CHECK(bed.progressed == std::vector<TreeId>{1});
}

TEST_CASE("no collection has died: the reaper writes and syncs nothing, and its progress advances") {
  Bed bed;
  bed.put_header("c", 11, bed.now + 500);
  bed.search();
  CHECK((bed.commits.empty() && bed.synced.empty() && bed.progressed.empty()));
  CHECK(bed.tree->reaped() == Reaped{bed.now, 1});
}

TEST_CASE("header that may have died is overwritten: the new entry is synced before the reaper's progress advances") {
  Bed bed;
  bed.put_header("c", 11, bed.now - 500);
  bed.put_header("c", 12, 0);
  bed.search();
  CHECK(bed.commits.empty());
  CHECK(bed.synced == std::vector<SeqNum>{2});
  CHECK(bed.progressed == std::vector<TreeId>{1});
}

TEST_CASE("many collections have died: the reaper commits tombstones in batches of 256, and syncs the last batch") {
  Bed bed;
  for (int i = 0; i < 600; ++i) bed.put_header("c" + std::to_string(i), 1, bed.now - 500);
  bed.search();
  REQUIRE(bed.commits.size() == 3);
  CHECK((bed.commits[0].count() == 256 && bed.commits[1].count() == 256 && bed.commits[2].count() == 88));
  CHECK(bed.synced == std::vector<SeqNum>{1200});
}

TEST_CASE("commit or sync of the reaper fails: its progress does not advance, and it retries after a second") {
  const bool commit = GENERATE(true, false);
  Bed bed;
  bed.put_header("c", 11, bed.now - 500);
  (commit ? bed.commit_status : bed.sync_status) = Status::io_error("the disk failed");
  bed.search();
  CHECK(bed.tree->reaped() == Reaped{});
  CHECK(bed.progressed.empty());
  REQUIRE(bed.log.size() == 1);
  CHECK(bed.log.front().find("the disk failed") != std::string::npos);
  CHECK_FALSE(bed.due_after(999));
  REQUIRE(bed.due_after(1));
  bed.run();
  CHECK(bed.log.size() == 1);
  bed.commit_status = bed.sync_status = Status::ok();
  REQUIRE(bed.due_after(1000));
  bed.run();
  CHECK(bed.tree->reaped().expiry == bed.now);
  CHECK(bed.progressed == std::vector<TreeId>{1});
}

TEST_CASE("commit returns kRetry, or the lease is revoked: the reaper searches again after 100 ms, and logs nothing") {
  const Status moved = GENERATE(Status::retry(), Status::revoked("revoked"));
  Bed bed;
  bed.put_header("c", 11, bed.now - 500);
  bed.commit_status = moved;
  bed.search();
  CHECK((bed.log.empty() && bed.tree->reaped() == Reaped{}));
  CHECK_FALSE(bed.due_after(99));
  CHECK(bed.due_after(1));
}

TEST_CASE("deadline is set: the reaper searches every 64th of the shortest deadline, between 100 ms and a minute") {
  const auto [deadline, pause] =
      GENERATE(table<Millis, Millis>({{64'000, 1'000}, {0, 60'000}, {100, 100}, {99'999'999, 60'000}}));
  Bed bed;
  bed.put_header("c", 11, bed.now + 99'999'999);
  REQUIRE(bed.due_after(0, deadline));
  bed.run();
  CHECK_FALSE(bed.due_after(pause - 1, deadline));
  CHECK(bed.due_after(1, deadline));
}

TEST_CASE("reaper searches a tree: no second search of the tree begins, but hurry() makes the next one due at once") {
  Bed bed;
  bed.put_header("c", 11, bed.now + 99'999'999);
  bed.tick();
  const auto running = std::exchange(bed.submitted, {});
  CHECK_FALSE(bed.due_after(100'000));
  running.front()();
  CHECK_FALSE(bed.due_after(1));
  bed.reaper.hurry();
  CHECK(bed.due_after(0));
}

TEST_CASE("tree has no header, or the database is read-only: the reaper does not search the tree") {
  Bed bed;
  CHECK_FALSE(bed.due_after(0));
  bed.put_header("c", 11, bed.now - 500);
  bed.writable = false;
  CHECK_FALSE(bed.due_after(0));
  bed.writable = true;
  CHECK(bed.due_after(0));
}

TEST_CASE("database closes during a search: the search ends before the next tombstone, and logs nothing") {
  Bed bed;
  bed.put_header("c", 11, bed.now - 500);
  bed.tick();
  bed.writable = false;
  bed.run();
  CHECK((bed.commits.empty() && bed.log.empty() && bed.tree->reaped() == Reaped{}));
}

TEST_CASE("tree is dropped before the reaper searches it: the reaper writes nothing for it") {
  const bool mapped = GENERATE(false, true);  // true: the tree is retired, but the database still maps to it
  Bed bed;
  bed.put_header("c", 11, bed.now - 500);
  bed.tick();
  {
    MutexLock lock(bed.trees.commit_mutex);
    if (!mapped) bed.trees.map(kDatabase, nullptr);
    bed.trees.drop(bed.tree, bed.now);
  }
  if (mapped) bed.trees.retire(bed.tree);
  bed.run();
  CHECK((bed.commits.empty() && bed.log.empty()));
}

}  // namespace TEST_FILE
