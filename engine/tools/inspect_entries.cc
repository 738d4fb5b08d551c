// Prints the entries of a table, in the order of its iterator.
//
// A table and its text may be larger than memory: an entry is written before the next entry is read, and only one tile of pages
// is in memory. So the columns cannot be as wide as their widest cell. The widths of the columns follow from the largest numbers
// in the metadata. Key and value, whose lengths have no bound, come last.
#include <algorithm>
#include <array>

#include "io/file_names.h"
#include "table/format.h"
#include "table/table_reader.h"
#include "tools/inspect.h"
#include "tree/text.h"

namespace ebbtide {
namespace {

/// Number of bytes of a value that are printed.
constexpr std::size_t kShownValueBytes = 64;

/// Digits of a Unix time in ms; enough until the year 2286.
constexpr std::size_t kTimeDigits = 13;

const char* kind_name(EntryKind kind) {
  switch (kind) {
    case EntryKind::kCompact:
      return "compact";
    case EntryKind::kTombstone:
      return "tombstone";
    case EntryKind::kValue:
      return "value";
    case EntryKind::kHeader:
      return "header";
  }
  return "unknown";
}

std::string entry_flags(const Entry& entry) {
  if (!entry.is_large()) return entry.first ? "first" : "-";
  return entry.first ? "large,first" : "large";
}

std::string number_or_dash(std::uint64_t number, std::uint64_t none) { return number == none ? "-" : std::to_string(number); }

struct ShownEntry {
  const Entry* entry;
  bool has_value = false;  ///< false for a tombstone and for a value that cannot be read
  Bytes value;             ///< the beginning of the value

  [[nodiscard]] bool is_cut() const { return has_value && value.size() < entry->value_length(); }
};

class EntryColumns {
 public:
  explicit EntryColumns(const TableMetadata& table) {
    const TableStats& stats = table.stats;
    const auto digits = [](std::uint64_t number) { return std::to_string(number).size(); };
    const auto times = [&](bool any, Millis max) { return any ? std::max(kTimeDigits, digits(max)) : 0; };
    widths_ = {digits(stats.max_seq),
               Bytes("tombstone").size(),
               times(stats.entries != stats.unstamped, stats.max_delete_key),
               times(stats.max_expiry != 0, stats.max_expiry),
               times(stats.debts != 0, stats.oldest_debt),
               stats.large_values != 0 ? Bytes("large,first").size() : 0,
               digits(std::min<std::uint64_t>(stats.value_bytes, kMaxValueBytes))};
    for (std::size_t i = 0; i < widths_.size(); ++i) widths_[i] = std::max(widths_[i], Bytes(kColumns[i].name).size());
  }

  [[nodiscard]] std::string head() const {
    Cells cells;
    for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = kColumns[i].name;
    return row(cells, "key = value");
  }
  [[nodiscard]] std::string line(const ShownEntry& shown) const {
    const Entry& entry = *shown.entry;
    std::string named = key_to_text(entry.key);
    if (shown.has_value) named += " = " + key_to_text(shown.value) + (shown.is_cut() ? "..." : "");
    return row({std::to_string(entry.seq), kind_name(entry.kind), number_or_dash(entry.delete_key, kNoStamp),
                number_or_dash(entry.expiry, 0), number_or_dash(entry.debt, 0), entry_flags(entry),
                std::to_string(entry.value_length())},
               named);
  }

 private:
  struct Column {
    const char* name;
    bool right;
  };
  static constexpr Column kColumns[] = {{"seq", true},  {"kind", false},  {"stamp/birth", true}, {"expiry", true},
                                        {"debt", true}, {"flags", false}, {"bytes", true}};
  using Cells = std::array<std::string, std::size(kColumns)>;

  [[nodiscard]] std::string row(const Cells& cells, const std::string& named) const {
    std::string out;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string pad(widths_[i] - std::min(widths_[i], cells[i].size()), ' ');
      out += (kColumns[i].right ? pad + cells[i] : cells[i] + pad) + "  ";
    }
    return out + named + "\n";
  }

  std::array<std::size_t, std::size(kColumns)> widths_{};
};

std::string entry_json(const ShownEntry& shown) {
  const Entry& entry = *shown.entry;
  JsonObject json;
  json.add("key", key_to_text(entry.key)).add("seq", entry.seq).add("kind", kind_name(entry.kind));
  if (entry.delete_key != kNoStamp) json.add(entry.is_tombstone() ? "birth" : "stamp", entry.delete_key);
  if (entry.expiry != 0) json.add("expiry", entry.expiry);
  if (entry.debt != 0) json.add("debt", entry.debt);
  json.add("flags", entry_flags(entry)).add("value_bytes", entry.value_length());
  if (shown.has_value) json.add("value", key_to_text(shown.value));
  if (shown.is_cut()) json.raw("value_cut", "true");
  return json.str();
}

/// Returns the beginning of a large value: reads only the value's index and first chunk.
Result<std::string> large_beginning(const TableLookup& reader, const LargeValueRef& ref, const std::string& data_path) {
  const BlockPlace place{&data_path, reader.files().data_file, ref.offset};
  std::string chunk;
  bool decoded = false;
  const Status status = reader.visit_large(ref, [&](Bytes payload, Compression compression) -> Status {
    const CheckedBlock block{.payload = payload, .compression = compression, .kind = BlockKind::kLargeChunk};
    TRY_ASSIGN(bytes, decoded_bytes(block, place));
    if (bytes != std::min<std::uint64_t>(kLargeChunkBytes, ref.length))
      return place.corruption("chunk of a large value decodes to a wrong length");
    chunk.resize(bytes);
    TRY(decode_block(block, chunk.data(), bytes, place));
    decoded = true;
    return Status::aborted("the rest of the value is not printed");
  });
  if (!decoded) return status.is_ok() ? place.corruption("large value is incomplete") : status;
  chunk.resize(std::min(chunk.size(), kShownValueBytes));
  return chunk;
}

Result<std::shared_ptr<TableReader>> open_table(FileSystem& fs, const LoadedTable& table) {
  TableReaderOptions options;
  options.fs = &fs;
  options.dir = table.dir;
  options.filter_slices = 0;  // no slices are loaded, since there are no lookups
  const TableMetadata& metadata = table.metadata;
  return TableReader::open(options, {metadata.data_file, table.metadata_file, metadata.data_bytes, table.metadata_bytes,
                                     metadata.data_checksum, table.metadata_checksum});
}

/// Calls `visit` with each selected entry.
void each_entry(const TableLookup& reader, const std::string& data_path, const EntriesQuery& query,
                std::vector<std::string>* errors, const std::function<void(const ShownEntry& shown)>& visit) {
  const auto walk = reader.new_iterator({.bounds = query.keys, .fill_cache = false});
  std::uint64_t left = query.limit;
  if (left != 0) walk->seek_to_first();
  while (left != 0 && walk->valid()) {
    const Entry& entry = walk->entry();
    ShownEntry shown{&entry, !entry.is_tombstone(), entry.value.substr(0, kShownValueBytes)};
    std::string beginning;
    if (entry.is_large()) {
      auto read = large_beginning(reader, entry.large, data_path);
      shown.has_value = read.is_ok();
      // A damaged large value does not affect the entry itself or the entries after it.
      if (!read.is_ok()) errors->push_back(read.status().to_string());
      if (read.is_ok()) beginning = std::move(read).value();
      shown.value = beginning;
    }
    visit(shown);
    if (--left != 0) walk->next();
  }
  if (!walk->status().is_ok()) errors->push_back(walk->status().to_string());
}

/// Writes the entries: lines below a heading, or elements of a JSON array.
void print_entries(FileSystem& fs, const LoadedTable& table, const EntriesQuery& query, bool json,
                   const std::function<void(Bytes piece)>& write, std::vector<std::string>* errors) {
  const auto reader = open_table(fs, table);
  if (!reader.is_ok()) return errors->push_back(reader.status().to_string());
  const EntryColumns columns(table.metadata);
  if (!json) write(columns.head());
  const char* separator = "";
  each_entry(**reader, join_path(table.dir, data_file_name(table.metadata.data_file)), query, errors,
             [&](const ShownEntry& shown) {
               write(json ? separator + entry_json(shown) : columns.line(shown));
               separator = ",";
             });
}

}  // namespace

Result<std::string> parse_key_argument(const std::string& text) {
  if (text.empty() || text[0] != '"') return text;
  return parse_key(text);
}

std::vector<std::string> inspect_entries(FileSystem& fs, const std::string& path, const EntriesQuery& query, bool json,
                                         const std::function<void(Bytes piece)>& write) {
  const auto table = load_table(fs, path);
  Inspection found;
  if (table.is_ok()) {
    found = describe_table(*table);
  } else {
    found.error(table.status());
  }
  if (json) {
    // The JSON object stays open after the beginning of the array.
    std::string begun = found.json.raw("entries", "[").str();
    begun.pop_back();
    write(begun);
  } else {
    write(found.text);
  }
  if (table.is_ok()) print_entries(fs, *table, query, json, write, &found.errors);
  if (json) write("],\"errors\":" + json_strings(found.errors).str() + "}\n");
  return std::move(found.errors);
}

}  // namespace ebbtide
