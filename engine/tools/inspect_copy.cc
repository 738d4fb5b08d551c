// Copies a whole database: a backup to a data directory, or the data directory of a stopped server to a backup.
//
// The copy has the files that the current manifest names: tables, the log from its beginning, and the manifest itself. The copy
// has no leftovers or foreign files. CURRENT is written last, when all other files are durable: an interrupted copy has no
// CURRENT, and does not open.
//
// Tables may be linked: the files of a table are never written again, and the engine punches holes only into files with a single
// name. The log may not be linked: when a database opens, the engine truncates a torn end of the log.
#include "tools/inspect_copy.h"

#include <algorithm>

#include "io/file_names.h"

namespace ebbtide {

Result<std::vector<DatabaseFile>> files_of_database(FileSystem& fs, const std::string& dir, const LoadedManifest& loaded) {
  std::vector<DatabaseFile> files;
  for (const auto& [id, version] : loaded.state.trees) {
    for (const Run& run : version->runs) {
      for (const FileMetaPtr& file : run.files) {
        files.push_back({data_file_name(file->data_file), true});
        files.push_back({metadata_file_name(file->metadata_file), true});
      }
    }
  }
  TRY_ASSIGN(logs, files_of_kind(fs, dir, static_cast<int>(FileKind::kLog)));
  for (const FileNum log : logs) {
    if (log >= loaded.state.oldest_log) files.push_back({log_file_name(log), false});
  }
  files.push_back({manifest_file_name(loaded.file), false});
  return files;
}

Result<std::unique_ptr<FileLock>> lock_source(FileSystem& fs, const std::string& dir) {
  const std::string lock = join_path(dir, kLockFileName);
  if (!fs.exists(lock)) return std::unique_ptr<FileLock>();
  auto held = fs.lock(lock);
  if (held.is_ok()) return std::move(held).value();
  if (held.status().code() != Code::kBusy) return std::unique_ptr<FileLock>();
  return held.status().with_context("a server has " + dir + " open; BGSAVE makes a backup while the server runs");
}

Status check_source(FileSystem& fs, const std::string& dir) {
  if (fs.exists(join_path(dir, kCurrentFileName))) return Status::ok();
  return Status::not_found(dir + " has no CURRENT: it is an unfinished backup, or not a data directory");
}

Status check_target(FileSystem& fs, const std::string& dir) {
  if (!fs.exists(dir)) return Status::ok();
  TRY_ASSIGN(names, fs.list(dir));
  if (names.empty()) return Status::ok();
  return Status::exists(dir + " is not empty; a database is copied to a new or an empty directory");
}

namespace {

class Copy {
 public:
  Copy(FileSystem& fs, std::string from, std::string to, bool link)
      : fs_(fs), from_(std::move(from)), to_(std::move(to)), link_(link) {}
  ~Copy() {
    if (!finished_) clear_away();
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  Inspection run() {
    if (const Status status = make(); !status.is_ok()) out_.error(status);
    out_.json.add("from", from_).add("to", to_).add("files", files_).add("bytes", bytes_).add("links", links_);
    if (finished_) {
      out_.text += to_ + " has " + std::to_string(files_) + " files, " + std::to_string(bytes_) + " bytes; " +
                   std::to_string(links_) + " of the files are hard links to files of " + from_ + "\n";
    } else {
      out_.text += "Nothing was copied.\n";
    }
    return std::move(out_);
  }

 private:
  Status make() {
    if (lies_within(to_, from_) || lies_within(from_, to_)) {
      return Status::invalid_argument(to_ + " and " + from_ + ": neither may be inside the other");
    }
    TRY(check_source(fs_, from_));
    TRY(check_target(fs_, to_));
    TRY_ASSIGN(lock, lock_source(fs_, from_));
    lock_ = std::move(lock);
    const Inspection verified = inspect_verify(fs_, from_);
    out_.text += verified.text;
    out_.errors = verified.errors;
    out_.warnings = verified.warnings;
    if (!out_.errors.empty()) return Status::ok();
    TRY_ASSIGN(loaded, load_manifest(fs_, from_));
    return bring(loaded);
  }

  Status bring(const LoadedManifest& loaded) {
    made_directory_ = !fs_.exists(to_);
    TRY(fs_.create_dir(to_));
    TRY_ASSIGN(files, files_of_database(fs_, from_, loaded));
    for (const DatabaseFile& file : files) TRY(bring(file.name, link_ && file.table));
    TRY(fs_.sync_dir(to_));
    made_.emplace_back(kCurrentFileName);
    TRY(write_current(fs_, to_, loaded.file));
    TRY(fs_.sync_dir(parent_path(to_)));
    ++files_;
    finished_ = true;
    return Status::ok();
  }
  Status bring(const std::string& name, bool link) {
    const std::string source = join_path(from_, name), place = join_path(to_, name);
    TRY_ASSIGN(size, fs_.file_size(source));
    made_.push_back(name);
    ++files_;
    bytes_ += size;
    if (link && fs_.link(source, place).is_ok()) return ++links_, Status::ok();
    return copy_file(fs_, source, place, size);
  }

  void clear_away() {
    std::reverse(made_.begin(), made_.end());  // CURRENT first: a partly removed copy must not open
    for (const std::string& name : made_) (void)fs_.unlink(join_path(to_, name));
    if (made_directory_) (void)fs_.remove_dir(to_);
  }

  FileSystem& fs_;
  const std::string from_, to_;
  const bool link_;
  std::unique_ptr<FileLock> lock_;
  std::vector<std::string> made_;
  bool made_directory_ = false, finished_ = false;
  std::uint64_t files_ = 0, bytes_ = 0, links_ = 0;
  Inspection out_;
};

}  // namespace

Inspection copy_database(FileSystem& fs, const std::string& from, const std::string& to, bool link) {
  return Copy(fs, from, to, link).run();
}

}  // namespace ebbtide
