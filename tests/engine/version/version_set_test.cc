// Tests of the manifest under damage, crashes and failing disks.
#include <algorithm>
#include <catch2/catch.hpp>

#include "base/checksum.h"
#include "base/coding.h"
#include "io/fault_fs.h"
#include "io/file_names.h"
#include "io/memory_fs.h"
#include "io/trace_fs.h"
#include "support/files.h"
#include "support/long_run.h"
#include "support/planted.h"
#include "version/manifest.h"
#include "version_samples.h"

namespace ebbtide {
namespace TEST_FILE {

using test::describe;
using test::plain_file;

const std::string kDir = "db";

/// Returns the n-th edit of a cycle: a new tree, flushes, merges, another tree for the database, and so on.
VersionEdit step(VersionSet& set, int n) {
  VersionEdit edit;
  edit.last_seq = static_cast<SeqNum>(n) * 10;
  edit.time_mark = 1000 + static_cast<Millis>(n);
  const auto current = set.databases().find(0);
  if (current == set.databases().end() || n % 7 == 6) {
    TreeEdit& tree = edit.trees.emplace_back();
    tree.tree = set.new_tree();
    tree.create = true;
    edit.databases = {{0, tree.tree}};
    if (current != set.databases().end()) {
      TreeEdit& old = edit.trees.emplace_back();
      old.tree = current->second;
      old.drop = true;
    }
    return edit;
  }
  TreeEdit& tree = edit.trees.emplace_back();
  tree.tree = current->second;
  const Version& version = *set.tree(current->second);
  const FileNum file = set.new_file();
  set.new_file();
  const RunId run = version.next_run;
  if (version.runs.size() < 2) {
    tree.added_runs = {{run, 0, 0, true}};
    tree.added_files = {{run, plain_file(file, "a", "z", static_cast<SeqNum>(n) * 10, static_cast<SeqNum>(n) * 10 + 9)}};
    tree.flushed_seq = static_cast<SeqNum>(n) * 10 + 9;
  } else {
    tree.added_runs = {{run, 1, 0}};
    for (const Run& old : version.runs) {
      for (const FileMetaPtr& f : old.files) tree.removed_files.emplace_back(old.id, f->data_file);
      tree.removed_runs.push_back(old.id);
    }
    tree.added_files = {{run, plain_file(file, "a", "z", 1, static_cast<SeqNum>(n))}};
    tree.cursors = {{1, "k" + std::to_string(n)}};
  }
  return edit;
}

std::unique_ptr<VersionSet> create(FileSystem& fs) {
  REQUIRE(fs.create_dir(kDir).is_ok());
  REQUIRE(fs.sync_dir(".").is_ok());
  auto set = VersionSet::create(fs, kDir);
  if (!set.is_ok()) FAIL(set.status().to_string());
  return std::move(set).value();
}

std::unique_ptr<VersionSet> open(FileSystem& fs) {
  auto set = VersionSet::open(fs, kDir);
  if (!set.is_ok()) FAIL(set.status().to_string());
  return std::move(set).value();
}

void live(VersionSet& set, int from, int to) {
  for (int n = from; n < to; ++n) {
    const Status status = set.commit(step(set, n));
    if (!status.is_ok()) FAIL(status.to_string());
  }
}

std::string manifest_path(const VersionSet& set) { return join_path(kDir, manifest_file_name(set.manifest_file())); }

TEST_CASE("edits were committed: open() returns the same state", "[version]") {
  MemoryFileSystem fs;
  std::string expected;
  FileNum highest = 0;
  {
    auto set = create(fs);
    CHECK(VersionSet::create(fs, kDir).status().code() == Code::kExists);
    live(*set, 0, 30);
    expected = describe(*set);
    highest = set->new_file();
    VersionEdit edit;
    REQUIRE(set->commit(edit).is_ok());  // makes the number durable
  }
  for (int round = 0; round < 3; ++round) {
    auto set = open(fs);
    CHECK(describe(*set) == expected);
    CHECK(set->torn_tail() == "");
    const FileNum next = set->new_file();
    CHECK(next > highest);
    highest = next;
    live(*set, 30 + round, 31 + round);
    expected = describe(*set);
  }
  CHECK(fs.list(kDir)->size() == 2);  // CURRENT and one manifest
}

TEST_CASE("time mark is committed with a boot mark: later manifests keep both until the next time mark", "[version]") {
  MemoryFileSystem fs;
  auto set = create(fs);
  const BootMark reached{7, 500};
  VersionEdit edit;
  edit.time_mark = 1000;
  edit.boot_mark = reached;
  REQUIRE(set->commit(edit).is_ok());
  edit = {};
  edit.last_seq = 9;
  REQUIRE(set->commit(edit).is_ok());
  REQUIRE(set->roll().is_ok());
  CHECK(set->boot_mark() == reached);
  set = open(fs);
  CHECK((set->time_mark() == 1000 && set->boot_mark() == reached));
  edit = {};
  edit.time_mark = 2000;  // the edit of a process that does not know the machine's boot
  REQUIRE(set->commit(edit).is_ok());
  CHECK(set->boot_mark() == BootMark{});
  set = open(fs);
  CHECK((set->time_mark() == 2000 && set->boot_mark() == BootMark{}));
}

TEST_CASE("CURRENT is missing: open() returns kNotFound, and create() ignores leftovers of a crash", "[version]") {
  MemoryFileSystem fs;
  REQUIRE(fs.create_dir(kDir).is_ok());
  CHECK(VersionSet::open(fs, kDir).status().code() == Code::kNotFound);
  rewrite(fs, kDir + "/MANIFEST-000001", "half");
  rewrite(fs, kDir + "/000007.data", "other");
  rewrite(fs, kDir + "/CURRENT.tmp", "half");
  auto set = VersionSet::create(fs, kDir);
  REQUIRE(set.is_ok());
  CHECK((*set)->manifest_file() == 8);
  auto names = *fs.list(kDir);
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"000007.data", "CURRENT", "MANIFEST-000008"});
}

TEST_CASE("version set is created, edited and rolled: its file operations come in the expected order", "[version]") {
  MemoryFileSystem memory;
  TraceFileSystem fs(memory);
  auto set = create(fs);
  CHECK(fs.take() ==
        "create_dir db\nsync_dir .\n"
        "create db/MANIFEST-000001\n"
        "write db/MANIFEST-000001\nwrite db/MANIFEST-000001\nsync db/MANIFEST-000001\n"
        "write db/MANIFEST-000001\nsync db/MANIFEST-000001\nsync_dir db\n"
        "create db/CURRENT.tmp\nwrite db/CURRENT.tmp\nsync db/CURRENT.tmp\n"
        "rename db/CURRENT.tmp -> db/CURRENT\nsync_dir db\n");
  live(*set, 0, 1);
  CHECK(fs.take() == "write db/MANIFEST-000001\nsync db/MANIFEST-000001\nwrite db/MANIFEST-000001\n");
  REQUIRE(set->roll().is_ok());
  CHECK(fs.take() ==
        "create db/MANIFEST-000002\n"
        "write db/MANIFEST-000002\nwrite db/MANIFEST-000002\nsync db/MANIFEST-000002\n"
        "write db/MANIFEST-000002\nsync db/MANIFEST-000002\nsync_dir db\n"
        "create db/CURRENT.tmp\nwrite db/CURRENT.tmp\nsync db/CURRENT.tmp\n"
        "rename db/CURRENT.tmp -> db/CURRENT\nsync_dir db\n"
        "unlink db/MANIFEST-000001\n");
}

TEST_CASE("edit does not fit the state: commit() refuses it and changes nothing", "[version]") {
  MemoryFileSystem memory;
  TraceFileSystem fs(memory);
  auto set = create(fs);
  live(*set, 0, 3);
  const std::string before = describe(*set);
  fs.take();
  VersionEdit bad = step(*set, 3);
  bad.trees[0].removed_files = {{99, 98}};
  CHECK(set->commit(bad).code() == Code::kCorruption);
  VersionEdit unknown;
  unknown.databases = {{0, 77}};
  CHECK(set->commit(unknown).code() == Code::kCorruption);
  VersionEdit again;
  again.trees.emplace_back().tree = 1;
  again.trees[0].create = true;
  CHECK(set->commit(again).code() == Code::kCorruption);
  CHECK(fs.take() == "");
  CHECK(describe(*set) == before);
  CHECK(set->status().is_ok());
  live(*set, 3, 4);
}

TEST_CASE("two jobs chose the same run id: their runs get different ids", "[version]") {
  MemoryFileSystem fs;
  auto set = create(fs);
  live(*set, 0, 1);
  VersionEdit first = step(*set, 1), second = step(*set, 2);
  CHECK(first.trees[0].added_runs[0].id == second.trees[0].added_runs[0].id);
  REQUIRE(set->commit(first).is_ok());
  REQUIRE(set->commit(second).is_ok());
  const Version& version = *set->tree(1);
  REQUIRE(version.runs.size() == 2);
  CHECK(version.runs[0].id > version.runs[1].id);
  CHECK(describe(*open(fs)) == describe(*set));
}

TEST_CASE("manifest has outgrown its snapshot: it is rolled", "[version]") {
  MemoryFileSystem fs;
  auto set = create(fs);
  live(*set, 0, 1);
  const FileNum first = set->manifest_file();
  std::uint64_t largest = 0;
  int rolls = 0;
  FileNum last = first;
  for (int n = 1; n < 400; ++n) {
    VersionEdit edit;
    TreeEdit& tree = edit.trees.emplace_back();
    tree.tree = 1;
    tree.cursors = {{1, std::string(50'000, static_cast<char>('a' + n % 26))}};
    REQUIRE(set->commit(edit).is_ok());
    largest = std::max(largest, set->manifest_bytes());
    rolls += set->manifest_file() != last;
    last = set->manifest_file();
  }
  CHECK(rolls >= 3);
  CHECK(largest < (std::uint64_t{5} << 20));
  CHECK(fs.list(kDir)->size() == 2);
  CHECK(describe(*open(fs)) == describe(*set));
}

// --- damage

TEST_CASE("any bit of a manifest is flipped: open() detects it, except in the seal of the last record", "[version]") {
  MemoryFileSystem fs;
  auto set = create(fs);
  live(*set, 0, 8);
  const std::string path = manifest_path(*set);
  const std::string good = *read_file(fs, path);
  const std::string expected = describe(*set);
  const std::size_t last_seal = good.size() - 12;
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      rewrite(fs, path, bad);
      const auto opened = VersionSet::open(fs, kDir);
      INFO("byte " << at << " bit " << bit);
      if (at >= last_seal) {
        // The edit was never synced, so it may be missing. The state is complete, and the damage is reported.
        REQUIRE(opened.is_ok());
        CHECK(describe(**opened) == expected);
        CHECK((*opened)->torn_tail() == "seal is damaged at " + std::to_string(last_seal));
      } else {
        REQUIRE(!opened.is_ok());
        const std::string text = opened.status().to_string();
        CHECK(opened.status().code() == Code::kCorruption);
        CHECK(text.find("MANIFEST-000001") != std::string::npos);
        CHECK(text.find(" at ") != std::string::npos);
      }
    }
  }
}

TEST_CASE("manifest is truncated: open() returns the edits before the cut, and fails if the snapshot is cut", "[version]") {
  MemoryFileSystem fs;
  auto set = create(fs);
  const std::size_t snapshot = set->manifest_bytes();
  std::vector<std::pair<std::size_t, std::string>> states{{snapshot, describe(*set)}};
  for (int n = 0; n < 8; ++n) {
    live(*set, n, n + 1);
    states.emplace_back(set->manifest_bytes() - 12, describe(*set));  // a record is complete without its seal
  }
  const std::string path = manifest_path(*set);
  const std::string good = *read_file(fs, path);
  for (std::size_t size = 0; size < good.size(); ++size) {
    rewrite(fs, path, Bytes(good).substr(0, size));
    const auto opened = VersionSet::open(fs, kDir);
    INFO("size " << size);
    if (size < snapshot) {
      CHECK(opened.status().code() == Code::kCorruption);
      continue;
    }
    REQUIRE(opened.is_ok());
    const auto state = std::find_if(states.rbegin(), states.rend(), [size](const auto& s) { return s.first <= size; });
    CHECK(describe(**opened) == state->second);
  }
}

TEST_CASE("manifest has a torn end: open() reports it, and later edits go to a new manifest", "[version]") {
  MemoryFileSystem fs;
  std::string path, expected;
  {
    auto set = create(fs);
    live(*set, 0, 5);
    path = manifest_path(*set);
    expected = describe(*set);
  }
  rewrite(fs, path, *read_file(fs, path) + std::string(700, '\0') + "garbage");
  auto set = open(fs);
  CHECK(set->torn_tail() != "");
  CHECK(describe(*set) == expected);
  CHECK(fs.exists(path));  // open writes nothing
  live(*set, 5, 6);
  CHECK(!fs.exists(path));
  CHECK(open(fs)->torn_tail() == "");
  CHECK(describe(*open(fs)) == describe(*set));
}

TEST_CASE("manifest was renamed or has a newer format, or CURRENT is bad: open fails", "[version]") {
  MemoryFileSystem fs;
  auto set = create(fs);
  live(*set, 0, 3);
  const std::string good = *read_file(fs, manifest_path(*set)), current = *read_file(fs, kDir + "/CURRENT");
  rewrite(fs, kDir + "/MANIFEST-000009", good);
  REQUIRE(write_current(fs, kDir, 9).is_ok());
  CHECK(VersionSet::open(fs, kDir).status().to_string() == "corruption: MANIFEST-000009: header at 0: checksum mismatch");
  REQUIRE(write_current(fs, kDir, 10).is_ok());
  CHECK(VersionSet::open(fs, kDir).status().to_string() ==
        "corruption: db/CURRENT: offset 0: names db/MANIFEST-000010, which does not exist");
  for (std::size_t at = 0; at < current.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = current;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      rewrite(fs, kDir + "/CURRENT", bad);
      CHECK(VersionSet::open(fs, kDir).status().code() == Code::kCorruption);
    }
    rewrite(fs, kDir + "/CURRENT", Bytes(current).substr(0, at));
    CHECK(VersionSet::open(fs, kDir).status().code() == Code::kCorruption);
  }
  rewrite(fs, kDir + "/CURRENT", current);
  std::string newer = good.substr(0, 16);
  store_fixed<std::uint32_t>(newer.data() + 4, kManifestVersion + 1);
  put_u64(&newer, block_checksum(newer, 1, 0));
  rewrite(fs, kDir + "/MANIFEST-000001", newer + good.substr(24));
  CHECK(VersionSet::open(fs, kDir).status().to_string() ==
        "unsupported: MANIFEST-000001: has format version 2; this program reads up to version 1");
}

// --- crashes

/// The disk after a power loss, and the last state that was acknowledged before it.
struct Crash {
  std::unique_ptr<MemoryFileSystem> disk;
  std::size_t acknowledged = 0;  ///< index into the states
};

constexpr int kSteps = 9, kRollAfter = 4;

/// Creates a set, commits, and rolls by hand in the middle. Adds the result of describe() after each acknowledged step to
/// `states`; state 0 is "not created". Stops at the first failure.
void whole_life(FileSystem& fs, std::vector<std::string>* states) {
  states->assign(1, "");
  if (!fs.create_dir(kDir).is_ok() || !fs.sync_dir(".").is_ok()) return;
  auto set = VersionSet::create(fs, kDir);
  if (!set.is_ok()) return;
  states->push_back(describe(**set));
  for (int n = 0; n < kSteps; ++n) {
    if (!(*set)->commit(step(**set, n)).is_ok()) return;
    states->push_back(describe(**set));
    if (n == kRollAfter && !(*set)->roll().is_ok()) return;
  }
}

/// Opens the files after a crash. The state must be the acknowledged one or the next, and further commits must succeed.
void check_recovery(MemoryFileSystem& disk, const std::vector<std::string>& states, std::size_t acknowledged) {
  auto opened = VersionSet::open(disk, kDir);
  if (opened.status().code() == Code::kNotFound) {
    demand(acknowledged == 0, "there is no CURRENT");
    REQUIRE(disk.create_dir(kDir).is_ok());
    opened = VersionSet::create(disk, kDir);
  }
  demand_ok(opened.status(), "open");
  auto& set = **opened;
  const std::string found = describe(set);
  const bool next = acknowledged + 1 < states.size() && found == states[acknowledged + 1];
  if (acknowledged > 0 && found != states[acknowledged] && !next)
    throw Finding("found\n" + found + "acknowledged\n" + states[acknowledged]);
  live(set, 100, 103);
  demand(describe(*open(disk)) == describe(set), "differs after the next open");
  demand(disk.list(kDir)->size() == 2, "leftovers stay");
}

/// Loses power before each operation of whole_life().
void crash_everywhere() {
  std::vector<std::string> states;
  std::uint64_t operations = 0;
  {
    MemoryFileSystem memory;
    FaultFileSystem fs(memory);
    whole_life(fs, &states);
    operations = fs.operations();
  }
  REQUIRE(states.size() == kSteps + 2);
  const std::vector<std::string> all = states;
  for (std::uint64_t k = 1; k <= operations; ++k) {
    for (std::uint64_t n = 0; n < 12; ++n) {
      const CrashMode mode = n == 0 ? CrashMode::kNothing : n == 1 ? CrashMode::kEverything : CrashMode::kRandom;
      const std::uint64_t seed = first_seed() + n;
      INFO("before operation " << k << " of " << operations << ", seed " << seed);
      MemoryFileSystem memory;
      FaultFileSystem fs(memory);
      std::unique_ptr<MemoryFileSystem> disk;
      std::size_t acknowledged = 0;
      fs.before_nth(k, kMutatingOps, [&] {
        disk = memory.crash_clone(seed, mode);
        acknowledged = states.size() - 1;
      });
      whole_life(fs, &states);
      REQUIRE(disk != nullptr);
      check_recovery(*disk, all, acknowledged);
    }
  }
}

TEST_CASE("power is lost before any operation: open() finds the acknowledged state or the next one", "[version]") {
  crash_everywhere();
}

TEST_CASE("planted bug does not replace CURRENT atomically: simulated power losses find the bug", "[version][planted]") {
  must_catch(PlantedBug::kReplaceInPlace, crash_everywhere);
}

TEST_CASE("planted bug unlinks a manifest before CURRENT is durable: simulated power losses find the bug", "[version][planted]") {
  must_catch(PlantedBug::kUnlinkBeforeRenameIsDurable, crash_everywhere);
}

TEST_CASE("power is lost in recovery from a power loss: open() finds the acknowledged state or the next one", "[version]") {
  MemoryFileSystem memory;
  auto set = create(memory);
  live(*set, 0, 5);
  VersionEdit pending = step(*set, 5);
  const std::string before = describe(*set);
  std::unique_ptr<MemoryFileSystem> torn;
  {
    // Power is lost in the middle of a commit.
    FaultFileSystem fs(memory);
    auto again = open(fs);
    live(*again, 5, 6);
    fs.before_nth(2, kMutatingOps, [&] { torn = memory.crash_clone(9); });
    (void)again->commit(step(*again, 6));
  }
  REQUIRE(torn != nullptr);
  const std::string start = describe(*open(*torn));
  for (std::uint64_t k = 1; k < 100; ++k) {
    for (std::uint64_t seed = first_seed(); seed < first_seed() + 8; ++seed) {
      INFO("before operation " << k << " seed " << seed);
      const auto disk = torn->crash_clone(0, CrashMode::kEverything);
      FaultFileSystem fs(*disk);
      std::unique_ptr<MemoryFileSystem> second;
      std::string acknowledged = start;
      fs.before_nth(k, kMutatingOps, [&] { second = disk->crash_clone(seed); });
      auto recovering = open(fs);
      VersionEdit edit;
      edit.time_mark = 5000;
      REQUIRE(recovering->commit(edit).is_ok());
      const std::string after = describe(*recovering);
      if (second == nullptr) return;  // there is no further operation
      const std::string found = describe(*open(*second));
      CHECK((found == start || found == after));
      live(*open(*second), 100, 102);
    }
  }
  FAIL("the operations do not end");
}

TEST_CASE("manifest write fails: the state is unchanged, and edits are refused until a roll or another open()", "[version]") {
  for (const auto effect : {FileFault::Effect::kNone, FileFault::Effect::kHalf, FileFault::Effect::kFull}) {
    for (const bool sticky : {false, true}) {
      std::uint64_t struck = 0;
      for (std::uint64_t nth = 1; nth < 60; ++nth) {
        INFO("operation " << nth << " sticky " << sticky << " effect " << static_cast<int>(effect));
        MemoryFileSystem memory;
        FaultFileSystem fs(memory);
        auto set = create(fs);
        fs.inject({.nth = nth, .sticky = sticky, .effect = effect});
        for (int n = 0; n < 8; ++n) {
          const std::string before = describe(*set);
          const Status status = n == 5 ? set->roll() : set->commit(step(*set, n));
          if (status.is_ok()) continue;
          ++struck;
          CHECK(status.code() == Code::kIoError);
          CHECK(describe(*set) == before);
          CHECK(!set->status().is_ok());
          CHECK(!set->commit(step(*set, n)).is_ok());
          fs.clear_faults();
          const auto crashed = memory.crash_clone(nth);
          // The failed edit may be on disk; the set that refused it does not have it.
          CHECK(VersionSet::open(*crashed, kDir).is_ok());
          REQUIRE(set->roll().is_ok());
          CHECK(describe(*set) == before);
          CHECK(describe(*open(*memory.crash_clone(nth, CrashMode::kNothing))) == before);
          live(*set, n, n + 1);
        }
        fs.clear_faults();
        live(*set, 20, 21);
        CHECK(describe(*open(memory)) == describe(*set));
      }
      CHECK(struck > 15);
    }
  }
}

// --- a full disk, a killed process, a forged manifest

std::vector<std::string> sorted_list(FileSystem& fs) {
  auto names = *fs.list(kDir);
  std::sort(names.begin(), names.end());
  return names;
}

TEST_CASE("rolls fail on a full disk: they leave no file behind, however often they are retried", "[version]") {
  for (const char* where : {"MANIFEST", "CURRENT.tmp"}) {
    for (const FileOp op : {FileOp::kCreate, FileOp::kWrite, FileOp::kSync, FileOp::kRename}) {
      for (const auto effect : {FileFault::Effect::kNone, FileFault::Effect::kHalf}) {
        INFO(where << " " << file_op_name(op));
        MemoryFileSystem memory;
        FaultFileSystem fs(memory);
        auto set = create(fs);
        live(*set, 0, 5);
        const std::string expected = describe(*set);
        const auto before = sorted_list(memory);
        fs.inject({.ops = ops_of(op), .sticky = true, .code = Code::kNoSpace, .path_has = where, .effect = effect});
        if (op == FileOp::kRename && where == std::string("MANIFEST")) continue;  // a roll renames no manifest
        for (int round = 0; round < 5; ++round) {
          REQUIRE(set->roll().code() == Code::kNoSpace);
          CHECK(sorted_list(memory) == before);
        }
        fs.clear_faults();
        REQUIRE(set->roll().is_ok());
        live(*set, 5, 6);
        CHECK(sorted_list(memory).size() == 2);
        CHECK(describe(*open(memory)) == describe(*set));
      }
    }
  }
}

TEST_CASE("roll replaces CURRENT but cannot sync the directory: both manifests are kept", "[version]") {
  MemoryFileSystem memory;
  FaultFileSystem fs(memory);
  auto set = create(fs);
  live(*set, 0, 5);
  const std::string expected = describe(*set);
  fs.inject({.ops = ops_of(FileOp::kSyncDir), .nth = 2});  // the first sync is for the manifest's own name
  REQUIRE(!set->roll().is_ok());
  for (std::uint64_t seed = 0; seed < 20; ++seed) CHECK(describe(*open(*memory.crash_clone(seed))) == expected);
}

TEST_CASE("process was killed during a commit: the state that open() returns is durable", "[version]") {
  MemoryFileSystem memory;
  {
    FaultFileSystem fs(memory);
    auto set = create(fs);
    live(*set, 0, 5);
    fs.inject({.ops = ops_of(FileOp::kSync), .sticky = true});  // as if killed between the write and its sync
    REQUIRE(!set->commit(step(*set, 5)).is_ok());
  }
  const std::string found = describe(*open(memory));
  CHECK(describe(*open(*memory.crash_clone(1, CrashMode::kNothing))) == found);
}

TEST_CASE("CURRENT was replaced, but not durably: after open() no power loss brings the old CURRENT back", "[version]") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    MemoryFileSystem memory;
    FileNum old = kNoFile;
    {
      FaultFileSystem fs(memory);
      auto set = create(fs);
      live(*set, 0, 5);
      old = set->manifest_file();
      fs.inject(
          {.ops = ops_of(FileOp::kSyncDir), .nth = 2});  // as if killed between CURRENT's rename and the sync of the directory
      REQUIRE(!set->roll().is_ok());
    }
    auto set = open(memory);
    REQUIRE(set->manifest_file() != old);
    REQUIRE(memory.unlink(join_path(kDir, manifest_file_name(old))).is_ok());  // removes a leftover
    const auto crashed = memory.crash_clone(seed);
    INFO("seed " << seed);
    CHECK(describe(*open(*crashed)) == describe(*set));
  }
}

/// Records the size and number of reads.
class ReadWatch final : public InterposedFileSystem {
 public:
  explicit ReadWatch(FileSystem& base) : InterposedFileSystem(base) {}
  std::uint64_t largest = 0, reads = 0;

 private:
  Status around(const FileCall& call, const Run& run) override {
    if (call.op == FileOp::kRead) {
      largest = std::max(largest, call.length);
      ++reads;
    }
    return run(call.length);
  }
};

std::string header_of(FileNum file) {
  std::string out;
  put_u32(&out, kManifestMagic);
  put_u32(&out, kManifestVersion);
  put_u64(&out, file);
  put_u64(&out, block_checksum(out, file, 0));
  return out;
}

std::string record_of(FileNum file, std::uint64_t offset, Bytes payload) {
  std::string out;
  put_u32(&out, static_cast<std::uint32_t>(payload.size()));
  BlockChecksummer checksum(file, offset);
  checksum.update(out);
  checksum.update(payload);
  put_u64(&out, checksum.digest());
  return out.append(payload);
}

std::string seal_of(FileNum file, std::uint64_t offset) {
  std::string out = "SEAL";
  put_u64(&out, block_checksum(out, file, offset));
  return out;
}

TEST_CASE("manifest record has an invalid length: its checksum is verified before memory is allocated for it", "[version]") {
  MemoryFileSystem memory;
  REQUIRE(memory.create_dir(kDir).is_ok());
  std::string bytes = header_of(1);
  put_u32(&bytes, 60u << 20);
  put_u64(&bytes, 7);
  rewrite(memory, kDir + "/MANIFEST-000001", bytes);
  REQUIRE(memory.truncate(kDir + "/MANIFEST-000001", std::uint64_t{64} << 20).is_ok());
  ReadWatch fs(memory);
  const auto end = read_manifest(fs, kDir, 1, [](Bytes, std::uint64_t) { return Status::ok(); });
  CHECK(end.status().to_string() == "corruption: MANIFEST-000001: record checksum mismatch at 24");
  CHECK(fs.largest <= (std::uint64_t{1} << 20));
}

TEST_CASE("manifest has records without seals: open reads the file once, not once for each record", "[version]") {
  MemoryFileSystem memory;
  REQUIRE(memory.create_dir(kDir).is_ok());
  std::string bytes = header_of(1);
  bytes += record_of(1, bytes.size(), "");
  bytes += seal_of(1, bytes.size());
  for (int i = 0; i < 100'000; ++i) {
    bytes += record_of(1, bytes.size(), "");
    bytes += "SEALSEALSEAL";  // as if the last record were torn
  }
  rewrite(memory, kDir + "/MANIFEST-000001", bytes);
  ReadWatch fs(memory);
  std::uint64_t records = 0;
  const auto end = read_manifest(fs, kDir, 1, [&](Bytes, std::uint64_t) {
    ++records;
    return Status::ok();
  });
  REQUIRE(end.is_ok());
  CHECK(records == 100'001);
  CHECK(end->torn != "");
  CHECK(fs.reads < 100);
}

TEST_CASE("file name has a number past the maximum: the file is ignored, and at the maximum open() fails", "[version]") {
  MemoryFileSystem fs;
  {
    auto set = create(fs);
    live(*set, 0, 2);
  }
  rewrite(fs, kDir + "/18446744073709551615.data", "");  // not a name of the engine's, since the number is past kMaxFileNum
  {
    auto set = open(fs);
    const FileNum next = set->new_file();
    CHECK(next < 100);
    live(*set, 2, 3);
  }
  rewrite(fs, kDir + "/" + data_file_name(kMaxFileNum), "");
  const Status status = VersionSet::open(fs, kDir).status();
  CHECK(status.code() == Code::kCorruption);
  CHECK(status.to_string().find(data_file_name(kMaxFileNum)) != std::string::npos);
}

TEST_CASE("many edits are read and applied at once: the result equals that of edits applied one by one", "[version]") {
  MemoryFileSystem fs;
  auto set = create(fs);
  std::vector<VersionEdit> edits;
  for (int n = 0; n < 60; ++n) {
    VersionEdit edit = step(*set, n);
    edit.next_file = std::max<FileNum>(set->new_file() + 1, 1);
    edit.next_tree = 100;
    edits.push_back(edit);
    REQUIRE(set->commit(edit).is_ok());
  }
  VersionState one_by_one;
  StateBuilder together;
  for (const VersionEdit& edit : edits) {
    auto next = apply(one_by_one, edit);
    REQUIRE(next.is_ok());
    one_by_one = std::move(next).value();
    REQUIRE(together.add(edit).is_ok());
  }
  auto finished = together.finish();
  REQUIRE(finished.is_ok());
  CHECK(snapshot(*finished) == snapshot(one_by_one));
}

TEST_CASE("tree breaks its invariants after all edits: open fails, and the error names run and files", "[version]") {
  MemoryFileSystem memory;
  REQUIRE(memory.create_dir(kDir).is_ok());
  VersionEdit edit;
  edit.next_file = 100;
  edit.next_tree = 2;
  TreeEdit& tree = edit.trees.emplace_back();
  tree.tree = 1;
  tree.create = true;
  tree.added_runs = {{1, 1, 0}};
  tree.added_files = {{1, plain_file(2, "a", "m")}, {1, plain_file(4, "g", "z")}};
  std::string payload, bytes = header_of(1);
  edit.encode(&payload);
  bytes += record_of(1, bytes.size(), payload);
  bytes += seal_of(1, bytes.size());
  rewrite(memory, kDir + "/MANIFEST-000001", bytes);
  REQUIRE(write_current(memory, kDir, 1).is_ok());
  CHECK(VersionSet::open(memory, kDir).status().to_string() ==
        "corruption: MANIFEST-000001: after the record at 24: tree 1: run 1: file 2 and file 4 overlap or are out of order");
}

}  // namespace TEST_FILE
}  // namespace ebbtide
