// Tests that damage is found and that the error names file and offset, and that hostile bytes never cause a crash.
#include <regex>

#include "base/checksum.h"
#include "base/coding.h"
#include "engine/table/table_fixture.h"
#include "support/long_run.h"
#include "support/planted.h"
#include "table/page.h"
#include "table/page_builder.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

void overwrite(Bench& bench, const std::string& path, Bytes content) {
  if (bench.fs.exists(path)) REQUIRE(bench.fs.unlink(path).is_ok());
  auto file = bench.fs.create(path);
  REQUIRE(file.is_ok());
  REQUIRE((*file)->append(content).is_ok());
  REQUIRE((*file)->close().is_ok());
}

// Opens and reads a whole table, without a cache that could hide the bytes on disk.
Status read_all(Bench& bench, const TableFiles& files) {
  TableReaderOptions options = bench.reader_options();
  options.cache = nullptr;
  auto table = TableReader::open(options, files);
  if (!table.is_ok()) return table.status();
  std::vector<std::string> errors;
  std::uint64_t pages = 0, entries = 0;
  const bool clean = (*table)->verify(&errors, &pages, &entries);
  // verify() and a walk that reads the large values must agree on whether the table is damaged.
  auto it = (*table)->new_iterator({});
  Status walked;
  for (it->seek_to_first(); it->valid() && walked.is_ok(); it->next()) {
    if (it->entry().is_large()) walked = (*table)->read_large(it->entry().large).status();
  }
  if (walked.is_ok()) walked = it->status();
  if (clean != walked.is_ok())
    return Status::aborted("verify and walk disagree: " + (clean ? walked.to_string() : errors.front()));
  return walked;
}

std::string content_of(Bench& bench, const std::string& path) {
  auto bytes = read_file(bench.fs, path);
  REQUIRE(bytes.is_ok());
  return bytes.value();
}

/// A table of pages and one large value, with a range tombstone; and the table's entries.
struct Victim {
  Victim(std::uint64_t seed, std::uint32_t h, Compression compression) : random(first_seed() + seed + h) {
    Recipe recipe;
    recipe.keys = 60;
    recipe.large_values = 0;
    entries = random_entries(random, recipe);
    for (Owned& o : entries) {
      if (!o.fields.is_tombstone()) {
        o.value = random_value(random, kLargeValueBytes + 1);  // one large value is enough
        break;
      }
    }
    TableBuilderOptions options = bench.builder_options();
    options.pages_per_tile = h;
    options.compression = compression;
    files = Bench::files_of(bench.build(options, entries, {{"b", "d", 10, 100}}));
    REQUIRE(read_all(bench, files).is_ok());
  }

  Bench bench;
  Random random;
  std::vector<Owned> entries;
  TableFiles files;
  const std::string data = join_path(bench.dir, data_file_name(7)), metadata = join_path(bench.dir, metadata_file_name(8));
};

void demand_told(const Status& status, const std::string& path, const std::string& what) {
  static const std::regex place(R"((at|offset) \d+|has \d+ bytes)");
  demand(status.code() == Code::kCorruption, (what + " is not found").c_str());
  demand(status.message().find(path) != Bytes::npos, (what + " is found, but its file is not named").c_str());
  demand(std::regex_search(std::string(status.message()), place), (what + " is found, but not where").c_str());
}

/// Flips random bytes in both files of a table, one at a time.
void flip_bytes(std::uint32_t h, Compression compression) {
  Victim victim(20, h, compression);
  auto& [bench, random, entries, files, data, metadata] = victim;
  const std::uint64_t stride = number_from_env("EBBTIDE_FLIP_STRIDE", 31);
  for (const std::string& path : {data, metadata}) {
    const std::string good = content_of(bench, path);
    for (std::size_t at = stride == 1 ? 0 : random.uniform(16); at < good.size(); at += 1 + random.uniform(stride)) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << random.uniform(8)));
      overwrite(bench, path, bad);
      const Status status = read_all(bench, files);
      CAPTURE(h, path, at, status.to_string());
      demand_told(status, path, "a flipped byte");
    }
    overwrite(bench, path, good);
  }
}

/// Iterates over a table that was open before the damage. The walk must show the written entries, up to an error.
Status walk(const TableReader& table, const std::vector<Owned>& entries) {
  const auto wrong = [] { throw Finding("a walk shows what was not written, or ends early and says nothing"); };
  auto it = table.new_iterator({});
  std::size_t shown = 0;
  for (it->seek_to_first(); it->valid(); it->next(), ++shown) {
    if (shown == entries.size() || !same_fields(it->entry(), entries[shown].view())) wrong();
    if (it->entry().is_large()) {
      const auto value = table.read_large(it->entry().large);
      if (!value.is_ok()) return value.status();
      if (**value != entries[shown].value) wrong();
    } else if (it->entry().value != entries[shown].value) {
      wrong();
    }
  }
  if (it->status().is_ok() && shown != entries.size()) wrong();
  return it->status();
}

/// Cuts both files of a table, one at a time, to lengths in steps of `stride`.
void cut_files(std::uint32_t h, Compression compression, std::uint64_t stride) {
  Victim victim(40, h, compression);
  auto& [bench, random, entries, files, data, metadata] = victim;
  TableReaderOptions options = bench.reader_options();
  options.cache = nullptr;
  for (const std::string& path : {data, metadata}) {
    const auto open = TableReader::open(options, files);
    REQUIRE(open.is_ok());
    REQUIRE(walk(**open, entries).is_ok());
    const std::string good = content_of(bench, path);
    for (std::size_t length = good.size(); length > 0;) {
      length -= std::min<std::size_t>(length, 1 + random.uniform(stride));
      REQUIRE(bench.fs.truncate(path, length).is_ok());
      const Status status = read_all(bench, files);
      CAPTURE(h, path, length, good.size(), status.to_string());
      demand_told(status, path, "a cut");
      if (path == data) {
        demand_told(walk(**open, entries), path, "a cut of a file that is open");
      } else {  // decode() must find the cut without the manifest's length too, since tools read the file without a manifest
        demand_told(TableMetadata::decode(Bytes(good).substr(0, length), files.metadata_file, path).status(), path,
                    "a cut of metadata");
      }
    }
    overwrite(bench, path, good);
  }
  REQUIRE(read_all(bench, files).is_ok());
}

TEST_CASE("any byte of a table is flipped: reading or verifying reports the damage", "[table][damage]") {
  for (const std::uint32_t h : {1u, 4u}) {
    for (const Compression compression : {Compression::kNone, Compression::kLz4, Compression::kZstd}) flip_bytes(h, compression);
  }
}

TEST_CASE("file of a table is truncated anywhere: reading or verifying reports the damage", "[table][damage]") {
  constexpr std::uint64_t kSector = 512;  // the unit that a disk loses, so a cut is made in each sector
  const std::uint64_t stride = number_from_env("EBBTIDE_FLIP_STRIDE", kSector) == 1 ? 1 : kSector;
  for (const std::uint32_t h : {1u, 4u}) {
    for (const Compression compression : {Compression::kNone, Compression::kLz4, Compression::kZstd})
      cut_files(h, compression, stride);
  }
}

TEST_CASE("planted bug accepts a block with any checksum: flipped bytes find the bug", "[table][damage][planted]") {
  must_catch(PlantedBug::kIgnoreChecksum, [] { flip_bytes(1, Compression::kNone); });
}

TEST_CASE("file of a table is truncated, swapped or stale: reading the table returns kCorruption", "[table][damage]") {
  Bench bench;
  Random random(31);
  const std::vector<Owned> entries = random_entries(random, Recipe{});
  const BuiltTable one = bench.build(bench.builder_options(), entries);
  const BuiltTable two = bench.build(bench.builder_options(), entries);
  const std::string data_one = join_path(bench.dir, data_file_name(one.data_file));
  const std::string meta_one = join_path(bench.dir, metadata_file_name(one.metadata_file));
  const std::string data = content_of(bench, data_one), meta = content_of(bench, meta_one);
  const TableFiles files = Bench::files_of(one);
  for (const std::size_t cut :
       {std::size_t{0}, std::size_t{1}, std::size_t{31}, std::size_t{32}, meta.size() / 2, meta.size() - 1}) {
    overwrite(bench, meta_one, Bytes(meta).substr(0, cut));
    REQUIRE(read_all(bench, files).code() == Code::kCorruption);
  }
  overwrite(bench, meta_one, content_of(bench, join_path(bench.dir, metadata_file_name(two.metadata_file))));
  REQUIRE(read_all(bench, files).code() == Code::kCorruption);
  overwrite(bench, meta_one, meta);
  for (const std::size_t cut : {std::size_t{0}, std::size_t{5}, data.size() / 2, data.size() - 1}) {
    overwrite(bench, data_one, Bytes(data).substr(0, cut));
    REQUIRE(read_all(bench, files).code() == Code::kCorruption);
  }
  overwrite(bench, data_one, content_of(bench, join_path(bench.dir, data_file_name(two.data_file))));
  REQUIRE(read_all(bench, files).code() == Code::kCorruption);
  overwrite(bench, data_one, data);
  REQUIRE(read_all(bench, files).is_ok());
  TableFiles wrong = files;
  wrong.metadata_checksum ^= 1;
  REQUIRE(read_all(bench, wrong).code() == Code::kCorruption);
  wrong = files;
  wrong.data_checksum ^= 1;
  REQUIRE(read_all(bench, wrong).code() == Code::kCorruption);
}

TEST_CASE("table has an unknown format version: opening is refused, and the error names both versions", "[table][damage]") {
  const std::uint32_t version = GENERATE(0u, kTableVersion + 1);
  Bench bench;
  Random random(33);
  const BuiltTable built = bench.build(bench.builder_options(), random_entries(random, Recipe{}));
  const std::string path = join_path(bench.dir, metadata_file_name(built.metadata_file));
  std::string bytes = content_of(bench, path);
  store_fixed<std::uint32_t>(bytes.data() + 4, version);
  store_fixed(bytes.data() + 24, block_checksum(Bytes(bytes).substr(0, 24), built.metadata_file, 0));
  overwrite(bench, path, bytes);
  const Status status = read_all(bench, Bench::files_of(built));
  REQUIRE(status.code() == Code::kUnsupported);
  REQUIRE(status.message().find("version " + std::to_string(version) + ";") != Bytes::npos);
  REQUIRE(status.message().find("versions up to " + std::to_string(kTableVersion)) != Bytes::npos);
}

// The damage has valid checksums. Decoders must refuse or read it, and stay within its bytes.
TEST_CASE("metadata has hostile bytes and valid checksums: reading the table does not crash", "[table][damage][property]") {
  for (const std::uint32_t h : {1u, 5u}) {
    Bench bench;
    Random random(35 + h);
    Recipe recipe;
    recipe.keys = 80;
    TableBuilderOptions options = bench.builder_options();
    options.pages_per_tile = h;
    const BuiltTable built = bench.build(options, random_entries(random, recipe), {{"a", "b", 3, 4}});
    const std::string path = join_path(bench.dir, metadata_file_name(built.metadata_file));
    const std::string good = content_of(bench, path);
    const auto checksum_directory = [&](std::string* bytes, std::uint64_t directory) {
      store_fixed(bytes->data() + bytes->size() - 8,
                  block_checksum(Bytes(*bytes).substr(directory, bytes->size() - 8 - directory), built.metadata_file, directory));
    };
    for (int round = 0; round < 3000; ++round) {
      std::string bytes = good;
      const auto directory = load_fixed<std::uint64_t>(bytes.data() + bytes.size() - 32);
      const auto sections = (bytes.size() - 32 - directory) / 32;
      for (std::uint64_t n = 1 + random.uniform(3); n > 0; --n) {
        const std::size_t at = 32 + random.uniform(bytes.size() - 32 - 32);
        bytes[at] =
            random.one_in(2) ? static_cast<char>(random.uniform(256)) : static_cast<char>(bytes[at] ^ (1 << random.uniform(8)));
      }
      for (std::size_t i = 0; i < sections; ++i) {
        char* const entry = bytes.data() + directory + i * 32;
        const auto offset = load_fixed<std::uint64_t>(entry + 8), length = load_fixed<std::uint64_t>(entry + 16);
        if (offset > bytes.size() || length > bytes.size() - offset) continue;
        store_fixed(entry + 24, block_checksum(Bytes(bytes).substr(offset, length), built.metadata_file, offset));
      }
      checksum_directory(&bytes, directory);
      overwrite(bench, path, bytes);
      TableFiles files = Bench::files_of(built);
      files.metadata_checksum = block_checksum(bytes, built.metadata_file, 0);
      files.metadata_bytes = bytes.size();
      auto reader = TableReader::open(bench.reader_options(), files);
      if (!reader.is_ok()) continue;
      std::vector<std::string> errors;
      std::uint64_t pages = 0, entries = 0;
      (void)(*reader)->verify(&errors, &pages, &entries);
      auto it = (*reader)->new_iterator({});
      std::size_t steps = 0;
      for (it->seek_to_first(); it->valid() && ++steps < 10'000; it->next()) {
      }
      for (it->seek_to_last(); it->valid() && ++steps < 20'000; it->prev()) {
      }
      it->seek("b");
      EpochGuard guard(bench.epoch);
      Entry entry;
      std::shared_ptr<const void> pin;
      Status status;
      (void)(*reader)->get(lookup_key("b"), kMaxSeqNum, nullptr, &entry, &pin, nullptr, &status);
      (void)(*reader)->split_points({"a", "c"}, 5);
      (void)(*reader)->byte_samples({"a", "c"}, 5);
      (void)(*reader)->approximate_bytes({"a", "c"});
    }
  }
}

TEST_CASE("page or large value has hostile bytes and a valid checksum: reading it does not crash", "[table][damage][property]") {
  for (const std::uint32_t h : {1u, 3u}) {
    Bench bench;
    Random random(45 + h);
    Recipe recipe;
    recipe.keys = 60;
    recipe.large_values = 1;
    TableBuilderOptions options = bench.builder_options();
    options.pages_per_tile = h;
    options.compression = Compression::kNone;
    const BuiltTable built = bench.build(options, random_entries(random, recipe));
    const std::string data_path = join_path(bench.dir, data_file_name(built.data_file));
    const std::string meta_path = join_path(bench.dir, metadata_file_name(built.metadata_file));
    const std::string good = content_of(bench, data_path);
    auto decoded = TableMetadata::decode(content_of(bench, meta_path), built.metadata_file, meta_path);
    REQUIRE(decoded.is_ok());
    for (int round = 0; round < 1500; ++round) {
      std::string bytes = good;
      TableMetadata m = decoded.value();
      PageMeta& page = m.pages[random.uniform(m.pages.size())];
      char* const block = bytes.data() + page.offset;
      for (std::uint64_t n = 1 + random.uniform(3); n > 0; --n) {
        // Most changes are near the beginning, with the lengths, or near the end, with type byte and payload length.
        const std::size_t at =
            random.one_in(4) ? page.length - 13 + random.uniform(5) : random.uniform(random.one_in(2) ? 64 : page.length - 13);
        block[at] = static_cast<char>(random.one_in(2) ? random.uniform(256)
                                                       : static_cast<std::uint64_t>(block[at] ^ (1 << random.uniform(8))));
      }
      page.checksum = block_checksum(Bytes(block, page.length - 8), built.data_file, page.offset);
      store_fixed(block + page.length - 8, page.checksum);
      m.data_checksum = m.sum_checksums();
      TableFiles files = Bench::files_of(built);
      const std::string meta = m.encode(built.metadata_file, &files.metadata_checksum);
      files.metadata_bytes = meta.size();
      files.data_checksum = m.data_checksum;
      overwrite(bench, data_path, bytes);
      overwrite(bench, meta_path, meta);
      TableReaderOptions reader_options = bench.reader_options();
      reader_options.cache = nullptr;
      auto reader = TableReader::open(reader_options, files);
      INFO(reader.status().to_string());
      REQUIRE(reader.is_ok());
      std::vector<std::string> errors;
      std::uint64_t pages = 0, entries = 0;
      (void)(*reader)->verify(&errors, &pages, &entries);
      auto it = (*reader)->new_iterator({});
      std::size_t steps = 0;
      const auto touch = [&] {
        if (it->entry().is_large()) (void)(*reader)->read_large(it->entry().large);
        return ++steps < 10'000;
      };
      for (it->seek_to_first(); it->valid() && touch(); it->next()) {
      }
      for (it->seek_to_last(); it->valid() && touch(); it->prev()) {
      }
      for (int i = 0; i < 20; ++i) it->seek(random_bytes(random, 3));
      Entry entry;
      std::shared_ptr<const void> pin;
      Status status;
      for (int i = 0; i < 20; ++i) {
        const std::string key = random_key(random, recipe);
        (void)(*reader)->get(lookup_key(key), kMaxSeqNum, nullptr, &entry, &pin, nullptr, &status);
      }
    }
  }
}

TEST_CASE("entries of a page are out of order or out of range: check_page() refuses the page", "[table][damage][page]") {
  const auto refused = [](std::vector<std::pair<std::string, SeqNum>> keys) {
    std::vector<PendingEntry> entries;
    std::vector<std::uint32_t> indexes;
    for (const auto& [key, seq] : keys) {
      PendingEntry& pending = entries.emplace_back();
      pending.entry.key = key;
      pending.entry.seq = seq;
      pending.entry.kind = EntryKind::kValue;
      pending.hash = hash_key(key);
      indexes.push_back(static_cast<std::uint32_t>(indexes.size()));
    }
    std::string page;
    build_page(entries, indexes, &page);
    const char* const why = check_page(page, 0);
    return std::string(why == nullptr ? "" : why);
  };
  REQUIRE(refused({{"a", 1}, {"b", 2}, {"b", 1}, {"c", 1}}).empty());
  REQUIRE(refused({{"a", 1}, {"c", 1}, {"b", 1}}) == "entries out of order");
  REQUIRE(refused({{"a", 1}, {"a", 2}}) == "entries out of order");
  REQUIRE(refused({{"a", 1}, {"a", 1}}) == "entries out of order");
  REQUIRE(refused({{"a", kMaxSeqNum}}).empty());
  REQUIRE(refused({{"a", kMaxSeqNum + 1}}) == "entry seq");
  REQUIRE(refused({{"a", 5}, {"b", kMaxSeqNum + 1}}) == "entry seq");
  const std::string longest(kMaxKeyBytes, 'x');
  REQUIRE(refused({{longest, 1}}).empty());
  REQUIRE(refused({{longest, 1}, {longest + "y", 1}}) == "entry key");
}

TEST_CASE("header of a collection is flagged as an element: check_page() refuses the page", "[table][damage][page]") {
  std::vector<PendingEntry> entries(1);
  entries[0].entry.key = "key";
  entries[0].entry.seq = 1;
  entries[0].hash = hash_key("key");
  const std::uint32_t all[] = {0};
  for (const EntryKind kind : {EntryKind::kCompact, EntryKind::kTombstone, EntryKind::kValue, EntryKind::kHeader}) {
    entries[0].entry.kind = kind;
    std::string page;
    build_page(entries, all, &page);
    REQUIRE(check_page(page, 0) == nullptr);
    Entry read;
    std::string key;
    PageView(page).read(0, nullptr, &key, &read);
    CHECK(read.kind == kind);
    const std::size_t flags_at = page.size() - 3;  // flags, suffix length, seq; the whole key is the prefix
    page[flags_at] = static_cast<char>(page[flags_at] | 0x80);
    if (kind == EntryKind::kHeader) {
      REQUIRE(std::string(check_page(page, 0)) == "entry flags");
      continue;
    }
    REQUIRE(check_page(page, 0) == nullptr);
    PageView(page).read(0, nullptr, &key, &read);
    CHECK(read.element);
    CHECK(read.kind == kind);
  }
}

// The entries of a merge come from files, so a fault in them must end the merge, not the process.
TEST_CASE("entries are out of order or malformed: the table builder refuses them", "[table][damage]") {
  const auto add = [](const std::vector<std::pair<std::string, SeqNum>>& keys) {
    Bench bench;
    TableBuilder builder(bench.builder_options());
    Status status;
    for (const auto& [key, seq] : keys) {
      Entry entry;
      entry.key = key;
      entry.seq = seq;
      entry.kind = EntryKind::kValue;
      status = builder.add(entry);
    }
    if (!status.is_ok()) REQUIRE(builder.finish().status().code() == status.code());
    return status;
  };
  REQUIRE(add({{"a", 1}, {"b", 1}}).is_ok());
  REQUIRE(add({{"b", 1}, {"a", 1}}).code() == Code::kCorruption);
  REQUIRE(add({{"a", 1}, {"a", 1}}).code() == Code::kCorruption);
  REQUIRE(add({{"a", 1}, {"a", 2}}).code() == Code::kCorruption);
  REQUIRE(add({{"a", kMaxSeqNum + 1}}).code() == Code::kCorruption);
  REQUIRE(add({{std::string(kMaxKeyBytes + 1, 'x'), 1}}).code() == Code::kCorruption);
}

TEST_CASE("metadata lacks filter slices, or has an oversized separator: decode() returns kCorruption", "[table][damage]") {
  Bench bench;
  Random random(61);
  const BuiltTable built = bench.build(bench.builder_options(), random_entries(random, Recipe{}));
  const std::string path = join_path(bench.dir, metadata_file_name(built.metadata_file));
  auto decoded = TableMetadata::decode(content_of(bench, path), built.metadata_file, path);
  REQUIRE(decoded.is_ok());
  const auto decode_again = [&](TableMetadata m) {
    std::uint64_t checksum = 0;
    const std::string bytes = m.encode(built.metadata_file, &checksum);
    return TableMetadata::decode(bytes, built.metadata_file, path).status();
  };
  REQUIRE(decode_again(decoded.value()).is_ok());
  TableMetadata unfiltered = decoded.value();
  unfiltered.filter_slices.clear();
  REQUIRE(decode_again(unfiltered).code() == Code::kCorruption);
  TableMetadata long_separator = decoded.value();
  long_separator.separators.back().append(kMaxKeyBytes, 'x');
  REQUIRE(decode_again(long_separator).code() == Code::kCorruption);
}

}  // namespace TEST_FILE
