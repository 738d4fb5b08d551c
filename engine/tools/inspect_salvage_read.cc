// Salvage of manifest and tables: reads the readable part of the manifest, and all tiles and pages that are not damaged.
#include <algorithm>
#include <set>

#include "compaction/table_files.h"
#include "deletes/range_tombstone.h"
#include "io/file_names.h"
#include "table/metadata.h"
#include "table/page.h"
#include "tools/inspect_salvage.h"
#include "version/version_state.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kSalvageReadCacheBytes = std::uint64_t{8} << 20;

KeyRange keys_of(const TableStats& stats) {
  KeyRange keys{stats.smallest, stats.largest};
  if (stats.unbounded) {
    keys.end.clear();
  } else if (!stats.largest_exclusive) {
    keys.end.push_back('\0');
  }
  return keys;
}

bool overlap(const KeyRange& a, Bytes start, Bytes end) {
  return (end.empty() || Bytes(a.start) < end) && (a.end.empty() || start < Bytes(a.end));
}

}  // namespace

bool SalvageTree::all_in_doubt() const {
  return std::any_of(doubts.begin(), doubts.end(), [](const SalvageDoubt& doubt) {
    return doubt.below == kBeyondAllSeqs && doubt.keys.start.empty() && doubt.keys.end.empty();
  });
}

bool SalvageTree::in_doubt(Bytes key, SeqNum newest) const {
  return std::any_of(doubts.begin(), doubts.end(), [&](const SalvageDoubt& doubt) {
    return newest < doubt.below && key >= Bytes(doubt.keys.start) && (doubt.keys.end.empty() || key < Bytes(doubt.keys.end));
  });
}

SalvageTree& Salvaged::tree(TreeId id) {
  SalvageTree& tree = trees[id];
  tree.id = id;
  return tree;
}

void Salvaged::doubt_lacking(SeqNum below) {
  for (auto& [id, tree] : trees) {
    if (below != kBeyondAllSeqs && std::max(tree.flushed_seq, state.complete_seq) + 1 >= below) continue;
    tree.doubts.push_back({{}, below});
  }
}

namespace {

/// Returns true if edits at the end of the manifest may be lost: the directory lacks tables that the manifest names, and has
/// others that it does not name.
bool older_than_tables(const std::vector<std::string>& names, const VersionState& state) {
  std::set<std::string> tables;
  for (const std::string& name : names) {
    FileKind kind{};
    FileNum file = kNoFile;
    if (parse_file_name(name, &kind, &file) && (kind == FileKind::kData || kind == FileKind::kMetadata)) tables.insert(name);
  }
  bool lacks = false;
  for (const auto& [id, version] : state.trees) {
    for (const Run& run : version->runs) {
      for (const FileMetaPtr& file : run.files) {
        lacks |= tables.erase(data_file_name(file->data_file)) == 0;
        lacks |= tables.erase(metadata_file_name(file->metadata_file)) == 0;
      }
    }
  }
  return lacks && !tables.empty();
}

}  // namespace

SalvageReader::SalvageReader(SalvageSource& source, std::string dir)
    : source_(source), dir_(std::move(dir)), cache_(kSalvageReadCacheBytes, epoch_) {}

Status SalvageReader::read(Salvaged* out) {
  TRY_ASSIGN(names, source_.list(dir_));
  const bool any = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    FileKind kind{};
    FileNum file = kNoFile;
    return parse_file_name(name, &kind, &file) && kind != FileKind::kTemporary && name != kLockFileName;
  });
  if (!any) return Status::not_found(dir_ + " has no database files: it is neither a data directory nor a backup");
  TRY(read_manifest(out));
  if (out->manifest_whole && older_than_tables(names, out->state)) {
    out->manifest_whole = false;
    const char* why =
        "corruption: the manifest names missing tables, and does not name all existing tables: it may be older than the tables";
    out->lost.push_back({"MANIFEST", {}, {}, {}, 0, 0, why});
  }
  for (const auto& [id, version] : out->state.trees) {
    SalvageTree& tree = out->tree(id);
    tree.version = version;
    tree.stamp = version->stamp;
    tree.flushed_seq = version->flushed_seq;
  }
  out->databases = out->state.databases;
  out->last_seq = std::max(out->state.last_seq, out->state.databases_seq);
  out->time = out->state.time_mark;
  read_tables(out);
  if (!out->manifest_whole) read_strangers(out);
  TRY(salvage_log(source_, dir_, out));
  if (!out->manifest_whole) {
    for (auto& [id, tree] : out->trees) tree.doubts.push_back({});
  }
  return Status::ok();
}

// Uses the manifest that CURRENT names if that manifest is undamaged. If not, uses a newer manifest, which is a snapshot of the
// same state, written before CURRENT was replaced. If the newer manifest is damaged too, uses the readable part of a manifest, up
// to the damage.
Status SalvageReader::read_manifest(Salvaged* out) {
  TRY_ASSIGN(manifests, files_of_kind(source_, dir_, static_cast<int>(FileKind::kManifest)));
  std::reverse(manifests.begin(), manifests.end());
  const auto current = read_current(source_, dir_);
  if (!current.is_ok()) {
    out->lost.push_back({std::string(kCurrentFileName), {}, {}, {}, 0, 0, current.status().to_string()});
  }
  if (current.is_ok() && std::find(manifests.begin(), manifests.end(), *current) == manifests.end()) {
    out->lost.push_back({manifest_file_name(*current),
                         {},
                         {},
                         {},
                         0,
                         0,
                         "corruption: " + manifest_file_name(*current) + " is missing, and CURRENT names it"});
  }
  if (current.is_ok()) {
    TRY_ASSIGN(whole, take_manifest(*current, true, out));
    if (whole) return Status::ok();
  }
  if (!manifests.empty() && (!current.is_ok() || manifests.front() > *current)) {
    TRY_ASSIGN(whole, take_manifest(manifests.front(), true, out));
    if (whole) {
      out->notes.push_back(manifest_file_name(manifests.front()) +
                           " is the newest undamaged manifest: it is used as the current manifest");
      if (!current.is_ok()) std::erase_if(out->lost, [](const SalvageLoss& loss) { return loss.file == kCurrentFileName; });
      return Status::ok();
    }
  }
  if (manifests.empty() && !current.is_ok()) {
    out->lost.push_back({"MANIFEST", {}, {}, {}, 0, 0, "corruption: " + dir_ + " has no manifest"});
  }
  if (current.is_ok()) {
    const auto named = std::find(manifests.begin(), manifests.end(), *current);
    if (named != manifests.end()) std::rotate(manifests.begin(), named, named + 1);
  }
  for (const FileNum file : manifests) {
    TRY_ASSIGN(some, take_manifest(file, false, out));
    if (some) {
      out->notes.push_back("the trees come from the readable beginning of " + manifest_file_name(file));
      break;
    }
  }
  return Status::ok();
}

/// Sets out->state from the whole manifest or, if `whole_only` is false, from the part before the damage. Returns false if
/// out->state was not set.
Result<bool> SalvageReader::take_manifest(FileNum file, bool whole_only, Salvaged* out) {
  std::vector<VersionEdit> edits;
  const auto on_record = [&](Bytes payload, std::uint64_t) -> Status {
    TRY_ASSIGN(edit, VersionEdit::decode(payload));
    edits.push_back(std::move(edit));
    return Status::ok();
  };
  const auto end = ebbtide::read_manifest(source_, dir_, file, on_record);
  if (end.status().code() == Code::kUnsupported) return end.status();
  if (!end.is_ok() && whole_only) {
    out->lost.push_back({manifest_file_name(file), {}, {}, {}, 0, 0, end.status().to_string()});
    return false;
  }
  StateBuilder builder;
  for (const VersionEdit& edit : edits) {
    if (!builder.add(edit).is_ok()) return false;
  }
  auto state = builder.finish();
  if (edits.empty() || !state.is_ok()) return false;
  out->state = std::move(state).value();
  out->manifest_whole = end.is_ok();
  if (end.is_ok() && !end->torn.empty()) out->notes.push_back("torn tail of " + manifest_file_name(file) + ": " + end->torn);
  return true;
}

void SalvageReader::read_tables(Salvaged* out) {
  for (const auto& [id, version] : out->state.trees) {
    for (const Run& run : version->runs) {
      for (const FileMetaPtr& file : run.files) {
        const bool gone = !source_.exists(join_path(dir_, data_file_name(file->data_file))) &&
                          !source_.exists(join_path(dir_, metadata_file_name(file->metadata_file)));
        if (gone && !out->manifest_whole) {
          out->notes.push_back(data_file_name(file->data_file) + " is missing; a lost edit may have removed it");
          continue;
        }
        read_table(files_of(*file), file->stats, &out->tree(id), out);
      }
    }
  }
}

// Reads tables that the readable part of the manifest does not name. It is unknown to which trees these tables belong.
void SalvageReader::read_strangers(Salvaged* out) {
  std::set<FileNum> named;
  for (const auto& [id, version] : out->state.trees) {
    for (const Run& run : version->runs) {
      for (const FileMetaPtr& file : run.files) named.insert(file->metadata_file);
    }
  }
  const auto numbers = files_of_kind(source_, dir_, static_cast<int>(FileKind::kMetadata));
  if (!numbers.is_ok()) return;
  std::map<FileNum, FileNum> newest;  // newest metadata file by data file: older metadata files still name dropped pages
  std::map<FileNum, TableMetadata> strangers;
  for (const FileNum file : *numbers) {
    if (named.contains(file)) continue;
    const std::string path = join_path(dir_, metadata_file_name(file));
    const auto bytes = read_file(source_, path);
    auto metadata = bytes.is_ok() ? TableMetadata::decode(*bytes, file, path) : Result<TableMetadata>(bytes.status());
    if (!metadata.is_ok()) {
      out->lost.push_back({metadata_file_name(file), {}, {}, {}, 0, 0, metadata.status().to_string()});
      continue;
    }
    newest[metadata->data_file] = file;  // files come in ascending order, so the newest stays
    strangers[file] = std::move(metadata).value();
  }
  if (newest.empty()) return;
  const bool one = out->state.trees.size() == 1;
  TreeId id = one ? out->state.trees.begin()->first : std::max<TreeId>(out->state.next_tree, 1);
  SalvageTree& tree = out->tree(id);
  if (!one) tree.stamp_known = false;
  out->state.next_tree = std::max(out->state.next_tree, id + 1);
  for (const auto& [data_file, file] : newest) {
    const auto loaded = load_table(source_, join_path(dir_, metadata_file_name(file)));
    if (!loaded.is_ok()) continue;
    const TableMetadata& m = loaded->metadata;
    read_table({data_file, file, m.data_bytes, loaded->metadata_bytes, m.data_checksum, loaded->metadata_checksum}, m.stats,
               &tree, out);
  }
  out->notes.push_back(
      std::to_string(newest.size()) + " tables are in no readable manifest: their database is " +
      (one ? "assumed to be the only known database" : "unknown; if several tables have a key, its newest entry is kept"));
}

void SalvageReader::read_table(const TableFiles& files, const TableStats& stats, SalvageTree* tree, Salvaged* out) {
  out->last_seq = std::max(out->last_seq, stats.max_seq);
  TableReaderOptions options;
  options.fs = &source_;
  options.cache = &cache_;
  options.dir = dir_;
  options.filter_slices = 0;
  const std::string path = join_path(dir_, data_file_name(files.data_file));
  auto reader = TableReader::open(options, files);
  if (!reader.is_ok() && reader.status().code() == Code::kCorruption) {
    // The data file may be truncated, have a damaged first block, or be missing. Each page has a checksum, so undamaged pages of
    // the file can be used.
    const auto metadata = load_table(source_, join_path(dir_, metadata_file_name(files.metadata_file)));
    if (metadata.is_ok()) {
      const Status why = reader.status();
      std::uint64_t checksum = 0;
      const TableMetadata& m = metadata->metadata;
      source_.expect(path, files.data_bytes, encode_data_header(m.data_version, files.data_file, m.unit, &checksum));
      reader = TableReader::open(options, files);
      if (reader.is_ok()) out->notes.push_back(why.to_string() + ": the undamaged pages of this table are read");
    }
  }
  if (!reader.is_ok()) {
    const std::string metadata = metadata_file_name(files.metadata_file);
    const bool in_metadata = reader.status().to_string().find(metadata) != std::string::npos;
    out->lost.push_back({in_metadata ? metadata : data_file_name(files.data_file),
                         {},
                         tree->id,
                         keys_of(stats),
                         stats.min_seq,
                         stats.max_seq,
                         reader.status().to_string()});
    tree->doubts.push_back({keys_of(stats), stats.max_seq + 1});
    return;
  }
  scan_table(*reader, tree, out);
}

void SalvageReader::scan_table(const std::shared_ptr<TableReader>& reader, SalvageTree* tree, Salvaged* out) {
  SalvageTable table;
  table.reader = reader;
  for (std::uint32_t tile = 0; tile < reader->tile_count(); ++tile) {
    KeyRange keys = reader->tile_range(tile);
    keys.start = reader->tile_start(tile);
    if (tile + 1 < reader->tile_count()) {
      keys.end = reader->tile_start(tile + 1);
      // The versions of one key continue in the next tile. This tile is read together with the last tile that has the key.
      if (keys.start == keys.end) continue;
    } else {
      keys.end.clear();
    }
    if (tile_is_whole(*reader, keys)) {
      if (!table.good.empty() && table.good.back().end == keys.start) {
        table.good.back().end = keys.end;
      } else {
        table.good.push_back(std::move(keys));
      }
    } else {
      rescue_tile(tile, keys, &table, tree, out);
    }
  }
  std::sort(table.rescued.begin(), table.rescued.end(), [](const SalvageTable::Rescued& a, const SalvageTable::Rescued& b) {
    return version_before(a.key, a.entry.seq, b.key, b.entry.seq);
  });
  tree->tables.push_back(std::move(table));
}

bool SalvageReader::tile_is_whole(const TableLookup& reader, const KeyRange& keys) {
  const auto walk = reader.new_iterator({.bounds = keys, .fill_cache = false});
  for (walk->seek_to_first(); walk->valid(); walk->next()) {
    const Entry& entry = walk->entry();
    if (entry.is_large() && !reader.visit_large(entry.large, [](Bytes, Compression) { return Status::ok(); }).is_ok())
      return false;
  }
  return walk->status().is_ok();
}

// Reads a damaged tile page by page, since each page has its own checksum. The versions of a key may be in several adjacent
// tiles, so the pages of all tiles that overlap `keys` are read.
void SalvageReader::rescue_tile(std::uint32_t tile, const KeyRange& keys, SalvageTable* table, SalvageTree* tree, Salvaged* out) {
  const TableReader& reader = *table->reader;
  const auto metadata = reader.load_metadata();
  KeyRange shown = reader.tile_range(tile);
  for (std::uint32_t page = 0; page < reader.page_count(); ++page) {
    const PageFence fence = reader.page_fence(page);
    const bool meets = fence.tile == tile || (fence.tile < tile && overlap(keys, reader.tile_range(fence.tile).start,
                                                                           reader.tile_range(fence.tile).end));
    if (!meets || (fence.flags & kPageDropped) != 0) continue;
    const auto lose = [&](const KeyRange& range, SeqNum first, SeqNum last, const Status& status) {
      const bool replaced = (fence.flags & kPageReplaced) != 0;
      SalvageLoss loss{replaced ? metadata_file_name(reader.files().metadata_file) : data_file_name(reader.files().data_file),
                       {},
                       tree->id,
                       range,
                       first,
                       last,
                       status.to_string()};
      if (metadata.is_ok()) loss.offset = replaced ? metadata->pages[page].replaced_offset : metadata->pages[page].offset;
      out->lost.push_back(std::move(loss));
      tree->doubts.push_back({range, last + 1});
    };
    const auto bytes = reader.read_page(page, nullptr);
    if (!bytes.is_ok()) {
      lose(shown, fence.min_seq <= fence.max_seq ? fence.min_seq : reader.stats().min_seq,
           fence.min_seq <= fence.max_seq ? fence.max_seq : reader.stats().max_seq, bytes.status());
      continue;
    }
    const PageView view(*bytes);
    for (std::uint32_t i = 0; i < view.count(); ++i) {
      SalvageTable::Rescued rescued;
      view.read(i, &reader, &rescued.key, &rescued.entry);
      if (rescued.key < keys.start || (!keys.end.empty() && rescued.key >= keys.end)) continue;
      rescued.value.assign(rescued.entry.value);
      if (rescued.entry.is_large()) {
        const Status status = reader.visit_large(rescued.entry.large, [](Bytes, Compression) { return Status::ok(); });
        if (!status.is_ok()) {
          lose({rescued.key, rescued.key + '\0'}, rescued.entry.seq, rescued.entry.seq, status);
          continue;
        }
      }
      table->rescued.push_back(std::move(rescued));
    }
  }
}

}  // namespace ebbtide
