#include "db/admin/checkpoint.h"

#include <algorithm>
#include <utility>

#include "db/trees/tree_view.h"
#include "io/file_names.h"
#include "version/manifest.h"

namespace ebbtide {
namespace {

/// Makes one checkpoint. The destructor removes the files of an unfinished checkpoint.
class Checkpoint {
 public:
  Checkpoint(const CheckpointEnv& env, std::string target) : env_(env), target_(std::move(target)) {}
  ~Checkpoint() {
    if (!finished_) clear_away();
    unpin_log();
  }
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  Result<CheckpointReport> make() {
    TRY(begin());
    report_.seq = env_.visible_seq();
    report_.time = env_.now();
    TRY(env_.wait_synced(report_.seq));
    TRY_ASSIGN(state, env_.take(report_.seq));
    state_ = std::move(state);
    TRY(bring_log());
    TRY(bring_tables());
    TRY(finish());
    return report_;
  }

 private:
  [[nodiscard]] std::string source(const std::string& name) const { return join_path(env_.dir, name); }
  [[nodiscard]] std::string place(const std::string& name) const { return join_path(target_, name); }

  Status begin() {
    if (target_.empty()) return Status::invalid_argument("a checkpoint needs a directory");
    if (lies_within(target_, env_.dir)) {
      return Status::invalid_argument(target_ + " lies in the data directory " + env_.dir +
                                      "; a checkpoint keeps deleted data and must lie outside it");
    }
    made_directory_ = !env_.fs->exists(target_);
    TRY(env_.fs->create_dir(target_));
    TRY_ASSIGN(names, env_.fs->list(target_));
    if (names.empty()) return Status::ok();
    return Status::exists(target_ + " is not empty; a checkpoint is made in a new or an empty directory");
  }

  Status bring_log() {
    for (const LogSegment& segment : state_.segments) {
      const std::string name = log_file_name(segment.file);
      TRY(usable());
      const bool finished = segment.file != state_.segments.back().file;
      if (finished && link(name)) {
        note(name, segment.bytes);
      } else {
        TRY(copy_segment(name, segment.bytes));
      }
    }
    // Checks the pins after the last read: if they are still valid, no file changed or was removed during the reads.
    TRY(usable());
    unpin_log();
    return Status::ok();
  }
  void unpin_log() {
    if (state_.log_pin != nullptr) env_.unpin(state_.log_pin);
    state_.log_pin = nullptr;
  }

  /// Copies a segment chunk by chunk, and checks usable() before each chunk: a copy may take longer than the log may stay pinned.
  Status copy_segment(const std::string& name, std::uint64_t bytes) {
    constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;
    note(name, bytes);
    report_.bytes_copied += bytes;
    TRY_ASSIGN(in, env_.fs->open(source(name)));
    TRY_ASSIGN(out, env_.fs->create(place(name)));
    std::string piece;
    for (std::uint64_t done = 0; done < bytes; done += piece.size()) {
      TRY(usable());
      piece.resize(static_cast<std::size_t>(std::min(kPieceBytes, bytes - done)));
      TRY(in->read(done, piece.size(), piece.data()));
      TRY(out->append(piece));
    }
    TRY(out->sync());
    return out->close();
  }

  Status usable() const {
    if (env_.closing()) return Status::aborted("the database is closing");
    if (state_.log_pin != nullptr && state_.log_pin->revoked()) return late();
    return Status::ok();
  }
  static Status late() {
    return Status::revoked("the checkpoint took so long that deleted data would have outlived its deadline; try again");
  }

  Status bring_tables() {
    for (const auto& lease : state_.trees) {
      for (const Run& run : lease->view()->tables->version->runs) {
        for (const FileMetaPtr& file : run.files) {
          TRY(usable());
          if (lease->revoked()) return late();
          const bool damaged = file->quarantined() || lease->view()->tables->is_quarantined(file->data_file);
          if (damaged) report_.damaged += 1;
          for (const auto& [name, bytes] : {std::pair(data_file_name(file->data_file), file->data_bytes),
                                            std::pair(metadata_file_name(file->metadata_file), file->metadata_bytes)}) {
            const Status brought = bring(name, bytes);
            if (!brought.is_ok() && damaged) continue;  // a file missing in the database is missing in the checkpoint, too
            TRY(brought);
          }
        }
      }
    }
    return Status::ok();
  }

  Status bring(const std::string& name, std::uint64_t bytes) {
    note(name, bytes);
    if (link(name)) return Status::ok();
    report_.bytes_copied += bytes;
    return copy_file(*env_.fs, source(name), place(name), bytes);
  }
  bool link(const std::string& name) {
    MutexLock link(*env_.link_mutex);  // the puncher holds this mutex while it counts a file's names and punches
    return env_.fs->link(source(name), place(name)).is_ok();
  }
  void note(const std::string& name, std::uint64_t bytes) {
    made_.push_back(name);
    report_.files += 1;
    report_.bytes += bytes;
  }

  Status finish() {
    // A directory that has only a manifest would open as a new, empty database. So the names of all other files are made durable
    // first.
    TRY(env_.fs->sync_dir(target_));
    made_.push_back(manifest_file_name(state_.manifest));
    TRY(ManifestWriter::create(*env_.fs, target_, state_.manifest, state_.record).status());
    made_.emplace_back(kCurrentFileName);
    TRY(write_current(*env_.fs, target_, state_.manifest));
    TRY(env_.fs->sync_dir(parent_path(target_)));
    finished_ = true;
    return Status::ok();
  }

  void clear_away() {
    std::reverse(made_.begin(), made_.end());  // CURRENT first, since a partly removed checkpoint must not open
    for (const std::string& name : made_) (void)env_.fs->unlink(place(name));
    if (made_directory_) (void)env_.fs->remove_dir(target_);
  }

  const CheckpointEnv& env_;
  const std::string target_;
  CheckpointState state_;
  std::vector<std::string> made_;
  bool made_directory_ = false, finished_ = false;
  CheckpointReport report_;
};

}  // namespace

Result<CheckpointReport> make_checkpoint(const CheckpointEnv& env, const std::string& target) {
  return Checkpoint(env, target).make();
}

}  // namespace ebbtide
