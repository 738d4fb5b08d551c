// Tests of large values that are located and read in parts: bytes read from files, charged bytes, and correct results.
#include <algorithm>
#include <functional>

#include "base/random.h"
#include "engine/db/harness.h"
#include "table/format.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr std::uint64_t kBytes = (std::uint64_t{3} << 20) + 12'345;  // 13 chunks, of which the last is short

/// Returns a value of which half compresses, and no two parts are equal.
std::string patterned(std::uint64_t bytes) {
  Random random(7);
  std::string value(bytes, '.');
  for (std::uint64_t i = 0; i < bytes; ++i) {
    if (i / 64 % 2 == 0) value[i] = static_cast<char>(random.next());
  }
  return value;
}

struct Layout {
  std::uint32_t pages_per_tile;
  Compression compression;
};

Settings settings_of(const Layout& layout) {
  Settings settings = Harness::small();
  settings.memory_budget = 32 << 20;  // a sixteenth of it, 2 MiB, is free for large values in any case
  settings.tree.pages_per_tile = layout.pages_per_tile;
  settings.tree.compression = settings.tree.compression_last_level = layout.compression;
  return settings;
}

const Layout kLayouts[] = {{1, Compression::kNone}, {8, Compression::kLz4}, {8, Compression::kZstd}};

/// Makes "big" and a few small keys in a table. None of its pages is in memory.
void put_on_disk(Harness& h, const std::string& value) {
  h.open();
  for (int i = 0; i < 20; ++i) h.put(0, key_of(static_cast<std::uint64_t>(i)), "small");
  h.put(0, "big", value, h.db->now() + 1'000'000);
  REQUIRE(h.db->flush(0).is_ok());
  h.settle();
  h.reopen();
}

const LookupKey& big() {
  static const LookupKey key{"big", hash_key("big")};
  return key;
}

/// Charges all free memory of the budget while the object lives.
struct SpentBudget {
  explicit SpentBudget(Harness& harness) : h(harness) {
    h.db->memory().charge(MemoryAccount::Kind::kConnections, h.settings.memory_budget);
  }
  ~SpentBudget() { h.db->memory().release(MemoryAccount::Kind::kConnections, h.settings.memory_budget); }
  SpentBudget(const SpentBudget&) = delete;
  SpentBudget& operator=(const SpentBudget&) = delete;
  Harness& h;
};

/// Calls `read` with non-blocking views, after a fetch of the missing pages each time, until none is missing.
Status read_resident(Harness& h, MissSet* misses, const std::function<Status(const ReadView&)>& read) {
  for (int round = 0; round < 5; ++round) {
    PassGuard guard(*h.db);
    const Status status = read(h.db->view(0, h.db->now(), ReadMode::kResident, misses));
    if (!status.is_not_resident()) return status;
    REQUIRE(h.db->fetch(misses, [] {}));
  }
  return Status::aborted("no end of rounds");
}

TEST_CASE("value is larger than the free budget: lookup locates it and reads it in parts, but not as a whole",
          "[db][large_values]") {
  for (const Layout& layout : kLayouts) {
    CAPTURE(layout.pages_per_tile, static_cast<int>(layout.compression));
    Harness h(settings_of(layout));
    const std::string value = patterned(kBytes);
    put_on_disk(h, value);
    const SpentBudget spent(h);
    std::uint64_t bytes_read = 0;
    h.watch->on_call = [&](const FileCall& call) {
      if (call.op == FileOp::kRead && call.path.ends_with(".data")) bytes_read += call.length;
    };
    MissSet misses;
    Found found;
    const auto locate = [&](const ReadView& view) { return view.locate(big(), &found); };
    REQUIRE(read_resident(h, &misses, locate).is_ok());
    CHECK(found.length == kBytes);
    CHECK(found.value.empty());
    CHECK(found.expiry != 0);
    CHECK(h.db->lease(0).locate(big(), &found).is_ok());
    CHECK(bytes_read < 16 << 10);  // pages, and nothing of the value
    CHECK(h.db->stats().large_value_bytes == 0);

    ValuePart part;
    REQUIRE(read_resident(h, &misses, [&](const ReadView& view) {
              const Status status = view.locate(big(), &found);
              return status.is_ok() ? view.read_part(found, 1'000'000, 20, &part) : status;
            }).is_ok());
    CHECK(part.bytes == value.substr(1'000'000, 20));
    CHECK(bytes_read < kLargeChunkBytes + (32 << 10));  // pages, and the chunk with the part
    CHECK(h.db->stats().large_value_bytes == 20);
    misses.clear();
    part = {};
    CHECK(h.db->stats().large_value_bytes == 0);

    const auto get = [&](const ReadView& view) { return view.get(big(), &found); };
    CHECK(read_resident(h, &misses, get).code() == Code::kOutOfMemory);
    CHECK(h.db->lease(0).get(big(), &found).code() == Code::kOutOfMemory);
    h.watch->on_call = nullptr;
  }
}

TEST_CASE("parts of a large value begin and end around edges of chunks: they are read correctly", "[db][large_values]") {
  for (const Layout& layout : kLayouts) {
    CAPTURE(layout.pages_per_tile, static_cast<int>(layout.compression));
    Harness h(settings_of(layout));
    const std::string value = patterned(kBytes);
    put_on_disk(h, value);
    Random random(3);
    const auto near_an_edge = [&] {
      const std::uint64_t edge = random.uniform(kBytes / kLargeChunkBytes + 2) * kLargeChunkBytes, off = random.uniform(5);
      return std::min(kBytes, random.one_in(2) ? edge + off : std::max(edge, off) - off);
    };
    for (int i = 0; i < 200; ++i) {
      std::uint64_t first = near_an_edge(), end = near_an_edge();
      if (end < first) std::swap(first, end);
      CAPTURE(first, end);
      MissSet misses;
      Found found;
      ValuePart part;
      const Status resident = read_resident(h, &misses, [&](const ReadView& view) {
        const Status status = view.locate(big(), &found);
        return status.is_ok() ? view.read_part(found, first, end - first, &part) : status;
      });
      REQUIRE(resident.is_ok());
      REQUIRE((part.bytes == Bytes(value).substr(first, end - first)));

      const ReadView lease = h.db->lease(0);
      REQUIRE(lease.locate(big(), &found).is_ok());
      std::string copied(end - first, '\0');
      REQUIRE(lease.copy_part(found, first, copied).is_ok());
      REQUIRE((copied == Bytes(value).substr(first, end - first)));
    }
    CHECK(h.db->stats().large_value_bytes == 0);
  }
}

TEST_CASE("large value is copied into the caller's memory: nothing is charged", "[db][large_values]") {
  Harness h(settings_of(kLayouts[0]));
  const std::string value = patterned(kBytes);
  put_on_disk(h, value);
  const SpentBudget spent(h);
  const ReadView view = h.db->lease(0);
  Found found;
  REQUIRE(view.locate(big(), &found).is_ok());
  std::string copied(found.length, '\0');
  REQUIRE(view.copy_part(found, 0, copied).is_ok());
  CHECK((copied == value));
  CHECK(h.db->stats().large_value_bytes == 0);
}

TEST_CASE("another reader holds a large value: a read of a part shares that reader's memory", "[db][large_values]") {
  Harness h(settings_of(kLayouts[1]));
  h.settings.memory_budget = 64 << 20;
  const std::string value = patterned(kBytes);
  put_on_disk(h, value);
  const ReadView view = h.db->lease(0);
  Found whole, located;
  REQUIRE(view.get(big(), &whole).is_ok());
  CHECK((whole.value == value));
  REQUIRE(whole.shared() != nullptr);
  CHECK(whole.shared()->data() == whole.value.data());
  REQUIRE(view.locate(big(), &located).is_ok());
  ValuePart part;
  h.watch->on_call = [&](const FileCall& call) { REQUIRE_FALSE((call.op == FileOp::kRead && call.path.ends_with(".data"))); };
  REQUIRE(view.read_part(located, 700'000, 900'000, &part).is_ok());
  h.watch->on_call = nullptr;
  CHECK(part.bytes.data() == whole.value.data() + 700'000);
  CHECK(h.db->stats().large_value_bytes == kBytes);
}

TEST_CASE("large value is in a memtable: locate() returns its bytes, too", "[db][large_values]") {
  Harness h;
  h.open();
  const std::string value = patterned(kBytes);
  h.put(0, "big", value);
  PassGuard guard(*h.db);
  const ReadView view = h.db->view(0, h.db->now(), ReadMode::kResident, nullptr);
  Found found;
  REQUIRE(view.locate(big(), &found).is_ok());
  CHECK((found.value == value));
  CHECK(found.length == kBytes);
  CHECK(found.shared() != nullptr);
  ValuePart part;
  REQUIRE(view.read_part(found, 5, 10, &part).is_ok());
  CHECK(part.bytes == value.substr(5, 10));
  REQUIRE(view.read_part(found, kBytes, 0, &part).is_ok());
  CHECK(part.bytes.empty());
}

TEST_CASE("one chunk of a large value is damaged: only reads of parts in that chunk fail", "[db][large_values]") {
  Harness h(settings_of(kLayouts[0]));
  const std::string value = patterned(kBytes);
  put_on_disk(h, value);
  const std::string path = h.paths(".data").front();
  std::string bytes = read_file(*h.files, path).value();
  const std::size_t at = bytes.find(value.substr(5 * kLargeChunkBytes, 64));
  REQUIRE(at != std::string::npos);
  bytes[at + 100] = static_cast<char>(bytes[at + 100] ^ 1);
  REQUIRE(h.files->unlink(path).is_ok());
  auto file = h.files->create(path);
  REQUIRE(((*file)->append(bytes).is_ok() && (*file)->sync().is_ok()));
  h.reopen();
  const ReadView view = h.db->lease(0);
  Found found;
  REQUIRE(view.locate(big(), &found).is_ok());
  std::string copied(kLargeChunkBytes, '\0');
  for (std::uint64_t chunk = 0; chunk < kBytes / kLargeChunkBytes; ++chunk) {
    CAPTURE(chunk);
    const Status status = view.copy_part(found, chunk * kLargeChunkBytes, copied);
    CHECK(status.code() == (chunk == 5 ? Code::kCorruption : Code::kOk));
  }
  CHECK(view.copy_part(found, 5 * kLargeChunkBytes - 1, std::span(copied).first(2)).code() == Code::kCorruption);
  const auto report = h.db->verify(0);
  REQUIRE(report.is_ok());
  CHECK(report->errors.size() == 1);
}

TEST_CASE("view is revoked: reading a part of a large value returns the revocation error", "[db][large_values]") {
  Harness h(settings_of(kLayouts[0]));
  put_on_disk(h, patterned(kBytes));
  const ReadView view = h.db->lease(0);
  Found found;
  REQUIRE(view.locate(big(), &found).is_ok());
  h.del(0, "big");
  SeqNum up_to = 0;
  const PurgeTicket ticket{h.db->purge_ticket(&up_to).born_by, h.db->tree_info(0)->tree};
  REQUIRE(h.db->wait_synced(up_to).is_ok());
  h.clock.advance(2);
  REQUIRE(h.db->purge_now(ticket).is_ok());
  const auto pass = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      h.advance(1000);
      h.settle();
      h.db->write_log();
    }
  };
  pass(10);
  REQUIRE(h.db->compact(0, {}).is_ok());
  pass(30);
  ValuePart part;
  char copied = 0;
  CHECK(view.read_part(found, 0, 1, &part).code() == Code::kRevoked);
  CHECK(view.copy_part(found, 0, {&copied, 1}).code() == Code::kRevoked);
}

}  // namespace TEST_FILE
