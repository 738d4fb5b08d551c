// Tests of a merge policy that changes while its tree is in use. For any shape and running merge of the old policy, reads equal
// those of a map, and deleted keys stay deleted. Ordinary merges bring the tree within the new policy's bounds, and a power loss
// loses nothing. fade_test.cc tests deadlines during such changes, concurrency_test.cc tests them with threads.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/db/layouts.h"
#include "engine/db/model.h"
#include "support/long_run.h"

namespace TEST_FILE {

using namespace ebbtide;

Settings settings_of(const Layout& layout) {
  Settings s = Harness::small();
  s.tree.memtable_size = 16 << 10;
  s.wal_segment_size = 64 << 10;
  s.tree.file_size = 64 << 10;
  layout.set(&s.tree);
  return s;
}

/// Returns the largest number of runs of a level, or of a whole stack, in a tree at rest. This is written independently of the
/// policies' own bounds.
double most_runs(const PolicySettings& policy, int level) {
  const auto& p = policy.parameters;
  if (p.contains("k")) return p.at("k");
  if (p.contains("runs")) return p.at("runs");
  if (policy.name == "tiering" || policy.name == "lazy_leveling") return p.at("size_ratio") - 1;
  if (level > 0) return 1;
  return p.contains("level0_runs") ? p.at("level0_runs") - 1 : 0;
}

/// A database whose tree changes its policy, with a model and open views.
class Moving {
 public:
  Moving(const Settings& settings, std::uint64_t seed) : h(settings), random_(seed) { h.open(); }

  /// Makes puts, deletes and a few range deletes over all keys.
  void write(int count) {
    for (int i = 0; i < count; ++i) {
      const std::uint64_t at = random_.uniform(kKeys), dice = random_.uniform(100);
      WriteBatch batch;
      Model::Op op{};
      op.key = key_of(at);
      if (dice < 70) {
        op.kind = Model::Op::kPut;
        op.value.bytes = std::to_string(random_.next()) + std::string(random_.uniform(300), 'v');
        batch.put(0, op.key, op.value.bytes);
      } else if (dice < 99) {
        op.kind = Model::Op::kDel;
        batch.del(0, op.key);
      } else {
        op.kind = Model::Op::kRange;
        op.end = key_of(at + 10);
        batch.delete_range(0, op.key, op.end);
      }
      h.write(batch);
      model_.apply(Model::Batch{batch.first_seq(), batch.last_seq(), {op}});
    }
  }
  /// Makes a tree within the policy's bounds and five more runs, so that any policy has to merge. Compactions are paused from
  /// then on.
  void fill(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      write(60);
      h.settle();
    }
    h.db->pause_compactions();
    for (int run = 0; run < 5; ++run) {
      write(30);
      demand_ok(h.db->flush(0), "flush");
    }
    demand(h.db->tree_info(0)->runs.size() > 5, "there is nothing to merge");
  }
  /// Changes the policy as TREE.POLICY does.
  void set_policy(const PolicySettings& policy) {
    h.settings.tree.policy = policy;
    demand_ok(h.db->reconfigure(h.settings), "new settings");
  }
  void open_view() { views_.push_back({h.db->lease(0), expected()}); }
  void close_views() { views_.clear(); }

  /// Checks a walk and gets of the current state and of every open view.
  void check() {
    demand(walk(h.db->lease(0)) == expected(), "a walk sees other keys or values than the model has");
    for (const View& open : views_) demand(walk(open.view) == open.then, "an open view sees other keys or values than at first");
    for (std::uint64_t i = random_.uniform(kEach); i < kKeys; i += kEach) {
      const std::string key = key_of(i);
      demand_same(h.get(0, key), model_.get(0, key, h.db->now()), key);
      for (const View& open : views_) {
        Found found;
        const Status status = open.view.get({key, hash_key(key)}, &found);
        demand(status.is_ok() || status.is_not_found(), "a get of an open view fails");
        const auto then = open.then.find(key);
        demand_same(status.is_ok() ? std::string(found.value) : "(absent)", then == open.then.end() ? "(absent)" : then->second,
                    key + " in an open view");
      }
    }
  }
  /// Checks the state after a crash and an open: synced writes are there, and the state is the result of a prefix of all writes.
  void check_recovered(SeqNum promised) {
    const SeqNum recovered = h.db->visible_seq();
    demand(recovered >= promised, "what was durable is lost");
    demand(model_.rewind(recovered), "what was recovered ends in the middle of a batch");
    check();
  }
  /// Checks that the tree at rest is within the policy's bounds: no merge is pending, verify found no fault, and no level has too
  /// many runs.
  void check_bounds_of(const PolicySettings& policy) const {
    h.verify(0);
    const TreeInfo info = *h.db->tree_info(0);
    demand_same(info.policy, policy.name, "the policy");
    demand(info.pending_compaction_bytes == 0, "merges are still pending");
    std::map<int, double> runs;  // runs of each level; a stack counts as one level, even if another policy left runs on several
    for (const RunInfo& run : info.runs) ++runs[policy.parameters.contains("k") ? 0 : run.level];
    for (const auto& [level, count] : runs) demand(count <= most_runs(policy, level), "a level, or the stack, has too many runs");
  }

  Harness h;

 private:
  static constexpr std::uint64_t kKeys = 800, kEach = 16;
  using Contents = std::map<std::string, std::string>;
  struct View {
    ReadView view;
    Contents then;
  };

  [[nodiscard]] Contents expected() const {
    Contents out;
    for (const auto& [key, value] : model_.map(0)) out.emplace(key, value.bytes);
    return out;
  }
  [[nodiscard]] Contents walk(const ReadView& view) const {
    Contents out;
    const auto it = h.db->iterate(view, {});
    for (it->seek_to_first(); it->valid(); it->next()) out.emplace(it->key(), it->value());
    demand_ok(it->status(), "walk");
    return out;
  }

  Model model_{1};
  Random random_;
  std::vector<View> views_;
};

TEST_CASE("policy changes over a deep tree: reads stay correct, and the tree ends within the new bounds", "[policies]") {
  int deep = 0;
  const std::uint64_t policies = small_policies().size(), first = 2 * policies * round_of_seeds();
  for (std::uint64_t turn = first; turn < first + 2 * policies; ++turn) {
    const bool under_way = turn >= first + policies;  // a merge of the old policy is running
    const Layout layout = layout_of(turn);
    const PolicySettings& next = next_policy(turn);
    INFO(text_of(layout) << ", then " << next.name << (under_way ? ", while a merge is under way" : ""));
    Moving m(settings_of(layout), first_seed() + turn - first);
    m.fill(25);
    deep += m.h.db->tree_info(0)->runs.back().level >= 2 ? 1 : 0;
    m.open_view();
    if (under_way) {
      m.h.db->resume_compactions();
      REQUIRE(m.h.pool.queued() != 0);
    }
    m.set_policy(next);
    m.check();
    if (!under_way) m.h.db->resume_compactions();
    for (int left = 10; m.h.pool.run_one(); --left) {
      if (left > 0) m.write(4);
      m.check();
    }
    m.check_bounds_of(next);
    // Writes continue meanwhile, with merges of all levels.
    m.open_view();
    for (int i = 0; i < 6; ++i) {
      m.write(60);
      m.h.settle();
    }
    m.check();
    m.check_bounds_of(next);
    m.close_views();
    m.h.reopen();
    m.check();
  }
  CHECK(deep >= 4);  // at least twice for policies with small levels
}

TEST_CASE("policy of a tree without writes changes: its runs are merged into the shape of the new policy", "[policies]") {
  const Layout wide{{"concurrent", {{"k", 30}, {"min_merge", 8}}}, Partitioning::kSize};
  for (const PolicySettings& next : small_policies()) {
    INFO(next.name);
    Moving m(settings_of(wide), first_seed());
    for (int run = 0; run < 6; ++run) {
      m.write(40);
      REQUIRE(m.h.db->flush(0).is_ok());
      m.h.settle();
    }
    REQUIRE(m.h.db->tree_info(0)->runs.size() >= 6);  // more than any other policy allows
    m.set_policy(next);
    m.h.advance(1000);
    m.h.settle();
    m.check_bounds_of(next);
    m.check();
  }
}

/// Power is lost before the k-th mutating operation after a change of policy. Returns false if the tree needs fewer operations to
/// adopt the policy. In every second cycle the database opens with the old policy, as after a TREE.POLICY that was not stored.
bool crash_while_moving(std::uint64_t k, std::uint64_t turn) {
  const std::uint64_t around = turn / small_policies().size();
  std::unique_ptr<MemoryFileSystem> left;
  SeqNum promised = 0;
  bool armed = true;
  Settings settings = settings_of(layout_of(turn));
  settings.fsync = FsyncMode::kAlways;
  Moving m(settings, first_seed() + 5);
  m.fill(8);
  m.h.db->resume_compactions();  // a merge of the old policy comes first
  m.set_policy(next_policy(turn));
  m.h.faults->before_nth(k, kMutatingOps, [&] {
    if (!armed) return;
    left = m.h.files->crash_clone(k, static_cast<CrashMode>((turn + around) % 3));
    promised = m.h.db->durable_seq();
  });
  for (int i = 0; i < 3 && left == nullptr; ++i) {
    m.write(4);
    m.h.settle();
  }
  armed = false;
  if (left == nullptr) return false;
  m.h.settings.tree.policy = around % 2 == 0 ? next_policy(turn) : layout_of(turn).policy;
  m.h.abandon(std::move(left));
  m.h.open();
  m.check_recovered(promised);
  m.h.settle();
  m.check();
  m.check_bounds_of(m.h.settings.tree.policy);
  m.write(120);
  m.h.settle();
  m.h.reopen();
  m.check();
  return true;
}

TEST_CASE("crash at every k-th file operation of a move to another policy: no synced write is lost", "[policies]") {
  const std::uint64_t step = number_from_env("EBBTIDE_CRASH_STEP", 1);
  std::uint64_t turn = round_of_seeds(), last = 0, ended = 0;  // ended: consecutive turns without a k-th operation
  for (std::uint64_t k = 1; ended < small_policies().size(); k += step, ++turn) {
    INFO("crash before operation " << k << ", " << text_of(layout_of(turn)) << ", then " << next_policy(turn).name);
    const bool crashed = crash_while_moving(k, turn);
    ended = crashed ? 0 : ended + 1;
    if (crashed) last = k;
  }
  CHECK(last + step > 40);  // more operations than the writes alone have
}

// Regression: the new policy's limits applied to the old policy's runs, so writes stopped until these were merged.
TEST_CASE("policy changes: the old policy's many runs stop no write, and later the new policy's limits apply") {
  Harness h;
  h.settings.tree.policy = {"constant", {{"k", 64}}};
  h.open();
  int written = 0;
  const auto add_run = [&] {
    for (int i = 0; i < 10; ++i) h.put(0, key_of(static_cast<std::uint64_t>(written++)), "v");
    REQUIRE(h.db->flush(0).is_ok());
  };
  for (int run = 0; run < 60; ++run) add_run();
  h.settle();
  TreeSettings settings = h.settings.tree;
  settings.policy = {"leveling", {}};
  REQUIRE(h.db->set_tree_settings(0, settings).is_ok());
  h.db->tick();
  CHECK_FALSE(h.db->writes_stopped());
  REQUIRE(h.db->tree_info(0)->runs.size() > 40);
  CHECK_FALSE(h.db->stats().write_stalled);
  h.settle();
  h.db->tick();
  CHECK(h.db->tree_info(0)->runs.size() < 5);
  CHECK_FALSE(h.db->stats().write_stalled);
  for (int i = 0; i < written; ++i) REQUIRE(h.get(0, key_of(static_cast<std::uint64_t>(i))) == "v");
  h.verify(0);

  // The old policy's runs are merged now, so the limits stop writes again.
  h.db->pause_compactions();
  for (int run = 0; run < 60; ++run) add_run();
  h.db->resume_compactions();
  h.db->tick();
  CHECK(h.db->writes_stopped());
}

}  // namespace TEST_FILE
