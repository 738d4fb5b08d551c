// A checkpoint: another directory that opens as the database was at one moment, made while it runs.
//
//   1. The log is synced past everything visible.
//   2. Under manifest_mutex_: the manifest's state is taken down as one record, and the tables that it names are pinned, and the
//      segments of the log, each with the bytes that it has by now. That is memory only.
//   3. The log is brought over, finished segments as links, the one being written as a copy of those bytes; then the tables, as
//      links. Where a link cannot be made (another file system) it is a copy. Nothing waits for that: flushes and merges go on.
//      A pin that would make a delete miss its deadline is revoked, and the checkpoint fails.
//   4. The directory is synced. Only then does it get a manifest and CURRENT: a checkpoint that was not finished has none, and
//      does not open.
//
// A quarantined table comes along as far as it is there, and its mark with it: the checkpoint opens with the same reads refused. It
// says so (CheckpointReport::damaged), and it replaces no backup from before the damage.
//
// A link costs no space until the database lets go of the file. Files of tables and finished segments are never written again,
// and a hole is punched only into a file that has a single name, so links are as good as copies.
#include <algorithm>

#include "db/db_impl.h"
#include "io/file_names.h"
#include "version/manifest.h"

namespace ebbtide {

/// What a checkpoint goes through. What it has made goes with it, unless it is finished.
class DbImpl::Checkpoint {
 public:
  Checkpoint(DbImpl& db, std::string target) : db_(db), target_(std::move(target)) {}
  ~Checkpoint() {
    if (!finished_) clear_away();
    if (log_pin_ != nullptr) db_.unpin_log(log_pin_);
  }
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  Result<CheckpointReport> make() {
    TRY(begin());
    report_.seq = db_.published_.visible_seq();
    report_.time = db_.time_.now();
    TRY(db_.log_->wait_synced(report_.seq));
    {
      MutexLock manifest(db_.manifest_mutex_);
      TRY(take_state());
      TRY(take_log());
    }
    TRY(bring_log());
    TRY(bring_tables());
    TRY(finish());
    return report_;
  }

 private:
  [[nodiscard]] std::string source(const std::string& name) const { return join_path(db_.settings_.dir, name); }
  [[nodiscard]] std::string place(const std::string& name) const { return join_path(target_, name); }

  Status begin() {
    if (target_.empty()) return Status::invalid_argument("a checkpoint needs a directory");
    if (lies_within(target_, db_.settings_.dir)) {
      return Status::invalid_argument(target_ + " lies in the data directory " + db_.settings_.dir +
                                      "; a checkpoint keeps deleted data and must lie outside it");
    }
    made_directory_ = !db_.fs_.exists(target_);
    TRY(db_.fs_.create_dir(target_));
    TRY_ASSIGN(names, db_.fs_.list(target_));
    if (names.empty()) return Status::ok();
    return Status::exists(target_ + " is not empty; a checkpoint is made in a new or an empty directory");
  }

  Status take_state() REQUIRES(db_.manifest_mutex_) {
    TRY(db_.versions_->status());
    manifest_ = db_.versions_->new_file();
    record_ = db_.versions_->snapshot_record();
    MutexLock commit(db_.trees_.commit_mutex);
    MutexLock state(db_.trees_.state_mutex);
    for (const auto& [id, tree] : db_.trees_.live()) pin(*tree);
    for (const TreePtr& tree : db_.trees_.dropped()) pin(*tree);
    return Status::ok();
  }
  void pin(const Tree& tree) REQUIRES(db_.trees_.state_mutex) {
    if (db_.versions_->tree(tree.id) != nullptr && tree.view_owner != nullptr)
      pinned_.push_back(db_.leases_.lease(tree.view_owner, report_.seq, db_.time_.now()));
  }

  /// What the log has by now; report_.seq and all that the state relies on is in it.
  Status take_log() REQUIRES(db_.manifest_mutex_) {
    TRY(db_.log_->status());
    segments_ = db_.log_->segments();
    std::erase_if(segments_, [&](const LogSegment& segment)
                                 NO_THREAD_SAFETY_ANALYSIS { return segment.file < db_.versions_->oldest_log(); });
    log_pin_ = db_.log_pins_.pin(segments_.front().file, segments_.back().file);
    return Status::ok();
  }

  Status bring_log() {
    for (const LogSegment& segment : segments_) {
      const std::string name = log_file_name(segment.file);
      TRY(usable());
      const bool finished = segment.file != segments_.back().file;
      if (finished && link(name)) {
        note(name, segment.bytes);
      } else {
        TRY(copy_segment(name, segment.bytes));
      }
    }
    // It is the last moment that counts: no byte was read after it.
    TRY(usable());
    db_.unpin_log(log_pin_);
    log_pin_ = nullptr;
    return Status::ok();
  }

  /// Piece by piece, since a segment may take longer than a deadline has time.
  Status copy_segment(const std::string& name, std::uint64_t bytes) {
    constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;
    note(name, bytes);
    report_.bytes_copied += bytes;
    TRY_ASSIGN(in, db_.fs_.open(source(name)));
    TRY_ASSIGN(out, db_.fs_.create(place(name)));
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
    if (db_.closing_) return Status::aborted("the database is closing");
    if (log_pin_ != nullptr && log_pin_->revoked()) return late();
    return Status::ok();
  }
  static Status late() {
    return Status::revoked("the checkpoint took so long that deleted data would have outlived its deadline; try again");
  }

  Status bring_tables() {
    for (const auto& lease : pinned_) {
      for (const Run& run : lease->view()->tables->version->runs) {
        for (const FileMetaPtr& file : run.files) {
          TRY(usable());
          if (lease->revoked()) return late();
          const bool damaged = file->quarantined() || lease->view()->tables->is_quarantined(file->data_file);
          if (damaged) report_.damaged += 1;
          for (const auto& [name, bytes] : {std::pair(data_file_name(file->data_file), file->data_bytes),
                                            std::pair(metadata_file_name(file->metadata_file), file->metadata_bytes)}) {
            const Status brought = bring(name, bytes);
            if (!brought.is_ok() && damaged) continue;  // missing, or not to be read: it is so in the checkpoint, too
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
    return copy_file(db_.fs_, source(name), place(name), bytes);
  }
  bool link(const std::string& name) {
    MutexLock link(db_.link_mutex_);  // or a file could get its second name between being found to have one and being punched
    return db_.fs_.link(source(name), place(name)).is_ok();
  }
  void note(const std::string& name, std::uint64_t bytes) {
    made_.push_back(name);
    report_.files += 1;
    report_.bytes += bytes;
  }

  Status finish() {
    // A manifest alone looks like a new database whose first start was cut off: the names of all other files come first.
    TRY(db_.fs_.sync_dir(target_));
    made_.push_back(manifest_file_name(manifest_));
    TRY(ManifestWriter::create(db_.fs_, target_, manifest_, record_).status());
    made_.emplace_back(kCurrentFileName);
    TRY(write_current(db_.fs_, target_, manifest_));
    TRY(db_.fs_.sync_dir(parent_path(target_)));
    finished_ = true;
    return Status::ok();
  }

  void clear_away() {
    std::reverse(made_.begin(), made_.end());  // CURRENT first: what is half gone must not open
    for (const std::string& name : made_) (void)db_.fs_.unlink(place(name));
    if (made_directory_) (void)db_.fs_.remove_dir(target_);
  }

  DbImpl& db_;
  const std::string target_;
  FileNum manifest_ = kNoFile;
  std::string record_;
  std::vector<std::shared_ptr<Lease>> pinned_;
  std::vector<LogSegment> segments_;
  std::shared_ptr<LogPin> log_pin_;  ///< while the log is brought over
  std::vector<std::string> made_;
  bool made_directory_ = false, finished_ = false;
  CheckpointReport report_;
};

Result<CheckpointReport> DbImpl::checkpoint(const std::string& target) {
  auto report = Checkpoint(*this, target).make();
  obsolete_files_.remove_queued();  // what went while it was pinned
  return report;
}

}  // namespace ebbtide
