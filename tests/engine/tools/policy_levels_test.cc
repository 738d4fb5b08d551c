// What a policy wants to be kept is in the manifest: Garnering's number of levels, after a restart too; and none of it after
// another policy has taken over.
#include <engine/db.h>
#include <catch2/catch.hpp>

#include "base/background_pool.h"
#include "base/clock.h"
#include "base/random.h"
#include "io/memory_fs.h"
#include "tools/inspect.h"

namespace ebbtide {
namespace {

class Tree {
 public:
  explicit Tree(PolicySettings policy) {
    settings_.dir = "db";
    settings_.databases = 1;
    settings_.memtable_size = 16 << 10;
    settings_.tree.policy = std::move(policy);
    open();
  }
  void open() {
    Components components;
    components.fs = &fs_;
    components.clock = &clock_;
    components.background = &pool_;
    auto db = Db::open(settings_, components);
    if (!db.is_ok()) FAIL(db.status().to_string());
    db_ = std::move(db).value();
  }
  void settle() {
    while (pool_.run_one()) {
    }
  }
  void close() {
    settle();
    REQUIRE(db_->close().is_ok());
    db_.reset();
  }
  void write(int kilobytes) {
    for (int i = 0; i < kilobytes; ++i) {
      std::string value(1000, '\0');  // of random bytes: as large in a table as in memory
      for (char& c : value) c = static_cast<char>(random_.next());
      WriteBatch batch;
      batch.put(0, "key" + std::to_string(random_.uniform(1'000'000)), value);
      REQUIRE(db_->commit(batch).is_ok());
      db_->write_log();
      settle();  // each memtable is a flush of its own
    }
    REQUIRE(db_->flush(0).is_ok());
    settle();
  }
  void set_policy(PolicySettings policy) {
    settings_.tree.policy = std::move(policy);
    REQUIRE(db_->set_tree_settings(0, settings_.tree).is_ok());
  }
  /// The line of the closed database's tree.
  std::string tree_line() {
    const std::string text = inspect_tree(fs_, "db").text;
    const std::size_t at = text.find(" flushes=");
    REQUIRE(at != std::string::npos);
    return text.substr(at, text.find('\n', at) - at);
  }

 private:
  MemoryFileSystem fs_;
  SimulatedClock clock_;
  ManualPool pool_;
  Settings settings_;
  std::unique_ptr<Db> db_;
  Random random_{5};
};

TEST_CASE("Garnering's number of levels is kept", "[policy]") {
  Tree tree({"garnering", {{"size_ratio", 2}, {"scaling_ratio", 1}, {"level0_runs", 1}}});
  tree.write(400);  // 25 memtables; levels of 2, 4, 8 and 16
  tree.close();
  const std::string grown = tree.tree_line();
  INFO(grown);
  REQUIRE(grown.find(" levels=") != std::string::npos);
  const int levels = std::stoi(grown.substr(grown.find(" levels=") + 8));
  CHECK(levels >= 3);
  CHECK(levels <= 5);
  tree.open();
  tree.write(20);
  tree.close();
  CHECK(tree.tree_line().find(" levels=" + std::to_string(levels)) != std::string::npos);
  tree.open();
  tree.set_policy({"one_leveling", {{"level0_runs", 1}}});
  tree.write(60);
  tree.close();
  CHECK(tree.tree_line().find(" levels=") == std::string::npos);
}

}  // namespace
}  // namespace ebbtide
