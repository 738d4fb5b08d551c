#include <map>
#include <set>

#include "base/epoch.h"
#include "cache/block_cache.h"
#include "compaction/table_files.h"
#include "io/file_names.h"
#include "tools/inspect.h"

namespace ebbtide {
namespace {

/// A small cache: TableReader requires one, but verify() reads pages without it.
constexpr std::uint64_t kVerifyCacheBytes = std::uint64_t{8} << 20;
/// In this file, the server keeps the id of the database. The names of the database's backups end with the id.
constexpr Bytes kServersFile = "DATABASE_ID";

struct Totals {
  std::uint64_t tables = 0, pages = 0, entries = 0, bytes = 0;
};

class Verifier {
 public:
  Verifier(FileSystem& fs, std::string dir) : fs_(fs), dir_(std::move(dir)), cache_(kVerifyCacheBytes, epoch_) {}

  Inspection run() {
    const auto loaded = load_manifest(fs_, dir_);
    if (!loaded.is_ok()) {
      out_.error(loaded.status());
      return std::move(out_);
    }
    note("manifest " + manifest_file_name(loaded->file) + ", " + std::to_string(loaded->end.records) + " records" +
         (loaded->end.torn.empty() ? "" : ", torn tail: " + loaded->end.torn));
    for (const auto& [id, version] : loaded->state.trees) {
      for (const Run& run : version->runs) {
        for (const FileMetaPtr& file : run.files) verify_table(*file, id);
      }
    }
    verify_logs(loaded->state);
    tell_leftovers(*loaded);
    out_.json.add("tables", totals_.tables)
        .add("pages", totals_.pages)
        .add("entries", totals_.entries)
        .add("bytes", totals_.bytes);
    out_.json.add("notes", json_strings(notes_));
    out_.text += std::to_string(totals_.tables) + " tables, " + std::to_string(totals_.pages) + " pages, " +
                 std::to_string(totals_.entries) + " entries, " + std::to_string(totals_.bytes) + " bytes\n";
    return std::move(out_);
  }

 private:
  void note(const std::string& text) {
    out_.text += text + "\n";
    notes_.push_back(text);
  }

  void verify_table(const FileMeta& file, TreeId tree) {
    const std::string who = "table " + std::to_string(file.data_file);
    ++totals_.tables;
    totals_.bytes += file.data_bytes + file.metadata_bytes;
    for (const FileNum number : {file.data_file, file.metadata_file}) {
      if (!live_.insert(number).second) {
        out_.errors.push_back("corruption: " + who + " of tree " + std::to_string(tree) + ": file " + std::to_string(number) +
                              " belongs to another table too");
      }
    }
    TableReaderOptions options;
    options.fs = &fs_;
    options.cache = &cache_;
    options.dir = dir_;
    const auto reader = TableReader::open(options, files_of(file));
    if (!reader.is_ok()) return out_.error(reader.status());
    (*reader)->verify(&out_.errors, &totals_.pages, &totals_.entries);
    if (!((*reader)->stats() == file.stats))
      out_.errors.push_back("corruption: " + who + ": the table's properties differ from the properties in the manifest");
  }

  void verify_logs(const VersionState& state) {
    const LogFindings log = examine_log(fs_, dir_, state);
    for (const FileNum number : log.unneeded) note(log_file_name(number) + " is no longer needed");
    JsonArray segments;
    for (const LogFindings::Segment& segment : log.segments) {
      const std::string name = log_file_name(segment.file);
      JsonObject json;
      json.add("file", name).raw("damaged", segment.damaged ? "true" : "false");
      json.add("valid_bytes", segment.end.valid_bytes).add("torn", segment.end.clean ? "" : segment.end.what);
      segments.add(json.str());
      note(name + (segment.damaged ? " is damaged" : " is readable"));
      if (!segment.end.clean) note("torn tail: " + segment.end.what);
    }
    out_.json.add("log", segments);
    out_.errors.insert(out_.errors.end(), log.errors.begin(), log.errors.end());
    out_.warnings.insert(out_.warnings.end(), log.skipped.begin(), log.skipped.end());
  }

  void tell_leftovers(const LoadedManifest& loaded) {
    const auto names = fs_.list(dir_);
    if (!names.is_ok()) return out_.error(names.status());
    for (const std::string& name : std::set<std::string>(names->begin(), names->end())) {
      FileKind kind{};
      FileNum file = kNoFile;
      if (name == kServersFile || name == kWorkloadFileName) continue;
      if (!parse_file_name(name, &kind, &file)) {
        note(name + " is not a file of a database");
      } else if (kind == FileKind::kTemporary || (kind == FileKind::kManifest && file != loaded.file) ||
                 ((kind == FileKind::kData || kind == FileKind::kMetadata) && !live_.contains(file))) {
        note(name + " is a leftover: the next open removes it");
      }
    }
  }

  FileSystem& fs_;
  const std::string dir_;
  Epoch epoch_;
  BlockCache cache_;
  Inspection out_;
  Totals totals_;
  std::set<FileNum> live_;
  std::vector<std::string> notes_;
};

}  // namespace

Inspection inspect_verify(FileSystem& fs, const std::string& dir) { return Verifier(fs, dir).run(); }

}  // namespace ebbtide
