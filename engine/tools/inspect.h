// What ebbtide-inspect finds in the files of a data directory, and what it may do about it. Safe on files that are damaged or
// hostile: what cannot be read is reported, and the rest goes on. Nothing is written, but by inspect_repair and copy_database.
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

/// The same findings twice: for people, and for programs.
struct Inspection {
  std::string text;
  JsonObject json;
  std::vector<std::string> errors;    ///< damage; each names file and place
  std::vector<std::string> warnings;  ///< damage that costs nothing: the database opens, and has everything

  void error(const Status& status) { errors.push_back(status.to_string()); }
};

/// `path`: a MANIFEST-NNNNNN, or a data directory, whose current one is taken. Its edits, one by one.
Inspection inspect_manifest(FileSystem& fs, const std::string& path);
/// The trees of a data directory: runs and files, in the notation of tree/text.h.
Inspection inspect_tree(FileSystem& fs, const std::string& dir);
/// `path`: one segment, or a data directory with all of them. Their batches and operations; values only if `values`.
Inspection inspect_wal(FileSystem& fs, const std::string& path, bool values);
/// `path`: one of the two files of a table. Its properties, tiles and pages.
Inspection inspect_table(FileSystem& fs, const std::string& path);
/// Which entries of a table inspect_entries prints.
struct EntriesQuery {
  KeyRange keys;
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
};
/// What inspect_table finds and then the entries, in the table's order, up to the first page that cannot be read. A table may be
/// larger than memory: the answer goes to `write` piece by piece, as text, or with `json` as one object, which has the errors too.
/// Returned are the errors, as in Inspection. Of a large value the beginning is read, which is what is printed; inspect_verify reads
/// the rest.
std::vector<std::string> inspect_entries(FileSystem& fs, const std::string& path, const EntriesQuery& query, bool json,
                                         const std::function<void(Bytes piece)>& write);
/// A key as it is given to a tool: what begins with a double quote is read as key_to_text (tree/text.h) writes it, anything else is
/// the key itself. kInvalidArgument says what is wrong with the quoted form.
Result<std::string> parse_key_argument(const std::string& text);
/// Every file of a data directory against its checksums and against the manifest. Leftovers are told, not counted as damage.
Inspection inspect_verify(FileSystem& fs, const std::string& dir);

/// Puts a directory in order that does not open, as far as that loses nothing (inspect_repair.cc says what that is): tells what it
/// would do, and does it if `write`. Damage that it must leave is an error, and then nothing is done at all. So is a server that
/// has the directory open.
Inspection inspect_repair(FileSystem& fs, const std::string& dir, bool write);
/// A whole database in another place: a backup as a data directory, or the data directory of a server that is stopped as a backup.
/// `from` is verified first. `to` must be new or empty, and neither may lie in the other. `link`: tables, which are never written
/// again, become second names of the same files where the file system can. Until all of it is durable `to` does not open; after an
/// error what was made is gone, if that works.
Inspection copy_database(FileSystem& fs, const std::string& from, const std::string& to, bool link);

/// What inspect_salvage is asked.
struct SalvageQuery {
  bool include_possibly_deleted = false;    ///< all into one database: what was deleted may come back
  const std::atomic<bool>* stop = nullptr;  ///< may be null; set: give up, and remove what was made
};
struct SalvageOutcome {
  Inspection report;
  int exit_status = 0;  ///< 0 everything was saved, 1 something was lost, 2 refused or failed: nothing was made
};
/// Reads whatever can be read of the database in `dir`, which is never written to, and makes a new one of it in `out`, which must
/// be new or empty. Keys of which a lost part may have held a delete go to `out`-possibly-deleted. engine/docs/salvage.md says
/// which these are.
SalvageOutcome inspect_salvage(FileSystem& fs, const std::string& dir, const std::string& out, const SalvageQuery& query);
/// Where that puts what is possibly deleted.
std::string possibly_deleted_dir(const std::string& out);

/// What inspect_deletes is asked.
struct DeletesQuery {
  Millis wall_ms = 0;      ///< now
  Millis deadline = 0;     ///< instead of what was promised; 0 = as the manifest has it
  std::size_t files = 20;  ///< how many files are listed, of each tree
};
/// What a data directory owes to deletes: tombstones, their ages and deadlines by level and by file, and deletes in the log.
Inspection inspect_deletes(FileSystem& fs, const std::string& dir, const DeletesQuery& query);
/// "250ms", "30s", "2m 5s", "24h", "3d 4h".
std::string duration_text(Millis ms);
/// "30s", "24h", "7d"; kInvalidArgument says what is allowed.
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
/// The same of a manifest that need not be the current one.
Result<LoadedManifest> load_manifest_file(FileSystem& fs, const std::string& dir, FileNum file);

/// What a metadata file says of its table.
struct LoadedTable {
  std::string dir;
  FileNum metadata_file = kNoFile;
  std::uint64_t metadata_bytes = 0, metadata_checksum = 0;  ///< of the file as it is
  TableMetadata metadata;
};
/// The table that `path` is one of the two files of, by the newest metadata file that describes it.
Result<LoadedTable> load_table(FileSystem& fs, const std::string& path);
/// What inspect_table prints.
Inspection describe_table(const LoadedTable& table);

/// What recovery would make of a log.
struct LogFindings {
  struct Segment {
    FileNum file = kNoFile;
    LogEnd end;            ///< not clean: torn by a crash, unless it is damaged
    bool damaged = false;  ///< `errors` says how
  };
  std::vector<Segment> segments;     ///< those that are needed, in order
  std::vector<FileNum> unneeded;     ///< everything in them is in tables
  SeqNum last_seq = 0;               ///< of the last operation; 0 = there is none
  std::vector<std::string> skipped;  ///< parts that are damaged or missing, and that nothing needs
  std::vector<std::string> errors;
};
/// Reads the log from where the manifest says that it begins: every record, and whether operations follow each other without a
/// gap up to where the manifest relies on them.
LogFindings examine_log(FileSystem& fs, const std::string& dir, const VersionState& state);

/// The databases that a tree is of, for people (" of database 0, 3", or "") and for programs.
struct DatabasesOf {
  std::string text;
  JsonArray ids;
};
DatabasesOf databases_of(TreeId tree, const std::map<DatabaseId, TreeId>& databases);

/// Walks the segments of a directory (or one) into `out`: see inspect_wal.
void walk_segment(FileSystem& fs, const std::string& dir, FileNum file, bool last, bool values, Inspection* out,
                  JsonArray* segments);
/// Numbers of the files of one kind in `dir`, ascending.
Result<std::vector<FileNum>> files_of_kind(FileSystem& fs, const std::string& dir, int kind);
/// The path of a directory without slashes at its end, so that names can be made from it.
std::string without_slashes(std::string path);

}  // namespace ebbtide
