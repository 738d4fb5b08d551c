// Fuzzes tables: the two files of a damaged table, with corrected checksums or not, are opened, walked both ways, queried,
// verified and printed without a crash. An input is a list of changes to one of a few tables.
#include <array>
#include <memory>
#include <vector>

#include "base/checksum.h"
#include "base/coding.h"
#include "base/epoch.h"
#include "cache/block_cache.h"
#include "fuzz.h"
#include "inspections.h"
#include "io/file_names.h"
#include "io/memory_fs.h"
#include "table/metadata.h"
#include "table/page_drop.h"
#include "table/table_builder.h"
#include "table/table_reader.h"

namespace {

using namespace ebbtide;

constexpr const char* kDir = "d";

struct Sample {
  std::string data, metadata;
  TableFiles files;
};

TableFiles files_of(const BuiltTable& built) {
  return {built.data_file,      built.metadata_file, built.data_bytes,
          built.metadata_bytes, built.data_checksum, built.metadata_checksum};
}

Sample make_sample(std::uint32_t h, Compression compression, std::uint32_t filter_slices) {
  MemoryFileSystem fs;
  FUZZ_CHECK(fs.create_dir(kDir).is_ok());
  TableBuilderOptions options;
  options.fs = &fs;
  options.dir = kDir;
  options.data_file = 7;
  options.metadata_file = 8;
  options.page_size = 1024;
  options.pages_per_tile = h;
  options.compression = compression;
  options.filter_slices.assign(filter_slices, 10.0 / filter_slices);
  TableBuilder builder(options);
  for (int i = 0; i < 120; ++i) {
    const std::string key = "key" + std::to_string(1000 + i), value((i % 9) * 20, static_cast<char>('a' + i % 26));
    Entry entry;
    entry.key = key;
    entry.seq = static_cast<SeqNum>(500 - i);
    entry.kind = i % 7 == 0 ? EntryKind::kTombstone : EntryKind::kValue;
    entry.delete_key = static_cast<DeleteKey>(i * 13 % 100);
    entry.expiry = i % 5 == 0 && i % 7 != 0 ? 1000 + static_cast<Millis>(i) : 0;
    entry.debt = i % 11 == 0 ? 50 : 0;
    entry.value = entry.is_tombstone() ? Bytes() : Bytes(value);
    FUZZ_CHECK(builder.add(entry).is_ok());
  }
  builder.add_range_tombstone({"key1010", "key1020", 900, 77});
  builder.add_range_tombstone({"key1100", "", 901, 78});
  const auto built = builder.finish();
  FUZZ_CHECK(built.is_ok());
  return {*read_file(fs, join_path(kDir, data_file_name(7))), *read_file(fs, join_path(kDir, metadata_file_name(8))),
          files_of(*built)};
}

void store(MemoryFileSystem& fs, const std::string& name, const std::string& content) {
  auto file = fs.create(join_path(kDir, name));
  FUZZ_CHECK(file.is_ok() && (*file)->append(content).is_ok());
}

/// Returns the same table after a page drop: it has dropped and replaced pages, and holes if a whole tile was dropped.
Sample with_drops(const Sample& before) {
  MemoryFileSystem fs;
  FUZZ_CHECK(fs.create_dir(kDir).is_ok());
  store(fs, data_file_name(7), before.data);
  store(fs, metadata_file_name(8), before.metadata);
  TableReaderOptions options;
  options.fs = &fs;
  options.dir = kDir;
  const auto table = TableReader::open(options, before.files);
  FUZZ_CHECK(table.is_ok());
  PageDropRequest request;
  for (std::uint32_t page = 0; page < (*table)->page_count(); ++page) {
    const PageFence fence = (*table)->page_fence(page);
    const bool whole = page % 3 == 0 && (fence.flags & kPageHasTombstones) == 0;
    (whole ? request.whole : request.parts).push_back(page);
  }
  request.judge = [](const PageFence& fence, const Entry& entry) -> EntryVerdict {
    if (fence.tile % 4 == 1) return {EntryFate::kGoes, 0};
    return entry.seq % 3 == 0 ? EntryVerdict{EntryFate::kBecomesTombstone, 60} : EntryVerdict{};
  };
  const auto dropped = drop_pages(**table, request, fs, kDir, 9);
  FUZZ_CHECK(dropped.is_ok() && dropped->entries_gone > 0 && !dropped->nothing_left);
  const BuiltTable& built = dropped->built;
  return {before.data, *read_file(fs, join_path(kDir, metadata_file_name(9))), files_of(built)};
}

/// Returns the tables as built, and then the same tables with page drops.
const std::array<Sample, 8>& samples() {
  static const std::array<Sample, 8> made = [] {
    std::array<Sample, 8> out{make_sample(1, Compression::kNone, 1), make_sample(4, Compression::kNone, 2),
                              make_sample(8, Compression::kLz4, 1), make_sample(3, Compression::kZstd, 1)};
    for (std::size_t i = 0; i < 4; ++i) out[4 + i] = with_drops(out[i]);
    return out;
  }();
  return made;
}

std::uint64_t number_at(const std::string& bytes, std::size_t at) {
  Bytes in = Bytes(bytes).substr(at);
  std::uint64_t value = 0;
  get_u64(&in, &value);
  return value;
}

/// Corrects the checksums of the sections, the directory and the footer (formats.md, metadata file).
void mend(std::string* metadata, FileNum file) {
  constexpr std::size_t kFooter = 32, kEntry = 32;
  if (metadata->size() < kFooter) return;
  const std::size_t footer = metadata->size() - kFooter;
  const std::uint64_t directory = number_at(*metadata, footer);
  if (directory > footer) return;
  for (std::size_t at = directory; at + kEntry <= footer; at += kEntry) {
    const std::uint64_t offset = number_at(*metadata, at + 8), length = number_at(*metadata, at + 16);
    if (offset > metadata->size() || length > metadata->size() - offset) continue;
    fuzz::set_number(metadata, at + 24, block_checksum(Bytes(*metadata).substr(offset, length), file, offset));
  }
  const std::size_t end = metadata->size() - 8;
  fuzz::set_number(metadata, end, block_checksum(Bytes(*metadata).substr(directory, end - directory), file, directory));
}

/// Checks that a lookup at once and a lookup in stages have the same result.
void look_up(const TableReader& table, Bytes key) {
  const LookupKey lookup{key, hash_key(key)};
  Entry entry;
  std::shared_ptr<const void> pin;
  Status status;
  ReadCounters counters;
  const Lookup found = table.get(lookup, kMaxSeqNum, nullptr, &entry, &pin, &counters, &status);
  LookupState state;
  for (int stage = 0; stage < TableReader::kPrefetchStages; ++stage) {
    if (table.prefetch(lookup, stage, &state)) continue;
    FUZZ_CHECK(found == Lookup::kAbsent);
    return;
  }
  FUZZ_CHECK(table.get(lookup, kMaxSeqNum, nullptr, &entry, &pin, &counters, &status, &state) == found);
}

void use(const TableReader& table) {
  auto walk = table.new_iterator({});
  std::vector<std::string> keys;
  for (walk->seek_to_first(); walk->valid() && keys.size() < 1000; walk->next()) keys.emplace_back(walk->entry().key);
  std::size_t back = 0;
  for (walk->seek_to_last(); walk->valid() && back < 1000; walk->prev()) ++back;
  for (std::size_t i = 0; i < keys.size(); i += 7) look_up(table, keys[i]);
  for (std::uint32_t page = 0; page < table.page_count() && page < 1000; ++page) (void)table.page_fence(page);
  std::vector<std::string> stamped;
  ReadCounters counters;
  for (std::uint32_t tile = 0; tile < table.tile_count() && tile < 1000; ++tile) {
    (void)table.tile_range(tile);
    (void)table.collect_stamps(tile, 10, 60, "", &stamped, &counters);
  }
  (void)table.visit_expiring(1010, 1100, [](const Entry&) {});
  (void)table.split_points({}, 10);
  (void)table.byte_samples({}, 10);
  std::vector<std::string> errors;
  std::uint64_t pages = 0, entries = 0;
  (void)table.verify(&errors, &pages, &entries);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint8_t flags = input.byte();
  Sample changed = samples()[flags % 4 + ((flags & 32) != 0 ? 4 : 0)];
  for (int changes = 0; !input.empty() && changes < 64; ++changes) {
    const std::uint8_t how = input.byte();
    std::string& bytes = (how & 1) != 0 ? changed.data : changed.metadata;
    const std::size_t at = input.number() % (bytes.size() + 1);
    if ((how & 6) == 6) {
      bytes.resize(at);
    } else if (at < bytes.size()) {
      bytes[at] = static_cast<char>((how & 2) != 0 ? input.byte() : bytes[at] ^ (1 << (how >> 5)));
    }
    if (bytes.empty()) bytes = "x";
  }
  if ((flags & 4) != 0) mend(&changed.metadata, changed.files.metadata_file);
  if ((flags & 8) != 0) {
    changed.files.data_bytes = changed.data.size();
    changed.files.metadata_bytes = changed.metadata.size();
    changed.files.metadata_checksum = block_checksum(changed.metadata, changed.files.metadata_file, 0);
  }
  MemoryFileSystem fs;
  FUZZ_CHECK(fs.create_dir(kDir).is_ok());
  store(fs, data_file_name(changed.files.data_file), changed.data);
  store(fs, metadata_file_name(changed.files.metadata_file), changed.metadata);
  for (const std::string& name : {data_file_name(changed.files.data_file), metadata_file_name(changed.files.metadata_file)})
    fuzz::inspect_table_file(fs, join_path(kDir, name));
  Epoch epoch;
  BlockCache cache(1 << 20, epoch);
  TableReaderOptions options;
  options.fs = &fs;
  options.cache = (flags & 16) != 0 ? &cache : nullptr;
  options.dir = kDir;
  EpochGuard guard(epoch);
  const auto table = TableReader::open(options, changed.files);
  if (table.is_ok()) use(**table);
  return 0;
}
