// The functions of ebbtide-inspect that read and write the files of a data directory. They are safe on damaged or hostile files:
// unreadable parts are reported, and the rest is processed. Only inspect_repair, copy_database, receive_database and
// inspect_salvage write files.
#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "io/file_system.h"
#include "table/metadata.h"
#include "tools/json.h"
#include "version/manifest.h"
#include "version/version_state.h"
#include "wal/log_reader.h"

namespace ebbtide {

/// The result of a function: text for people, JSON for programs, and errors.
struct Inspection {
  std::string text;
  JsonObject json;
  std::vector<std::string> errors;    ///< damage: the file, the offset in the file, and the fault
  std::vector<std::string> warnings;  ///< harmless damage: the database opens with all its data

  void error(const Status& status) { errors.push_back(status.to_string()); }
};

/// Prints the edits of a manifest. `path`: a MANIFEST-NNNNNN, or a data directory, whose current manifest is printed.
Inspection inspect_manifest(FileSystem& fs, const std::string& path);
/// Prints the trees of a data directory: runs and files, in the notation of tree/text.h.
Inspection inspect_tree(FileSystem& fs, const std::string& dir);
/// Prints batches and operations of the log, with values only if `values` is true. `path`: one segment, or a data directory.
Inspection inspect_wal(FileSystem& fs, const std::string& path, bool values);
/// Prints properties, tiles and pages of a table. `path`: one of the table's two files.
Inspection inspect_table(FileSystem& fs, const std::string& path);
/// Selects the entries of a table to print.
struct EntriesQuery {
  KeyRange keys;
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
};
/// Prints the result of inspect_table, then the table's entries in order, up to the first unreadable page. A table may be larger
/// than memory, so the output goes to `write` part by part. The output is text, or, if `json` is true, one JSON object, which has
/// the errors too. Returns the errors, as in Inspection. Reads and prints only the beginning of a large value; inspect_verify
/// reads whole values.
std::vector<std::string> inspect_entries(FileSystem& fs, const std::string& path, const EntriesQuery& query, bool json,
                                         const std::function<void(Bytes piece)>& write);
/// Parses a key argument. A text that begins with a double quote is in the form of key_to_text (tree/text.h); any other text is
/// the key itself. kInvalidArgument: the quoted form is malformed.
Result<std::string> parse_key_argument(const std::string& text);
/// Checks every file of a data directory against the file's checksums and the manifest. Leftover files are reported, but are not
/// damage.
Inspection inspect_verify(FileSystem& fs, const std::string& dir);

/// Finds the steps that repair a directory that does not open, if the steps lose no data (inspect_repair.cc has the rules).
/// Reports the steps, and carries them out if `write` is true. Damage that no such step repairs is an error, and then no step is
/// carried out. It is also an error if a server has the directory open.
Inspection inspect_repair(FileSystem& fs, const std::string& dir, bool write);
/// Copies a whole database: a backup to a data directory, or the data directory of a stopped server to a backup. Verifies `from`
/// first. `to` must be new or empty, and neither directory may contain the other. `link`: if the file system allows hard links,
/// tables are linked and not copied, since a table is never written again. `to` opens only once the whole copy is durable; after
/// an error the copied files are removed if possible.
Inspection copy_database(FileSystem& fs, const std::string& from, const std::string& to, bool link);

/// Parameters of inspect_salvage.
struct SalvageQuery {
  bool include_possibly_deleted = false;    ///< write all keys to one database: deleted keys may return
  const std::atomic<bool>* stop = nullptr;  ///< may be null; once true, the salvage stops and removes the new files
};
struct SalvageOutcome {
  Inspection report;
  int exit_status = 0;  ///< 0 all data was saved, 1 data was lost, 2 refused or failed: nothing was written
};
/// Reads all readable parts of the database in `dir` and writes them to a new database in `out`, which must be a new or empty
/// directory. Never writes to `dir`. Keys that a lost part may have deleted go to `out`-possibly-deleted; engine/docs/salvage.md
/// says which keys these are.
SalvageOutcome inspect_salvage(FileSystem& fs, const std::string& dir, const std::string& out, const SalvageQuery& query);
/// Returns the directory for possibly deleted keys: `out`-possibly-deleted.
std::string possibly_deleted_dir(const std::string& out);

/// Parameters of inspect_deletes.
struct DeletesQuery {
  Millis wall_ms = 0;      ///< the wall clock now, Unix ms
  Millis deadline = 0;     ///< ms, used instead of the promised deadline; 0 = the promised deadline in the manifest
  std::size_t files = 20;  ///< number of files listed per tree
};
/// Prints the pending deletes of a data directory: tombstones, their ages and deadlines by level and by file, and deletes in the
/// log.
Inspection inspect_deletes(FileSystem& fs, const std::string& dir, const DeletesQuery& query);
/// Returns a duration as text: "250ms", "30s", "2m 5s", "24h", "3d 4h".
std::string duration_text(Millis ms);
/// Parses "30s", "24h", "7d" to ms. The message of kInvalidArgument names the allowed form.
Result<Millis> parse_duration(const std::string& text);

/// A path as directory and name. The directory of a name without a slash is ".".
struct SplitPath {
  std::string dir, name;
};
SplitPath split_path(const std::string& path);

/// A manifest of a directory, read from beginning to end.
struct LoadedManifest {
  FileNum file = kNoFile;
  VersionState state;
  ManifestEnd end;
};
/// Loads the manifest that CURRENT names.
Result<LoadedManifest> load_manifest(FileSystem& fs, const std::string& dir);
/// Loads any manifest, current or not.
Result<LoadedManifest> load_manifest_file(FileSystem& fs, const std::string& dir, FileNum file);

/// A table, as the table's metadata file describes it.
struct LoadedTable {
  std::string dir;
  FileNum metadata_file = kNoFile;
  std::uint64_t metadata_bytes = 0, metadata_checksum = 0;  ///< computed from the file, not the manifest's values
  TableMetadata metadata;
};
/// Loads the table of a data or metadata file. For a data file, reads the newest metadata file that describes it.
Result<LoadedTable> load_table(FileSystem& fs, const std::string& path);
/// Prints a table; a part of inspect_table.
Inspection describe_table(const LoadedTable& table);

/// The state of a log, as recovery would find the log.
struct LogFindings {
  struct Segment {
    FileNum file = kNoFile;
    LogEnd end;            ///< if the end is not clean and the segment is not damaged, a crash tore the end
    bool damaged = false;  ///< true if the segment is damaged; `errors` describes the damage
  };
  std::vector<Segment> segments;     ///< segments that are needed, in order
  std::vector<FileNum> unneeded;     ///< segments whose operations are all in tables
  SeqNum last_seq = 0;               ///< seq of the last operation; 0 = the log has none
  std::vector<std::string> skipped;  ///< damaged or missing parts that are not needed
  std::vector<std::string> errors;
};
/// Reads every record of the log, from the segment at which the manifest says that the log begins. Checks that no operation is
/// missing that recovery needs (log_needs()).
LogFindings examine_log(FileSystem& fs, const std::string& dir, const VersionState& state);

/// The databases that map to a tree, as text (" of database 0, 3", or "") and as JSON.
struct DatabasesOf {
  std::string text;
  JsonArray ids;
};
DatabasesOf databases_of(TreeId tree, const std::map<DatabaseId, TreeId>& databases);

/// Appends the records of a segment to `out` and `segments`, as inspect_wal does. `last`: the segment is the last of the log.
void walk_segment(FileSystem& fs, const std::string& dir, FileNum file, bool last, bool values, Inspection* out,
                  JsonArray* segments);
/// Returns the numbers of the files in `dir` whose FileKind is `kind`, ascending.
Result<std::vector<FileNum>> files_of_kind(FileSystem& fs, const std::string& dir, int kind);
/// Returns the path without the slashes at its end, so that names can be appended.
std::string without_slashes(std::string path);

}  // namespace ebbtide
