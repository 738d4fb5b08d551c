// Repairs a data directory that does not open. No readable operation is lost.
//
//   1. CURRENT, or the manifest that it names, is lost or damaged. The newest whole manifest replaces it if that manifest is
//      complete. A manifest is complete if all tables that it names exist, the log continues from it without a gap, and no other
//      table has operations past that log's end. Newer manifests are moved to DIR-repair.
//   2. A crash tore the end of a log segment. A copy of this end goes to DIR-repair, then the segment is truncated.
//   3. Leftover files are removed. If step 1 replaced CURRENT, leftover files stay: the next start removes them.
//
// The engine also does steps 2 and 3 when a database opens, without the copy. For other damage, a backup is needed. Such damage
// is reported, and then no step is carried out: a partly changed directory is harder to save.
//
// DIR-repair lies beside the directory, as backups do. Delete deadlines apply to all files inside the directory, so copies there
// would break them.
#include <algorithm>
#include <functional>
#include <set>

#include "base/epoch.h"
#include "cache/block_cache.h"
#include "compaction/table_files.h"
#include "io/file_names.h"
#include "table/metadata.h"
#include "tools/inspect.h"

namespace ebbtide {
namespace {

/// A small cache: TableReader requires one, but no page is read.
constexpr std::uint64_t kRepairCacheBytes = std::uint64_t{1} << 20;

/// One step of the repair. `about` describes the step, as words that can follow "would".
struct Step {
  std::string action, file, about;
  std::function<Status()> carry_out;
  bool done = false;
};

/// The state of the database that a manifest describes.
struct Findings {
  LogFindings log;
  std::set<FileNum> live;  ///< files of the tables that the manifest names
  SeqNum last_seq = 0;     ///< the highest seq in manifest, tables and log
  std::vector<std::string> errors;
};

class Repair {
 public:
  Repair(FileSystem& fs, std::string dir, bool write)
      : fs_(fs),
        dir_(without_slashes(std::move(dir))),
        aside_(dir_ + "-repair"),
        write_(write),
        cache_(kRepairCacheBytes, epoch_) {}

  Inspection run() {
    if (const Status status = examine(); !status.is_ok()) out_.error(status);
    if (write_) carry_out();
    tell();
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::string path(const std::string& name) const { return join_path(dir_, name); }
  void add(std::string action, std::string file, std::string about, std::function<Status()> run) {
    steps_.push_back({std::move(action), std::move(file), std::move(about), std::move(run), false});
  }

  Status examine() {
    if (const std::string name = split_path(dir_).name; name.empty() || name == "." || name == "..") {
      return Status::invalid_argument(
          "'" + dir_ +
          "' does not end with a directory's name: give the whole path, since replaced files go to a second directory "
          "beside it");
    }
    TRY(lock());
    TRY(find_manifest());
    if (!out_.errors.empty()) return Status::ok();
    for (const LogFindings::Segment& segment : found_.log.segments) {
      if (!segment.end.clean && segment.end.valid_bytes != 0) TRY(plan_cut(segment));
    }
    return plan_removals();
  }

  /// Locks the directory against a server. The lock needs a lock file. This file is not created without --write, or in a
  /// directory without a database.
  Status lock() {
    TRY_ASSIGN(manifests, files_of_kind(fs_, dir_, static_cast<int>(FileKind::kManifest)));
    if (manifests.empty()) {
      return Status::not_found(dir_ + " has no manifest: it is an unfinished backup, or not a data directory");
    }
    const std::string name = path(std::string(kLockFileName));
    if (!write_ && !fs_.exists(name)) return Status::ok();
    auto held = fs_.lock(name);
    if (held.status().code() == Code::kBusy) return held.status().with_context("a server has " + dir_ + " open");
    if (!held.is_ok()) return held.status();
    lock_ = std::move(held).value();
    return Status::ok();
  }

  Status find_manifest() {
    const auto current = read_current(fs_, dir_);
    Status why = current.status();
    if (current.is_ok()) {
      auto loaded = load_manifest_file(fs_, dir_, *current);
      if (loaded.is_ok()) {
        manifest_ = loaded->file;
        found_ = look_at(loaded->state);
        out_.errors = found_.errors;
        return Status::ok();
      }
      why = loaded.status();
    }
    if (why.code() != Code::kCorruption && !why.is_not_found()) return why;
    TRY_ASSIGN(manifests, files_of_kind(fs_, dir_, static_cast<int>(FileKind::kManifest)));
    std::vector<std::string> errors{why.to_string()};
    std::vector<FileNum> passed_over;
    for (std::size_t i = manifests.size(); i-- > 0;) {
      TRY_ASSIGN(leads_to_everything, try_manifest(manifests[i], &errors));
      if (leads_to_everything) {
        plan_current(manifests[i], why, passed_over);
        return Status::ok();
      }
      passed_over.push_back(manifests[i]);
    }
    out_.errors = std::move(errors);
    return Status::ok();
  }

  /// Returns true if the manifest is complete and may become the current manifest. Returns an error, which ends the search, if
  /// this program cannot know whether the manifest is complete: a read failed, or a newer version wrote it.
  Result<bool> try_manifest(FileNum file, std::vector<std::string>* errors) {
    const auto loaded = load_manifest_file(fs_, dir_, file);
    if (!loaded.is_ok()) {
      if (loaded.status().code() != Code::kCorruption) return loaded.status();
      // The damage of the manifest that CURRENT names was reported already.
      if (loaded.status().to_string() != errors->front()) errors->push_back(loaded.status().to_string());
      return false;
    }
    Findings found = look_at(loaded->state);
    if (found.errors.empty()) find_strangers(&found);
    if (!found.errors.empty()) {
      errors->push_back("corruption: " + manifest_file_name(file) + " is undamaged, but does not describe the whole database");
      errors->insert(errors->end(), found.errors.begin(), found.errors.end());
      return false;
    }
    manifest_ = file;
    found_ = std::move(found);
    return true;
  }

  Findings look_at(const VersionState& state) {
    Findings found;
    found.last_seq = state.last_seq;
    TableReaderOptions options;
    options.fs = &fs_;
    options.cache = &cache_;
    options.dir = dir_;
    options.filter_slices = 0;
    for (const auto& [id, version] : state.trees) {
      for (const Run& run : version->runs) {
        for (const FileMetaPtr& file : run.files) {
          found.live.insert({file->data_file, file->metadata_file});
          found.last_seq = std::max(found.last_seq, file->stats.max_seq);
          const auto reader = TableReader::open(options, files_of(*file));
          if (!reader.is_ok()) found.errors.push_back(reader.status().to_string());
        }
      }
    }
    found.log = examine_log(fs_, dir_, state);
    found.last_seq = std::max(found.last_seq, found.log.last_seq);
    found.errors.insert(found.errors.end(), found.log.errors.begin(), found.log.errors.end());
    return found;
  }

  /// Adds an error for each table that the manifest does not name and that cannot be read or has operations past found->last_seq.
  void find_strangers(Findings* found) {
    const auto numbers = files_of_kind(fs_, dir_, static_cast<int>(FileKind::kMetadata));
    if (!numbers.is_ok()) return found->errors.push_back(numbers.status().to_string());
    for (const FileNum file : *numbers) {
      if (found->live.contains(file)) continue;
      const std::string name = metadata_file_name(file);
      const auto bytes = read_file(fs_, path(name));
      const auto metadata =
          bytes.is_ok() ? TableMetadata::decode(*bytes, file, path(name)) : Result<TableMetadata>(bytes.status());
      if (!metadata.is_ok()) {
        found->errors.push_back(metadata.status().to_string());
      } else if (metadata->stats.max_seq > found->last_seq) {
        found->errors.push_back("corruption: " + path(name) + " has operations up to " + std::to_string(metadata->stats.max_seq) +
                                ", but the log and the tables that the manifest names have operations only up to " +
                                std::to_string(found->last_seq));
      }
    }
  }

  void plan_current(FileNum file, const Status& why, const std::vector<FileNum>& passed_over) {
    rewrites_current_ = true;
    const std::string name = manifest_file_name(file);
    add("rewrite_current", std::string(kCurrentFileName),
        "rewrite CURRENT to name " + name + ": the newest manifest that is whole (" + why.to_string() + ")",
        [this, file] { return write_current(fs_, dir_, file); });
    for (const FileNum damaged : passed_over) {
      const std::string from = manifest_file_name(damaged), to = aside(from + ".damaged");
      add("set_aside", from, "set " + from + " aside as " + to, [this, from, to]() -> Status {
        TRY_ASSIGN(size, fs_.file_size(path(from)));
        TRY(set_aside(from, to, size, 0));
        return remove(from);
      });
    }
  }

  Status plan_cut(const LogFindings::Segment& segment) {
    const std::string name = log_file_name(segment.file), to = aside(name + ".torn");
    const FileNum file = segment.file;
    const std::uint64_t valid = segment.end.valid_bytes;
    TRY_ASSIGN(size, fs_.file_size(path(name)));
    if (size < valid || size - valid > kMaxWholeFileBytes) {
      return Status::corruption(path(name) + ": " + std::to_string(size) +
                                " bytes; a crash cannot leave a torn end of this size");
    }
    const std::uint64_t torn = size - valid;
    add("cut_log", name,
        "cut " + name + " at " + std::to_string(valid) + " and keep the " + std::to_string(torn) +
            " bytes after it, which have no complete record, as " + to + " (" + segment.end.what + ")",
        [this, name, to, file, valid, torn]() -> Status {
          TRY(set_aside(name, to, torn, valid));
          return cut_log(fs_, dir_, file, valid);
        });
    return Status::ok();
  }

  Status plan_removals() {
    TRY_ASSIGN(names, fs_.list(dir_));
    std::set<FileNum> logs(found_.log.unneeded.begin(), found_.log.unneeded.end());
    for (const LogFindings::Segment& segment : found_.log.segments) {
      const bool torn = !segment.end.clean && segment.end.valid_bytes == 0;
      if (torn) logs.insert(segment.file);  // the creation of the segment was interrupted
    }
    for (const std::string& name : std::set<std::string>(names.begin(), names.end())) {
      FileKind kind{};
      FileNum file = kNoFile;
      if (!parse_file_name(name, &kind, &file)) continue;
      const bool table = kind == FileKind::kData || kind == FileKind::kMetadata;
      if ((table && !found_.live.contains(file)) || kind == FileKind::kTemporary ||
          (kind == FileKind::kManifest && file != manifest_ && !rewrites_current_) ||
          (kind == FileKind::kLog && logs.contains(file))) {
        ++leftovers_;
        if (!rewrites_current_) add("remove", name, "remove " + name + ", a leftover", [this, name] { return remove(name); });
      }
    }
    return Status::ok();
  }
  Status remove(const std::string& name) {
    removed_ = true;
    return fs_.unlink(path(name));
  }

  /// Returns an unused path in DIR-repair for a file of that name.
  [[nodiscard]] std::string aside(const std::string& name) const {
    std::string free = join_path(aside_, name);
    for (int i = 2; fs_.exists(free); ++i) free = join_path(aside_, name) + std::to_string(i);
    return free;
  }
  Status set_aside(const std::string& name, const std::string& to, std::uint64_t length, std::uint64_t offset) {
    TRY(fs_.create_dir(aside_));
    TRY(fs_.sync_dir(parent_path(aside_)));
    TRY(copy_file(fs_, path(name), to, length, offset));
    return fs_.sync_dir(aside_);
  }

  void carry_out() {
    for (Step& step : steps_) {
      if (!out_.errors.empty()) return;
      const Status status = step.carry_out();
      step.done = status.is_ok();
      if (!step.done) out_.error(status);
    }
    if (!removed_) return;
    if (const Status status = fs_.sync_dir(dir_); !status.is_ok()) out_.error(status);
  }

  void tell() {
    JsonArray steps;
    bool any_done = false;
    for (const Step& step : steps_) {
      any_done |= step.done;
      out_.text += (!write_ ? "would " : step.done ? "done: " : "not done: ") + step.about + "\n";
      JsonObject json;
      json.add("action", step.action).add("file", step.file).add("about", step.about);
      steps.add(json.raw("done", step.done ? "true" : "false").str());
    }
    if (rewrites_current_ && leftovers_ != 0 && out_.errors.empty()) {
      out_.text += std::to_string(leftovers_) + " files that " + manifest_file_name(manifest_) +
                   " does not need will be removed at the next start: the log has their data\n";
    }
    if (!out_.errors.empty()) {
      out_.text += any_done ? "Not all steps could be carried out.\n"
                            : "Nothing was changed: this damage cannot be repaired. If no server has the directory open, "
                              "restore a backup.\n";
    } else if (steps_.empty()) {
      out_.text += "There is nothing to repair.\n";
    } else if (!write_) {
      out_.text += "Nothing was changed; run again with --write to carry out these steps.\n";
    }
    if (out_.errors.empty()) {
      out_.text += "The pages of the tables were not read: ebbtide-inspect verify " + dir_ + " reads them.\n";
    }
    out_.json.add("directory", dir_).raw("write", write_ ? "true" : "false").add("steps", steps);
  }

  FileSystem& fs_;
  const std::string dir_;
  const std::string aside_;
  const bool write_;
  Epoch epoch_;
  BlockCache cache_;
  std::unique_ptr<FileLock> lock_;
  FileNum manifest_ = kNoFile;  ///< the manifest that is, or will be, the current manifest
  Findings found_;
  bool rewrites_current_ = false, removed_ = false;
  std::uint64_t leftovers_ = 0;
  std::vector<Step> steps_;
  Inspection out_;
};

}  // namespace

Inspection inspect_repair(FileSystem& fs, const std::string& dir, bool write) { return Repair(fs, dir, write).run(); }

}  // namespace ebbtide
