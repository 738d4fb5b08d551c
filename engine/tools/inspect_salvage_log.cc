// Salvage of the log: reads every whole record, also after unreadable parts.
//
// An unreadable part may have had any operation: a delete of any key, a range delete, FLUSHDB. A tree is not affected if its
// tables have all operations up to the end of the part. In any other tree, a key is certain only if its newest version was
// written after the part. If the part reaches the end of the log, no key of any tree is certain.
#include <algorithm>

#include "db/write/inserts.h"
#include "io/file_names.h"
#include "tools/inspect_salvage.h"
#include "wal/batch_group.h"

namespace ebbtide {
namespace {

constexpr std::size_t kMemTableBytes = std::size_t{1} << 20;

class LogSalvage {
 public:
  LogSalvage(SalvageSource& source, std::string dir, Salvaged* out)
      : source_(source),
        dir_(std::move(dir)),
        out_(*out),
        pieces_(source, dir_, out->manifest_whole ? out->state.oldest_log : kNoFile) {}

  Status run() {
    TRY_ASSIGN(numbers, files_of_kind(source_, dir_, static_cast<int>(FileKind::kLog)));
    const FileNum oldest = out_.manifest_whole ? out_.state.oldest_log : kNoFile;
    std::erase_if(numbers, [oldest](FileNum file) { return file < oldest; });
    if (oldest != kNoFile && (numbers.empty() || numbers.front() != oldest)) {
      open_gap(oldest, {},
               "corruption: " + log_file_name(oldest) + " is missing: by the manifest, the log begins with this segment");
    }
    if (out_.manifest_whole && out_.state.newest_log >= oldest) named_[out_.state.newest_log] = "the manifest";
    for (const FileNum file : numbers) {
      note_missing(file);
      TRY(read_segment(file));
    }
    note_missing(~FileNum{0});
    if (!gap_ && out_.manifest_whole && expected_ != 0 && expected_ - 1 < out_.state.last_seq) {
      open_gap(numbers.back(), end_,
               "corruption: " + log_file_name(numbers.back()) + ": the log ends with operation " + std::to_string(expected_ - 1) +
                   ", but the manifest relies on operation " + std::to_string(out_.state.last_seq) + torn_);
    }
    if (gap_) close_gap(kBeyondAllSeqs);
    if (expected_ != 0) out_.last_seq = std::max(out_.last_seq, expected_ - 1);
    return Status::ok();
  }

 private:
  // Opens a gap for each segment below `file` that the manifest or another segment names and that was not read.
  void note_missing(FileNum file) {
    for (; !named_.empty() && named_.begin()->first < file; named_.erase(named_.begin())) {
      const auto& [missing, namer] = *named_.begin();
      open_gap(missing, {}, "corruption: " + log_file_name(missing) + " is missing: " + namer + " names it");
    }
  }

  Status read_segment(FileNum file) {
    const bool named = named_.erase(file) != 0;
    records_ = 0;
    pieces_.on_in_tables = [&](const PieceCommit& commit, std::uint64_t offset) {
      ++records_;
      const Status status = follow(commit.first_seq(), commit.count(), file, offset);
      if (!status.is_ok()) open_gap(file, offset, status.with_context(place(file, offset)).to_string());
      return Status::ok();
    };
    const auto on_record = [&](const std::string& group, std::uint64_t offset) {
      ++records_;
      const Status status = each_batch(group, [&](Bytes payload) { return take(payload, file, offset); });
      if (!status.is_ok()) open_gap(file, offset, status.with_context(place(file, offset)).to_string());
      return Status::ok();
    };
    const auto on_damage = [&](const LogDamage& damage) -> Result<bool> {
      // After a power loss, the second of two unsynced writes may be whole, although the first write is not. Only records without
      // a gap are used.
      const bool durable = damage.durable || !out_.manifest_whole || expected_ == 0 || expected_ <= out_.state.last_seq;
      if (!durable && damage.next_seq != expected_) return false;
      open_gap(file, damage.offset, "corruption: " + damage.what);
      return true;
    };
    const auto end = read_log(source_, dir_, file, on_record, on_damage, &pieces_);
    if (!end.is_ok()) {
      if (end.status().code() == Code::kUnsupported) return end.status();
      open_gap(file, {}, end.status().to_string());
      return Status::ok();
    }
    // As in LogSequence: a file with the name of a segment but other content is not a part of the log, unless another file names
    // it.
    if (end->foreign && !named && out_.manifest_whole && out_.state.newest_log != kNoFile && file != out_.state.oldest_log) {
      out_.notes.push_back("not a part of the log, and ignored: " + end->what);
      return Status::ok();
    }
    if (records_ == 0 && end->first_seq != 0) continue_at(end->first_seq, file, 0);
    end_ = end->valid_bytes;
    if (end->next > file) named_.emplace(end->next, log_file_name(file));
    if (end->clean) return Status::ok();
    const bool relied_on = out_.manifest_whole && expected_ != 0 && expected_ <= out_.state.last_seq;
    if (end->valid_after || relied_on || (end->valid_bytes == 0 && (named || file == out_.state.oldest_log))) {
      open_gap(file, end->valid_bytes, "corruption: " + end->what);
    } else {
      torn_ = "; before it, " + end->what;
      out_.notes.push_back("torn end, as a crash leaves it: " + end->what);
    }
    return Status::ok();
  }

  static std::string place(FileNum file, std::uint64_t offset) {
    return log_file_name(file) + ": record at " + std::to_string(offset);
  }

  void open_gap(FileNum file, std::optional<std::uint64_t> offset, const std::string& what) {
    if (gap_) {
      gap_->what += "; " + what;
      return;
    }
    gap_ = SalvageLoss{log_file_name(file), offset, {}, {}, expected_, 0, what};
  }

  /// Notes that the next whole record begins with operation `next`, and opens or closes a gap.
  void continue_at(SeqNum next, FileNum file, std::uint64_t offset) {
    const bool begins_late = expected_ == 0 && out_.manifest_whole && next > out_.state.last_seq + 1;
    if (!gap_ && ((expected_ != 0 && next > expected_) || begins_late)) {
      open_gap(file, offset,
               "corruption: " + place(file, offset) + ": begins with operation " + std::to_string(next) + ", but operation " +
                   std::to_string(expected_ != 0 ? expected_ : out_.state.last_seq + 1) + " was expected" + torn_);
    }
    if (gap_) close_gap(next);
    expected_ = std::max(expected_, next);
  }

  void close_gap(SeqNum next) {
    SalvageLoss loss = std::move(*gap_);
    gap_.reset();
    if (next == loss.first) return out_.notes.push_back(loss.what + ": no operation is lost in this part");
    const SeqNum databases = std::max(out_.state.databases_seq, out_.state.complete_seq);
    const bool mapping = next == kBeyondAllSeqs || databases + 1 < next;
    const std::size_t before = doubts();
    out_.doubt_lacking(next);
    if (next != kBeyondAllSeqs) loss.last = next - 1;
    if (doubts() == before && !mapping && out_.manifest_whole) {
      return out_.notes.push_back(loss.what + ": tables and manifest have all operations of this part");
    }
    if (mapping) loss.what += "; FLUSHDB, FLUSHALL or SWAPDB may be lost: databases may have had other numbers";
    out_.lost.push_back(std::move(loss));
  }
  [[nodiscard]] std::size_t doubts() const {
    std::size_t sum = 0;
    for (const auto& [id, tree] : out_.trees) sum += tree.doubts.size();
    return sum;
  }

  Status follow(SeqNum first, std::uint32_t count, FileNum file, std::uint64_t offset) {
    if (expected_ != 0 && first < expected_) {
      return Status::corruption("begins with operation " + std::to_string(first) + ", but operation " +
                                std::to_string(expected_) + " was expected");
    }
    continue_at(first, file, offset);
    expected_ = first + count;
    return Status::ok();
  }

  Status take(Bytes payload, FileNum file, std::uint64_t offset) {
    TRY_ASSIGN(batch, WriteBatch::parse(std::string(payload)));
    const SeqNum first = batch.first_seq();
    TRY(follow(first, batch.count(), file, offset));
    out_.time = std::max(out_.time, batch.time());
    std::size_t cursor = 0;
    SeqNum seq = first;
    for (WriteBatch::Op op; batch.next_op(&cursor, &op); ++seq) apply(op, seq, batch.time());
    return Status::ok();
  }

  void apply(const WriteBatch::Op& op, SeqNum seq, Millis time) {
    const bool mapping = op.kind == OpKind::kCreateTree || op.kind == OpKind::kFlushDatabase || op.kind == OpKind::kSwapDatabases;
    if (mapping) {
      if (seq > out_.state.databases_seq) change_mapping(op);
      return;
    }
    auto at = out_.trees.find(op.tree);
    if (at == out_.trees.end()) {
      // A later operation dropped the tree, or the operation that created the tree is lost.
      if (out_.manifest_whole && out_.lost.empty()) return;
      if (op.tree < out_.state.next_tree && out_.manifest_whole) return;
      SalvageTree& tree = out_.tree(op.tree);
      tree.stamp_known = false;
      at = out_.trees.find(op.tree);
    }
    SalvageTree& tree = at->second;
    if (seq <= tree.flushed_seq) return;
    if (tree.memtable == nullptr) tree.memtable = std::make_unique<MemTable>(kMemTableBytes);
    insert_operation(*tree.memtable, op, seq, time, tree.stamp);
  }

  void change_mapping(const WriteBatch::Op& op) {
    const auto a = static_cast<DatabaseId>(op.lo), b = static_cast<DatabaseId>(op.hi);
    if (op.kind == OpKind::kSwapDatabases) {
      const auto tree_of = [&](DatabaseId d) {
        const auto at = out_.databases.find(d);
        return at == out_.databases.end() ? kNoTree : at->second;
      };
      const TreeId tree_a = tree_of(a), tree_b = tree_of(b);
      const auto put = [&](DatabaseId d, TreeId tree) {
        if (tree == kNoTree) {
          out_.databases.erase(d);
        } else {
          out_.databases[d] = tree;
        }
      };
      put(a, tree_b);
      put(b, tree_a);
      return;
    }
    if (op.kind == OpKind::kFlushDatabase) {
      if (op.tree == op.hi) return;  // the database was empty and kept its tree
      if (const auto old = out_.databases.find(a); old != out_.databases.end()) out_.trees.erase(old->second);
      out_.trees.erase(b);  // the operation names the old tree
    }
    out_.tree(op.tree).stamp = op.mode;
    out_.databases[a] = op.tree;
  }

  SalvageSource& source_;
  const std::string dir_;
  Salvaged& out_;
  LogPieces pieces_;
  SeqNum expected_ = 0;  // seq of the next operation; 0: unknown
  std::uint64_t records_ = 0, end_ = 0;
  std::optional<SalvageLoss> gap_;
  std::map<FileNum, std::string> named_;  // durable segments that were not read yet, each with the file that names it
  std::string torn_;
};

}  // namespace

Status salvage_log(SalvageSource& source, const std::string& dir, Salvaged* out) { return LogSalvage(source, dir, out).run(); }

}  // namespace ebbtide
