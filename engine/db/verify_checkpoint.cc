// Verifies a whole checkpoint: reads all of its tables and its log with the same checks as open and verify. The server does this
// before it removes older checkpoints.
#include <engine/verify_checkpoint.h>

#include <algorithm>
#include <utility>

#include "base/epoch.h"
#include "cache/block_cache.h"
#include "compaction/table_files.h"
#include "io/file_names.h"
#include "version/log_needs.h"
#include "version/manifest.h"
#include "version/version_state.h"
#include "wal/batch_group.h"

namespace ebbtide {
namespace {

/// Size of the cache that TableReader requires; the verifier reads pages without the cache.
constexpr std::uint64_t kCacheBytes = std::uint64_t{1} << 20;

class CheckpointVerifier {
 public:
  CheckpointVerifier(FileSystem& fs, std::string dir, const std::function<bool(std::uint64_t)>& go_on)
      : fs_(fs), dir_(std::move(dir)), go_on_(go_on), cache_(kCacheBytes, epoch_) {}

  Result<VerifyReport> run() {
    TRY_ASSIGN(manifest, read_current(fs_, dir_));
    StateBuilder builder;
    TRY(read_manifest(fs_, dir_, manifest, [&](Bytes payload, std::uint64_t) -> Status {
          TRY_ASSIGN(edit, VersionEdit::decode(payload));
          return builder.add(edit);
        }).status());
    TRY_ASSIGN(state, builder.finish());
    for (const auto& [id, version] : state.trees) {
      for (const Run& run : version->runs) {
        for (const FileMetaPtr& file : run.files) TRY(verify_table(*file));
      }
    }
    TRY(verify_log(state));
    return std::move(report_);
  }

 private:
  Status verify_table(const FileMeta& file) {
    TableReaderOptions options;
    options.fs = &fs_;
    options.cache = &cache_;
    options.dir = dir_;
    const auto reader = TableReader::open(options, files_of(file));
    report_.files += 1;
    report_.bytes += file.data_bytes + file.metadata_bytes;
    if (!reader.is_ok()) return damage(reader.status());
    const std::uint64_t tile_bytes = file.data_bytes / std::max<std::uint32_t>((*reader)->tile_count(), 1);
    std::uint64_t unpaid = file.metadata_bytes;
    (*reader)->verify(&report_.errors, &report_.pages, &report_.entries, [&] {
      unpaid += tile_bytes;
      if (unpaid >= kStepBytes) stopped_ |= !go_on_(std::exchange(unpaid, 0));
      return stopped_;
    });
    if (stopped_ || !go_on_(unpaid)) return Status::aborted("verifying " + dir_ + " was stopped");
    if (!((*reader)->stats() == file.stats)) {
      report_.errors.push_back("table " + std::to_string(file.data_file) + ": its properties differ from the manifest's");
    }
    return Status::ok();
  }

  Status verify_log(const VersionState& state) {
    TRY_ASSIGN(names, fs_.list(dir_));
    std::vector<FileNum> segments;
    for (const std::string& name : names) {
      FileKind kind{};
      FileNum file = kNoFile;
      if (parse_file_name(name, &kind, &file) && kind == FileKind::kLog && file >= state.oldest_log) segments.push_back(file);
    }
    std::sort(segments.begin(), segments.end());
    LogSequence sequence(dir_, log_needs(state));
    LogPieces pieces(fs_, dir_, state.oldest_log);
    pieces.on_in_tables = [&](const PieceCommit& commit, std::uint64_t offset) {
      return sequence.follow(commit.first_seq(), commit.count(), commit.time(), offset);
    };
    if (Status status = sequence.begin(segments); !status.is_ok()) return damage(status);
    for (const FileNum file : segments) {
      if (Status status = verify_segment(file, &sequence, &pieces); !status.is_ok()) return damage(status);
    }
    if (Status status = sequence.finish(); !status.is_ok()) return damage(status);
    return Status::ok();
  }
  Status verify_segment(FileNum file, LogSequence* sequence, LogPieces* pieces) {
    const auto on_record = [&](const std::string& group, std::uint64_t offset) -> Status {
      if (!go_on_(group.size())) return Status::aborted("verifying " + dir_ + " was stopped");
      return each_batch(group, [&](Bytes payload) -> Status {
        TRY_ASSIGN(batch, WriteBatch::parse(std::string(payload)));
        return sequence->follow(batch.first_seq(), batch.count(), batch.time(), offset);
      });
    };
    sequence->enter(file);
    TRY_ASSIGN(end, read_log(
                        fs_, dir_, file, on_record, [&](const LogDamage& found) { return sequence->damaged(found); }, pieces));
    report_.files += 1;
    report_.bytes += end.valid_bytes;
    return sequence->leave(end).status();
  }

  /// Adds damage to the report. Returns any other error, which ends the verification.
  Status damage(const Status& status) {
    if (status.code() != Code::kCorruption && !status.is_not_found()) return status;
    report_.errors.push_back(status.to_string());
    return Status::ok();
  }

  static constexpr std::uint64_t kStepBytes = std::uint64_t{1} << 20;

  FileSystem& fs_;
  const std::string dir_;
  const std::function<bool(std::uint64_t)>& go_on_;
  Epoch epoch_;
  BlockCache cache_;
  bool stopped_ = false;
  VerifyReport report_;
};

}  // namespace

Result<VerifyReport> verify_checkpoint(FileSystem* fs, const std::string& dir, const std::function<bool(std::uint64_t)>& go_on) {
  return CheckpointVerifier(fs != nullptr ? *fs : *posix_file_system(), dir, go_on).run();
}

}  // namespace ebbtide
