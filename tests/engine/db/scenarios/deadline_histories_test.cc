// Tests random histories with short deadlines: several databases, changes of deadline, policy and tile size, FLUSHDB, SWAPDB,
// views and restarts, in ticks as in a server. The test keeps its own account of what is due when, and searches all files for it.
//
//   no restart, or only clean ones      no delete is late for any reason
//   kills, or pauses before a start     none is late for a reason other than "down", and each late one is counted
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "deletes/deadline.h"
#include "engine/db/harness.h"
#include "engine/db/layouts.h"
#include "support/long_run.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr Millis kTick = 100, kHistory = 200'000;
constexpr DatabaseId kDatabases = 4;
constexpr int kFirstKey = 1000, kKeys = 400;

std::string key_of(int i) { return "k" + std::to_string(kFirstKey + i); }

/// Writes, and keeps account of deleted values. Each value has a marker, which begins like no other text in files.
class Account {
 public:
  Account(Harness& h, Random& random) : h_(h), random_(random) { adopt(h.settings); }

  /// With a debt, the put deletes all versions so far.
  void put(DatabaseId d, const std::string& key, Millis expiry, bool debt = false) {
    if (debt) note_deleted(d, key, h_.db->now());
    Key& k = live_[d][key];
    k.markers.push_back(marker());
    k.expiry = expiry;
    WriteBatch batch;
    batch.put(d, key, k.markers.back() + std::string(random_.uniform(200), '.'),
              {.expiry = expiry, .kind = debt ? EntryKind::kCompact : EntryKind::kValue, .debt = debt});
    h_.write(batch);
    note_expired();
  }
  void del(DatabaseId d, const std::string& key) {
    h_.del(d, key);
    note_deleted(d, key, h_.db->now());
  }
  void del_range(DatabaseId d, const std::string& start, const std::string& end) {
    h_.del_range(d, start, end);
    for (auto at = live_[d].lower_bound(start); at != live_[d].end() && at->first < end;) {
      note_deleted(d, (at++)->first, h_.db->now());
    }
  }
  void empty(DatabaseId d) {
    WriteBatch batch;
    batch.flush_database(d);
    h_.write(batch);
    while (!live_[d].empty()) note_deleted(d, live_[d].begin()->first, h_.db->now());
    for (Dead& dead : dead_) dead.removed |= dead.database == d;
  }
  void swap(DatabaseId a, DatabaseId b) {
    WriteBatch batch;
    batch.swap_databases(a, b);
    h_.write(batch);
    std::swap(live_[a], live_[b]);
    for (Dead& dead : dead_) {
      if (dead.database != a && dead.database != b) continue;
      dead.database = dead.database == a ? b : a;
      shorten(&dead);
    }
  }
  /// Notes that the deadlines of `settings` are in force from now on.
  void adopt(const Settings& settings) {
    for (DatabaseId d = 0; d < kDatabases; ++d) {
      if (std::exchange(deadlines_[d], settings.tree_for(d).delete_deadline) == deadlines_[d]) continue;
      for (Dead& dead : dead_) {
        if (dead.database == d) shorten(&dead);
      }
    }
  }
  void note_expired() {
    for (DatabaseId d = 0; d < kDatabases; ++d) {
      for (auto at = live_[d].begin(); at != live_[d].end();) {
        const auto [key, expiry] = std::pair(at->first, at->second.expiry);
        ++at;
        if (expiry != 0 && expiry <= h_.db->now()) note_deleted(d, key, expiry);
      }
    }
  }
  /// Returns the number of markers in files that are late by more than `grace`.
  std::size_t late(Millis grace) {
    std::map<std::string, bool> sought;  // each marker, and if it was found
    for (const Dead& dead : dead_) {
      if (dead.due < h_.db->now() && h_.db->now() - dead.due > grace) sought[dead.marker] = false;
    }
    if (sought.empty()) return 0;
    for (const std::string& path : h_.paths("")) {
      if (path.back() == '/') continue;
      const std::string bytes = read_file(*h_.files, path).value();
      for (std::size_t at = bytes.find(kMark); at != std::string::npos; at = bytes.find(kMark, at + 1)) {
        const auto found = sought.find(bytes.substr(at, kMarkerBytes));
        if (found != sought.end()) found->second = true;
      }
    }
    std::erase_if(dead_, [&](const Dead& dead) {
      const auto at = sought.find(dead.marker);
      return at != sought.end() && !at->second;
    });
    return static_cast<std::size_t>(std::count_if(sought.begin(), sought.end(), [](const auto& one) { return one.second; }));
  }

 private:
  static constexpr const char* kMark = "<<";
  static constexpr std::size_t kMarkerBytes = 20;
  struct Key {
    std::vector<std::string> markers;  // markers since the key was last deleted
    Millis expiry = 0;
  };
  struct Dead {
    std::string marker;
    DatabaseId database;
    Millis due;
    bool removed = false;  // the value's tree was removed, so changes of settings do not concern it
  };

  std::string marker() {
    std::string text = kMark;
    while (text.size() < kMarkerBytes) text += "abcdefghijklmnopqrstuvwxyz0123456789"[random_.uniform(36)];
    return text;
  }
  void shorten(Dead* dead) const {
    const Millis deadline = deadlines_[dead->database];
    if (deadline != 0 && !dead->removed) dead->due = std::min(dead->due, h_.db->now() + deadline);
  }
  void note_deleted(DatabaseId d, std::string key, Millis birth) {
    auto gone = live_[d].extract(key);
    if (gone.empty()) return;
    const Millis due = deadlines_[d] == 0 ? DeadlineRule::kNever : birth + deadlines_[d];
    for (std::string& marker : gone.mapped().markers) dead_.push_back({std::move(marker), d, due});
  }

  Harness& h_;
  Random& random_;
  std::array<Millis, kDatabases> deadlines_{};
  std::array<std::map<std::string, Key>, kDatabases> live_;
  std::vector<Dead> dead_;
};

enum class Restarts { kNone, kClean, kKills, kPauses };

class History {
 public:
  explicit History(std::uint64_t seed)
      : random_(seed), restarts_(static_cast<Restarts>(seed % 4)), h_(first_settings(seed)), account_(opened(), random_) {}

  void run() {
    const Millis end = h_.db->now() + kHistory;
    for (int tick = 0; h_.db->now() < end; ++tick) {
      if (h_.db->now() > quiet_until_) write_some();
      if (random_.one_in(120)) disturb();
      pass_tick();
      check_misses();
      if (tick % 10 == 0) check_files();
    }
  }

 private:
  Settings first_settings(std::uint64_t seed) {
    Settings s = Harness::small();
    s.tree.memtable_size = 32 << 10;
    s.tree.file_size = 64 << 10;
    s.databases = kDatabases;
    layout_of(seed).set(&s.tree);
    s.tree.delete_deadline = any_deadline(10'000);
    for (DatabaseId d = 1; d < kDatabases; ++d) {
      if (random_.one_in(2)) (s.overrides[d] = s.tree).delete_deadline = any_deadline(0);
    }
    return s;
  }
  Harness& opened() {
    h_.open();
    return h_;
  }
  Millis any_deadline(Millis least) {
    constexpr std::array<Millis, 6> kAll = {10'000, 20'000, 30'000, 60'000, 3'600'000, 0};
    return std::max(least, kAll[random_.uniform(kAll.size())]);
  }
  DatabaseId any_database() { return static_cast<DatabaseId>(random_.uniform(kDatabases)); }
  std::string any_key() { return key_of(static_cast<int>(random_.uniform(kKeys))); }

  void write_some() {
    for (std::uint64_t n = random_.uniform(6); n > 0; --n) {
      const DatabaseId d = any_database();
      const auto dice = random_.uniform(100);
      if (dice < 55) account_.put(d, any_key(), 0, dice < 15);
      if (dice >= 55 && dice < 65) account_.put(d, any_key(), h_.db->now() + 1 + random_.uniform(20'000));
      if (dice >= 65 && dice < 99) account_.del(d, any_key());
      if (dice == 99) {
        const int at = static_cast<int>(random_.uniform(kKeys));
        account_.del_range(d, key_of(at), key_of(at + 20));
      }
    }
    if (random_.one_in(300)) quiet_until_ = h_.db->now() + random_.uniform(50'000);
  }
  void disturb() {
    const DatabaseId d = any_database(), other = any_database();
    switch (random_.uniform(7)) {
      case 0:
        return account_.empty(d);
      case 1:
        return d != other ? account_.swap(d, other) : void();
      case 2:
        return change_settings(d);
      case 3:
        view_.reset();
        view_.emplace(h_.db->lease(d));
        return;
      case 4:
        return demand_ok(h_.db->flush(d), "flush");
      default:
        if (restarts_ != Restarts::kNone) restart();
    }
  }
  void change_settings(DatabaseId d) {
    Settings changed = h_.settings;
    TreeSettings& tree = changed.overrides[d] = changed.tree_for(d);
    tree.delete_deadline = any_deadline(0);
    tree.policy = small_policies()[random_.uniform(small_policies().size())];
    tree.pages_per_tile = random_.one_in(2) ? 1 : 8;
    demand_ok(h_.db->reconfigure(changed), "reconfigure");
    account_.adopt(changed);
    if (random_.one_in(2)) h_.settings = changed;  // as after CONFIG REWRITE; otherwise the next start has the old settings
  }
  void restart() {
    view_.reset();
    if (restarts_ == Restarts::kKills) {
      h_.crash(CrashMode::kEverything, random_.next());
    } else {
      demand_ok(h_.db->close(), "close");
      h_.drop();
      if (restarts_ == Restarts::kPauses) h_.clock.advance(random_.uniform(25'000));
    }
    h_.open();
    counted_ = 0;
    account_.note_expired();
    account_.adopt(h_.settings);
  }
  void pass_tick() {
    h_.clock.advance(kTick);
    account_.note_expired();
    h_.db->write_log();
    h_.db->tick();
    h_.settle();
    Found found;
    if (view_ && view_->get({"k", hash_key("k")}, &found).code() == Code::kRevoked) view_.reset();
  }
  void check_misses() {
    const Stats stats = h_.db->stats();
    demand(stats.deadlines_missed_load == 0 && stats.deadlines_missed_clock == 0 && stats.deadlines_missed_disk == 0,
           "a delete is late for a reason other than down");
    const bool may_be_down = restarts_ == Restarts::kKills || restarts_ == Restarts::kPauses;
    demand(may_be_down || stats.deadlines_missed_down == 0, "a delete is late though the server ran");
    if (stats.deadlines_missed_down != counted_) excused_until_ = h_.db->now() + 3000;
    counted_ = stats.deadlines_missed_down;
  }
  // Data that is late because of a restart must be purged within a few ticks and surveys.
  void check_files() {
    constexpr Millis kOneSurvey = 2000;
    if (h_.db->now() > excused_until_)
      demand(account_.late(kOneSurvey) == 0, "a file has values that are late, and none is counted");
  }

  Random random_;
  const Restarts restarts_;
  Harness h_;
  Account account_;
  std::optional<ReadView> view_;
  Millis quiet_until_ = 0, excused_until_ = 0;
  std::uint64_t counted_ = 0;  // misses with the reason "down" since the start
};

TEST_CASE("random histories with short deadlines: deletes are late only because of kills and pauses", "[deadlines]") {
  const std::uint64_t histories = number_from_env("EBBTIDE_DEADLINE_HISTORIES", 24);
  for (std::uint64_t seed = first_seed(); seed < first_seed() + histories; ++seed) {
    INFO("EBBTIDE_SEED=" << seed << " EBBTIDE_DEADLINE_HISTORIES=1: " << text_of(layout_of(seed)));
    History(seed).run();
  }
}

}  // namespace TEST_FILE
