// Tables of random entries, and these entries as the model.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "cache/block_cache.h"
#include "io/file_names.h"
#include "io/memory_fs.h"
#include "table/metadata.h"
#include "table/table_builder.h"
#include "table/table_reader.h"

namespace ebbtide::test {

inline LookupKey lookup_key(Bytes key) { return {key, hash_key(key)}; }

/// An entry that owns its bytes.
struct Owned {
  std::string key, value;
  Entry fields;  ///< key and value are set by view()

  [[nodiscard]] Entry view() const {
    Entry e = fields;
    e.key = key;
    e.value = value;
    return e;
  }
};

inline bool same_fields(const Entry& a, const Entry& b) {
  return a.key == b.key && a.seq == b.seq && a.kind == b.kind && a.first == b.first && a.delete_key == b.delete_key &&
         a.expiry == b.expiry && a.debt == b.debt;
}

/// The distribution of random entries.
struct Recipe {
  std::size_t keys = 300;
  bool awkward_keys = true;        ///< empty, 0x00, 0xff, long common prefixes
  std::uint32_t long_keys = 0;     ///< number of keys of 64 KiB
  std::uint32_t versions = 3;      ///< the most versions of a key
  std::uint32_t tombstone_in = 5;  ///< one in this many entries is a tombstone; 0 = no tombstones
  std::uint32_t large_values = 0;
  std::size_t value_bytes = 100;
  bool stamps = true, expiries = true, debts = true;
};

inline std::string random_bytes(Random& random, std::size_t n) {
  std::string s(n, '\0');
  for (char& c : s) c = static_cast<char>(random.uniform(256));
  return s;
}
/// Returns a value that is half random and half repetition, so that it compresses to about half.
inline std::string random_value(Random& random, std::size_t n) {
  std::string s = random_bytes(random, n / 2);
  s.append(n - n / 2, static_cast<char>('a' + random.uniform(26)));
  return s;
}

inline std::string random_key(Random& random, const Recipe& recipe) {
  if (!recipe.awkward_keys) return "user:" + std::to_string(1'000'000'000 + random.uniform(900'000'000));
  switch (random.uniform(6)) {
    case 0:
      return random_bytes(random, random.uniform(4));
    case 1:
      return std::string(1 + random.uniform(12), '\0') + random_bytes(random, random.uniform(3));
    case 2:
      return std::string(1 + random.uniform(12), '\xff') + random_bytes(random, random.uniform(3));
    case 3:
      return "a common beginning of many keys:" + std::to_string(random.uniform(100'000));
    default:
      return "k" + std::to_string(random.uniform(1'000'000));
  }
}

/// Returns random entries in table order.
inline std::vector<Owned> random_entries(Random& random, const Recipe& recipe) {
  std::set<std::string> keys;
  while (keys.size() < recipe.keys) keys.insert(random_key(random, recipe));
  for (std::uint32_t i = 0; i < recipe.long_keys; ++i) keys.insert(random_bytes(random, 64 << 10));
  std::vector<Owned> entries;
  for (const std::string& key : keys) {
    std::set<SeqNum, std::greater<>> seqs;
    for (std::uint64_t n = 1 + random.uniform(recipe.versions); n > 0; --n) seqs.insert(1 + random.uniform(1'000'000));
    for (const SeqNum seq : seqs) {
      Owned o;
      o.key = key;
      o.fields.seq = seq;
      const bool tombstone = recipe.tombstone_in != 0 && random.one_in(recipe.tombstone_in);
      o.fields.kind = tombstone ? EntryKind::kTombstone : random.one_in(10) ? EntryKind::kHeader : EntryKind::kValue;
      o.fields.first = seq == *seqs.rbegin() && random.one_in(2);
      if (tombstone || (recipe.stamps && !random.one_in(4)))
        o.fields.delete_key = random.one_in(50) ? kMaxDeleteKey : random.uniform(1'000'000);
      if (recipe.expiries && !tombstone && random.one_in(8)) o.fields.expiry = 1'700'000'000'000 + random.uniform(1'000'000);
      if (recipe.debts && random.one_in(16)) o.fields.debt = 1'600'000'000'000 + random.uniform(1'000'000);
      if (!tombstone) o.value = random_value(random, random.uniform(2 * recipe.value_bytes + 1));
      entries.push_back(std::move(o));
    }
  }
  for (std::uint32_t i = 0; i < recipe.large_values; ++i) {
    Owned& o = entries[random.uniform(entries.size())];
    if (!o.fields.is_tombstone()) o.value = random_value(random, kLargeValueBytes + 1 + random.uniform(1'000'000));
  }
  return entries;
}

/// A directory in memory, an epoch and a cache.
struct Bench {
  MemoryFileSystem fs;
  Epoch epoch;
  BlockCache cache{std::uint64_t{64} << 20, epoch};
  std::string dir = "db";
  FileNum next_file = 7;

  Bench() { REQUIRE(fs.create_dir(dir).is_ok()); }

  TableBuilderOptions builder_options() {
    TableBuilderOptions o;
    o.fs = &fs;
    o.dir = dir;
    o.data_file = next_file++;
    o.metadata_file = next_file++;
    o.page_size = 1024;
    return o;
  }
  TableReaderOptions reader_options() {
    TableReaderOptions o;
    o.fs = &fs;
    o.cache = &cache;
    o.dir = dir;
    return o;
  }
  static TableFiles files_of(const BuiltTable& b) {
    return {b.data_file, b.metadata_file, b.data_bytes, b.metadata_bytes, b.data_checksum, b.metadata_checksum};
  }
  Result<std::shared_ptr<TableReader>> open(const BuiltTable& built) {
    return TableReader::open(reader_options(), files_of(built));
  }

  BuiltTable build(const TableBuilderOptions& options, const std::vector<Owned>& entries,
                   const std::vector<RangeTombstone>& ranges = {}) {
    TableBuilder builder(options);
    for (const RangeTombstone& t : ranges) builder.add_range_tombstone(t);
    for (const Owned& o : entries) {
      const Status s = builder.add(o.view());
      INFO(s.to_string());
      REQUIRE(s.is_ok());
    }
    auto built = builder.finish();
    INFO(built.status().to_string());
    REQUIRE(built.is_ok());
    return built.value();
  }
  std::shared_ptr<TableReader> table(const TableBuilderOptions& options, const std::vector<Owned>& entries,
                                     const std::vector<RangeTombstone>& ranges = {}) {
    auto reader = open(build(options, entries, ranges));
    INFO(reader.status().to_string());
    REQUIRE(reader.is_ok());
    return reader.value();
  }
};

/// Returns the newest version with seq <= view_seq, or null.
inline const Owned* model_get(const std::vector<Owned>& entries, Bytes key, SeqNum view_seq) {
  auto it = std::lower_bound(entries.begin(), entries.end(), key, [](const Owned& o, Bytes k) { return Bytes(o.key) < k; });
  for (; it != entries.end() && it->key == key; ++it) {
    if (it->fields.seq <= view_seq) return &*it;
  }
  return nullptr;
}

/// Compares the entry that a lookup or iterator shows with the model's entry. Reads its value if it is large.
inline void require_same(const TableReader& table, const Entry& shown, const Owned& expected) {
  REQUIRE(same_fields(shown, expected.view()));
  if (expected.value.size() <= kLargeValueBytes) {
    REQUIRE(!shown.is_large());
    REQUIRE(shown.value == Bytes(expected.value));
    return;
  }
  REQUIRE(shown.is_large());
  REQUIRE(shown.value_length() == expected.value.size());
  auto value = table.read_large(shown.large);
  INFO(value.status().to_string());
  REQUIRE(value.is_ok());
  REQUIRE(**value == expected.value);
}

inline void require_clean(const TableReader& table, std::uint64_t expected_entries) {
  std::vector<std::string> errors;
  std::uint64_t pages = 0, entries = 0;
  const bool clean = table.verify(&errors, &pages, &entries);
  INFO((errors.empty() ? std::string() : errors.front()));
  REQUIRE(clean);
  REQUIRE(entries == expected_entries);
}

}  // namespace ebbtide::test
