// Tests of the scrub of a database, and of its handling of damage. Also tests that every kind of damage to every kind of file is
// reported, and that no wrong data is returned.
#include <algorithm>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "base/random.h"
#include "engine/db/harness.h"
#include "io/file_names.h"
#include "support/files.h"
#include "support/long_run.h"

namespace ebbtide {
namespace TEST_FILE {

constexpr Millis kHour = 3'600'000, kDay = 24 * kHour;

void fill(Harness& h) {
  for (int i = 0; i < 3000; ++i) h.put(i % 2, "key" + std::to_string(i), std::string(200, 'v'));
  for (DatabaseId d = 0; d < 2; ++d) REQUIRE(h.db->flush(d).is_ok());
  h.settle();
}

/// Advances time with a check every few minutes.
void live(Harness& h, Millis time) {
  for (Millis passed = 0; passed < time; passed += 300'000) {
    h.advance(300'000);
    h.settle();
  }
}

Settings scrubbed_daily() {
  Settings s = Harness::small();
  s.scrub_interval = kDay;
  s.tree.delete_deadline = 0;
  return s;
}

using Contents = std::map<std::pair<DatabaseId, std::string>, std::string>;

/// Makes and closes two databases with several runs each, with deletes, and more writes in the log. Returns the expected reads,
/// with "(absent)" for deleted keys.
Contents write_history(Harness& h) {
  Contents answers;
  for (int i = 0; i < 1600; ++i) {
    const DatabaseId d = i % 2;
    const std::string key = "key" + std::to_string(i * 7 % 500), value = std::to_string(i) + std::string(60, 'v');
    if (i % 11 == 0) {
      h.del(d, key);
      answers[{d, key}] = "(absent)";
    } else {
      h.put(d, key, value);
      answers[{d, key}] = value;
    }
    if (i % 450 == 449) {
      for (DatabaseId each = 0; each < 2; ++each) demand_ok(h.db->flush(each), "flush");
    }
  }
  demand_ok(h.db->close(), "close");
  h.drop();
  return answers;
}

/// Damages one file. Returns a description of the damage.
std::string do_damage(MemoryFileSystem& fs, const std::string& path, const std::vector<std::string>& alike, Random& random) {
  std::string bytes = *read_file(fs, path);
  const auto kind = random.uniform(6);
  const std::size_t at = bytes.empty() ? 0 : random.uniform(bytes.size());
  if (kind == 0) bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.uniform(8)));
  if (kind == 1) bytes.resize(at);
  if (kind == 2) bytes += std::string(1 + random.uniform(2000), static_cast<char>(random.uniform(256)));
  if (kind == 3)
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), std::min<std::size_t>(512, bytes.size() - at), '\0');
  if (kind == 4) bytes = *read_file(fs, alike[random.uniform(alike.size())]);  // the bytes of an old file or of another file
  if (kind == 5) std::reverse(bytes.begin(), bytes.end());
  rewrite(fs, path, bytes);
  static const char* const kKinds[] = {"a bit flipped", "cut", "extended", "zeros in it", "another's content", "turned around"};
  return path + ": " + kKinds[kind] + " at " + std::to_string(at);
}

/// Returns all reports of the damage: by open, reads and verify.
std::string complaints(Harness& h, const Contents& answers) {
  if (const Status status = h.try_open(); !status.is_ok()) return status.to_string();
  std::string said;
  for (const auto& [key, answer] : answers) {
    const std::string got = h.get(key.first, key.second);
    if (got == answer) continue;
    demand(got.starts_with("corruption: "), "wrong or missing data");
    said += got + "\n";
  }
  for (DatabaseId d = 0; d < 2; ++d) {
    const auto report = h.db->verify(d);
    demand_ok(report.status(), "verify");
    for (const std::string& error : report->errors) said += error + "\n";
  }
  return said;
}

TEST_CASE("any file is damaged: the damage is reported by file name, and no wrong data is returned") {
  Harness whole;
  whole.open();
  const Contents answers = write_history(whole);
  std::map<std::string, std::vector<std::string>> by_kind;
  for (const char* suffix : {".data", ".meta", ".wal"}) by_kind[suffix] = whole.paths(suffix);
  for (const char* name : {"MANIFEST-", "CURRENT"}) {
    for (const std::string& path : whole.paths("")) {
      if (path.find(name) != std::string::npos) by_kind[name].push_back(path);
    }
  }
  for (const auto& [kind, paths] : by_kind) REQUIRE_FALSE(paths.empty());
  const std::uint64_t rounds = number_from_env("EBBTIDE_CRASH_SEEDS", 2000) / 10;
  std::uint64_t told = 0;
  for (std::uint64_t seed = first_seed(); seed < first_seed() + rounds; ++seed) {
    Random random(seed);
    const auto& [kind, paths] = *std::next(by_kind.begin(), static_cast<std::ptrdiff_t>(random.uniform(by_kind.size())));
    Harness h;
    h.use(whole.files->crash_clone(0, CrashMode::kEverything));
    const std::string victim = paths[random.uniform(paths.size())], before = *read_file(*h.files, victim);
    const std::string what = do_damage(*h.files, victim, paths, random);
    INFO("seed " << seed << ": " << what);
    const bool changed = *read_file(*h.files, victim) != before;
    const std::string said = complaints(h, answers);
    if (!changed) CHECK(said.empty());
    // A damaged end of a log or manifest looks like a crash. Then the other data must be complete.
    if (changed && (kind == ".data" || kind == ".meta")) CHECK(said.find(victim.substr(5)) != std::string::npos);
    if (!said.empty()) ++told;
    // The report must have the offset, or say that it is the end of the file.
    static const std::regex place(R"((\d{6}\.(data|meta|wal)|MANIFEST-\d{6}|CURRENT)\b.* ((at|offset) \d+|has \d+ bytes))");
    std::istringstream lines(said);
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      CHECK(std::regex_search(line, place));
    }
  }
  CHECK(told >= rounds / 2);
}

TEST_CASE("files are undamaged: the scrub reads every table within its interval, and finds no error") {
  Harness h(scrubbed_daily());
  h.open();
  fill(h);
  const std::uint64_t bytes = h.table_bytes().size();
  live(h, kDay + kHour);
  CHECK(h.db->stats().scrub_bytes >= bytes);
  CHECK(h.db->stats().scrub_bytes < 2 * bytes);
  CHECK(h.db->stats().scrub_errors == 0);
  CHECK_FALSE(h.events.heard("scrub"));
}

TEST_CASE("files are damaged: the scrub logs each of them, and reads and writes go on") {
  Harness h(scrubbed_daily());
  h.open();
  fill(h);
  const std::string damaged = h.paths(".data")[1], cut = h.paths(".meta")[2];
  REQUIRE(h.files->punch_hole(damaged, 4096, 1024).is_ok());  // the lost part reads as zeros
  REQUIRE(h.files->truncate(cut, 100).is_ok());
  live(h, kDay + kHour);
  CHECK(h.db->stats().scrub_errors >= 2);
  CHECK(h.events.heard(damaged));
  CHECK(h.events.heard(cut));
  CHECK(h.get(0, "key0") == std::string(200, 'v'));
  h.put(0, "new", "1");
  CHECK(h.get(0, "new") == "1");
}

TEST_CASE("table is quarantined: the scrub skips it, and its damage counts once") {
  Harness h(scrubbed_daily());
  h.open();
  fill(h);
  REQUIRE(h.files->punch_hole(h.paths(".data")[1], 4096, 1024).is_ok());  // the lost part reads as zeros
  live(h, kDay + kHour);
  REQUIRE(h.db->stats().quarantined_files == 1);
  const std::uint64_t errors = h.db->stats().scrub_errors;
  REQUIRE(errors > 0);
  live(h, 3 * kDay);
  CHECK(h.db->stats().scrub_errors == errors);
  CHECK(h.db->stats().quarantined_files == 1);
}

TEST_CASE("verify finds damage: the damage is logged and counted like damage that the scrub finds") {
  Settings s = scrubbed_daily();
  s.scrub_interval = 0;
  Harness h(s);
  h.open();
  fill(h);
  CHECK(h.db->verify(0)->errors.empty());
  CHECK(h.db->stats().scrub_errors == 0);
  const std::string damaged = h.paths(".data")[1];
  REQUIRE(h.files->punch_hole(damaged, 4096, 1024).is_ok());  // the lost part reads as zeros
  std::uint64_t found = 0;
  for (const DatabaseId database : {0, 1}) found += h.db->verify(database)->errors.size();
  CHECK(found > 0);
  CHECK(h.db->stats().scrub_errors == found);
  CHECK(h.events.heard(damaged));
}

TEST_CASE("verify finds damage, and then its view is revoked: the damage is logged and counted") {
  Settings s = scrubbed_daily();
  s.scrub_interval = 0;
  s.tree.delete_deadline = kHour;
  bool seen = false;
  for (std::uint64_t n = 20; n < 1000 && !seen; n += 20) {
    Harness h(s);
    h.open();
    fill(h);
    for (const std::string& path : h.paths(".data"))
      REQUIRE(h.files->punch_hole(path, 4096, 1024).is_ok());  // the lost part reads as zeros
    h.faults->before_nth(n, ops_of(FileOp::kRead), [&h] {
      WriteBatch batch;
      batch.flush_database(0);
      h.write(batch);
      live(h, 2 * kHour);
    });
    const auto report = h.db->verify(0);
    if (report.is_ok()) break;
    REQUIRE(report.status().code() == Code::kRevoked);
    seen = h.db->stats().scrub_errors > 0;
    CHECK(seen == h.events.heard("verify: "));
  }
  CHECK(seen);
}

TEST_CASE("interval of the scrub is set to 0: the scrub stops, also while it runs") {
  Settings s = scrubbed_daily();
  s.scrub_interval = 0;
  Harness h(s);
  h.open();
  fill(h);
  live(h, kDay);
  CHECK(h.db->stats().scrub_bytes == 0);
  s.scrub_interval = kHour;
  REQUIRE(h.db->reconfigure(s).is_ok());
  live(h, 2 * kHour);
  const std::uint64_t bytes = h.db->stats().scrub_bytes;
  CHECK(bytes > 0);
  s.scrub_interval = 0;
  REQUIRE(h.db->reconfigure(s).is_ok());
  live(h, 2 * kHour);
  CHECK(h.db->stats().scrub_bytes == bytes);
}

TEST_CASE("table is merged before the scrub reads it: no error is counted") {
  Harness h(scrubbed_daily());
  h.open();
  fill(h);
  for (int hour = 0; hour < 26; ++hour) {
    h.advance(kHour);  // the scrub queues a table if one is due
    REQUIRE(h.db->compact(hour % 2, {}).is_ok());
    h.settle();
  }
  CHECK(h.db->stats().scrub_errors == 0);
  CHECK(h.db->stats().scrub_bytes > 0);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
