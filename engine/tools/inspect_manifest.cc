#include <algorithm>

#include "io/file_names.h"
#include "tools/inspect.h"
#include "tree/text.h"

namespace ebbtide {
namespace {

JsonArray lines_of(const std::string& text) {
  JsonArray lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.add(json_string(Bytes(text).substr(at, end - at)));
    at = end + 1;
  }
  return lines;
}

JsonObject describe_file(const FileMeta& file) {
  const TableStats& s = file.stats;
  JsonObject json;
  json.add("data_file", data_file_name(file.data_file)).add("metadata_file", metadata_file_name(file.metadata_file));
  json.add("data_bytes", file.data_bytes).add("metadata_bytes", file.metadata_bytes).add("dead_bytes", file.dead_bytes);
  json.add("entries", s.entries).add("tombstones", s.tombstones).add("range_tombstones", s.range_tombstones);
  json.add("smallest", key_to_text(s.smallest)).add("largest", s.unbounded ? std::string("*") : key_to_text(s.largest));
  json.add("min_seq", s.min_seq).add("max_seq", s.max_seq).add("oldest_obligation", file.oldest_obligation());
  if (file.quarantined()) json.add("damage", file.damage);
  return json;
}

void describe_tree(const Version& version, const std::map<DatabaseId, TreeId>& databases, Inspection* out, JsonArray* trees) {
  const std::string shape = to_text(version.shape());
  const DatabasesOf of = databases_of(version.tree, databases);
  out->text +=
      "# tree " + std::to_string(version.tree) + of.text + ", flushed seq " + std::to_string(version.flushed_seq) + "\n" + shape;
  JsonArray records;
  for (const Record& r : version.records->records()) {
    out->text += "# record " + to_text(r) + "\n";
    records.add(JsonObject().add("seq", r.seq).add("lo", r.lo).add("hi", r.hi).add("birth", r.birth).str());
  }
  JsonArray runs;
  for (const Run& run : version.runs) {
    for (const FileMetaPtr& file : run.files) {
      if (file->quarantined()) out->text += "# quarantined " + std::to_string(file->data_file) + ": " + file->damage + "\n";
    }
    std::uint64_t bytes = 0, entries = 0, tombstones = 0;
    JsonArray tables;
    for (const FileMetaPtr& file : run.files) {
      tables.add(describe_file(*file).str());
      bytes += file->live_bytes();
      entries += file->stats.entries;
      tombstones += file->stats.tombstones;
    }
    JsonObject json;
    json.add("id", run.id).add("level", static_cast<std::uint64_t>(run.level)).add("files", run.files.size());
    runs.add(json.add("bytes", bytes).add("entries", entries).add("tombstones", tombstones).add("tables", tables).str());
  }
  JsonObject json;
  json.add("tree", version.tree).add("databases", of.ids).add("stamp_mode", static_cast<std::uint64_t>(version.stamp));
  trees->add(json.add("flushed_seq", version.flushed_seq).add("shape", shape).add("runs", runs).add("records", records).str());
}

}  // namespace

Inspection inspect_manifest(FileSystem& fs, const std::string& path) {
  Inspection out;
  SplitPath split = split_path(path);
  FileKind kind{};
  FileNum file = kNoFile;
  if (!parse_file_name(split.name, &kind, &file) || kind != FileKind::kManifest) {
    split.dir = path;
    const auto current = read_current(fs, path);
    if (!current.is_ok()) return out.error(current.status()), out;
    file = *current;
  }
  StateBuilder state;
  JsonArray records;
  const auto on_record = [&](Bytes payload, std::uint64_t offset) -> Status {
    const auto edit = VersionEdit::decode(payload);
    if (!edit.is_ok()) return edit.status();
    out.text += "# record at " + std::to_string(offset) + ", " + std::to_string(payload.size()) + " bytes\n" + edit->to_text();
    records.add(JsonObject().add("offset", offset).add("bytes", payload.size()).add("edit", lines_of(edit->to_text())).str());
    return state.add(*edit);
  };
  const auto end = read_manifest(fs, split.dir, file, on_record);
  out.json.add("file", manifest_file_name(file)).add("records", records);
  if (!end.is_ok()) return out.error(end.status()), out;
  if (const auto whole = state.finish(); !whole.is_ok()) {
    out.error(whole.status().with_context(manifest_file_name(file) + ": offset " + std::to_string(end->valid_bytes)));
  }
  if (!end->torn.empty()) out.text += "# torn tail: " + end->torn + "\n";
  out.json.add("bytes", end->bytes).add("valid_bytes", end->valid_bytes).add("torn", end->torn);
  return out;
}

Inspection inspect_tree(FileSystem& fs, const std::string& dir) {
  Inspection out;
  const auto loaded = load_manifest(fs, dir);
  if (!loaded.is_ok()) return out.error(loaded.status()), out;
  JsonArray trees;
  for (const auto& [id, version] : loaded->state.trees) describe_tree(*version, loaded->state.databases, &out, &trees);
  out.json.add("manifest", manifest_file_name(loaded->file)).add("last_seq", loaded->state.last_seq).add("trees", trees);
  return out;
}

}  // namespace ebbtide
