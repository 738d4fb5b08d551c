// Tests of backups as a stream: all data arrives, and a cut, damaged or hostile stream leaves nothing behind.
#include "tools/inspect_stream.h"

#include <engine/db.h>
#include <zstd.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>

#include "base/background_pool.h"
#include "base/clock.h"
#include "io/file_names.h"
#include "io/memory_fs.h"

namespace ebbtide {
namespace TEST_FILE {

const std::string kDir = "db";

struct Opened {
  Opened(FileSystem& fs, const std::string& dir) {
    Settings settings;
    settings.dir = dir;
    settings.memory_budget = 64 << 20;
    settings.tree.memtable_size = 64 << 10;
    Components components;
    components.fs = &fs;
    components.clock = &clock;
    components.background = &pool;
    auto opened = Db::open(settings, components);
    if (!opened.is_ok()) FAIL(opened.status().to_string());
    db = std::move(opened).value();
  }
  [[nodiscard]] std::string get(const std::string& key) const {
    Found found;
    const ReadView view = db->lease(0);
    const Status status = view.get({key, hash_key(key)}, &found);
    return status.is_ok() ? std::string(found.value) : status.to_string();
  }
  void put(const std::string& key, const std::string& value) const {
    WriteBatch batch;
    batch.put(0, key, value);
    REQUIRE(db->commit(batch).is_ok());
    db->write_log();
  }
  SimulatedClock clock;
  ManualPool pool;
  std::unique_ptr<Db> db;
};

std::string value_of(int i) { return "value" + std::to_string(i) + std::string(100, 'x'); }

/// Makes a closed database with tables and a log.
std::unique_ptr<MemoryFileSystem> sample() {
  auto fs = std::make_unique<MemoryFileSystem>();
  Opened opened(*fs, kDir);
  for (int i = 0; i < 400; ++i) opened.put("key" + std::to_string(i), value_of(i));
  REQUIRE(opened.db->flush(0).is_ok());
  opened.pool.run_all();
  opened.put("in the log", "yes");
  REQUIRE(opened.db->close().is_ok());
  return fs;
}

std::string sent(FileSystem& fs, const std::string& dir = kDir) {
  std::string stream;
  const Inspection done = send_database(fs, dir, [&](Bytes piece) {
    stream += piece;
    return Status::ok();
  });
  for (const std::string& error : done.errors) FAIL_CHECK(error);
  return stream;
}

/// Receives the stream in chunks of `piece` bytes.
Inspection received(FileSystem& fs, const std::string& stream, const std::string& to = "copy", std::size_t piece = 1 << 20) {
  std::size_t at = 0;
  return receive_database(
      fs,
      [&](char* buffer, std::size_t size) -> Result<std::size_t> {
        const std::size_t bytes = std::min({size, piece, stream.size() - at});
        std::memcpy(buffer, stream.data() + at, bytes);
        at += bytes;
        return bytes;
      },
      to);
}

std::string unpacked(const std::string& stream) {
  std::string out(std::size_t{8} << 20, '\0');
  ZSTD_DCtx* const context = ZSTD_createDCtx();
  ZSTD_inBuffer in{stream.data(), stream.size(), 0};
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  while (in.pos < in.size) REQUIRE(ZSTD_isError(ZSTD_decompressStream(context, &to, &in)) == 0);
  ZSTD_freeDCtx(context);
  out.resize(to.pos);
  return out;
}

std::string packed(const std::string& archive) {
  std::string out(ZSTD_compressBound(archive.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), archive.data(), archive.size(), 1));
  return out;
}

/// Gives the first member another name, with a checksum that fits.
std::string renamed(std::string archive, const std::string& name) {
  std::memset(archive.data(), 0, 100);
  std::memcpy(archive.data(), name.data(), name.size());
  std::memset(archive.data() + 148, ' ', 8);
  unsigned sum = 0;
  for (int i = 0; i < 512; ++i) sum += static_cast<unsigned char>(archive[static_cast<std::size_t>(i)]);
  std::snprintf(archive.data() + 148, 7, "%06o", sum);
  return archive;
}

TEST_CASE("database is sent and received, in chunks of any size: the copy opens with all its data", "[tools][stream]") {
  const auto fs = sample();
  const std::string stream = sent(*fs);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{13}, std::size_t{1} << 20}) {
    const std::string to = "copy" + std::to_string(piece);
    const Inspection done = received(*fs, stream, to, piece);
    for (const std::string& error : done.errors) FAIL_CHECK(error);
    const Opened copy(*fs, to);
    for (int i = 0; i < 400; ++i) CHECK(copy.get("key" + std::to_string(i)) == value_of(i));
    CHECK(copy.get("in the log") == "yes");
  }
}

TEST_CASE("received stream is cut: receive fails and leaves no directory", "[tools][stream]") {
  const auto fs = sample();
  const std::string stream = sent(*fs);
  for (std::size_t size = 0; size < stream.size(); size += 1 + stream.size() / 97) {
    INFO(size << " of " << stream.size());
    CHECK_FALSE(received(*fs, stream.substr(0, size)).errors.empty());
    CHECK_FALSE(fs->exists("copy"));
  }
  CHECK_FALSE(received(*fs, stream.substr(0, stream.size() - 1)).errors.empty());
  CHECK_FALSE(received(*fs, stream + "x").errors.empty());
  CHECK_FALSE(received(*fs, stream + stream).errors.empty());
  CHECK_FALSE(fs->exists("copy"));
}

TEST_CASE("received stream has a flipped bit: receive fails and leaves no directory, unless the bit has no effect",
          "[tools][stream]") {
  const auto fs = sample();
  const std::string stream = sent(*fs);
  for (std::size_t at = 0; at < stream.size(); at += 1 + stream.size() / 97) {
    INFO("byte " << at);
    std::string wrong = stream;
    wrong[at] = static_cast<char>(wrong[at] ^ 0x10);
    if (received(*fs, wrong).errors.empty()) {  // these bits of a frame's header change nothing
      CHECK(Opened(*fs, "copy").get("in the log") == "yes");
      const std::vector<std::string> names = *fs->list("copy");
      for (const std::string& name : names) REQUIRE(fs->unlink("copy/" + name).is_ok());
      REQUIRE(fs->remove_dir("copy").is_ok());
    }
    CHECK_FALSE(fs->exists("copy"));
  }
}

TEST_CASE("archive has a file name that no database has: receive refuses it, and writes no file", "[tools][stream]") {
  const auto fs = sample();
  const std::string archive = unpacked(sent(*fs));
  for (const char* name : {"../evil", "/etc/evil", "LOCK", "a/000001.data", "", "000001.tmp", "RESERVE"}) {
    INFO(name);
    const Inspection done = received(*fs, packed(renamed(archive, name)));
    REQUIRE(done.errors.size() == 1);
    CHECK(done.errors[0].find("does not belong to a database") != std::string::npos);
    CHECK_FALSE(fs->exists("copy"));
    CHECK_FALSE(fs->exists("evil"));
  }
}

TEST_CASE("archive lacks its last member, or has a member after it: receive refuses it and leaves no directory",
          "[tools][stream]") {
  const auto fs = sample();
  std::string archive = unpacked(sent(*fs));
  const std::size_t current = archive.size() - 1024 - 1024;  // header and padded content before the two last blocks
  REQUIRE(archive.compare(current, 8, std::string("CURRENT\0", 8)) == 0);
  const std::string without = archive.substr(0, current) + std::string(1024, '\0');
  CHECK(received(*fs, packed(without)).errors.at(0).find("MANIFEST or CURRENT is missing") != std::string::npos);
  const std::string twice = archive.substr(0, archive.size() - 1024) + archive.substr(current);
  CHECK(received(*fs, packed(twice)).errors.at(0).find("after CURRENT") != std::string::npos);
  CHECK_FALSE(fs->exists("copy"));
}

TEST_CASE("target of receive is not empty: receive refuses the stream, and the target stays as it is", "[tools][stream]") {
  const auto fs = sample();
  const std::string stream = sent(*fs);
  CHECK(received(*fs, stream, kDir).errors.at(0).find("is not empty") != std::string::npos);
  CHECK(Opened(*fs, kDir).get("in the log") == "yes");
}

TEST_CASE("directory is open in a server, or has no database: send writes nothing", "[tools][stream]") {
  const auto fs = sample();
  std::size_t bytes = 0;
  const auto count = [&](Bytes piece) {
    bytes += piece.size();
    return Status::ok();
  };
  CHECK(send_database(*fs, "none", count).errors.at(0).find("has no CURRENT") != std::string::npos);
  const Opened open(*fs, kDir);
  CHECK(send_database(*fs, kDir, count).errors.at(0).find("a server has db open") != std::string::npos);
  CHECK(bytes == 0);
}

TEST_CASE("output of send cannot be written: send returns an error, and says that the stream is incomplete", "[tools][stream]") {
  const auto fs = sample();
  const Inspection done = send_database(*fs, kDir, [](Bytes) { return Status::io_error("full"); });
  CHECK(done.errors.at(0).find("full") != std::string::npos);
  CHECK(done.text.find("The stream is incomplete.") != std::string::npos);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
