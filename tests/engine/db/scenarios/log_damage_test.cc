// Tests of a damaged, torn or missing part of the log: it is skipped if tables have all of it. Otherwise open fails and names
// file and offset.
#include <cstring>
#include <map>

#include "engine/db/harness.h"
#include "io/file_names.h"
#include "support/files.h"

namespace TEST_FILE {

using namespace ebbtide;

std::unique_ptr<MemoryFileSystem> clone_of(const MemoryFileSystem& files) { return files.crash_clone(1, CrashMode::kEverything); }

/// Makes a write and syncs it.
void put_synced(Harness& h, DatabaseId d, const std::string& key) {
  h.put(d, key, "value of " + key);
  REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
}

std::string wrong_key(Harness& h, DatabaseId d, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (h.get(d, key) != "value of " + key) return key + ": " + h.get(d, key);
  }
  return "";
}

/// Makes flushed writes and then some that only the log has, all in one segment. The last write is "last".
std::vector<std::string> fill_one_segment(Harness& h) {
  std::vector<std::string> keys;
  for (int i = 0; i < 12; ++i) {
    keys.push_back("key" + std::to_string(i));
    put_synced(h, 0, keys.back());
    if (i == 7) REQUIRE(h.db->flush(0).is_ok());
    if (i == 7) h.settle();
  }
  put_synced(h, 0, "last");  // no later record confirms the last write, so damage to it looks like a torn end
  return keys;
}

/// Returns the offsets of the records; the first is at 32.
std::vector<std::size_t> records_of(Bytes segment) {
  std::vector<std::size_t> at;
  for (std::size_t offset = 32; offset + 12 <= segment.size();) {
    std::uint32_t length = 0;
    std::memcpy(&length, segment.data() + offset, sizeof(length));
    if (length == 0) break;
    at.push_back(offset);
    offset += 12 + (length & 0x7fffffffu);
  }
  return at;
}

struct Tries {
  int opened = 0, skipped = 0, refused = 0;
};

/// Opens `left` with one byte of `path` damaged.
void try_byte(Harness& h, const MemoryFileSystem& left, const std::string& path, std::size_t at,
              const std::vector<std::string>& keys, Tries* tries) {
  INFO("byte " << at << " of " << path);
  auto damaged = clone_of(left);
  flip(*damaged, path, at);
  h.abandon(std::move(damaged));
  h.events.warnings.clear();
  const Status status = h.try_open();
  if (!status.is_ok()) {
    INFO(status.to_string());
    REQUIRE(status.code() == Code::kCorruption);
    REQUIRE(status.to_string().find(path) != std::string::npos);
    REQUIRE(status.to_string().find(" at ") != std::string::npos);
    tries->refused += 1;
    return;
  }
  tries->opened += 1;
  REQUIRE(wrong_key(h, 0, keys) == "");
  if (h.events.heard("not needed")) {
    tries->skipped += 1;
    REQUIRE(h.events.heard(path));
    h.settle();
    h.advance(2000);
    h.settle();
    REQUIRE_FALSE(h.files->exists(path));  // the file may have deleted data, so it is removed at once
    h.put(0, "more", "1");
    h.reopen();
    REQUIRE(wrong_key(h, 0, keys) == "");
    REQUIRE(h.get(0, "more") == "1");
  }
}

Settings tiny_segments() {
  Settings settings = Harness::small();
  settings.tree.memtable_size = 4 << 20;
  settings.wal_segment_size = 64 << 10;
  return settings;
}

/// Makes four segments. Database 0 is flushed, and database 1 only if `all`; otherwise the first segment has an unflushed
/// operation of database 1.
std::vector<std::string> fill_four_segments(Harness& h, bool all) {
  std::vector<std::string> segments;
  put_synced(h, 1, "other");
  for (int i = 0; h.paths(".wal").size() < 4; ++i) h.put(0, "key" + std::to_string(i), std::string(1000, 'v'));
  segments = h.paths(".wal");
  REQUIRE(h.db->flush(0).is_ok());
  if (all) {
    h.put(2, "keeps", "the log");
    REQUIRE(h.db->flush(1).is_ok());
  }
  REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
  return segments;
}

TEST_CASE("byte of a log is damaged: the opened database has every acknowledged write, or open fails with file and offset") {
  Harness h;
  h.open();
  const std::vector<std::string> keys = fill_one_segment(h);
  const std::string path = h.paths(".wal").front();
  const auto left = clone_of(*h.files);
  const std::string bytes = read_file(*left, path).value();
  const std::vector<std::size_t> records = records_of(bytes);
  Tries tries;
  for (std::size_t at = 0; at < bytes.size(); ++at) try_byte(h, *left, path, at, keys, &tries);
  CHECK(tries.skipped > static_cast<int>(bytes.size()) / 2);  // bytes of the flushed part, and of marks
  CHECK(tries.refused > 200);                                 // bytes of the unflushed part
  CHECK(tries.opened - tries.skipped < 120);                  // bytes of the last record
}

TEST_CASE("record that only the log has is damaged before flushed ones: open fails") {
  Harness h;
  h.open();
  put_synced(h, 0, "flushed");
  put_synced(h, 1, "only in the log");
  put_synced(h, 0, "flushed, too");
  REQUIRE(h.db->flush(0).is_ok());
  h.settle();
  put_synced(h, 0, "behind");
  put_synced(h, 0, "last");
  const std::string path = h.paths(".wal").front();
  auto damaged = clone_of(*h.files);
  const std::size_t at = read_file(*damaged, path)->find("only in the log");
  REQUIRE(at != std::string::npos);
  flip(*damaged, path, at);
  h.abandon(std::move(damaged));
  const Status status = h.try_open();
  INFO(status.to_string());
  CHECK(status.code() == Code::kCorruption);
  CHECK(status.to_string().find(path) != std::string::npos);
}

TEST_CASE("tables have the operations in several damaged parts of a log: open skips these parts") {
  Harness h;
  h.open();
  const std::vector<std::string> keys = fill_one_segment(h);
  const std::string path = h.paths(".wal").front();
  auto left = clone_of(*h.files);
  std::string bytes = read_file(*left, path).value();
  const std::vector<std::size_t> records = records_of(bytes);
  bytes[records[2] + 20] ^= 1;
  bytes[records[4]] ^= 1;  // a length
  for (std::size_t at = records[6] - 3; at < records[8] + 5; ++at) bytes[at] = 0;
  rewrite(*left, path, bytes);
  h.abandon(std::move(left));
  h.open();
  CHECK(wrong_key(h, 0, keys) == "");
  CHECK(h.events.heard("not needed"));
}

TEST_CASE("damaged part of a cleanly closed log has only operations that tables have: every open skips it") {
  Harness h;
  h.open();
  for (int i = 0; i < 5; ++i) put_synced(h, 0, "key" + std::to_string(i));
  REQUIRE(h.db->flush(0).is_ok());
  h.settle();
  const std::string path = h.paths(".wal").front();
  REQUIRE(h.db->close().is_ok());
  auto left = clone_of(*h.files);
  flip(*left, path, 60);
  h.abandon(std::move(left));
  h.open();
  h.crash(CrashMode::kEverything, 1);  // restores the state from before the segment was retired
  h.open();
  h.settle();
  CHECK(wrong_key(h, 0, {"key0", "key4"}) == "");
  CHECK_FALSE(h.files->exists(path));
}

TEST_CASE("segment is missing: open skips it if tables have all its operations, and otherwise the error names the gap") {
  const bool all = GENERATE(true, false);
  Harness h(tiny_segments());
  h.open();
  const std::vector<std::string> segments = fill_four_segments(h, all);
  const auto left = clone_of(*h.files);
  std::size_t there = 0;
  for (const std::string& path : segments) {
    INFO(path << (all ? ", all flushed" : ", database 1 not flushed"));
    if (!left->exists(path) || path == segments.back()) continue;
    ++there;
    auto without = clone_of(*left);
    REQUIRE(without->unlink(path).is_ok());
    h.abandon(std::move(without));
    const Status status = h.try_open();
    REQUIRE_FALSE(status.is_ok());  // not reached if `all`, since then only the last segment is left
    CHECK(status.code() == Code::kCorruption);
    CHECK(status.to_string().find("tree 1 (database 1)") != std::string::npos);
    CHECK(status.to_string().find("ebbtide-inspect salvage") != std::string::npos);
  }
  CHECK(there == (all ? 0 : 3));
}

TEST_CASE("flushed segment is damaged or missing: open skips it once tables have all operations in it") {
  for (const bool missing : {true, false}) {
    Harness h(tiny_segments());
    h.open();
    const std::vector<std::string> segments = fill_four_segments(h, false);
    std::unique_ptr<MemoryFileSystem> left;
    // The edit with the flushes is durable; the segments have not been unlinked yet.
    h.watch->on_call = [&](const FileCall& call) {
      if (call.op == FileOp::kUnlink && call.path == segments.front() && left == nullptr) left = clone_of(*h.files);
    };
    REQUIRE(h.db->flush(1).is_ok());
    h.settle();
    h.watch->on_call = nullptr;
    REQUIRE(left != nullptr);
    if (missing) {
      REQUIRE(left->unlink(segments[1]).is_ok());
    } else {
      flip(*left, segments[1], 5000);
    }
    h.abandon(std::move(left));
    h.open();
    CHECK(h.get(0, "key0") == std::string(1000, 'v'));
    CHECK(h.get(1, "other") == "value of other");
  }
}

TEST_CASE("skipped part of the log may have deletes: its data is purged by the deadline") {
  Settings settings = Harness::small();
  settings.tree.delete_deadline = 60'000;
  Harness h(settings);
  h.open();
  const std::string marker = "0123456789abcdef-marker";
  h.put(0, "a", marker);
  h.put(1, "b", marker);
  REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
  h.del(0, "a");
  h.del_range(1, "", "");
  WriteBatch batch;
  batch.flush_database(2);
  batch.swap_databases(3, 4);
  h.write(batch);
  REQUIRE(h.db->wait_synced(h.db->visible_seq()).is_ok());
  REQUIRE(h.db->flush(0).is_ok());
  REQUIRE(h.db->flush(1).is_ok());
  h.settle();
  put_synced(h, 0, "later");
  put_synced(h, 0, "last");
  const std::string path = h.paths(".wal").front();
  auto left = clone_of(*h.files);
  const std::string bytes = read_file(*left, path).value();
  flip(*left, path, bytes.find(marker) - 20);  // damages the first record; the marker itself stays in the file
  h.abandon(std::move(left));
  h.open();
  CHECK(h.events.heard("not needed"));
  CHECK(h.get(0, "a") == "(absent)");
  CHECK(h.get(1, "b") == "(absent)");
  CHECK(h.get(0, "later") == "value of later");
  for (int i = 0; i < 5; ++i) {
    h.advance(1000);
    h.settle();
  }
  for (const std::string& file : h.paths(".wal")) {
    CHECK(read_file(*h.files, file).value().find(marker) == std::string::npos);
  }
  CHECK(h.db->stats().deadlines_missed_load == 0);
}

TEST_CASE("log has a skipped part: its checkpoint opens") {
  Harness h;
  h.open();
  const std::vector<std::string> keys = fill_one_segment(h);
  const std::string path = h.paths(".wal").front();
  auto left = clone_of(*h.files);
  flip(*left, path, 60);
  h.abandon(std::move(left));
  h.open();
  REQUIRE(h.db->checkpoint("copy").is_ok());
  h.settings.dir = "copy";
  h.drop();
  h.open();
  CHECK(wrong_key(h, 0, keys) == "");
}

TEST_CASE("client's value looks like log records: after damage, the next real record is found, and found quickly") {
  Harness h;
  h.open();
  std::string lookalike;
  for (int i = 0; i < 400; ++i) {  // headers that pass the quick check, each with a length up to the end
    const std::uint32_t words[] = {40'000, 0, 0, 39'000, 7, 0, 1, 0, 0, 0, 1, 0};
    lookalike.append(reinterpret_cast<const char*>(words), sizeof(words));
  }
  h.put(0, "lookalike", lookalike);
  put_synced(h, 0, "key1");
  put_synced(h, 0, "key2");
  REQUIRE(h.db->flush(0).is_ok());
  put_synced(h, 0, "key3");
  put_synced(h, 0, "last");
  const std::string path = h.paths(".wal").front();
  auto left = clone_of(*h.files);
  flip(*left, path, records_of(read_file(*left, path).value()).front());
  h.abandon(std::move(left));
  h.open();
  CHECK(wrong_key(h, 0, {"key1", "key2", "key3"}) == "");
  CHECK(h.get(0, "lookalike") == lookalike);
}

TEST_CASE("newest segment is cut before operations in the manifest: open fails") {
  Harness h;
  h.open();
  for (int i = 0; i < 5; ++i) put_synced(h, 0, "key" + std::to_string(i));
  h.advance(6000);  // the next mark of engine time is written
  h.settle();
  const std::string path = h.paths(".wal").back();
  const std::string bytes = read_file(*h.files, path).value();
  const std::vector<std::size_t> records = records_of(bytes);
  const auto left = clone_of(*h.files);
  for (const std::size_t length : records) {
    INFO(length << " of " << bytes.size() << " bytes");
    auto cut = clone_of(*left);
    REQUIRE(cut->truncate(path, length).is_ok());
    h.abandon(std::move(cut));
    const Status status = h.try_open();
    CHECK(status.code() == Code::kCorruption);
    CHECK(status.to_string().find(path) != std::string::npos);
  }
}

TEST_CASE("two log segments have exchanged their names: open fails, and names both") {
  Harness h(tiny_segments());
  h.open();
  const std::vector<std::string> segments = fill_four_segments(h, false);
  h.put(0, "last", "1");
  const auto left = clone_of(*h.files);
  for (std::size_t a = 0; a < segments.size(); ++a) {
    for (std::size_t b = a + 1; b < segments.size(); ++b) {
      auto swapped = clone_of(*left);
      const std::string first = read_file(*swapped, segments[a]).value(), second = read_file(*swapped, segments[b]).value();
      rewrite(*swapped, segments[a], second);
      rewrite(*swapped, segments[b], first);
      h.abandon(std::move(swapped));
      const Status status = h.try_open();
      INFO(segments[a] << " and " << segments[b] << ": " << status.to_string());
      CHECK(status.code() == Code::kCorruption);
      CHECK(status.to_string().starts_with("corruption: " + segments[a] + ": "));
      CHECK(status.to_string().find(segments[a] + ": segment header at 0: belongs to file ") != std::string::npos);
      CHECK(status.to_string().find(segments[b] + ": segment header at 0: belongs to file ") != std::string::npos);
    }
  }
}

}  // namespace TEST_FILE
