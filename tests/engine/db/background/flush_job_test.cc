// Tests that frozen memtables become tables, and that the edit describes them.
#include <catch2/catch.hpp>

#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "db/background/flush_job.h"
#include "engine/db/background/installer_env.h"
#include "engine/db/background/tables.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

constexpr std::uint64_t kMemTableBytes = 64 << 10;

struct Bed {
  TreeFixture files{1};
  RemovalsFileSystem removals{files.fs, "db"};
  PurgeLedger ledger{removals, "db"};
  Mutex state_mutex;
  SimulatedClock clock;
  ObsoleteSink sink = [](const ObsoleteFiles&) {};
  std::vector<SeqNum> awaited;
  SeqNum last = 0;
  TreePtr tree = std::make_shared<Tree>(clock);
  TableInstaller installer{
      installer_env(files.fs, &sink, ledger, state_mutex, files.env.new_file, [this](TreeId) { return files.version; })};
  FlushJob job{{.state_mutex = &state_mutex,
                .installer = &installer,
                .empty_memtable_bytes = [] { return MemTable(kMemTableBytes).memory_bytes(); },
                .await_visible = [this](SeqNum seq) { awaited.push_back(seq); },
                .visible_seq = [this] { return last; },
                .settings = [this](const Tree&) { return files.context.settings; },
                .filters = [](const Tree&, const TablesView&, std::uint64_t) { return std::map<RunId, std::vector<double>>{}; }}};
  BuiltFlush built;

  explicit Bed(const std::string& policy = "") {
    tree->id = 1;
    files.context.settings.memtable_size = kMemTableBytes;
    PolicySettings settings;
    if (!policy.empty()) settings.name = policy;
    tree->policy = make_policy(settings).value();
    auto view = std::make_shared<TreeView>();
    view->tables = open_tables(files, &sink);
    tree->view_owner = view;
  }
  void freeze(std::size_t keys) {
    auto memtable = std::make_shared<MemTable>(kMemTableBytes);
    const SeqNum first = last + 1;
    for (std::size_t i = 0; i < keys; ++i) {
      const std::string key = "k" + std::to_string(1000 + i), value(800, 'v');
      Entry e;
      e.key = key;
      e.seq = ++last;
      e.value = value;
      memtable->insert({e.key, hash_key(e.key)}, e);
    }
    tree->frozen.push_back({std::move(memtable), first, last});
  }
  [[nodiscard]] const TreeEdit& edit() const { return built.edit.trees.at(0); }
};

TEST_CASE("several memtables are flushed: they become one run, and the edit requires the log up to their last seq") {
  Bed bed;
  bed.freeze(10);
  bed.freeze(20);
  REQUIRE(bed.job.build(bed.tree, 99, 1000, &bed.built).is_ok());
  REQUIRE(bed.built.of.size() == 1);
  CHECK((bed.built.of[0].memtables == 2 && bed.built.relies_on == 30));
  CHECK(bed.edit().added_runs.size() == 1);
  std::uint64_t entries = 0;
  for (const FileMeta& file : bed.built.of[0].outputs) entries += file.stats.entries;
  CHECK(entries == 20);  // the older memtable's versions are hidden
  CHECK(bed.awaited == std::vector<SeqNum>{30});
  CHECK((bed.job.flushes() == 1 && bed.job.bytes_written() != 0));
  for (const FileMeta& file : bed.built.of[0].outputs) CHECK(bed.built.opened.count(file.metadata_file) == 1);
}

TEST_CASE("number of memtables per flush is limited: the oldest are flushed, and several trees share one edit") {
  Bed bed;
  bed.freeze(10);
  bed.freeze(20);
  REQUIRE(bed.job.build(bed.tree, 1, 1000, &bed.built).is_ok());
  CHECK((bed.built.of[0].memtables == 1 && bed.built.relies_on == 10));
  auto other = std::make_shared<Tree>(bed.clock);
  other->id = 2;
  other->policy = bed.tree->policy;
  other->view_owner = bed.tree->view_owner;
  other->frozen = {bed.tree->frozen.back()};
  REQUIRE(bed.job.build(other, 1, 1000, &bed.built).is_ok());
  CHECK((bed.built.of.size() == 2 && bed.built.edit.trees.size() == 2 && bed.built.relies_on == 30));
}

TEST_CASE("tree has no frozen memtables, or was dropped: the flush writes no table") {
  Bed bed;
  CHECK(bed.job.build(bed.tree, 99, 1000, &bed.built).is_ok());
  bed.freeze(10);
  bed.tree->view_owner = nullptr;
  CHECK(bed.job.build(bed.tree, 99, 1000, &bed.built).is_ok());
  CHECK((bed.built.of.empty() && bed.built.edit.trees.empty() && bed.job.flushes() == 0));
}

TEST_CASE("write of a flush fails: the job returns the error and leaves nothing to install") {
  Bed bed;
  bed.freeze(10);
  bed.files.fs.inject({.ops = ops_of(FileOp::kSync)});
  CHECK_FALSE(bed.job.build(bed.tree, 99, 1000, &bed.built).is_ok());
  CHECK((bed.built.of.empty() && bed.built.relies_on == 0));
}

TEST_CASE("memtable is below, just above or far above the memtable size: it counts as a part of one, one or several") {
  const std::uint64_t empty = MemTable(kMemTableBytes).memory_bytes(), room = kMemTableBytes - empty;
  Bed bed;
  const auto full = [&](std::size_t keys) {
    bed.tree->frozen.clear();
    bed.freeze(keys);
    return full_memtables(bed.tree->frozen, kMemTableBytes, empty);
  };
  CHECK(full(0) == 0);
  const double half = full(room / 2 / 850);
  CHECK((half > 0.3 && half < 0.8));
  CHECK(full(room / 700) == 1);
  CHECK(full(4 * room / 800) > 3);
  bed.freeze(room / 700);
  CHECK(full_memtables(bed.tree->frozen, kMemTableBytes, empty) > 4);
  CHECK(full_memtables(bed.tree->frozen, empty, empty) == 0);
}

}  // namespace TEST_FILE
