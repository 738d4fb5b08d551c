// Tests of segments: written and read back, truncated, with flipped bits, and torn by a power loss.
#include <catch2/catch.hpp>

#include <numeric>
#include <thread>

#include "base/checksum.h"
#include "base/coding.h"
#include "base/random.h"
#include "engine/wal/segments.h"
#include "io/fault_fs.h"
#include "io/trace_fs.h"
#include "support/long_run.h"
#include "wal/log_format.h"

namespace ebbtide {
namespace TEST_FILE {

using Catch::Matchers::Contains;

constexpr FileNum kFile = 7;
constexpr std::uint64_t kHeader = kLogHeaderBytes;

std::string payload_of(std::uint64_t i, std::size_t bytes) {
  Random random(i);
  std::string payload(bytes, '\0');
  for (char& c : payload) c = static_cast<char>(random.next());
  return payload;
}

/// Returns the bytes of a segment with records of these payloads, and a sync after each record that `synced` names.
std::string segment(const std::vector<std::string>& payloads, const std::vector<std::size_t>& synced) {
  MemoryFileSystem fs;
  auto log = value_of(LogWriter::create(fs, "", kFile));
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    require_ok(append_one(*log, payloads[i]));
    if (std::find(synced.begin(), synced.end(), i) != synced.end()) require_ok(log->sync());
  }
  return value_of(read_file(fs, log_file_name(kFile)));
}

std::string header_of(std::uint32_t version, FileNum owner) {
  std::string header;
  put_u32(&header, kLogMagic);
  put_u32(&header, version);
  put_u64(&header, owner);
  put_u64(&header, 0);
  put_u64(&header, block_checksum(header, owner, 0));
  return header;
}

TEMPLATE_TEST_CASE("records are appended: they read back as written", "", PosixRoom, MemoryRoom) {
  TestType room;
  auto log = value_of(LogWriter::create(room.fs(), room.dir(), kFile));
  REQUIRE(log->file() == kFile);
  REQUIRE(log->size() == kHeader);
  std::vector<std::string> payloads;
  Random random(1);
  for (std::size_t i = 0; i < 200; ++i)
    payloads.push_back(payload_of(i, i == 100 ? 3'000'000 : random.uniform(2000) / (1 + random.uniform(300))));
  // The payloads come in groups of various sizes, each record in up to three parts, with a sync now and then.
  for (std::size_t at = 0; at < payloads.size();) {
    std::vector<LogRecord> group;
    for (std::size_t n = random.uniform(6); n > 0 && at < payloads.size(); --n, ++at) {
      const Bytes all = payloads[at];
      const std::size_t a = random.uniform(all.size() + 1), b = a + random.uniform(all.size() - a + 1);
      group.push_back({all.substr(0, a), all.substr(a, b - a), all.substr(b)});
    }
    require_ok(log->append(group));
    if (random.one_in(4)) require_ok(log->sync());
  }
  require_ok(log->close());
  REQUIRE(value_of(room.fs().file_size(room.path("000007.wal"))) == log->size());
  const ReadBack back = read_back(room.fs(), room.dir(), kFile);
  require_ok(back.status);
  REQUIRE(back.payloads == payloads);
  REQUIRE(back.end.clean);
  REQUIRE(back.end.what.empty());
  REQUIRE(back.end.valid_bytes == log->size());
  REQUIRE(back.offsets.front() == kHeader);
}

TEST_CASE("segment is written: its bytes are those that formats.md documents") {
  const std::string bytes = segment({"abc", "", "de"}, {0});
  std::string expected = header_of(4, kFile);
  const auto add = [&](std::uint32_t length, Bytes payload) {
    std::string record;
    put_u32(&record, length);
    const std::string checked = record + std::string(payload);
    put_u64(&record, block_checksum(checked, kFile, expected.size()));
    expected += record;
    expected += payload;
  };
  add(3, "abc");
  std::string durable;
  put_u64(&durable, expected.size());
  add(0x80000008u, durable);  // the mark: 47 bytes were durable when the next append began
  add(0, "");
  add(2, "de");
  REQUIRE(bytes == expected);
}

TEST_CASE("segment is ended: its end mark names the next segment, and the reader returns no record for the mark") {
  MemoryRoom room;
  auto log = value_of(LogWriter::create(room.fs(), room.dir(), kFile));
  require_ok(append_one(*log, "abc"));
  require_ok(log->sync());
  const std::uint64_t end = log->size();
  require_ok(log->end(12));
  const std::string bytes = read_file(room.fs(), join_path(room.dir(), log_file_name(kFile))).value();
  const std::uint64_t at = end + 20;  // the end mark follows a mark with the number of durable bytes
  std::string expected;
  put_u32(&expected, 0x80000009u);
  std::string payload(1, '\1');
  put_u64(&payload, 12);
  put_u64(&expected, block_checksum(expected + payload, kFile, at));
  CHECK(bytes.substr(at) == expected + payload);
  const ReadBack back = read_back(room.fs(), room.dir(), kFile);
  CHECK((back.end.clean && back.end.next == 12 && back.end.valid_bytes == bytes.size()));
  CHECK(back.payloads == std::vector<std::string>{"abc"});
  for (std::size_t length = end; length < bytes.size(); ++length) {
    const ReadBack cut = read_bytes(bytes.substr(0, length), kFile);
    CHECK((cut.end.next == kNoFile && !cut.end.valid_after && cut.payloads == back.payloads));
  }
}

TEST_CASE("segment is created: its name and header are durable before the first record") {
  MemoryRoom room;
  TraceFileSystem fs(room.fs());
  auto log = value_of(LogWriter::create(fs, room.dir(), kFile));
  REQUIRE(fs.take() ==
          "create room/000007.wal\n"
          "write room/000007.wal\n"
          "sync room/000007.wal\n"
          "sync_dir room\n");
  const std::vector<LogRecord> group{{"a", "b"}, {}, {"c"}};
  require_ok(log->append(group));
  require_ok(log->append({}));
  REQUIRE(fs.take() == "write room/000007.wal\n");
  require_ok(log->sync());
  require_ok(log->append(group));
  require_ok(log->close());
  REQUIRE(fs.take() == "sync room/000007.wal\nwrite room/000007.wal\n");
  REQUIRE(read_back(room.fs(), room.dir(), kFile).payloads == std::vector<std::string>{"ab", "", "c", "ab", "", "c"});
}

TEST_CASE("file of the segment exists already: creating the segment fails") {
  MemoryRoom room;
  const auto log = value_of(LogWriter::create(room.fs(), room.dir(), kFile));
  REQUIRE(LogWriter::create(room.fs(), room.dir(), kFile).status().code() == Code::kExists);
  REQUIRE(room.fs().exists(room.path("000007.wal")));
  REQUIRE(read_back(room.fs(), room.dir(), 8).status.is_not_found());
}

TEST_CASE("creation of a segment fails at any call: no file is left") {
  for (std::uint64_t n = 1; n <= 4; ++n) {
    MemoryRoom room;
    FaultFileSystem fs(room.fs());
    fs.inject({.nth = n, .effect = FileFault::Effect::kHalf});
    REQUIRE_FALSE(LogWriter::create(fs, room.dir(), kFile).is_ok());
    REQUIRE(value_of(room.fs().list(room.dir())).empty());
  }
}

TEST_CASE("append or sync of a segment failed: every later append and sync fails") {
  const FileOp op = GENERATE(FileOp::kWrite, FileOp::kSync);
  const Code code = GENERATE(Code::kIoError, Code::kNoSpace);
  MemoryRoom room;
  FaultFileSystem fs(room.fs());
  auto log = value_of(LogWriter::create(fs, room.dir(), kFile));
  require_ok(append_one(*log, "one"));
  require_ok(log->sync());
  fs.inject({.ops = ops_of(op), .code = code, .effect = FileFault::Effect::kHalf});
  const Status appended = append_one(*log, "two");
  const Status synced = log->sync();
  REQUIRE(appended.is_ok() == (op == FileOp::kSync));
  REQUIRE(synced.code() == code);
  const std::uint64_t writes = fs.operations(ops_of(FileOp::kWrite)), syncs = fs.operations(ops_of(FileOp::kSync));
  for (int i = 0; i < 3; ++i) {
    REQUIRE(append_one(*log, "three").code() == code);
    REQUIRE(log->sync().code() == code);
    REQUIRE_THAT(std::string(log->sync().message()), Contains("000007.wal has failed") && Contains("injected fault"));
  }
  REQUIRE(fs.operations(ops_of(FileOp::kWrite)) == writes);  // the write is never retried
  REQUIRE(fs.operations(ops_of(FileOp::kSync)) == syncs);
  REQUIRE(log->synced_bytes() == kHeader + kLogRecordHeaderBytes + 3);
  const ReadBack back = read_back(room.fs(), room.dir(), kFile);
  REQUIRE(back.payloads == (op == FileOp::kSync ? std::vector<std::string>{"one", "two"} : std::vector<std::string>{"one"}));
  REQUIRE(back.end.clean == (op == FileOp::kSync));
}

TEST_CASE("append failed: salvage() syncs the earlier appends, unless a sync has failed") {
  const FileOp op = GENERATE(FileOp::kWrite, FileOp::kSync);
  MemoryRoom room;
  FaultFileSystem fs(room.fs());
  auto log = value_of(LogWriter::create(fs, room.dir(), kFile));
  require_ok(append_one(*log, "one"));
  fs.inject({.ops = ops_of(op), .code = Code::kNoSpace, .effect = FileFault::Effect::kHalf});
  REQUIRE((append_one(*log, "two").is_ok() && log->sync().is_ok()) == false);
  const std::uint64_t syncs = fs.operations(ops_of(FileOp::kSync));
  const bool salvaged = log->salvage().is_ok();
  REQUIRE(salvaged == (op == FileOp::kWrite));
  // A further sync might return ok although data is lost.
  REQUIRE(fs.operations(ops_of(FileOp::kSync)) == syncs + (salvaged ? 1 : 0));
  REQUIRE(append_one(*log, "three").code() == Code::kNoSpace);
  const std::unique_ptr<MemoryFileSystem> left = room.fs().crash_clone(1, CrashMode::kNothing);
  REQUIRE(read_back(*left, room.dir(), kFile).payloads ==
          (salvaged ? std::vector<std::string>{"one"} : std::vector<std::string>{}));

  // The second sync fails, so there must be no third one.
  if (!salvaged) return;
  fs.inject({.ops = ops_of(FileOp::kSync)});
  REQUIRE_FALSE(log->salvage().is_ok());
  REQUIRE_FALSE(log->salvage().is_ok());
}

TEST_CASE("record is too long: append() refuses it before anything is written") {
  MemoryRoom room;
  auto log = value_of(LogWriter::create(room.fs(), room.dir(), kFile));
  const std::string chunk(1 << 20, 'x');
  const std::vector<LogRecord> group{{"small"}, LogRecord(2048, chunk)};  // 2 GiB, made of one chunk
  REQUIRE(log->append(group).code() == Code::kInvalidArgument);
  REQUIRE(log->size() == kHeader);
  require_ok(append_one(*log, "next"));
  REQUIRE(read_back(room.fs(), room.dir(), kFile).payloads == std::vector<std::string>{"next"});
}

TEST_CASE("callback of read_log() returns an error: reading ends with this error") {
  MemoryRoom room;
  auto log = value_of(LogWriter::create(room.fs(), room.dir(), kFile));
  for (const char* payload : {"a", "b", "c"}) require_ok(append_one(*log, payload));
  unsigned seen = 0;
  const auto end = read_log(room.fs(), room.dir(), kFile, [&](const std::string&, std::uint64_t) {
    return ++seen == 2 ? Status::aborted("enough") : Status::ok();
  });
  REQUIRE(end.status().code() == Code::kAborted);
  REQUIRE(seen == 2);
}

TEST_CASE("segment is truncated anywhere: a prefix of its records is read, and no damage is reported") {
  const std::vector<std::string> payloads{"first", "", payload_of(1, 70), "x", payload_of(2, 300)};
  const std::string bytes = segment(payloads, {0, 2});
  const ReadBack whole = read_bytes(bytes, kFile);
  std::set<std::uint64_t> boundaries(whole.offsets.begin(), whole.offsets.end());
  boundaries.insert(bytes.size());
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    INFO("length " << length);
    const ReadBack back = read_bytes(bytes.substr(0, length), kFile);
    require_ok(back.status);
    REQUIRE(is_prefix(back.payloads, payloads));
    REQUIRE(back.end.valid_bytes <= length);
    REQUIRE_FALSE(back.end.valid_after);
    const Bytes rest = Bytes(bytes).substr(back.end.valid_bytes, length - back.end.valid_bytes);
    REQUIRE(back.end.clean == (length >= kHeader && rest.find_first_not_of('\0') == Bytes::npos));
    REQUIRE(back.end.what.empty() == back.end.clean);
    if (length < kHeader) REQUIRE(back.end.valid_bytes == 0);
    if (boundaries.contains(length)) REQUIRE(back.end.clean);
    // All records that end before the cut must have been read.
    REQUIRE(back.payloads.size() ==
            static_cast<std::size_t>(std::count_if(whole.offsets.begin(), whole.offsets.end(), [&](std::uint64_t offset) {
              const auto i =
                  static_cast<std::size_t>(std::find(whole.offsets.begin(), whole.offsets.end(), offset) - whole.offsets.begin());
              return offset + kLogRecordHeaderBytes + payloads[i].size() <= length;
            })));
  }
}

TEST_CASE("any bit of a segment is flipped: the reader detects it and returns no wrong record") {
  const std::vector<std::string> payloads{"first", "", payload_of(1, 70), "x"};
  const std::string bytes = segment(payloads, {0, 1, 2});
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      INFO("byte " << at << ", bit " << bit);
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      const ReadBack back = read_bytes(flipped, kFile);
      if (at < kHeader) {
        REQUIRE(back.status.code() == Code::kCorruption);
        REQUIRE_THAT(std::string(back.status.message()), Contains("000007.wal") && Contains(" at 0"));
        continue;
      }
      require_ok(back.status);
      REQUIRE(is_prefix(back.payloads, payloads));
      REQUIRE_FALSE(back.end.clean);
      REQUIRE(back.end.valid_bytes <= at);
      REQUIRE_THAT(back.end.what, Contains("000007.wal: record at " + std::to_string(back.end.valid_bytes)));
      // The mark after the last sync says that everything before it was durable; anything after it may be torn.
      const std::size_t last_mark = bytes.size() - (kLogRecordHeaderBytes + 1) - kLogMarkBytes;
      REQUIRE(back.end.valid_after == (at < last_mark));
    }
  }
}

TEST_CASE("durable record is damaged: valid_after is true, unlike after unsynced writes that were reordered") {
  const std::vector<std::string> payloads{"one", "two", "three"};
  const auto with_second_zeroed = [&](const std::vector<std::size_t>& synced) {
    std::string bytes = segment(payloads, synced);
    const std::uint64_t second = read_bytes(bytes, kFile).offsets[1];
    bytes.replace(second, kLogRecordHeaderBytes + 3, kLogRecordHeaderBytes + 3, '\0');
    return read_bytes(bytes, kFile);
  };
  const ReadBack unsynced = with_second_zeroed({});
  REQUIRE_FALSE(unsynced.end.clean);
  REQUIRE_FALSE(unsynced.end.valid_after);
  REQUIRE_FALSE(with_second_zeroed({0}).end.valid_after);  // the mark says only that the first record was durable
  const ReadBack synced = with_second_zeroed({1});
  REQUIRE(synced.end.valid_after);
  REQUIRE(synced.payloads == std::vector<std::string>{"one"});
  REQUIRE_THAT(synced.end.what, Contains("a later mark says that 62 bytes were durable"));
}

TEST_CASE("log entry is appended during a sync: the next mark of durable bytes does not include it") {
  MemoryRoom room;
  FaultFileSystem fs(room.fs());
  auto log = value_of(LogWriter::create(fs, room.dir(), kFile));
  require_ok(append_one(*log, "one"));
  fs.before_nth(1, ops_of(FileOp::kSync), [&] { require_ok(append_one(*log, "two")); });
  require_ok(log->sync());
  REQUIRE(log->synced_bytes() == kHeader + kLogRecordHeaderBytes + 3);
  require_ok(append_one(*log, "three"));  // this append begins with the mark
  const std::string bytes = value_of(read_file(room.fs(), room.path("000007.wal")));
  for (std::size_t at = kHeader; at < kHeader + 2 * (kLogRecordHeaderBytes + 3); ++at) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    REQUIRE(read_bytes(flipped, kFile).end.valid_after == (at < log->synced_bytes()));
  }
}

TEST_CASE("mark of durable bytes is far after the damage: the reader finds it, at any offset") {
  for (std::size_t shift = 0; shift < 64; shift += 3) {
    const std::vector<std::string> payloads{"one", payload_of(3, (std::size_t{256} << 10) - 80 + shift), "last"};
    std::string bytes = segment(payloads, {1});
    bytes[kHeader] = static_cast<char>(bytes[kHeader] ^ 1);
    REQUIRE(read_bytes(bytes, kFile).end.valid_after);
  }
}

TEST_CASE("only zeros follow the last record: the log has a clean end, otherwise not") {
  const std::string bytes = segment({"one", "two"}, {});
  for (const std::size_t zeros : {1u, 11u, 12u, 4096u, 300'000u}) {
    const ReadBack back = read_bytes(bytes + std::string(zeros, '\0'), kFile);
    REQUIRE(back.end.clean);
    REQUIRE(back.end.valid_bytes == bytes.size());
    REQUIRE(back.payloads.size() == 2);
    const ReadBack dirty = read_bytes(bytes + std::string(zeros, '\0') + "x", kFile);
    REQUIRE_FALSE(dirty.end.clean);
    REQUIRE(dirty.end.valid_bytes == bytes.size());
    REQUIRE_FALSE(dirty.end.valid_after);
  }
}

TEST_CASE("record is copied to another offset or segment: the reader does not return the copy") {
  const std::string bytes = segment({"one", "two"}, {});
  const std::size_t length = kLogRecordHeaderBytes + 3;
  const ReadBack doubled = read_bytes(bytes + bytes.substr(bytes.size() - length), kFile);
  REQUIRE(doubled.payloads == std::vector<std::string>{"one", "two"});
  REQUIRE_FALSE(doubled.end.clean);
  REQUIRE(read_bytes(bytes, kFile + 1).status.code() == Code::kCorruption);
  const ReadBack spliced = read_bytes(header_of(1, 8) + bytes.substr(kHeader), 8);
  REQUIRE(spliced.payloads.empty());
  REQUIRE_FALSE(spliced.end.clean);
}

TEST_CASE("segment has a newer version: the error names both versions") {
  const std::string records = segment({"one"}, {}).substr(kHeader);
  const Status newer = read_bytes(header_of(5, kFile) + records, kFile).status;
  REQUIRE(newer.code() == Code::kUnsupported);
  REQUIRE_THAT(std::string(newer.message()), Contains("version 5") && Contains("up to 4"));
  for (const std::uint32_t older : {1u, 2u, 3u})
    REQUIRE(read_bytes(header_of(older, kFile) + records, kFile).payloads.size() == 1);
  REQUIRE(read_bytes(header_of(0, kFile) + records, kFile).status.code() == Code::kCorruption);
  REQUIRE(read_bytes(std::string(kHeader + 1, '\0'), kFile).status.code() == Code::kCorruption);
  REQUIRE(read_bytes("not a segment at all, but a longer text", kFile).status.code() == Code::kCorruption);
  for (const std::string& torn : {std::string(), std::string(kHeader, '\0'), header_of(1, kFile).substr(0, 31)}) {
    const ReadBack back = read_bytes(torn, kFile);
    require_ok(back.status);
    REQUIRE_FALSE(back.end.clean);
    REQUIRE(back.end.valid_bytes == 0);
  }
  const ReadBack empty = read_bytes(header_of(2, kFile), kFile);
  REQUIRE(empty.end.clean);
  REQUIRE(empty.end.valid_bytes == kHeader);
}

/// Records the sizes of reads.
class ReadWatch final : public InterposedFileSystem {
 public:
  explicit ReadWatch(FileSystem& base) : InterposedFileSystem(base) {}
  std::uint64_t largest = 0;

 private:
  Status around(const FileCall& call, const Run& run) override {
    if (call.op == FileOp::kRead) largest = std::max(largest, call.length);
    return run(call.length);
  }
};

TEST_CASE("record has an invalid length: its checksum is verified before memory is allocated for it") {
  MemoryRoom room;
  std::uint64_t whole = 0;
  {
    auto writer = value_of(LogWriter::create(room.fs(), room.dir(), 7));
    const LogRecord record{Bytes("first")};
    require_ok(writer->append(std::span<const LogRecord>(&record, 1)));
    whole = writer->size();
  }
  const std::string path = room.path("000007.wal");
  std::string bytes = value_of(read_file(room.fs(), path));
  put_u32(&bytes, 60u << 20);
  put_u64(&bytes, 7);
  require_ok(room.fs().unlink(path));
  write_file(room.fs(), path, bytes);
  require_ok(room.fs().truncate(path, std::uint64_t{64} << 20));
  ReadWatch fs(room.fs());
  const LogEnd end = value_of(read_log(fs, room.dir(), 7, [](std::string, std::uint64_t) { return Status::ok(); }));
  REQUIRE(!end.clean);
  REQUIRE(end.valid_bytes == whole);
  REQUIRE(fs.largest <= (std::uint64_t{1} << 20));
}

TEST_CASE("record is longer than the reader's chunks: all of it is read, and damage in it is detected") {
  MemoryRoom room;
  std::string large(std::size_t{20} << 20, 'x');
  for (std::size_t i = 0; i < large.size(); i += 1000) large[i] = static_cast<char>(i / 1000);
  {
    auto writer = value_of(LogWriter::create(room.fs(), room.dir(), 7));
    const LogRecord record{Bytes(large)};
    require_ok(writer->append(std::span<const LogRecord>(&record, 1)));
  }
  std::string found;
  const auto keep = [&](std::string payload, std::uint64_t) {
    found = std::move(payload);
    return Status::ok();
  };
  REQUIRE(value_of(read_log(room.fs(), room.dir(), 7, keep)).clean);
  REQUIRE(found == large);
  const std::string path = room.path("000007.wal");
  std::string bytes = value_of(read_file(room.fs(), path));
  bytes[bytes.size() / 2] ^= 1;
  require_ok(room.fs().unlink(path));
  write_file(room.fs(), path, bytes);
  const LogEnd end = value_of(read_log(room.fs(), room.dir(), 7, keep));
  REQUIRE(!end.clean);
  REQUIRE(end.valid_bytes == 32);
}

TEST_CASE("device fails during a read: the reader returns the error, and reports neither a torn end nor damage") {
  MemoryRoom room;
  auto log = value_of(LogWriter::create(room.fs(), room.dir(), kFile));
  // With small chunks, some chunks end within a record's header.
  const std::size_t bytes = GENERATE(600'000, 37, 20, 3);
  for (std::size_t i = 0; i < 3'000'000 / (bytes + 12); ++i) require_ok(append_one(*log, payload_of(i, bytes)));
  FaultFileSystem fs(room.fs());
  require_ok(read_back(fs, room.dir(), kFile).status);
  const std::uint64_t reads = fs.operations(kReadOps);
  REQUIRE(reads >= 3);
  for (std::uint64_t n = 1; n <= reads; ++n) {
    fs.inject({.ops = kReadOps, .nth = n});
    REQUIRE(read_back(fs, room.dir(), kFile).status.code() == Code::kIoError);
  }
}

TEST_CASE("torn end is truncated: the truncation survives a power loss") {
  MemoryRoom room;
  write_file(room.fs(), room.path("000007.wal"), segment({"one", "two"}, {}) + "garbage");
  require_ok(room.fs().sync_dir(room.dir()));
  const ReadBack torn = read_back(room.fs(), room.dir(), kFile);
  REQUIRE_FALSE(torn.end.clean);
  require_ok(cut_log(room.fs(), room.dir(), kFile, torn.end.valid_bytes));
  const auto crashed = room.fs().crash_clone(0, CrashMode::kNothing);
  const ReadBack cut = read_back(*crashed, room.dir(), kFile);
  REQUIRE(cut.end.clean);
  REQUIRE(cut.payloads == std::vector<std::string>{"one", "two"});
}

TEST_CASE("power is lost: the records read are a prefix with all synced ones, and no damage is reported") {
  unsigned lost = 0, torn = 0;
  for (std::uint64_t seed = first_seed() + 1; seed <= first_seed() + 400; ++seed) {
    Random random(seed);
    MemoryRoom room;
    auto log = value_of(LogWriter::create(room.fs(), room.dir(), kFile));
    std::vector<std::string> payloads;
    std::size_t synced = 0;
    for (std::uint64_t n = random.uniform(40); n > 0; --n) {
      payloads.push_back(payload_of(random.next(), random.uniform(1500) / (1 + random.uniform(20))));
      require_ok(append_one(*log, payloads.back()));
      if (!random.one_in(6)) continue;
      require_ok(log->sync());
      synced = payloads.size();
    }
    for (std::uint64_t crash = 0; crash < 5; ++crash) {
      INFO("seed " << seed << ", crash " << crash);
      const ReadBack back = read_back(*room.fs().crash_clone(seed * 10 + crash), room.dir(), kFile);
      require_ok(back.status);
      REQUIRE(is_prefix(back.payloads, payloads));
      REQUIRE(back.payloads.size() >= synced);
      INFO(back.end.what);
      REQUIRE_FALSE(back.end.valid_after);
      lost += back.payloads.size() < payloads.size();
      torn += !back.end.clean;
    }
  }
  REQUIRE(lost > 500);
  REQUIRE(torn > 300);
}

TEST_CASE("one thread appends while another syncs: all records are read back", "[threads]") {
  MemoryRoom room;
  auto log = value_of(LogWriter::create(room.fs(), room.dir(), kFile));
  Status synced;
  std::uint64_t vouched_too_much = 0;
  std::thread syncer([&] {
    for (int i = 0; i < 200 && synced.is_ok(); ++i) {
      synced = log->sync();
      vouched_too_much += log->synced_bytes() > log->size();
    }
  });
  std::vector<std::string> payloads;
  Status appended;
  for (std::uint64_t i = 0; i < 500 && appended.is_ok(); ++i) {
    payloads.push_back(payload_of(i, i % 90));
    appended = append_one(*log, payloads.back());
  }
  syncer.join();
  require_ok(appended);
  require_ok(synced);
  REQUIRE(vouched_too_much == 0);
  const ReadBack back = read_back(room.fs(), room.dir(), kFile);
  REQUIRE(back.end.clean);
  REQUIRE(back.payloads == payloads);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
