// Tests that work for deadlines cancels other merges and delays writes.
#include "engine/db/harness.h"

namespace ebbtide {
namespace TEST_FILE {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

/// A pool with a given number of threads, whose tasks another, manual pool runs.
class WidePool final : public BackgroundPool {
 public:
  WidePool(ManualPool& pool, unsigned width) : pool_(pool), width_(width) {}
  void submit(Priority priority, Task task) override { pool_.submit(priority, std::move(task)); }
  [[nodiscard]] unsigned width() const override { return width_; }
  bool run_one() override { return pool_.run_one(); }

 private:
  ManualPool& pool_;
  const unsigned width_;
};

/// Opens the harness's database with another pool.
void open_on(Harness& h, BackgroundPool& pool) {
  Components components;
  components.fs = h.faults.get();
  components.clock = &h.clock;
  components.background = &pool;
  components.events = &h.events;
  components.seed = 1;
  auto opened = Db::open(h.settings, components);
  demand_ok(opened.status(), "open");
  h.db = std::move(opened).value();
}

/// Returns true for reads of tables. The test uses it in a callback while merges run.
bool reads_pages(const FileCall& call) { return call.op == FileOp::kRead && call.offset != 0 && call.path.ends_with(".data"); }

constexpr Millis kDeadline = 600'000;
constexpr int kKeys = 20'000;

/// Returns settings with which a memtable has room for kKeys entries.
Settings one_flush(std::uint64_t file_size) {
  Settings settings = Harness::small();
  settings.tree.memtable_size = 8 * kMiB;
  settings.tree.file_size = file_size;
  settings.tree.delete_deadline = kDeadline;
  return settings;
}

/// Makes tables with all keys. The middle key has the value `marker`, which expires at `birth`.
void fill_around(Harness& h, const std::string& marker, Millis birth) {
  for (int i = 0; i < kKeys; ++i) {
    h.put(0, key_of(i), i == kKeys / 2 ? marker : std::string(60, '.'), i == kKeys / 2 ? birth : 0);
  }
  REQUIRE(h.db->flush(0).is_ok());
}

/// Returns the delay in ms of a write of 60 kB; 0 if it is not delayed.
std::uint32_t held_back(Harness& h) {
  WriteBatch batch;
  batch.put(0, "big", std::string(60'000, 'b'));
  std::uint32_t wait_ms = 0;
  const Status status = h.db->try_commit(batch, false, &wait_ms);
  CHECK(status.code() == (wait_ms == 0 ? Code::kOk : Code::kBusy));
  h.db->write_log();
  return wait_ms;
}

TEST_CASE("deadline comes near for a file of a running merge: the merge is cancelled, and the deadline is kept") {
  // With one thread, the tick cancels the merge. With two threads, the urgent job cancels it when it cannot start because of it.
  const unsigned width = GENERATE(1u, 2u);
  Harness h(one_flush(64 << 10));
  WidePool pool(h.pool, width);
  open_on(h, pool);
  // One value expires after the merge has begun, so the merge still writes it.
  const std::string marker = "<expires>";
  const Millis birth = h.db->now() + 1000;
  fill_around(h, marker, birth);
  h.db->pause_compactions();
  for (int run = 0; run < 3; ++run) {
    h.put(0, key_of(0), "v");
    h.put(0, key_of(kKeys - 1), "v");
    REQUIRE(h.db->flush(0).is_ok());
  }
  h.settle();
  int reads = 0;
  h.watch->on_call = [&](const FileCall& call) {
    if (!reads_pages(call) || ++reads < 8) return;
    // Half of the margin is left, 30 s, and reading each file takes 5 s of it.
    h.advance(reads == 8 ? birth + kDeadline * 19 / 20 - h.db->now() : 5000);
  };
  h.db->resume_compactions();
  while (reads == 0) REQUIRE(h.pool.run_one());
  h.watch->on_call = nullptr;
  REQUIRE(reads >= 8);
  CHECK(h.db->stats().compactions == 0);  // the merge was cancelled
  CHECK(h.db->now() < birth + kDeadline);
  h.settle();
  CHECK(h.table_bytes().find(marker) == std::string::npos);
  while (h.db->now() <= birth + kDeadline) {
    h.advance(1000);
    h.settle();
    h.db->write_log();
  }
  CHECK(h.db->stats().deadlines_missed_load == 0);
  CHECK(h.get(0, key_of(kKeys / 2)) == "(absent)");
  CHECK(h.get(0, key_of(kKeys / 2 + 1)) == std::string(60, '.'));
  h.verify(0);
  h.drop();  // the database must be destroyed before its pool
}

TEST_CASE("deadline comes near during a manual merge: the merge is cancelled, and the deadline is kept") {
  Harness h(one_flush(64 << 10));
  h.open();
  const std::string marker = "<expires>";
  const Millis birth = h.db->now() + 1000;
  fill_around(h, marker, birth);
  h.put(0, key_of(0), "v");
  h.put(0, key_of(kKeys - 1), "v");
  REQUIRE(h.db->flush(0).is_ok());
  int reads = 0;
  bool gone = false;  // true if the data is purged in time
  // Time stops at the deadline, since a merge that restarts repeatedly would never end.
  h.watch->on_call = [&](const FileCall& call) {
    if (!reads_pages(call) || ++reads < 8 || h.db->now() >= birth + kDeadline) return;
    gone |= h.table_bytes().find(marker) == std::string::npos;
    h.advance(reads == 8 ? birth + kDeadline * 19 / 20 - h.db->now() : 5000);
  };
  REQUIRE(h.db->compact(0, {}).is_ok());
  CHECK(gone);
}

TEST_CASE("deadline comes nearer during the merge for it: the merge is not cancelled") {
  Harness h(one_flush(4 * kMiB));
  h.open();
  const std::string marker = "<expires>";
  const Millis birth = h.db->now() + 1000;
  fill_around(h, marker, birth);
  h.advance(birth + kDeadline * 9 / 10 - h.db->now());  // the rewrite is queued, and not late yet
  // Half of the margin passes while the merge runs.
  h.watch->on_call = [&](const FileCall& call) {
    if (reads_pages(call)) h.advance(6000);
  };
  h.settle();
  CHECK(h.table_bytes().find(marker) == std::string::npos);
  CHECK(h.db->now() < birth + kDeadline);
}

TEST_CASE("deadline is below the least feasible one at the measured merge rate: this is logged once") {
  constexpr std::uint64_t kBytesPerMs = 32;
  Settings settings = Harness::small();
  settings.tree.memtable_size = 8 * kMiB;
  settings.tree.policy = {"one_leveling", {{"level0_runs", 16}}};
  settings.tree.delete_deadline = 600'000;
  Harness h(settings);
  h.open();
  for (const int first : {0, 1}) {
    for (int i = first; i < 8000; i += 2) h.put(0, key_of(i), std::string(120, '.'));
    REQUIRE(h.db->flush(0).is_ok());
  }
  h.advance(100);
  CHECK(h.db->stats().least_feasible_deadline == 0);  // merges that take no time have no rate
  h.watch->on_call = [&](const FileCall& call) {
    if (reads_pages(call)) h.clock.advance(call.length / kBytesPerMs);
  };
  REQUIRE(h.db->compact(0, {}).is_ok());
  h.watch->on_call = nullptr;
  h.advance(100);
  const Millis all = h.db->stats().table_live_bytes / kBytesPerMs;
  const Millis least = h.db->stats().least_feasible_deadline;
  CHECK(least > all / 2);
  CHECK(least < all * 2);
  CHECK_FALSE(h.events.heard("the delete deadline of"));

  TreeSettings shorter = settings.tree;
  shorter.delete_deadline = least / 2;
  REQUIRE(h.db->set_tree_settings(0, shorter).is_ok());
  for (int i = 0; i < 20; ++i) h.advance(100);
  const auto told = [&] {
    return std::count_if(h.events.warnings.begin(), h.events.warnings.end(),
                         [](const std::string& text) { return text.starts_with("the delete deadline of"); });
  };
  CHECK(told() == 1);
}

TEST_CASE("merges come close to missing a deadline: writes are delayed increasingly, but not stopped") {
  constexpr Millis kShort = 120'000;
  constexpr std::uint64_t kBytesPerMs = 32;  // at this rate merges read all data in about a third of the deadline
  constexpr int kFew = 8000;
  Settings settings = Harness::small();
  settings.tree.memtable_size = 8 * kMiB;
  settings.tree.file_size = 64 << 10;
  settings.tree.delete_deadline = kShort;
  settings.tree.policy = {"one_leveling", {{"level0_runs", 16}}};
  Harness h(settings);
  h.open();
  const std::string marker = "<deleted>";
  for (const int first : {0, 1}) {
    for (int i = first; i < kFew; i += 2) h.put(0, key_of(i), (i % 50 == 0 ? marker : "") + std::string(120, '.'));
    REQUIRE(h.db->flush(0).is_ok());
  }
  h.watch->on_call = [&](const FileCall& call) {
    if (reads_pages(call)) h.clock.advance(call.length / kBytesPerMs);
  };
  REQUIRE(h.db->compact(0, {}).is_ok());  // now the rate is known
  h.watch->on_call = nullptr;
  h.advance(100);
  const Millis deadline = h.db->now() + kShort;
  for (int i = 0; i < kFew; i += 50) h.del(0, key_of(i));
  REQUIRE(h.db->flush(0).is_ok());
  // Lets time pass, without a merge, until the pending work needs this part of the measured rate to be done in time.
  const auto pass_until = [&](double needed) {
    while (h.db->stats().deadline_rate_needed < needed && h.db->now() < deadline) h.advance(500);
  };
  h.advance(500);
  REQUIRE(h.db->stats().deadline_rate_needed > 0.2);
  CHECK(held_back(h) == 0);
  pass_until(0.65);
  CHECK(held_back(h) == 0);
  pass_until(0.75);
  const std::uint32_t slow = held_back(h);
  pass_until(0.8);
  const std::uint32_t slower = held_back(h);
  CHECK(slow > 0);
  CHECK(slower > slow);
  CHECK(h.db->stats().stall_micros_deadline > 0);
  CHECK_FALSE(h.db->writes_stopped());
  WriteBatch batch;
  batch.put(0, "k", "v");
  std::uint32_t wait_ms = 0;
  CHECK(h.db->try_commit(batch, true, &wait_ms).is_ok());  // the commit has waited long enough
  CHECK(h.db->stats().deadline_rate_needed < 1);           // enough time is left for the other work
  h.settle();
  h.advance(500);
  CHECK(h.db->stats().deadline_rate_needed == 0);
  CHECK(held_back(h) == 0);
  CHECK(h.table_bytes().find(marker) == std::string::npos);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
