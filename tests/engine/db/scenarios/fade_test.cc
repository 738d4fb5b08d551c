// Tests that deletes are on time: after the deadline no file has a byte of a deleted value or the name of a deleted key. This
// holds for every merge policy, tile size and way to delete; without writes, under load, and over restarts. Time and files are
// simulated.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "base/random.h"
#include "engine/db/harness.h"
#include "engine/db/layouts.h"
#include "support/long_run.h"
#include "support/needles.h"
#include "support/planted.h"
#include "support/table_contents.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr Millis kDeadline = 60'000;
constexpr int kSteps = 50;  // the time of one deadline is divided into this many steps
constexpr DeleteKey kStamps = 1000;

struct Case {
  PolicySettings policy;
  std::uint32_t tile = 1;
  Compression compression = Compression::kNone;
  Partitioning partitioning = Partitioning::kSize;
  Millis deadline = kDeadline;
  bool view = false;   ///< true: a view keeps reading until it is revoked
  bool index = false;  ///< true: the entries are in an index tree of database 0
};

Settings settings_of(const Case& c) {
  Settings s = Harness::small();
  s.tree.memtable_size = 32 << 10;
  s.tree.file_size = 64 << 10;
  s.tree.policy = c.policy;
  s.tree.pages_per_tile = c.tile;
  s.tree.compression = s.tree.compression_last_level = c.compression;
  if (c.compression == Compression::kLz4) s.tree.compression_last_level = Compression::kZstd;
  s.tree.partitioning = c.partitioning;
  s.tree.delete_deadline = c.deadline;
  s.tree.stamp = StampMode::kExplicit;
  if (c.tile == 1) s.tree.file_choice = FileChoice::kRoundRobin;  // with one page per tile, keys of the map are names, too
  return s;
}

std::size_t count_found(const std::vector<std::string>& needles, const std::string& haystack) {
  return found_of(needles, haystack).size();
}

/// A database in which every value has a unique marker, and a list of the deletes and their times. Compressed pages show none of
/// their markers; other pages show all of them. The test finds each marker on disk before its delete: in the log right after the
/// write, and in tables by check_sight().
///
/// The test finds a name by its end: the letters of its kind, and a number. Pages and fences may leave out the prefix that a name
/// shares with its neighbour, but not letters of different kinds. Among keys of one kind a fence needs the whole name.
class Witness {
 public:
  Witness(const Case& c, std::uint64_t seed) : Witness(c, seed, settings_of(c)) {}
  Witness(const Case& c, std::uint64_t seed, const Settings& settings)
      : h(settings), d(c.index ? index_tree(0, 1) : 0), deadline_(c.deadline), random_(first_seed() + seed) {
    h.open();
  }

  /// Returns the unique part of a key: its kind's letters and its number.
  static std::string end_of_name(const std::string& key) { return key.substr(key.size() - 12); }
  /// Returns letters and digits, which have no special meaning in keys and pages.
  std::string marker() {
    std::string text(kMarkerBytes, ' ');
    for (char& c : text) c = "abcdefghijklmnopqrstuvwxyz0123456789"[random_.uniform(36)];
    return text;
  }
  /// Returns the parts of the marker in another order, so that compressed data does not contain it literally.
  static std::string hidden_by_compression(const std::string& marker) {
    return marker.substr(14) + marker.substr(7, 7) + marker.substr(0, 7) + marker;
  }
  static std::string key(int i) {
    const int kind = i / 4;
    char text[16];
    std::snprintf(text, sizeof text, "k%05d", kind);
    std::string name = text;
    Random letters(static_cast<std::uint64_t>(kind) + 1);
    for (int n = 0; n < 10; ++n) name += static_cast<char>('a' + letters.uniform(26));
    return name + "-" + std::to_string(i % 4);
  }
  /// Returns the name of a key with a value of `kLargeBytes` in blocks of its own. Such keys come after all others.
  static std::string large_key(int i) { return "l" + key(100'000 + 4 * i); }
  void put(const std::string& key, Millis expiry = 0) { put(key, expiry, random_.uniform(kStamps)); }
  void put(const std::string& key, Millis expiry, DeleteKey stamp) { write(key, {.stamp = stamp, .expiry = expiry}); }
  /// Overwrites the key by a put with a debt, as when an item leaves a small collection: deletes all versions so far. The key
  /// stays.
  void put_with_debt(const std::string& key) {
    for (std::string& marker : versions_[key]) dead.push_back({std::move(marker), h.db->now()});
    versions_[key].clear();
    const EntryKind kind = random_.one_in(3) ? EntryKind::kValue : EntryKind::kCompact;
    write(key, {.stamp = random_.uniform(kStamps), .expiry = 0, .kind = kind, .debt = true});
  }
  void write(const std::string& key, const WriteBatch::PutOptions& options) {
    std::vector<std::string>& markers = versions_[key];
    markers.push_back(marker());
    std::string value = hidden_by_compression(markers.back());
    if (key[0] == 'l') {
      value.resize(kLargeBytes, '.');
      markers.push_back(marker());
      value += hidden_by_compression(markers.back());
    } else {
      value += marker() + marker() + std::string(40, '.');
    }
    WriteBatch batch;
    batch.put(d, key, value, options);
    h.write(batch);
    check_logged(value);
    live[key] = value;
    stamps_[key] = options.stamp;
  }
  void deleted(const std::string& key, Millis birth) {
    // A delete of a key deletes all of its versions.
    for (std::string& marker : versions_[key]) dead.push_back({std::move(marker), birth});
    versions_[key].clear();
    live.erase(key);
    named(key, birth);
  }
  /// Notes that a delete contains the name of a key; the key may be absent.
  void named(const std::string& key, Millis birth) {
    Name& name = names_[key];
    name = {std::max(name.birth, birth)};
  }
  void del(const std::string& key) {
    h.del(d, key);
    deleted(key, h.db->now());
  }
  void del_range(const std::string& start, const std::string& end) {
    h.del_range(d, start, end);
    std::vector<std::string> gone;
    for (auto it = live.lower_bound(start); it != live.end() && it->first < end; ++it) gone.push_back(it->first);
    for (const std::string& key : gone) deleted(key, h.db->now());
    named(start, h.db->now());
    named(end, h.db->now());
  }

  void del_stamps(DeleteKey lo, DeleteKey hi) {
    WriteBatch batch;
    batch.delete_stamps(d, lo, hi);
    h.write(batch);
    std::vector<std::string> gone;
    for (const auto& [key, value] : live) {
      if (lo <= stamps_.at(key) && stamps_.at(key) < hi) gone.push_back(key);
    }
    for (const std::string& key : gone) deleted(key, h.db->now());
  }
  void flush_database() {
    WriteBatch batch;
    batch.flush_database(d);
    h.write(batch);
    std::vector<std::string> gone;
    for (const auto& [key, value] : live) gone.push_back(key);
    for (const std::string& key : gone) deleted(key, h.db->now());
  }

  /// Fills another database and flushes it. Checks that its tables have all of its keys and markers.
  void fill_other(DatabaseId d) {
    constexpr int kKeys = 60, kFirstKind = 50'000;  // no key of another database ends like a key of this one
    std::map<std::string, std::string>& markers = others_[d];
    for (int i = 0; i < kKeys; ++i) {
      const std::string name = "o" + key(4 * kFirstKind + kKeys * static_cast<int>(d) + i);
      std::string& text = markers[name] = marker();
      const std::string value = hidden_by_compression(text) + marker() + marker() + std::string(40, '.');
      WriteBatch batch;
      batch.put(d, name, value, {});
      h.write(batch);
      check_logged(value);
    }
    demand_ok(h.db->flush(d), "flush");
    h.settle();
    std::vector<std::string> needles;
    for (const auto& [name, text] : markers) needles.insert(needles.end(), {end_of_name(name), text});
    demand(count_found(needles, contents(h.paths(".data"), false)) == needles.size(),
           "the test does not find all names and values in tables");
  }
  /// Empties the other database, if it was filled.
  void flush_other(DatabaseId d) {
    const auto markers = others_.extract(d);
    if (markers.empty()) return;
    WriteBatch batch;
    batch.flush_database(d);
    h.write(batch);
    for (auto& [name, text] : markers.mapped()) {
      dead.push_back({text, h.db->now()});
      named(name, h.db->now());
    }
  }

  /// Advances time and runs background work.
  void pass(Millis ms) {
    note_ages(h.db->now() + ms);
    h.advance(ms);
    h.settle();
    h.db->write_log();  // the log thread does the same, which ends segments
    h.db->tick();
    h.settle();
    if (std::getenv("EBBTIDE_FADE_LEFT") != nullptr) {  // prints which kinds of holders have deleted data
      SeqNum up_to = 0;
      const PurgeStatus left = *h.db->purge_status(h.db->purge_ticket(&up_to));
      std::string text;
      for (std::size_t i = 0; i < kPurgePlaces; ++i) {
        if (left.left[i].oldest_birth == 0) continue;
        text += std::string(" ") + purge_place_name(static_cast<PurgePlace>(i)) + " " +
                std::to_string(h.db->now() - left.left[i].oldest_birth);
      }
      std::printf("oldest, ms:%s\n", text.c_str());
    }
    if (const Millis owed = h.db->tree_info(d)->oldest_obligation; owed != 0) note_age(h.db->now() - owed);
  }
  /// Returns the number of deleted markers and of absent names that are in any file.
  [[nodiscard]] std::size_t found(bool overdue_only) const {
    const auto counts = [&](Millis birth) { return !overdue_only || birth + deadline_ < h.db->now(); };
    std::vector<std::string> needles;
    for (const Dead& d : dead) {
      if (counts(d.birth)) needles.push_back(d.marker);
    }
    for (const auto& [key, name] : names_) {
      if (live.count(key) == 0 && counts(name.birth)) needles.push_back(end_of_name(key));
    }
    return needles.empty() ? 0 : count_found(needles, all_files());
  }
  /// Returns the number of live values that are in these files, decompressed or as they are.
  [[nodiscard]] std::size_t living_in(const std::vector<std::string>& paths, bool as_they_are = false) const {
    std::vector<std::string> needles;
    for (const auto& [key, value] : live) needles.push_back(versions_.at(key).back());
    return count_found(needles, contents(paths, as_they_are));
  }
  /// Checks that the test finds all live values on disk, compressed or not.
  void check_sight() const { demand(living_in(h.paths("")) == live.size(), "the test does not find a value"); }
  /// Like check_sight(), for tables after a flush; also checks that values are compressed if the settings say so.
  void check_sight_of_tables() const {
    const std::vector<std::string> tables = h.paths(".data");
    demand(living_in(tables) == live.size(), "the test does not find a value in tables");
    const bool compressed = h.settings.tree.compression != Compression::kNone;
    if (compressed) demand(living_in(tables, true) < live.size() / 4, "values are not compressed");
  }
  void check_live() {
    for (const auto& [key, value] : live) {
      if (h.get(d, key) != value) FAIL("key " << key << " reads " << h.get(d, key));
    }
    REQUIRE(*h.db->count(d, {}) == live.size());
  }
  /// Returns the number of absent names that are in these files, decompressed or as they are.
  [[nodiscard]] std::size_t names_in(const std::vector<std::string>& paths, bool as_they_are = false) const {
    std::vector<std::string> needles;
    for (const auto& [key, name] : names_) {
      if (live.count(key) == 0) needles.push_back(end_of_name(key));
    }
    return count_found(needles, contents(paths, as_they_are));
  }
  /// Returns the largest part of its deadline that a delete used: by the tree's obligations, and by data in files older than all
  /// of them.
  [[nodiscard]] double worst() const { return worst_; }
  [[nodiscard]] const BlocksMet& met() const { return met_; }
  Random& random() { return random_; }

  struct Dead {
    std::string marker;
    Millis birth;
    bool gone = false;  ///< true if the last search found the marker in no file
  };
  Harness h;
  const DatabaseId d;  ///< number of the tree under test
  std::map<std::string, std::string> live;
  std::vector<Dead> dead;

 private:
  static constexpr std::size_t kMarkerBytes = 20, kLargeBytes = 66 << 10;

  struct Name {
    Millis birth = 0;  // birth of the latest delete that has the name
    bool gone = false;
  };
  struct Hidden {
    std::uint64_t hash = 0;  // hash of the file's bytes
    std::string text;
  };

  void note_age(Millis age) { worst_ = std::max(worst_, static_cast<double>(age) / static_cast<double>(deadline_)); }
  /// Notes the age that data in files reaches by `until`, when the next step begins. The tree's obligations count directly. Older
  /// data should be purged already; the test searches for it, so it finds a birth that the engine has forgotten.
  void note_ages(Millis until) {
    const Millis now = h.db->now(), owed = h.db->tree_info(d)->oldest_obligation;
    if (owed != 0) note_age(until - owed);
    struct Sought {
      Millis birth;
      bool* gone;
    };
    std::vector<Sought> sought;
    std::vector<std::string> needles;
    bool any = false;  // true if a needle may still be in files: the previous search found it, or did not search for it
    const auto seek = [&](const std::string& text, Millis birth, bool* gone) {
      if (birth > now || (owed != 0 && birth >= owed)) return;
      sought.push_back({birth, gone});
      needles.push_back(text);
      any |= !*gone;
    };
    for (Dead& d : dead) seek(d.marker, d.birth, &d.gone);
    for (auto& [key, name] : names_) {
      if (live.count(key) == 0) seek(end_of_name(key), name.birth, &name.gone);
    }
    if (!any) return;
    const std::string files = all_files();
    const std::set<Bytes> found = found_of(needles, files);
    for (std::size_t i = 0; i < sought.size(); ++i) {
      *sought[i].gone = found.count(needles[i]) == 0;
      if (!*sought[i].gone) note_age(until - sought[i].birth);
    }
  }

  /// Returns the bytes of the files, and their hidden contents.
  [[nodiscard]] std::string contents(const std::vector<std::string>& paths, bool as_they_are) const {
    std::string files;
    for (const std::string& path : paths) {
      if (path.back() == '/') continue;
      const std::string bytes = read_file(*h.files, path).value();
      files += bytes;
      if (!as_they_are) files += hidden_in(path, bytes);
    }
    return files;
  }
  /// Returns the hidden contents of one file. They are cached, since most files do not change between two searches.
  const std::string& hidden_in(const std::string& path, const std::string& bytes) const {
    Hidden& hidden = hidden_[path];
    if (const std::uint64_t hash = hash_key(bytes); hidden.hash != hash) {
      hidden = {hash, ""};
      append_hidden(path, bytes, &hidden.text, &met_);
    }
    return hidden.text;
  }
  [[nodiscard]] std::string all_files() const {
    const std::vector<std::string> paths = h.paths("");
    std::erase_if(hidden_, [&](const auto& file) { return !std::binary_search(paths.begin(), paths.end(), file.first); });
    return contents(paths, false);
  }

  /// Checks that the value that was just written is at the end of the log.
  void check_logged(const std::string& value) {
    const auto in_log = [&] {
      const auto file = h.files->open(log_);
      if (!file.is_ok()) return false;
      std::string tail((*file)->size() - std::min<std::uint64_t>((*file)->size(), logged_), ' ');
      demand_ok((*file)->read((*file)->size() - tail.size(), tail.size(), tail.data()), "read the log");
      logged_ = (*file)->size();
      return tail.find(value) != std::string::npos;
    };
    if (in_log()) return;
    const std::vector<std::string> segments = h.paths(".wal");  // the record continues in the next segment
    demand(!segments.empty(), "there is no log");
    log_ = segments.back();
    logged_ = 0;
    demand(in_log(), "a written value is not in the log");
  }

  const Millis deadline_;
  std::map<std::string, DeleteKey> stamps_;                          // the stamp of each key's newest version
  std::map<std::string, std::vector<std::string>> versions_;         // markers of each key since it was last deleted
  std::map<DatabaseId, std::map<std::string, std::string>> others_;  // markers of other databases, by key
  std::map<std::string, Name> names_;                                // names in deletes
  std::string log_;                                                  // the last segment of the log
  std::uint64_t logged_ = 0;                                         // how many bytes of that segment were searched
  Random random_;
  double worst_ = 0;
  mutable BlocksMet met_;
  mutable std::map<std::string, Hidden> hidden_;  // by path
};

constexpr int kKeys = 1500;
constexpr int kLargeKeys = 6;  // one key per way to delete, and one that stays

void fill(Witness& w, int keys = kKeys) {
  for (int i = 0; i < keys; ++i) {
    w.put(w.key(static_cast<int>(w.random().uniform(static_cast<std::uint64_t>(keys)))));
    if (i % 200 == 0) w.h.settle();
  }
  for (int i = 0; i < keys; i += 7) w.put(w.key(i));
  REQUIRE(w.h.db->flush(w.d).is_ok());
  w.h.settle();
}

// delete_some() deletes the stamps in between.
constexpr DeleteKey kFirstStamp = kStamps / 2, kEndStamp = kStamps / 2 + kStamps / 20;

void fill_large(Witness& w) {
  for (int i = 0; i < kLargeKeys; ++i) w.put(w.large_key(i), 0, i == 4 ? kFirstStamp : kEndStamp);
  REQUIRE(w.h.db->flush(w.d).is_ok());
  w.h.settle();
}

/// Writes large values for each way to delete.
void delete_large(Witness& w, Millis expiry) {
  w.del(w.large_key(0));
  w.put(w.large_key(1), expiry, kEndStamp);
  w.deleted(w.large_key(1), expiry);
  w.del_range(w.large_key(2), w.large_key(2) + "~");
  w.put(w.large_key(3), w.h.db->now(), kEndStamp);
  w.deleted(w.large_key(3), w.h.db->now());
}

constexpr DatabaseId kOther = 1, kOtherUntilKilled = 2;  // databases that FLUSHDB empties

/// Deletes keys in every way that the engine has, and writes some of the keys again at once.
void delete_some(Witness& w) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : w.live) {
    if (key[0] == 'k') keys.push_back(key);
  }
  for (std::size_t i = 3; i < keys.size(); i += 11) {
    w.del(keys[i]);
    if (i % 2 == 0) w.put(keys[i]);
  }
  const Millis expiry = w.h.db->now() + 500;
  for (std::size_t i = 5; i < keys.size(); i += 13) {
    if (w.live.count(keys[i]) == 0) continue;
    w.put(keys[i], expiry);  // an overwrite that expires; it deletes the overwritten version, too
    w.deleted(keys[i], expiry);
  }
  w.del_range(keys[keys.size() / 2], keys[keys.size() / 2 + 40]);
  w.put(keys[keys.size() / 2 + 3]);
  // Deletes neighbours one by one, so that their tombstones make pages that compress.
  for (std::size_t i = keys.size() / 4; i < keys.size() / 4 + 60; ++i) w.del(keys[i]);
  for (std::size_t i = 7; i < keys.size(); i += 17) {
    if (w.live.count(keys[i]) == 0) continue;
    w.put_with_debt(keys[i]);
    if (i % 2 == 0) w.put(keys[i]);  // a version without a debt hides the one with a debt
  }
  w.put(keys[1], w.h.db->now());  // this value has expired already
  w.deleted(keys[1], w.h.db->now());
  if (w.live.count(w.large_key(0)) != 0) delete_large(w, expiry);
  w.del_stamps(kFirstStamp, kEndStamp);
  w.flush_other(kOther);
  for (std::size_t i = 9; i < keys.size(); i += 100) w.put(keys[i]);
}

std::string name_of(const Case& c) {
  return c.policy.name + " h=" + std::to_string(c.tile) + (c.compression == Compression::kNone ? " none" : " lz4") +
         " partitioning " + std::to_string(static_cast<int>(c.partitioning)) + (c.index ? ", index tree" : "");
}

constexpr std::uint64_t kPartitionings = 3, kForms = 4;

/// Returns a case. Twelve consecutive turns have each partitioning with tiles of 1 and 8 pages, compressed and not; each of these
/// with and without a view.
Case case_of(const PolicySettings& policy, std::uint64_t turn) {
  const std::uint64_t form = turn % kForms;
  Case c{policy, form % 2 == 0 ? 1u : 8u, form < 2 ? Compression::kNone : Compression::kLz4,
         static_cast<Partitioning>(turn % kPartitionings)};
  c.view = turn / kForms % 2 != 0;
  return c;
}

bool all_at_once() { return std::getenv("EBBTIDE_FADE_ALL") != nullptr; }

/// Returns the cases: each policy with each partitioning, tiles of 1 and 8 pages, compressed and not. Combinations change from
/// round to round, and four rounds have all twelve; or one round has all. A short run has fewer combinations of each policy.
std::vector<Case> cases() {
  const std::uint64_t of_each = all_at_once() ? kPartitionings * kForms : number_from_env("EBBTIDE_FADE_CASES", kPartitionings);
  std::vector<Case> out;
  for (std::size_t policy = 0; policy < small_policies().size(); ++policy) {
    const std::uint64_t first = of_each * round_of_seeds() + policy;
    for (std::uint64_t turn = first; turn < first + of_each; ++turn) {
      out.push_back(case_of(small_policies()[policy], turn));
    }
  }
  return out;
}

std::uint64_t misses(const Witness& w) {
  const Stats s = w.h.db->stats();
  return s.deadlines_missed_down + s.deadlines_missed_clock + s.deadlines_missed_disk + s.deadlines_missed_load;
}

/// The totals of a test over its trees. The destructor prints a line for ./dev torture, which adds up the first two figures and
/// keeps the largest of the third.
class Tally {
 public:
  explicit Tally(const char* form) : form_(form) {}
  ~Tally() { std::printf("%s: %zu trees, %zu markers deleted, max(age/deadline) %.3f\n", form_, trees_, markers_, worst_); }
  Tally(const Tally&) = delete;
  Tally& operator=(const Tally&) = delete;

  /// Adds a finished tree, which has no pending deletes.
  void add(const Case& c, const Witness& w) {
    CHECK(w.worst() <= 1.0);
    CHECK(misses(w) == 0);
    std::printf("%-24s %-9s%4zu deletes, max(age/deadline) %.3f\n", name_of(c).c_str(), form_, w.dead.size(), w.worst());
    ++trees_;
    markers_ += w.dead.size();
    worst_ = std::max(worst_, w.worst());
  }

 private:
  const char* const form_;
  std::size_t trees_ = 0, markers_ = 0;
  double worst_ = 0;
};

/// Advances time without writes until no deleted data may be left. A view keeps reading until it is revoked.
void idle_to_the_end(Witness& w, std::optional<ReadView> view) {
  for (int step = 0; step <= kSteps + 1; ++step) {
    w.pass(kDeadline / kSteps);
    demand(w.found(true) == 0, "a file still has purged data");
    Found found;
    if (view && view->get({"k", hash_key("k")}, &found).code() == Code::kRevoked) view.reset();
  }
  CHECK_FALSE(view);
  CHECK(w.found(false) == 0);
  w.check_live();
  CHECK(w.h.db->tree_info(w.d)->oldest_obligation == 0);
}

/// Runs several ticks a second, as in a server: time for a merge, the revocation of a view, the removal of its files.
template <typename Between>
void pass_by_ticks(Witness& w, Millis ms, Between between) {
  for (const Millis part : {ms - 3000, Millis{1000}, Millis{1000}, Millis{1000}}) {
    w.pass(part);
    between();
  }
}

struct Way {
  const char* name;
  void (*take)(Witness& w, const std::vector<std::string>& keys);  ///< keys: those in `live` that begin with a k
};

/// The ways to delete. Each is tested alone, so that no delete is purged by work for another.
constexpr Way kWays[] = {
    {"point",
     [](Witness& w, const std::vector<std::string>& keys) {
       for (std::size_t i = 3; i < keys.size(); i += 11) w.del(keys[i]);
     }},
    {"point, and written again",
     [](Witness& w, const std::vector<std::string>& keys) {
       for (std::size_t i = 3; i < keys.size(); i += 11) {
         w.del(keys[i]);
         w.put(keys[i]);
       }
     }},
    {"expiry",
     [](Witness& w, const std::vector<std::string>& keys) {
       const Millis expiry = w.h.db->now() + 500;
       for (std::size_t i = 5; i < keys.size(); i += 13) {
         w.put(keys[i], expiry);
         w.deleted(keys[i], expiry);
       }
     }},
    {"expiry in the past",
     [](Witness& w, const std::vector<std::string>& keys) {
       for (std::size_t i = 5; i < keys.size(); i += 13) {
         w.put(keys[i], w.h.db->now());
         w.deleted(keys[i], w.h.db->now());
       }
     }},
    {"range",
     [](Witness& w, const std::vector<std::string>& keys) {
       w.del_range(keys[keys.size() / 2], keys[keys.size() / 2 + 40]);
       w.put(keys[keys.size() / 2 + 3]);
     }},
    {"items of collections",
     [](Witness& w, const std::vector<std::string>& keys) {
       for (std::size_t i = 3; i < keys.size(); i += 11) w.put_with_debt(keys[i]);
     }},
    {"items of collections that are overwritten",
     [](Witness& w, const std::vector<std::string>& keys) {
       for (std::size_t i = 3; i < keys.size(); i += 11) {
         w.put_with_debt(keys[i]);
         if (i % 2 == 0) demand_ok(w.h.db->flush(w.d), "flush");
         w.put(keys[i]);
       }
     }},
    {"stamps", [](Witness& w, const std::vector<std::string>&) { w.del_stamps(kFirstStamp, kEndStamp); }},
    {"large values",
     [](Witness& w, const std::vector<std::string>&) {
       w.del(w.large_key(0));
       w.del(w.large_key(1));
       w.put(w.large_key(1));
     }},
    {"the whole database",
     [](Witness& w, const std::vector<std::string>& keys) {
       w.flush_database();
       w.put(keys[0]);
     }},
};

/// Overwrites a few keys by puts with a debt, flushes them to tables and then only advances time.
void drop_items(const Case& c) {
  INFO(name_of(c));
  Witness w(c, 9);
  fill(w);
  w.check_sight_of_tables();
  std::vector<std::string> keys;
  for (const auto& [key, value] : w.live) keys.push_back(key);
  for (std::size_t i = 0; i < keys.size(); i += 11) w.put_with_debt(keys[i]);
  for (int step = 0; step <= kSteps + 1; ++step) w.pass(kDeadline / kSteps);
  demand(w.found(false) == 0, "a file still has purged data");
  demand(misses(w) == 0, "the database reports missed deadlines");
  w.check_live();
}

/// Flushes tombstones to tables, closes and opens the database, and then only advances time.
void delete_and_restart(const Case& c) {
  INFO(name_of(c));
  Witness w(c, 8);
  fill(w);
  w.check_sight_of_tables();
  std::vector<std::string> keys;
  for (const auto& [key, value] : w.live) keys.push_back(key);
  for (std::size_t i = 0; i < keys.size(); i += 11) w.del(keys[i]);
  demand_ok(w.h.db->flush(w.d), "flush");
  w.h.reopen();
  for (int step = 0; step <= kSteps + 1; ++step) w.pass(kDeadline / kSteps);
  demand(w.found(false) == 0, "a file still has purged data");
  demand(w.worst() <= 1.0, "the tree has had a pending delete for longer than the deadline");
  demand(misses(w) == 0, "the database reports missed deadlines");
  w.check_live();
}

TEST_CASE("database is idle after deletes: no file has deleted data after the deadline", "[long][deadlines]") {
  Tally tally("idle");
  bool index = false;  // every second case has an index tree
  for (Case c : cases()) {
    c.index = std::exchange(index, !index);
    INFO(name_of(c));
    Witness w(c, 1);
    fill(w);
    fill_large(w);
    w.check_sight_of_tables();
    std::optional<ReadView> view;
    if (c.view) view.emplace(w.h.db->lease(w.d));
    delete_some(w);
    idle_to_the_end(w, std::move(view));
    tally.add(c, w);
  }
}

TEST_CASE("each way to delete is used alone: no file has deleted data after the deadline", "[long][deadlines]") {
  Tally tally("one way");
  std::uint64_t turn = round_of_seeds();
  const std::uint64_t turns = all_at_once() ? kPartitionings * kForms : 1;
  for (const Way& way : kWays) {
    // Policies and the other settings take turns, and each way to delete begins with another combination.
    turn += 1;
    for (const PolicySettings& policy : small_policies()) {
      for (std::uint64_t n = 0; n < turns; ++n) {
        Case c = case_of(policy, turn++);
        c.index = turn % 2 == 0;
        INFO(name_of(c) << ", " << way.name);
        Witness w(c, 21 + turn);
        fill(w, kKeys / 2);
        fill_large(w);
        w.check_sight_of_tables();
        std::optional<ReadView> view;
        if (c.view) view.emplace(w.h.db->lease(w.d));
        std::vector<std::string> keys;
        for (const auto& [key, value] : w.live) {
          if (key[0] == 'k') keys.push_back(key);
        }
        way.take(w, keys);
        CHECK(!w.dead.empty());
        idle_to_the_end(w, std::move(view));
        tally.add(c, w);
      }
    }
  }
}

TEST_CASE("server is killed repeatedly before the deadline: no delete is late", "[long][deadlines]") {
  constexpr int kFirstKill = kSteps / 10, kBetweenKills = kSteps / 5;
  Tally tally("kills");
  std::uint64_t life = 2000;
  for (Case c : cases()) {
    c.index = life % 2 == 0;
    c.deadline = 20 * kDeadline;  // a kill moves engine time ahead by at most 10 s, which must be less than a step
    INFO(name_of(c));
    Witness w(c, ++life);
    fill(w);
    fill_large(w);
    for (const DatabaseId d : {kOther, kOtherUntilKilled}) w.fill_other(d);
    w.check_sight_of_tables();
    delete_some(w);
    for (int step = 0; step <= kSteps + 1; ++step) {
      if (step % kBetweenKills == kFirstKill) {
        if (step == kFirstKill) CHECK(w.found(false) != 0);  // the kill was early enough
        w.flush_other(kOtherUntilKilled);                    // the database's tables must exist when the process is killed
        w.h.crash(CrashMode::kEverything, 1);
        w.h.open();
      }
      pass_by_ticks(w, c.deadline / kSteps, [] {});
      demand(misses(w) == 0, "the database reports missed deadlines");
    }
    CHECK(w.found(false) == 0);
    w.check_live();
    tally.add(c, w);
  }
}

TEST_CASE("compressed pages have only tombstones: their keys are in no file after the deadline") {
  for (const std::uint32_t tile : {1u, 8u}) {
    const Case c{small_policies()[0], tile, Compression::kLz4};
    INFO(name_of(c));
    Witness w(c, 12);
    fill(w);
    w.h.db->pause_compactions();
    const std::vector<std::string> tables = w.h.paths(".data");
    std::vector<std::string> keys;
    for (const auto& [key, value] : w.live) keys.push_back(key);
    constexpr std::size_t kNames = 300;
    for (std::size_t i = 0; i < kNames; ++i) w.del(keys[i]);
    REQUIRE(w.h.db->flush(w.d).is_ok());
    std::vector<std::string> made;
    for (const std::string& path : w.h.paths(".data")) {
      if (std::find(tables.begin(), tables.end(), path) == tables.end()) made.push_back(path);
    }
    CHECK(w.names_in(made) == kNames);
    CHECK(w.names_in(made, true) < kNames / 2);
    CHECK(w.met().compressed_tombstones > 0);
    w.h.db->resume_compactions();
    for (int step = 0; step <= kSteps + 1; ++step) w.pass(kDeadline / kSteps);
    CHECK(w.found(false) == 0);
    CHECK(misses(w) == 0);
    w.check_live();
  }
}

TEST_CASE("compactions are paused: deletes are purged on time, and nothing else is merged") {
  Witness w({small_policies()[0], 1, Compression::kNone}, 7);
  const auto jobs = [&w](bool for_deadlines) {
    std::uint64_t sum = 0;
    for (const ReasonInfo& r : w.h.db->stats().merges_by_reason) sum += (r.reason == "deadline") == for_deadlines ? r.jobs : 0;
    return sum;
  };
  fill(w);
  fill_large(w);
  w.h.db->pause_compactions();
  const std::uint64_t merges = jobs(false);
  delete_some(w);
  for (int step = 0; step <= kSteps + 1; ++step) w.pass(kDeadline / kSteps);
  CHECK(w.found(false) == 0);
  CHECK(w.worst() <= 1.0);
  CHECK(misses(w) == 0);
  CHECK(jobs(true) > 0);
  for (int run = 0; run < 5; ++run) {  // more runs than the policy allows, but no delete, so they stay
    w.put(w.key(run));
    REQUIRE(w.h.db->flush(w.d).is_ok());
  }
  w.pass(kDeadline / kSteps);
  CHECK(jobs(false) == merges);
  w.h.db->resume_compactions();
  w.h.settle();
  CHECK(jobs(false) > merges);
  w.check_live();
}

TEST_CASE("database is under load and is restarted: every delete is purged on time", "[long][deadlines]") {
  Tally tally("load");
  for (const Case& c : cases()) {
    INFO(name_of(c));
    Witness w(c, 2);
    fill(w);
    w.check_sight_of_tables();
    for (int step = 0; step < 2 * kSteps; ++step) {
      INFO("step " << step);
      for (int i = 0; i < 40; ++i) {
        const std::string key = w.key(static_cast<int>(w.random().uniform(kKeys)));
        if (w.random().one_in(3)) {
          w.del(key);
        } else if (w.random().one_in(4) && w.live.count(key) != 0) {
          w.put_with_debt(key);
        } else {
          // A plain overwrite is no delete: the old version is dropped by a merge, or deleted with the key.
          const Millis expiry = w.random().one_in(9) ? w.h.db->now() + 1 + w.random().uniform(kDeadline / 4) : 0;
          w.put(key, expiry);
          if (expiry != 0) w.deleted(key, expiry);
        }
      }
      if (w.random().one_in(10)) {
        const int at = static_cast<int>(w.random().uniform(kKeys - 20));
        w.del_range(w.key(at), w.key(at + 20));
      }
      if (w.random().one_in(10)) {
        const DeleteKey stamp = w.random().uniform(kStamps - 10);
        w.del_stamps(stamp, stamp + 10);
      }
      if (step == kSteps) fill_large(w);
      if (step == 3 * kSteps / 2) w.flush_database();
      w.pass(kDeadline / kSteps);
      if (step % 23 == 22) w.h.reopen();
      if (step % 10 == 9) {
        REQUIRE(w.found(true) == 0);
        w.check_sight();  // including keys that the next steps may delete
      }
    }
    for (int step = 0; step <= kSteps + 1; ++step) w.pass(kDeadline / kSteps);
    CHECK(w.found(true) == 0);
    tally.add(c, w);
  }
}

// Deletes of every kind and age are pending at the same time, and nothing else merges their files.
TEST_CASE("quiet trees have all kinds of deletes, views, merges and kills: every delete is purged on time", "[long][deadlines]") {
  Tally tally("quiet");
  std::uint64_t life = 1000;
  for (Case c : cases()) {
    c.deadline = 20 * kDeadline;  // a kill moves engine time ahead by at most 10 s, which must be less than a step
    INFO(name_of(c));
    Witness w(c, ++life);
    fill(w);
    w.check_sight_of_tables();
    Random& random = w.random();
    std::optional<ReadView> view;
    std::map<std::string, Millis> expiries;
    const auto any_key = [&] { return w.key(static_cast<int>(random.uniform(kKeys))); };
    for (int step = 0; step < 5 * kSteps + 2; ++step) {  // values expire by the fourth deadline and are purged by the fifth
      INFO("step " << step);
      if (step < 3 * kSteps && random.one_in(4)) {
        const auto dice = random.uniform(10);
        switch (dice) {
          case 0:
            for (std::uint64_t n = random.uniform(60); n > 0; --n) {
              // A value overwritten before its expiry is no delete.
              if (const std::string key = any_key(); expiries[key] <= w.h.db->now()) {
                w.live.count(key) != 0 && random.one_in(2) ? w.put_with_debt(key) : w.put(key);
              }
            }
            break;
          case 1:
            for (std::uint64_t n = random.uniform(30); n > 0; --n) {
              const std::string key = any_key();
              if (expiries[key] > w.h.db->now()) continue;
              expiries[key] = w.h.db->now() + random.uniform(c.deadline);
              w.put(key, expiries[key]);
              w.deleted(key, expiries[key]);
            }
            break;
          case 2:
          case 3:
            for (std::uint64_t n = random.uniform(30); n > 0; --n) w.del(any_key());
            break;
          case 4: {
            const int at = static_cast<int>(random.uniform(kKeys - 100));
            w.del_range(w.key(at), w.key(at + 1 + static_cast<int>(random.uniform(100))));
            break;
          }
          case 5:
          case 6: {
            const DeleteKey stamp = random.uniform(kStamps);
            w.del_stamps(stamp, stamp + 1 + random.uniform(kStamps / 5));
            break;
          }
          case 7:
            demand_ok(w.h.db->flush(w.d), "flush");
            break;
          case 8:
            if (random.one_in(3)) demand_ok(w.h.db->compact(w.d, {}), "compact");
            view.reset();
            if (random.one_in(2)) view.emplace(w.h.db->lease(w.d));
            break;
          default:
            view.reset();
            if (random.one_in(3)) {
              TreeSettings tree = w.h.settings.tree;
              tree.pages_per_tile = 1u << random.uniform(6);
              demand_ok(w.h.db->set_tree_settings(0, tree), "new settings");
            } else if (random.one_in(2)) {
              w.h.reopen();
            } else {
              w.h.crash(CrashMode::kEverything, 1);
              w.h.open();
            }
        }
      }
      pass_by_ticks(w, c.deadline / kSteps, [&] {
        // A view reads sometimes, and is released when it is revoked.
        Found found;
        const std::string key = any_key();
        if (view && view->get({key, hash_key(key)}, &found).code() == Code::kRevoked) view.reset();
      });
      if (step % 5 == 4) demand(w.found(true) == 0, "a file still has purged data");
      if (step % 25 == 24) w.check_sight();
      demand(misses(w) == 0, "the database reports missed deadlines");
    }
    CHECK(w.found(false) == 0);
    w.check_live();
    tally.add(c, w);
  }
}

TEST_CASE("tombstones are in a range without writes: they are purged by their deadline", "[long][deadlines]") {
  Tally tally("cold");
  for (const Case& c : cases()) {
    INFO(name_of(c));
    Witness w(c, 3);
    fill(w);
    w.fill_other(kOther);
    w.check_sight_of_tables();
    std::vector<std::string> keys;
    for (const auto& [key, value] : w.live) keys.push_back(key);
    for (std::size_t i = 0; i < keys.size() / 2; ++i) {
      if (i % 11 == 0) w.del(keys[i]);  // 9 %
    }
    w.flush_other(kOther);
    for (int step = 0; step <= kSteps + 1; ++step) {
      for (int i = 0; i < 20; ++i) w.put("z" + w.key(2 * kKeys + static_cast<int>(w.random().uniform(400))));
      w.pass(kDeadline / kSteps);
    }
    CHECK(w.found(false) == 0);
    w.check_live();
    tally.add(c, w);
  }
}

TEST_CASE("disk is full after deletes and has room before their deadline: no delete is late", "[long][deadlines]") {
  constexpr int kRoomAgain = kSteps / 2;
  Tally tally("full disk");
  std::size_t turn = 0, waited = 0;
  for (const Case& c : cases()) {
    INFO(name_of(c));
    Witness w(c, 13);
    fill(w);
    fill_large(w);
    w.fill_other(kOther);
    w.check_sight_of_tables();
    delete_some(w);
    // Another program takes all free space, or leaves some for the log but none for merges; then it takes freed space.
    const std::uint64_t room = turn++ % 2 == 0 ? 0 : 24 << 10;
    std::uint64_t capacity = w.h.files->used_bytes() + room;
    w.h.files->set_capacity(capacity);
    std::uint64_t refused = 0;
    for (int step = 0; step <= kSteps + 1; ++step) {
      if (step == kRoomAgain) {
        waited += w.found(false) != 0 ? 1 : 0;
        w.h.files->set_capacity(0);
      }
      w.pass(kDeadline / kSteps);
      if (step >= kRoomAgain) continue;
      w.h.files->set_capacity(capacity = std::min(capacity, w.h.files->used_bytes() + room));
      WriteBatch batch;
      batch.put(w.d, w.live.begin()->first, w.live.begin()->second);  // the value that the key has, so a refusal changes nothing
      refused += w.h.db->commit(batch).is_ok() ? 0 : 1;
      w.h.db->write_log();
    }
    if (room == 0) CHECK(refused == kRoomAgain);
    CHECK(w.found(false) == 0);
    w.check_live();
    w.h.verify(w.d);
    tally.add(c, w);
  }
  CHECK(waited == turn);  // some work was waiting
}

TEST_CASE("planted bug makes a restart forget births of deletes: the search of files after the deadline finds deleted data",
          "[planted]") {
  must_catch(PlantedBug::kForgetBirths, [] {
    for (const PolicySettings& policy : small_policies()) delete_and_restart({policy, 1, Compression::kNone});
  });
}

TEST_CASE("planted bug drops delete debts of puts: the search of files after the deadline finds deleted data", "[planted]") {
  must_catch(PlantedBug::kDropDebt, [] {
    for (const PolicySettings& policy : small_policies()) drop_items({policy, 1, Compression::kNone});
  });
}

TEST_CASE("deletes fell due while the server was down: they are purged first, and missed with the reason down") {
  Witness w({small_policies()[0], 1, Compression::kNone}, 4);
  fill(w);
  delete_some(w);
  REQUIRE(w.h.db->flush(w.d).is_ok());
  REQUIRE(w.h.db->close().is_ok());
  w.h.drop();
  w.h.clock.advance(3 * kDeadline);
  w.h.open();
  w.h.settle();
  w.pass(1000);
  CHECK(w.found(false) == 0);
  const Stats s = w.h.db->stats();
  CHECK(s.deadlines_missed_down > 0);
  CHECK(s.deadlines_missed_clock + s.deadlines_missed_load == 0);
  w.check_live();
}

TEST_CASE("wall clock is set forward past deadlines: these count as missed with the reason clock") {
  Witness w({small_policies()[0], 1, Compression::kNone}, 5);
  fill(w);
  delete_some(w);
  w.pass(1000);
  w.h.clock.set_wall(w.h.clock.wall_ms() + 2 * kDeadline);
  for (int i = 0; i < 4; ++i) w.pass(1100);
  CHECK(w.found(false) == 0);
  const Stats s = w.h.db->stats();
  CHECK(s.deadlines_missed_clock > 0);
  CHECK(s.deadlines_missed_down + s.deadlines_missed_load == 0);
}

// Returns the bytes of merges for deadlines so far.
ReasonInfo for_deadlines(const Witness& w) {
  for (const ReasonInfo& r : w.h.db->stats().merges_by_reason) {
    if (r.reason == "deadline") return r;
  }
  return {};
}

TEST_CASE("tree takes longer to fill than the deadline: no delete is late, and merges write under two trees per deadline",
          "[deadlines]") {
  constexpr int kMany = 16'000;
  const PolicySettings policies[] = {{"leveling", {{"size_ratio", 5}}},
                                     {"one_leveling", {{"size_ratio", 5}, {"level0_runs", 2}}},
                                     {"garnering", {{"size_ratio", 5}, {"level0_runs", 2}}}};
  for (std::size_t p = first_of_every_nth() % std::size(policies); p < std::size(policies); p += every_nth()) {
    const PolicySettings& policy = policies[p];
    Settings settings = settings_of({policy, 8, Compression::kNone});
    settings.tree.file_size = 64 << 10;
    Witness w({policy, 8, Compression::kNone}, 15 - first_seed(),
              settings);  // equal settings in each round, since the written bytes depend on them
    INFO(policy.name);
    Random& random = w.random();
    for (int i = 0; i < kMany; ++i) {
      w.put(w.key(static_cast<int>(random.uniform(kMany))));
      if (i % 100 == 0) w.h.settle();
    }
    const std::uint64_t before = for_deadlines(w).bytes_written;
    constexpr int kTimes = 4;
    std::uint64_t bytes = 0;
    for (int step = 1; step <= kTimes * kSteps; ++step) {
      for (int i = 0; i < 20; ++i) w.put(w.key(static_cast<int>(random.uniform(kMany))));
      for (int i = 0; i < 2; ++i) w.del(w.key(static_cast<int>(random.uniform(kMany))));
      w.pass(kDeadline / kSteps);
      if (step % 25 == 0) REQUIRE(w.found(true) == 0);
      const TreeInfo tree = *w.h.db->tree_info(w.d);
      for (const RunInfo& run : tree.runs) bytes += run.bytes;
    }
    CHECK(w.worst() <= 1.0);
    CHECK(misses(w) == 0);
    const double once = static_cast<double>(bytes) / kSteps;  // the whole tree, written once per deadline
    const double written = static_cast<double>(for_deadlines(w).bytes_written - before) / once;
    const TreeInfo tree = *w.h.db->tree_info(w.d);
    CHECK(tree.runs.back().level >= 3);
    std::printf("%-24s merges wrote the tree %.2f times per deadline\n", policy.name.c_str(), written);
    CHECK(written < 2);
    w.check_live();
  }
}

TEST_CASE("I/O budget is set: the work for deadlines is spread by it, and no delete is late") {
  constexpr std::uint64_t kBudget = 128 << 10;
  constexpr Millis kStep = 200;
  const bool limited = GENERATE(true, false);
  Witness w({small_policies()[1], 1, Compression::kNone}, 8);
  Settings settings = w.h.settings;
  settings.tree.delete_io_budget = limited ? kBudget : 0;
  REQUIRE(w.h.db->reconfigure(settings).is_ok());
  // Every page of every final file has an expiring value, so each file has to be rewritten separately.
  const Millis expiry = w.h.db->now() + 500;
  for (int i = 0; i < 4000; ++i) {
    w.put(w.key(i), i % 5 == 0 ? expiry : 0);
    if (i % 5 == 0) w.deleted(w.key(i), expiry);
    if (i % 200 == 0) w.h.settle();
  }
  REQUIRE(w.h.db->compact(w.d, {}).is_ok());
  ReasonInfo before = for_deadlines(w);
  std::uint64_t most_jobs = 0;
  Millis paid = 0;  // the time that the bytes read and written so far take at the budget's rate
  for (Millis at = 0; at <= kDeadline; at += kStep) {
    w.pass(kStep);
    const ReasonInfo now = for_deadlines(w);
    const std::uint64_t jobs = now.jobs - before.jobs;
    most_jobs = std::max(most_jobs, jobs);
    if (jobs != 0 && limited) CHECK(paid <= at + kStep);
    const std::uint64_t bytes = now.bytes_read + now.bytes_written - before.bytes_read - before.bytes_written;
    paid = std::max(paid, at) + bytes * 1000 / kBudget;
    before = now;
  }
  CHECK(w.found(false) == 0);
  CHECK(misses(w) == 0);
  CHECK(w.worst() <= 1.0);
  CHECK_FALSE(w.h.events.heard("io_budget"));
  CHECK(before.jobs > 4);
  if (limited) CHECK(most_jobs <= 2);  // the budget is nearly used up after one merge
  if (!limited) CHECK(most_jobs > 4);
  CHECK(w.h.db->tree_info(w.d)->delete_io_budget == (limited ? kBudget : 0));
}

TEST_CASE("I/O budget is too small for the deadline: the budget grows, and this is logged once") {
  // Always the same tree: in some others the merge of level 0 does all the work at once. Later work is then logged again.
  Witness w({small_policies()[0], 1, Compression::kNone}, 9 - first_seed());
  Settings settings = w.h.settings;
  settings.tree.delete_deadline = 10'000;
  settings.tree.delete_io_budget = 16 << 10;
  REQUIRE(w.h.db->reconfigure(settings).is_ok());
  fill(w);
  delete_some(w);
  REQUIRE(w.h.db->flush(w.d).is_ok());
  w.pass(100);
  CHECK(w.h.db->tree_info(w.d)->delete_io_budget > 16 << 10);
  for (int step = 0; step <= 110; ++step) w.pass(100);
  CHECK(w.found(false) == 0);
  CHECK(misses(w) == 0);
  const auto told = std::count_if(w.h.events.warnings.begin(), w.h.events.warnings.end(), [](const std::string& text) {
    return text.find("more than tree.deletes.io_budget, 16 KiB") != std::string::npos;
  });
  CHECK(told == 1);
}

TEST_CASE("work for deadlines is overdue, or PURGE.NOW requests it: it ignores the I/O budget") {
  Witness w({small_policies()[0], 1, Compression::kNone}, 10);
  Settings settings = w.h.settings;
  settings.tree.delete_io_budget = 16 << 10;
  REQUIRE(w.h.db->reconfigure(settings).is_ok());
  fill(w);
  delete_some(w);
  w.pass(600);
  REQUIRE(w.h.db->flush(w.d).is_ok());
  SECTION("work is overdue at the start") {
    w.h.settings = settings;
    REQUIRE(w.h.db->close().is_ok());
    w.h.drop();
    w.h.clock.advance(3 * kDeadline);
    w.h.open();
  }
  SECTION("PURGE.NOW requests the work") {
    SeqNum up_to = 0;
    REQUIRE(w.h.db->purge_now(w.h.db->purge_ticket(&up_to)).is_ok());
  }
  for (int i = 0; i < 4; ++i) w.pass(1100);  // the budget pays for a tenth of the work in this time
  CHECK(w.found(false) == 0);
}

TEST_CASE("deadline is made longer or removed: earlier deletes keep their due times") {
  Witness w({small_policies()[0], 1, Compression::kNone}, 6);
  fill(w);
  delete_some(w);
  w.pass(600);  // the values have expired, so their births are before the change
  Settings settings = w.h.settings;
  SECTION("longer deadline: pending deletes keep their due time") {
    settings.tree.delete_deadline = 100 * kDeadline;
    REQUIRE(w.h.db->reconfigure(settings).is_ok());
    for (int step = 0; step <= kSteps + 1; ++step) w.pass(kDeadline / kSteps);
    CHECK(w.found(false) == 0);
  }
  SECTION("no deadline: pending deletes keep their due time") {
    settings.tree.delete_deadline = 0;
    REQUIRE(w.h.db->reconfigure(settings).is_ok());
    for (int step = 0; step <= kSteps + 1; ++step) w.pass(kDeadline / kSteps);
    CHECK(w.found(false) == 0);
    // Later deletes have no deadline.
    const std::size_t before = w.dead.size();
    delete_some(w);
    REQUIRE(w.h.db->flush(w.d).is_ok());
    for (int step = 0; step <= kSteps + 1; ++step) w.pass(kDeadline / kSteps);
    CHECK(w.dead.size() > before);
    CHECK(w.h.db->tree_info(w.d)->oldest_obligation != 0);
    CHECK(w.h.db->tree_info(w.d)->oldest_obligation_deadline == 0);
  }
  SECTION("shorter deadline: it applies to pending deletes, too, from the change on") {
    settings.tree.delete_deadline = kDeadline / 10;
    REQUIRE(w.h.db->reconfigure(settings).is_ok());
    for (int step = 0; step <= kSteps / 10 + 1; ++step) w.pass(kDeadline / kSteps);
    CHECK(w.found(false) == 0);
  }
}

// "Late": a tenth of the time is left, the margin. So the new policy must at once begin the work that a stack policy put off.
TEST_CASE("merge policy is changed early or late before the deadline: no delete is late", "[long][deadlines]") {
  Tally tally("change");
  std::size_t waiting = 0;
  const std::uint64_t first = round_of_seeds() * small_policies().size();
  for (std::uint64_t turn = first; turn < first + small_policies().size(); ++turn) {
    const PolicySettings& next = next_policy(turn);
    const std::uint64_t dice = turn - first + round_of_seeds();
    const int change_at = dice % 2 == 0 ? kSteps / 5 : 4 * kSteps / 5;
    const Layout layout = layout_of(turn);
    const Case c{layout.policy, dice / 2 % 2 == 0 ? 1u : 8u, Compression::kNone, layout.partitioning};
    INFO(name_of(c) << ", then " << next.name << " in step " << change_at);
    Witness w(c, 11);
    fill(w);
    fill_large(w);
    w.check_sight_of_tables();
    delete_some(w);
    for (int step = 0; step <= kSteps + 1; ++step) {
      if (step == change_at) {
        waiting += w.found(false) != 0 ? 1 : 0;
        w.h.settings.tree.policy = next;
        REQUIRE(w.h.db->reconfigure(w.h.settings).is_ok());
      }
      w.pass(kDeadline / kSteps);
    }
    CHECK(w.h.db->tree_info(w.d)->policy == next.name);
    CHECK(w.found(false) == 0);
    w.check_live();
    w.h.verify(w.d);
    tally.add(c, w);
  }
  CHECK(waiting >= small_policies().size() / 2);  // the new policy had work to do
}

TEST_CASE("point deletes empty a database that is then idle for months: no table is left after the deadline", "[deadlines]") {
  constexpr Millis kHour = 3'600'000;
  Tally tally("months");
  for (std::uint64_t turn = 0; turn < small_policies().size(); ++turn) {
    Case c = case_of(small_policies()[turn], turn + round_of_seeds());
    c.deadline = 90 * 24 * kHour;
    INFO(name_of(c));
    Witness w(c, 9);
    fill(w);
    w.check_sight_of_tables();
    std::vector<std::string> keys;
    for (const auto& [key, value] : w.live) keys.push_back(key);
    for (const std::string& key : keys) w.del(key);
    for (Millis at = 0; at <= c.deadline; at += 20 * kHour) w.pass(20 * kHour);
    CHECK(w.found(false) == 0);
    CHECK(w.h.paths(".data").empty());
    tally.add(c, w);
  }
}

TEST_CASE("crash at every k-th operation of slices and rewrites: no key is lost, no deleted key is back, no delete is late") {
  const std::uint64_t step = number_from_env("EBBTIDE_CRASH_STEP", 1);
  std::uint64_t turn = round_of_seeds(), ended = 0;  // ended: consecutive turns without a k-th operation
  for (std::uint64_t k = 1; ended < small_policies().size(); k += step, ++turn) {
    const Layout layout = layout_of(turn);
    Case c{layout.policy, k % 2 == 0 ? 8u : 1u, Compression::kNone, layout.partitioning};
    INFO(name_of(c) << ", crash before operation " << k);
    Witness w(c, 7);
    fill(w);
    w.check_sight_of_tables();
    delete_some(w);
    w.h.db->write_log();
    REQUIRE(w.h.db->wait_synced(w.h.db->visible_seq()).is_ok());
    std::unique_ptr<MemoryFileSystem> left;
    bool armed = true;
    w.h.faults->before_nth(k, kMutatingOps, [&] {
      if (armed) left = w.h.files->crash_clone(k, CrashMode::kRandom);
    });
    int passed = 0;
    for (; passed <= kSteps + 1 && left == nullptr; ++passed) w.pass(kDeadline / kSteps);
    armed = false;
    ended = left == nullptr ? ended + 1 : 0;
    if (left == nullptr) continue;
    w.h.abandon(std::move(left));
    w.h.open();
    w.check_live();
    for (; passed <= kSteps + 1; ++passed) w.pass(kDeadline / kSteps);
    REQUIRE(w.found(false) == 0);
    // The mark of time was up to ten seconds ahead, and engine time continues from there, so the deadline was shorter by as much.
    REQUIRE(w.h.db->stats().deadlines_missed_load == 0);
    w.check_live();
    w.h.verify(w.d);
  }
}

}  // namespace TEST_FILE
