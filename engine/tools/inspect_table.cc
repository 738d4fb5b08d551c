#include "base/checksum.h"
#include "io/file_names.h"
#include "table/metadata.h"
#include "tools/inspect.h"
#include "tree/text.h"

namespace ebbtide {
namespace {

/// Returns the metadata file of the table that `path` belongs to: `path` itself, or the newest file in its directory that
/// describes the data file.
Result<FileNum> find_metadata(FileSystem& fs, const SplitPath& split) {
  FileKind kind{};
  FileNum file = kNoFile;
  if (!parse_file_name(split.name, &kind, &file) || (kind != FileKind::kData && kind != FileKind::kMetadata)) {
    return Status::invalid_argument(split.name + " is not a file of a table (NNNNNN.data or NNNNNN.meta)");
  }
  if (kind == FileKind::kMetadata) return file;
  TRY_ASSIGN(numbers, files_of_kind(fs, split.dir, static_cast<int>(FileKind::kMetadata)));
  // A page drop writes a newer metadata file for the same data file, so the newest metadata file is valid.
  for (std::size_t i = numbers.size(); i-- > 0;) {
    const std::string path = join_path(split.dir, metadata_file_name(numbers[i]));
    const auto bytes = read_file(fs, path);
    if (!bytes.is_ok()) continue;
    const auto metadata = TableMetadata::decode(*bytes, numbers[i], path);
    if (metadata.is_ok() && metadata->data_file == file) return numbers[i];
  }
  return Status::not_found("no metadata file in " + split.dir + " describes " + split.name);
}

std::string tile_flags(std::uint8_t flags) {
  std::string out;
  if ((flags & kTileUniqueKeys) != 0) out += " unique_keys";
  if ((flags & kTileSingleVersions) != 0) out += " single_versions";
  if ((flags & kTileContinues) != 0) out += " continues";
  if ((flags & kTileStale) != 0) out += " stale";
  return out;
}

std::string page_flags(std::uint32_t flags) {
  static constexpr std::pair<std::uint32_t, const char*> kNames[] = {
      {kPagePlainOnly, "plain"},     {kPageHasTombstones, "tombstones"}, {kPageHasUnstamped, "unstamped"},
      {kPageHasLarge, "large"},      {kPageHasDebts, "debts"},           {kPageAllFirst, "first"},
      {kPageReplaced, "replaced"},   {kPageDropped, "dropped"},          {kPageTombstones, "tombstone_page"},
      {kPageAllExpire, "all_expire"}};
  std::string out;
  for (const auto& [bit, name] : kNames) {
    if ((flags & bit) != 0) out += (out.empty() ? "" : ",") + std::string(name);
  }
  return out.empty() ? "-" : out;
}

const char* compression_name(Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return "none";
    case Compression::kLz4:
      return "lz4";
    case Compression::kZstd:
      return "zstd";
  }
  return "unknown";
}

void describe_properties(const TableMetadata& table, Inspection* out) {
  const TableStats& s = table.stats;
  JsonObject json;
  const auto both = [&](const char* name, const auto& value) {
    json.add(name, value);
    if constexpr (std::is_convertible_v<decltype(value), std::uint64_t>) {
      out->text += std::string(name) + " " + std::to_string(value) + "\n";
    } else {
      out->text += std::string(name) + " " + std::string(value) + "\n";
    }
  };
  both("data_bytes", table.data_bytes);
  std::uint64_t dead = 0;
  for (const FileExtent& extent : table.dead_extents()) dead += extent.length;
  both("dead_bytes", dead);
  both("entries", s.entries);
  both("tombstones", s.tombstones);
  both("range_tombstones", s.range_tombstones);
  both("debts", s.debts);
  both("large_values", s.large_values);
  both("collections", s.collections);
  both("headers", s.headers);
  both("elements", s.elements);
  both("unstamped", s.unstamped);
  both("key_bytes", s.key_bytes);
  both("value_bytes", s.value_bytes);
  both("smallest", key_to_text(s.smallest));
  both("largest", s.unbounded ? std::string("*") : (s.largest_exclusive ? "<" : "") + key_to_text(s.largest));
  both("min_seq", s.min_seq);
  both("max_seq", s.max_seq);
  both("applied_seq", s.applied_seq);
  both("min_expiry", s.min_expiry);
  both("max_expiry", s.max_expiry);
  both("oldest_obligation", s.oldest_obligation());
  both("page_size", std::uint64_t{table.page_size});
  both("pages_per_tile", std::uint64_t{table.pages_per_tile});
  both("compression", std::string(compression_name(table.compression)));
  // The slices that the file has. How many of them are in memory follows from the whole tree: /metrics has that by level.
  for (std::size_t i = 0; i < table.filter_slices.size(); ++i)
    both(("filter_slice_" + std::to_string(i + 1) + "_bytes").c_str(), std::uint64_t{table.filter_slices[i].size()});
  both("tiles", std::uint64_t{table.tiles.size()});
  both("pages", std::uint64_t{table.pages.size()});
  out->json.add("properties", json);
}

void describe_pages(const TableMetadata& table, Inspection* out) {
  JsonArray tiles;
  for (std::size_t t = 0; t < table.tiles.size(); ++t) {
    const TileMeta& tile = table.tiles[t];
    const std::string separator = t < table.separators.size() ? key_to_text(table.separators[t]) : "";
    out->text += "tile " + std::to_string(t) + " separator " + separator + tile_flags(tile.flags) + "\n";
    JsonArray pages;
    for (std::size_t p = tile.first_page; p < std::size_t{tile.first_page} + tile.pages && p < table.pages.size(); ++p) {
      const PageMeta& page = table.pages[p];
      out->text +=
          "  page " + std::to_string(p) + " at " + std::to_string(page.offset) + " length " + std::to_string(page.length);
      if (page.replaced()) {
        out->text += ", replaced by " + std::to_string(page.replaced_length) + " bytes at " +
                     std::to_string(page.replaced_offset) + " of the metadata file";
      }
      out->text += ", " + std::to_string(page.entries) + " entries";
      if (!page.dropped()) out->text += ", seq " + std::to_string(page.min_seq) + ".." + std::to_string(page.max_seq);
      JsonObject json;
      json.add("page", p).add("offset", page.offset).add("length", page.length).add("entries", page.entries);
      if (!page.dropped()) json.add("min_seq", page.min_seq).add("max_seq", page.max_seq);
      if (page.replaced())
        json.add("replaced_offset", page.replaced_offset).add("replaced_length", std::uint64_t{page.replaced_length});
      if (page.has_delete_keys()) {
        out->text += ", D " + std::to_string(page.min_delete_key) + ".." + std::to_string(page.max_delete_key);
        json.add("min_delete_key", page.min_delete_key).add("max_delete_key", page.max_delete_key);
      }
      out->text += ", " + page_flags(page.flags) + "\n";
      pages.add(json.add("flags", page_flags(page.flags)).str());
    }
    const std::string flags = tile_flags(tile.flags);
    tiles.add(
        JsonObject().add("separator", separator).add("flags", flags.substr(flags.empty() ? 0 : 1)).add("pages", pages).str());
  }
  out->json.add("tiles", tiles);
  JsonArray dead;
  for (const FileExtent& extent : table.dead_extents()) {
    out->text += "dead " + std::to_string(extent.offset) + " length " + std::to_string(extent.length) + "\n";
    dead.add(JsonObject().add("offset", extent.offset).add("length", extent.length).str());
  }
  out->json.add("dead", dead);
  JsonArray ranges;
  for (const RangeTombstone& range : table.range_tombstones) {
    const std::string end = range.end.empty() ? "*" : key_to_text(range.end);
    out->text += "range tombstone " + key_to_text(range.start) + ".." + end + " seq " + std::to_string(range.seq) + " birth " +
                 std::to_string(range.birth) + "\n";
    ranges.add(JsonObject()
                   .add("start", key_to_text(range.start))
                   .add("end", end)
                   .add("seq", range.seq)
                   .add("birth", range.birth)
                   .str());
  }
  out->json.add("range_tombstones", ranges);
}

}  // namespace

Result<LoadedTable> load_table(FileSystem& fs, const std::string& path) {
  LoadedTable table;
  const SplitPath split = split_path(path);
  table.dir = split.dir;
  TRY_ASSIGN(number, find_metadata(fs, split));
  table.metadata_file = number;
  const std::string metadata_path = join_path(split.dir, metadata_file_name(number));
  TRY_ASSIGN(bytes, read_file(fs, metadata_path));
  table.metadata_bytes = bytes.size();
  table.metadata_checksum = block_checksum(bytes, number, 0);
  TRY_ASSIGN(metadata, TableMetadata::decode(bytes, number, metadata_path));
  table.metadata = std::move(metadata);
  return table;
}

Inspection describe_table(const LoadedTable& table) {
  Inspection out;
  const std::string data_file = data_file_name(table.metadata.data_file), metadata_file = metadata_file_name(table.metadata_file);
  out.text += "data file " + data_file + "\nmetadata file " + metadata_file + "\n";
  out.json.add("data_file", data_file).add("metadata_file", metadata_file);
  describe_properties(table.metadata, &out);
  describe_pages(table.metadata, &out);
  return out;
}

Inspection inspect_table(FileSystem& fs, const std::string& path) {
  const auto table = load_table(fs, path);
  if (table.is_ok()) return describe_table(*table);
  Inspection out;
  out.error(table.status());
  return out;
}

}  // namespace ebbtide
