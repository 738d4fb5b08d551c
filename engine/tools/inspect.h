// The functions of ebbtide-inspect on the files of a data directory. Safe on damaged or hostile files: unreadable parts are
// reported, and the rest is processed. Only inspect_repair, copy_database and inspect_salvage write files.
#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "io/file_system.h"
#include "table/metadata.h"
#include "tools/inspect_json.h"
#include "version/manifest.h"
#include "version/version_state.h"
#include "wal/log_reader.h"

namespace ebbtide {

/// Findings, as text for people and as JSON for programs.
struct Inspection {
  std::string text;
  JsonObject json;
  std::vector<std::string> errors;    ///< damage, with file and place
  std::vector<std::string> warnings;  ///< harmless damage: the database opens with all its data

  void error(const Status& status) { errors.push_back(status.to_string()); }
};

/// Prints the edits of a manifest. `path`: a MANIFEST-NNNNNN, or a data directory (its current manifest).
Inspection inspect_manifest(FileSystem& fs, const std::string& path);
/// The trees of a data directory: runs and files, in the notation of tree/text.h.
Inspection inspect_tree(FileSystem& fs, const std::string& dir);
/// Prints batches and operations of the log; values only if `values`. `path`: one segment, or a data directory.
Inspection inspect_wal(FileSystem& fs, const std::string& path, bool values);
/// Prints properties, tiles and pages of a table. `path`: one of its two files.
Inspection inspect_table(FileSystem& fs, const std::string& path);
/// The entries of a table to print.
struct EntriesQuery {
  KeyRange keys;
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
};
/// Prints the result of inspect_table, then the entries in the table's order, up to the first unreadable page. A table may be
/// larger than memory: the output goes to `write` in pieces, as text, or with `json` as one object, which has the errors too.
/// Returns the errors, as in Inspection. It reads and prints only the beginning of a large value; inspect_verify reads the rest.
std::vector<std::string> inspect_entries(FileSystem& fs, const std::string& path, const EntriesQuery& query, bool json,
                                         const std::function<void(Bytes piece)>& write);
/// Parses a key argument: text that begins with a double quote is in the form of key_to_text (tree/text.h), any other text is the
/// key itself. kInvalidArgument: the quoted form is malformed.
Result<std::string> parse_key_argument(const std::string& text);
/// Checks every file of a data directory against its checksums and the manifest. Leftovers are reported, but are no damage.
Inspection inspect_verify(FileSystem& fs, const std::string& dir);

/// Repairs a directory that does not open, if no data is lost by that (inspect_repair.cc has the rules). Reports the steps, and
/// carries them out if `write`. Other damage is an error, and then no step is carried out. A server that has the directory open
/// is an error.
Inspection inspect_repair(FileSystem& fs, const std::string& dir, bool write);
/// Copies a whole database: a backup to a data directory, or the data directory of a stopped server to a backup. Verifies `from`
/// first. `to` must be new or empty, and neither may contain the other. `link`: tables, which are never written again, become
/// hard links where the file system can. Until all of it is durable `to` does not open; after an error the copied files are
/// removed if possible.
Inspection copy_database(FileSystem& fs, const std::string& from, const std::string& to, bool link);

/// Parameters of inspect_salvage.
struct SalvageQuery {
  bool include_possibly_deleted = false;    ///< write all keys to one database: deleted keys may return
  const std::atomic<bool>* stop = nullptr;  ///< may be null; if set, stops and removes the new files
};
struct SalvageOutcome {
  Inspection report;
  int exit_status = 0;  ///< 0 everything was saved, 1 data was lost, 2 refused or failed: nothing was written
};
/// Reads all readable parts of the database in `dir`, which it never writes to, and makes a new one in `out`, which must be new
/// or empty. Keys that a lost part may have deleted go to `out`-possibly-deleted. engine/docs/salvage.md defines them.
SalvageOutcome inspect_salvage(FileSystem& fs, const std::string& dir, const std::string& out, const SalvageQuery& query);
/// The directory for possibly deleted keys.
std::string possibly_deleted_dir(const std::string& out);

/// Parameters of inspect_deletes.
struct DeletesQuery {
  Millis wall_ms = 0;      ///< now
  Millis deadline = 0;     ///< overrides the promised deadline; 0 = by the manifest
  std::size_t files = 20;  ///< number of files listed per tree
};
/// Prints the pending deletes of a data directory: tombstones, their ages and deadlines by level and by file, and deletes in the
/// log.
Inspection inspect_deletes(FileSystem& fs, const std::string& dir, const DeletesQuery& query);
/// "250ms", "30s", "2m 5s", "24h", "3d 4h".
std::string duration_text(Millis ms);
/// Parses "30s", "24h", "7d"; kInvalidArgument names the allowed form.
Result<Millis> parse_duration(const std::string& text);

/// A path as directory and name ("." for a bare name).
struct SplitPath {
  std::string dir, name;
};
SplitPath split_path(const std::string& path);

/// The manifest that is current in `dir`, read whole.
struct LoadedManifest {
  FileNum file = kNoFile;
  VersionState state;
  ManifestEnd end;
};
Result<LoadedManifest> load_manifest(FileSystem& fs, const std::string& dir);
/// The same for any manifest.
Result<LoadedManifest> load_manifest_file(FileSystem& fs, const std::string& dir, FileNum file);

/// The content of a metadata file.
struct LoadedTable {
  std::string dir;
  FileNum metadata_file = kNoFile;
  std::uint64_t metadata_bytes = 0, metadata_checksum = 0;  ///< computed from the file, not the manifest's values
  TableMetadata metadata;
};
/// Loads the table of a data or metadata file, by the newest metadata file that describes it.
Result<LoadedTable> load_table(FileSystem& fs, const std::string& path);
/// Prints the table, for inspect_table.
Inspection describe_table(const LoadedTable& table);

/// The state of a log, as recovery would see it.
struct LogFindings {
  struct Segment {
    FileNum file = kNoFile;
    LogEnd end;            ///< not clean: torn by a crash, unless it is damaged
    bool damaged = false;  ///< see `errors`
  };
  std::vector<Segment> segments;     ///< those that are needed, in order
  std::vector<FileNum> unneeded;     ///< all their operations are in tables
  SeqNum last_seq = 0;               ///< of the last operation; 0 = there is none
  std::vector<std::string> skipped;  ///< damaged or missing parts that are not needed
  std::vector<std::string> errors;
};
/// Reads the log from its beginning by the manifest: every record. Checks that operations have no gap up to the last one that the
/// manifest relies on.
LogFindings examine_log(FileSystem& fs, const std::string& dir, const VersionState& state);

/// The databases of a tree, for people (" of database 0, 3", or "") and for programs.
struct DatabasesOf {
  std::string text;
  JsonArray ids;
};
DatabasesOf databases_of(TreeId tree, const std::map<DatabaseId, TreeId>& databases);

/// Prints the segments of a directory, or one segment, to `out`: see inspect_wal.
void walk_segment(FileSystem& fs, const std::string& dir, FileNum file, bool last, bool values, Inspection* out,
                  JsonArray* segments);
/// Numbers of the files of one kind in `dir`, ascending.
Result<std::vector<FileNum>> files_of_kind(FileSystem& fs, const std::string& dir, int kind);
/// The path of a directory without slashes at its end, so that names can be made from it.
std::string without_slashes(std::string path);

}  // namespace ebbtide
