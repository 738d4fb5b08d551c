// Tests of ebbtide-inspect table --entries: every kind of entry in both forms, the order, the requested keys, and damage.
#include <catch2/catch.hpp>

#include "base/random.h"
#include "engine/table/table_fixture.h"
#include "io/file_names.h"
#include "support/files.h"
#include "table/page_drop.h"
#include "tools/inspect.h"
#include "tree/text.h"

namespace ebbtide {
namespace TEST_FILE {

const std::string kDir = "db";  // the directory of test::Bench

/// The output of inspect_entries, in both forms.
struct PrintedEntries {
  std::string table;               ///< the text before the entries
  std::vector<std::string> lines;  ///< the heading of the entries, then a line for each entry; each was written by one call
  std::string json;
  std::vector<std::string> errors;

  /// Returns the keys as they are printed, after the last column.
  [[nodiscard]] std::vector<std::string> keys() const {
    std::vector<std::string> out;
    for (std::size_t i = 1; i < lines.size(); ++i) {
      const std::string named = lines[i].substr(lines[0].find("key = value"));
      out.push_back(named.substr(0, std::min(named.find(" = "), named.find('\n'))));
    }
    return out;
  }
};

PrintedEntries entries_of(FileSystem& fs, const std::string& path, const EntriesQuery& query = {}) {
  PrintedEntries out;
  bool begun = false;
  out.errors = inspect_entries(fs, path, query, false, [&](Bytes piece) {
    if (begun) out.lines.emplace_back(piece);
    if (!begun) out.table = piece;
    begun = true;
  });
  CHECK(inspect_entries(fs, path, query, true, [&](Bytes piece) { out.json += piece; }) == out.errors);
  return out;
}

/// The fields of an entry beside key, seq and value.
struct Fields {
  EntryKind kind = EntryKind::kValue;
  bool first = false;
  DeleteKey delete_key = kNoStamp;
  Millis expiry = 0, debt = 0;
};

test::Owned entry(const std::string& key, SeqNum seq, const std::string& value, const Fields& fields = {}) {
  test::Owned owned{key, value, {}};
  owned.fields.seq = seq;
  owned.fields.kind = fields.kind;
  owned.fields.first = fields.first;
  owned.fields.delete_key = fields.delete_key;
  owned.fields.expiry = fields.expiry;
  owned.fields.debt = fields.debt;
  return owned;
}

/// Returns entries of every kind, in order.
std::vector<test::Owned> all_kinds() {
  return {entry({"\0\xff\"", 3}, 12, "plain"),
          entry("both", 40, "the newer one", {.delete_key = 7}),
          entry("both", 3, "", {.kind = EntryKind::kTombstone, .delete_key = 1'700'000'000'000, .debt = 1'600'000'000'000}),
          entry("coll", 5, {"\1\0", 2}, {.kind = EntryKind::kHeader, .first = true, .delete_key = kMaxDeleteKey}),
          entry("compact", 14, "items", {.kind = EntryKind::kCompact, .debt = 1'600'000'000'001}),
          entry("empty", 13, ""),
          entry("gone", 6, "", {.kind = EntryKind::kTombstone, .first = true, .delete_key = 1'700'000'000'001}),
          entry("large", 1'007, std::string(kLargeValueBytes + 1, 'x'), {.first = true, .expiry = 1'700'000'001'000}),
          entry("large2", 9, std::string(600'000, 'y'), {.kind = EntryKind::kHeader}),
          entry("value64", 10, std::string(64, 'a')),
          entry("value65", 11, std::string(64, ' ') + "b")};
}

std::vector<std::string> keys_of(const std::vector<test::Owned>& entries) {
  std::vector<std::string> keys;
  for (const test::Owned& owned : entries) keys.push_back(key_to_text(owned.key));
  return keys;
}

std::string data_path(const BuiltTable& built) { return join_path(kDir, data_file_name(built.data_file)); }

TEST_CASE("table has entries of every kind: inspect prints each with all its fields", "[tools]") {
  test::Bench bench;
  TableBuilderOptions options = bench.builder_options();
  options.pages_per_tile = GENERATE(1, 8);
  const BuiltTable built = bench.build(options, all_kinds(), {{"r", "s", 20, 5}});
  const PrintedEntries printed = entries_of(bench.fs, data_path(built));
  CHECK(printed.errors.empty());
  CHECK(printed.table == inspect_table(bench.fs, data_path(built)).text);
  CHECK(printed.table.find("range tombstone r..s seq 20 birth 5\n") != std::string::npos);
  std::string text;
  for (const std::string& line : printed.lines) text += line;
  const std::string x64(64, 'x'), y64(64, 'y'), a64(64, 'a'), spaces64(64, ' ');
  CHECK(text == R"( seq  kind               stamp/birth         expiry           debt  flags         bytes  key = value
  12  value                        -              -              -  -                 5  "\x00\xff\"" = plain
  40  value                        7              -              -  -                13  both = "the newer one"
   3  tombstone        1700000000000              -  1600000000000  -                 0  both
   5  header     9223372036854775807              -              -  first             2  coll = "\x01\x00"
  14  compact                      -              -  1600000000001  -                 5  compact = items
  13  value                        -              -              -  -                 0  empty = ""
   6  tombstone        1700000000001              -              -  first             0  gone
1007  value                        -  1700000001000              -  large,first   65537  large = )" +
                    x64 + R"(...
   9  header                       -              -              -  large        600000  large2 = )" +
                    y64 + R"(...
  10  value                        -              -              -  -                64  value64 = )" +
                    a64 + R"(
  11  value                        -              -              -  -                65  value65 = ")" +
                    spaces64 + R"("...
)");
  const std::string table = inspect_table(bench.fs, data_path(built)).json.str();
  CHECK(
      printed.json ==
      table.substr(0, table.size() - 1) + R"(,"entries":[{"key":"\"\\x00\\xff\\\"\"","seq":12,"kind":"value","flags":"-",)" +
          R"("value_bytes":5,"value":"plain"},{"key":"both","seq":40,"kind":"value","stamp":7,"flags":"-","value_bytes":13,)" +
          R"("value":"\"the newer one\""},{"key":"both","seq":3,"kind":"tombstone","birth":1700000000000,"debt":1600000000000,)" +
          R"("flags":"-","value_bytes":0},{"key":"coll","seq":5,"kind":"header","stamp":9223372036854775807,"flags":"first",)" +
          R"("value_bytes":2,"value":"\"\\x01\\x00\""},{"key":"compact","seq":14,"kind":"compact","debt":1600000000001,)" +
          R"("flags":"-","value_bytes":5,"value":"items"},{"key":"empty","seq":13,"kind":"value","flags":"-","value_bytes":0,)" +
          R"("value":"\"\""},{"key":"gone","seq":6,"kind":"tombstone","birth":1700000000001,"flags":"first","value_bytes":0},)" +
          R"({"key":"large","seq":1007,"kind":"value","expiry":1700000001000,"flags":"large,first","value_bytes":65537,"value":")" +
          x64 + R"(","value_cut":true},{"key":"large2","seq":9,"kind":"header","flags":"large","value_bytes":600000,"value":")" +
          y64 + R"(","value_cut":true},{"key":"value64","seq":10,"kind":"value","flags":"-","value_bytes":64,"value":")" + a64 +
          R"("},{"key":"value65","seq":11,"kind":"value","flags":"-","value_bytes":65,"value":"\")" + spaces64 +
          R"(\"","value_cut":true}],"errors":[]})" + "\n");
}

TEST_CASE("entries of a table are printed: they are in key order, and end at the limit", "[tools]") {
  test::Bench bench;
  Random random(31);
  std::vector<test::Owned> entries;
  // Each key has two versions. Stamps are in no order, so that the output does not follow a tile's pages.
  for (int i = 0; i < 300; ++i) {
    const std::string key = "key" + std::to_string(1000 + i);
    for (const SeqNum seq : {2, 1}) entries.push_back(entry(key, seq, "v", {.delete_key = random.uniform(1'000'000)}));
  }
  TableBuilderOptions options = bench.builder_options();
  options.pages_per_tile = GENERATE(1, 8);
  options.compression = GENERATE(Compression::kNone, Compression::kLz4);
  const std::string path = data_path(bench.build(options, entries));
  const std::vector<std::string> keys = keys_of(entries);
  const auto some = [&](std::size_t from, std::size_t to) {
    return std::vector<std::string>(keys.begin() + static_cast<std::ptrdiff_t>(from),
                                    keys.begin() + static_cast<std::ptrdiff_t>(to));
  };
  const auto asked = [&](const KeyRange& range, std::uint64_t limit) {
    const PrintedEntries printed = entries_of(bench.fs, path, {range, limit});
    CHECK(printed.errors.empty());
    std::size_t objects = 0;
    for (std::size_t at = 0; (at = printed.json.find("{\"key\":", at)) != std::string::npos; ++at) ++objects;
    CHECK(objects == printed.keys().size());
    return printed.keys();
  };
  const std::uint64_t kAll = EntriesQuery().limit;
  const PrintedEntries all = entries_of(bench.fs, path);
  CHECK(all.table.find("  page 4 at ") != std::string::npos);
  CHECK(all.keys() == keys);
  CHECK(all.lines[1].find("  2  value") == 0);
  CHECK(all.lines[2].find("  1  value") == 0);
  CHECK(asked({"key1100", ""}, kAll) == some(200, 600));
  CHECK(asked({"", "key1100"}, kAll) == some(0, 200));
  CHECK(asked({"key1009x", "key1011"}, kAll) == some(20, 22));
  CHECK(asked({"key1050", "key1060"}, 3) == some(100, 103));
  CHECK(asked({"key1050", "key1060"}, 20) == some(100, 120));
  CHECK(asked({"", ""}, 1) == some(0, 1));
  CHECK(asked({"", ""}, 0).empty());
  CHECK(asked({"key1060", "key1050"}, kAll).empty());
  CHECK(asked({"z", ""}, kAll).empty());
}

TEST_CASE("pages of a table were dropped: their entries are not printed", "[tools]") {
  test::Bench bench;
  std::vector<test::Owned> entries;
  for (int i = 0; i < 300; ++i)
    entries.push_back(entry("key" + std::to_string(1000 + i), 1, "v", {.delete_key = static_cast<DeleteKey>(i * 7919 % 1009)}));
  TableBuilderOptions options = bench.builder_options();
  options.pages_per_tile = 8;
  const auto table = bench.table(options, entries);
  REQUIRE(table->page_count() > 4);
  const PageFence dropped = table->page_fence(1), cut = table->page_fence(2);
  REQUIRE(dropped.max_delete_key < cut.max_delete_key);
  PageDropRequest request;
  request.whole = {1};
  request.parts = {2};
  request.judge = [&](const PageFence&, const Entry& e) {
    return EntryVerdict{e.delete_key == cut.max_delete_key ? EntryFate::kStays : EntryFate::kGoes};
  };
  const auto outcome = drop_pages(*table, request, bench.fs, kDir, bench.next_file++);
  REQUIRE(outcome.is_ok());
  REQUIRE(outcome->pages_whole == 1);
  REQUIRE(outcome->pages_in_part == 1);
  const std::uint32_t tile = table->page_fence(1).tile;
  std::erase_if(entries, [&](const test::Owned& owned) {
    const DeleteKey d = owned.fields.delete_key;
    return table->first_tile(owned.key) == tile && d >= dropped.min_delete_key && d < cut.max_delete_key;
  });
  const PrintedEntries printed = entries_of(bench.fs, data_path(outcome->built));
  CHECK(printed.errors.empty());
  CHECK(printed.keys() == keys_of(entries));
}

TEST_CASE("page is damaged: the entries before it are printed, then file and offset of the damage", "[tools]") {
  test::Bench bench;
  TableBuilderOptions options = bench.builder_options();
  options.pages_per_tile = GENERATE(1, 8);
  Random random(17);
  std::vector<test::Owned> entries;
  for (int i = 0; i < 3000; ++i)
    entries.push_back(
        entry("key" + std::to_string(1000 + i), 1, "value" + std::to_string(i), {.delete_key = random.uniform(1'000)}));
  const auto table = bench.table(options, entries);
  const std::string path = join_path(kDir, data_file_name(table->files().data_file)), good = *read_file(bench.fs, path);
  const auto metadata = table->load_metadata();
  REQUIRE(metadata.is_ok());
  const std::size_t tiles = metadata->tiles.size();
  REQUIRE(tiles > 2);
  for (const std::size_t t : {std::size_t{0}, tiles / 2, tiles - 1}) {
    std::uint64_t before = 0;
    for (std::size_t i = 0; i < t; ++i) before += metadata->tile_entries(i);
    const PageMeta& page = metadata->pages[metadata->tiles[t].first_page + metadata->tiles[t].pages - 1u];
    std::string bad = good;
    bad[page.offset + 100] = static_cast<char>(bad[page.offset + 100] ^ 4);
    rewrite(bench.fs, path, bad);
    const PrintedEntries printed = entries_of(bench.fs, path);
    CHECK(printed.keys().size() == before);
    REQUIRE(printed.errors.size() == 1);
    CHECK(printed.errors[0].find("corruption: " + path + ": block at " + std::to_string(page.offset) + ": ") == 0);
    CHECK(printed.json.ends_with("],\"errors\":[" + json_string(printed.errors[0]) + "]}\n"));
    if (t + 1 == tiles) continue;
    const PrintedEntries behind = entries_of(bench.fs, path, {{metadata->separators[t + 1], ""}});
    CHECK(behind.errors.empty());
    CHECK(behind.keys().size() == entries.size() - before - metadata->tile_entries(t));
  }
  // Without the data file there are no entries; the other lines are printed as before.
  rewrite(bench.fs, path, Bytes(good).substr(0, good.size() - 1));
  const PrintedEntries shorter = entries_of(bench.fs, path);
  CHECK(shorter.lines.empty());
  REQUIRE(shorter.errors.size() == 1);
  CHECK(shorter.errors[0].find(path + ": has " + std::to_string(good.size() - 1) + " bytes") != std::string::npos);
  REQUIRE(bench.fs.unlink(path).is_ok());
  const PrintedEntries gone = entries_of(bench.fs, path);
  CHECK(gone.table.find("entries 3000\n") != std::string::npos);
  REQUIRE(gone.errors.size() == 1);
  CHECK(gone.errors[0].find(path) != std::string::npos);
  const PrintedEntries nowhere = entries_of(bench.fs, "db/999999.data");
  REQUIRE(nowhere.errors.size() == 1);
  CHECK(nowhere.json == "{\"entries\":[],\"errors\":[" + json_string(nowhere.errors[0]) + "]}\n");
}

TEST_CASE("large value of an entry is damaged: inspect still prints the entry and all later ones", "[tools]") {
  test::Bench bench;
  const auto table = bench.table(bench.builder_options(), all_kinds());
  const std::string path = join_path(kDir, data_file_name(table->files().data_file)), good = *read_file(bench.fs, path);
  const auto walk = table->new_iterator({});
  walk->seek("large2");
  REQUIRE((walk->valid() && walk->entry().is_large()));
  const LargeValueRef large = walk->entry().large;
  const bool first_chunk = GENERATE(true, false);
  std::string bad = good;
  char& byte = bad[first_chunk ? large.offset + 20 : large.offset + large.stored_bytes - 40];
  byte = static_cast<char>(byte ^ 1);
  rewrite(bench.fs, path, bad);
  const PrintedEntries printed = entries_of(bench.fs, path);
  CHECK(printed.keys() == keys_of(all_kinds()));
  REQUIRE(printed.errors.size() == 1);
  CHECK(printed.errors[0].find("corruption: " + path + ": block at ") == 0);
  CHECK(printed.lines[9].ends_with("  600000  large2\n"));
  CHECK(printed.json.find("\"value_bytes\":600000},") != std::string::npos);
}

TEST_CASE("key argument is quoted: it is read like a printed key, otherwise verbatim", "[tools]") {
  CHECK(parse_key_argument("")->empty());
  CHECK(*parse_key_argument("a b\\x00") == "a b\\x00");
  CHECK(parse_key_argument("\"\"")->empty());
  CHECK(*parse_key_argument("\"a b\\x00\\\"\"") == std::string("a b\0\"", 5));
  Random random(3);
  for (int i = 0; i < 300; ++i) {
    const std::string key = test::random_bytes(random, random.uniform(20));
    const auto back = parse_key(key_to_text(key));
    REQUIRE(back.is_ok());
    CHECK(*back == key);
  }
  for (const char* wrong : {"\"", "\"a", "\"a\"b", "\"\\x4\"", "\"\\n\""}) CHECK_FALSE(parse_key_argument(wrong).is_ok());
  for (const char* wrong : {"", "a b", "(", "a)"}) CHECK_FALSE(parse_key(wrong).is_ok());
}

}  // namespace TEST_FILE
}  // namespace ebbtide
