// Copies a whole database: a backup to a data directory, or the data directory of a stopped server to a backup.
//
// It copies the files that the current manifest names: tables, the log from its beginning, and the manifest itself. It does not
// copy leftovers or foreign files. CURRENT is written last, when all the rest is durable: an interrupted copy has none, and does
// not open.
//
// Tables may be linked: their files are never written again, and holes are punched only into files with a single name. The log
// may not: opening truncates a torn end.
#include <algorithm>

#include "io/file_names.h"
#include "tools/inspect.h"

namespace ebbtide {
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
      out_.text += to_ + " has " + std::to_string(files_) + " files, " + std::to_string(bytes_) + " bytes, " +
                   std::to_string(links_) + " of them links to those of " + from_ + "\n";
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
    if (!fs_.exists(join_path(from_, kCurrentFileName))) {
      return Status::not_found(from_ + " has no CURRENT: it is not a data directory, or an unfinished backup");
    }
    TRY(check_target());
    TRY(lock_source());
    const Inspection verified = inspect_verify(fs_, from_);
    out_.text += verified.text;
    out_.errors = verified.errors;
    out_.warnings = verified.warnings;
    if (!out_.errors.empty()) return Status::ok();
    TRY_ASSIGN(loaded, load_manifest(fs_, from_));
    return bring(loaded);
  }

  Status check_target() {
    if (!fs_.exists(to_)) return Status::ok();
    TRY_ASSIGN(names, fs_.list(to_));
    if (names.empty()) return Status::ok();
    return Status::exists(to_ + " is not empty; a database is copied to a new or an empty directory");
  }
  /// A backup made by BGSAVE has no lock. If locking fails for another reason than a running server, the file system is
  /// read-only.
  Status lock_source() {
    const std::string lock = join_path(from_, kLockFileName);
    if (!fs_.exists(lock)) return Status::ok();
    auto held = fs_.lock(lock);
    if (held.status().code() == Code::kBusy) {
      return held.status().with_context("a server has " + from_ + " open; BGSAVE makes a backup of it while it runs");
    }
    if (held.is_ok()) lock_ = std::move(held).value();
    return Status::ok();
  }

  Status bring(const LoadedManifest& loaded) {
    made_directory_ = !fs_.exists(to_);
    TRY(fs_.create_dir(to_));
    for (const auto& [id, version] : loaded.state.trees) {
      for (const Run& run : version->runs) {
        for (const FileMetaPtr& file : run.files) {
          TRY(bring(data_file_name(file->data_file), link_));
          TRY(bring(metadata_file_name(file->metadata_file), link_));
        }
      }
    }
    TRY_ASSIGN(logs, files_of_kind(fs_, from_, static_cast<int>(FileKind::kLog)));
    for (const FileNum log : logs) {
      if (log >= loaded.state.oldest_log) TRY(bring(log_file_name(log), false));
    }
    TRY(bring(manifest_file_name(loaded.file), false));
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
