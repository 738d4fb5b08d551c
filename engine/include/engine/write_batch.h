// The writes of one command, or of one EXEC, as one contiguous sequence of bytes.
//
// A batch is the payload of a WAL record, the input of the memtable and, later, the unit of replication. The batch is encoded
// once, while the command runs, and never re-encoded. A commit overwrites fixed-width fields in place (first seq, time,
// physical trees). Values above kLargeValueBytes are not copied into the batch, which has only a reference to each. The log
// writes such a value from the value's own memory, at its offset in the payload.
//
// Layout of the payload (little endian; engine/docs/formats.md has the grammar):
//   header : first_seq u64, time u64, replication_id u64, count u32, reserved u32     (kHeaderBytes)
//   op     : op kind u8, flags u8, tree u32, then by kind
//            (flags: the bits kHasStamp, ...; of flush and create: the stamp mode of the new tree)
//            put/header : key (varint length, bytes), [stamp u64], [expiry u64], value (varint length, bytes)
//            tombstone  : key
//            range      : start, end ("" = no upper bound), [birth u64]    (flags: kHasBirth)
//            secondary  : lo u64, hi u64 (of delete keys; lo < hi <= 2^63)
//            flush      : database u32, old tree u32      (tree = the new, empty tree)
//            create     : database u32                    (tree = the new tree)
//            swap       : database a u32, database b u32  (tree = 0)
// Operation i has seq first_seq + i. Before the commit, `tree` holds the database number; the commit replaces it by the
// physical tree.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <engine/result.h>
#include <engine/types.h>

namespace ebbtide {

/// The numbers are part of the file formats.
enum class OpKind : std::uint8_t {
  kPut = 1,
  kTombstone = 2,
  kHeader = 3,
  kRangeTombstone = 4,
  kSecondaryDelete = 5,
  kCreateTree = 6,
  kFlushDatabase = 7,
  kSwapDatabases = 8,
};

/// A value that is shared, not copied, between batch, memtable and reply. Immutable once shared.
using SharedValue = std::shared_ptr<const std::string>;

class WriteBatch {
 public:
  static constexpr std::size_t kHeaderBytes = 32;
  static constexpr std::uint8_t kHasStamp = 1;    ///< an explicit stamp follows the key
  static constexpr std::uint8_t kHasExpiry = 2;   ///< an absolute expiry follows
  static constexpr std::uint8_t kHasDebt = 4;     ///< of a put: PutOptions::debt is true
  static constexpr std::uint8_t kIsCompact = 8;   ///< of a put: the value is a small collection
  static constexpr std::uint8_t kIsElement = 16;  ///< of a put or tombstone: the key belongs to an element of a large collection
  static constexpr std::uint8_t kHasBirth = 1;    ///< of a range tombstone: an explicit birth follows

  /// Optional fields of a put, beside key and value.
  struct PutOptions {
    DeleteKey stamp = kNoStamp;  ///< stored only if the tree's stamp mode is explicit; in other modes the engine computes it
    Millis expiry = 0;           ///< absolute engine time; 0 = never
    /// kValue, kCompact or kHeader. If a header has an expiry, put() calls rely_on_expiry() with it, so that no header is
    /// committed after it has expired.
    EntryKind kind = EntryKind::kValue;
    /// True if the put deletes data of the key's older versions: it drops an item of a compact entry, or replaces a collection.
    /// All older versions must then leave the files by the delete deadline, which counts from the batch's time.
    bool debt = false;
    /// True if the value is the key's previous value without some of its items. Such a put counts as a delete: it is committed
    /// even while the disk or the memory budget is full.
    bool shrinks = false;
    /// True if the key belongs to an element of a large collection (engine/collection_keys.h). An element has no stamp in any
    /// mode, since a delete by stamp deletes a collection by its header. Iterators skip elements, and key counts leave them out.
    bool element = false;
  };

  /// One decoded operation. Its Bytes point into the batch or its shared values, and are valid until the batch changes or is
  /// destroyed.
  struct Op {
    OpKind kind{};
    EntryKind value_kind = EntryKind::kValue;  ///< of a put or header: the kind of its entry
    bool debt = false;                         ///< of a put or header: PutOptions::debt
    bool element = false;                      ///< of a put or tombstone: PutOptions::element
    std::uint32_t tree = 0;                    ///< database number before the commit, physical tree after it
    Bytes key;                                 ///< key; of a range tombstone: start of its range
    Bytes end;                                 ///< of a range tombstone: end of its range; "" = no upper bound
    Millis birth = 0;                          ///< of a range tombstone: its birth, if it is older than the batch; otherwise 0
    Bytes value;
    const SharedValue* shared = nullptr;  ///< owner of `value`, if `value` lies outside the batch; otherwise null
    DeleteKey stamp = kNoStamp;
    Millis expiry = 0;
    /// Secondary delete: the range [lo, hi) of delete keys. Flush: database and old tree. Swap: the two databases. Create: `lo`
    /// is the database.
    std::uint64_t lo = 0, hi = 0;
    StampMode mode{};  ///< flush, create: stamp mode of the new tree
  };

  WriteBatch();

  /// Removes all operations; keeps the memory for reuse unless it is large. Costs almost nothing for an empty batch, since
  /// commands that only read call it, too.
  void clear() {
    if (count_ != 0 || relied_expiry_ != 0) forget();
  }

  void put(DatabaseId database, Bytes key, Bytes value, const PutOptions& options);
  void put(DatabaseId database, Bytes key, Bytes value) { put(database, key, value, PutOptions{}); }
  /// Like put(), but refers to a large value without copying it.
  void put_shared(DatabaseId database, Bytes key, SharedValue value, const PutOptions& options);
  /// Adds a point tombstone. The caller must have read the key and found it; do not delete blindly. `element`: see
  /// PutOptions::element.
  void del(DatabaseId database, Bytes key, bool element = false);
  /// Deletes every key in [start, end); an empty `end` means no upper bound. An empty range adds nothing. `birth`: the engine
  /// time from which the delete deadline counts, if the keys were logically deleted before this batch. 0, or a time later than
  /// the batch's, stands for the batch's time.
  void delete_range(DatabaseId database, Bytes start, Bytes end, Millis birth = 0);
  /// Deletes every key whose current entry has lo <= stamp < hi; hi = kDeleteKeyEnd means no upper end. Entries without a stamp
  /// stay. An empty range adds nothing.
  void delete_stamps(DatabaseId database, DeleteKey lo, DeleteKey hi);
  /// Empties a database: from this operation's seq on, the database maps to a new tree.
  void flush_database(DatabaseId database);
  void swap_databases(DatabaseId a, DatabaseId b);
  /// For the engine only: adds the operation that creates a tree, before the tree's first write.
  void create_tree(DatabaseId database, TreeId tree, StampMode mode);

  /// Makes the commit fail with kRetry if engine time has reached `expiry` by then. Call it for each expiry that the command
  /// assumed to be in the future; the earliest one counts. 0 has no effect.
  void rely_on_expiry(Millis expiry) {
    if (expiry != 0 && (relied_expiry_ == 0 || expiry < relied_expiry_)) relied_expiry_ = expiry;
  }
  [[nodiscard]] Millis relied_expiry() const { return relied_expiry_; }
  /// Makes the commit fail with kRetry if first_database() no longer maps to this tree. For batches that write to one database.
  void rely_on_tree(TreeId tree) { relied_tree_ = tree; }
  [[nodiscard]] TreeId relied_tree() const { return relied_tree_; }
  /// Returns the database of the first put or delete, other than deletes by stamp; 0 if there is none, and after parse().
  [[nodiscard]] DatabaseId first_database() const { return written_.database; }

  /// Returns false if no operation is a put without `shrinks`. Such a batch is committed even while the disk or the memory
  /// budget is full. Always false after parse().
  [[nodiscard]] bool adds_data() const { return adds_data_; }

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::uint32_t count() const { return count_; }
  /// Returns the bytes of the WAL payload, including shared values.
  [[nodiscard]] std::size_t payload_bytes() const { return rep_.size() + shared_bytes_; }
  /// Returns kInvalidArgument if payload_bytes() exceeds kMaxPayloadBytes, so that a commit would fail.
  [[nodiscard]] Status check_length() const;
  static constexpr std::size_t kMaxPayloadBytes = std::size_t{1} << 30;  ///< a log record holds less than 2 GiB
  /// Returns the part of payload_bytes() that is in shared values.
  [[nodiscard]] std::size_t shared_bytes() const { return shared_bytes_; }
  /// Returns the bytes of the longest key or range start among the operations.
  [[nodiscard]] std::size_t longest_key() const { return longest_key_; }
  /// Returns the number of operations that empty a database.
  [[nodiscard]] std::uint32_t flushes() const { return flushes_; }
  /// Counts of operations on one database.
  struct Written {
    DatabaseId database = 0;
    std::uint32_t operations = 0;  ///< puts and deletes, other than deletes by stamp
    std::uint32_t deletes = 0;     ///< how many of `operations` are tombstones of keys or ranges, or puts with PutOptions::debt
    std::uint32_t stamp_deletes = 0;  ///< deletes by stamp
  };
  /// Calls visit(Written) for each database with puts or deletes. A database with deletes by stamp may get several calls: add
  /// their counts. The commit does not change the calls. After parse() there are no calls, since parse() does not count.
  template <typename Visit>
  void each_written(Visit visit) const {
    if (written_.operations != 0) visit(written_);
    for (const Written& other : also_written_) visit(other);
  }
  /// Returns the number of secondary range deletes.
  [[nodiscard]] std::uint32_t secondary_deletes() const { return secondary_deletes_; }

  // --- set by commit, or read from the log
  [[nodiscard]] SeqNum first_seq() const;
  [[nodiscard]] SeqNum last_seq() const { return first_seq() + count_ - 1; }
  /// Returns the engine time of the commit. It is the birth of the batch's deletes, and the stamp of its puts in a tree of
  /// StampMode::kWriteTime.
  [[nodiscard]] Millis time() const;
  [[nodiscard]] std::uint64_t replication_id() const;
  void set_header(SeqNum first_seq, Millis time, std::uint64_t replication_id);

  /// Decodes the next operation into `op`. `*cursor` starts at 0. Returns false at the end. The batch must be well formed (built
  /// here or parsed).
  bool next_op(std::size_t* cursor, Op* op) const;
  /// Marks the end of the command's own operations: operations that are added later maintain index trees.
  void end_command() { command_end_ = rep_.size(); }
  /// Like next_op(), but returns only the operations that were added before end_command(); all, if it was not called.
  bool next_command_op(std::size_t* cursor, Op* op) const {
    return (command_end_ == 0 || std::max(*cursor, kHeaderBytes) < command_end_) && next_op(cursor, op);
  }
  /// Replaces the tree of the operation that next_op() has just returned. `op_cursor_before`: the cursor before that call.
  void set_op_tree(std::size_t op_cursor_before, TreeId tree);
  /// Like set_op_tree(), for a flush operation: sets its new tree, the new tree's stamp mode, and the old tree.
  void set_flush_trees(std::size_t op_cursor_before, TreeId tree, StampMode mode, TreeId old_tree);

  /// Appends the parts of the payload to `pieces`, in order. They point into the batch and its shared values.
  void append_payload(std::vector<Bytes>* pieces) const;
  /// Makes a batch from a payload that was read from the log. Checks all operations; the message of kCorruption has the offset
  /// of a malformed one.
  static Result<WriteBatch> parse(std::string payload);

 private:
  struct Shared {
    std::size_t offset;  ///< offset in rep_ at which the value's bytes belong
    SharedValue value;
  };
  void forget();
  void note_written(DatabaseId database, bool deletes);
  Written& also_written(DatabaseId database);
  void begin_op(OpKind kind, std::uint8_t flags, std::uint32_t tree);
  void put_key(Bytes key);
  /// Appends a put except its value.
  void put_head(DatabaseId database, Bytes key, const PutOptions& options, std::size_t value_bytes);

  std::string rep_;  ///< header and operations, without the shared values' bytes
  std::vector<Shared> shared_;
  std::size_t shared_bytes_ = 0;
  std::uint32_t count_ = 0, flushes_ = 0, secondary_deletes_ = 0;
  Written written_;                    // counts of the first database
  std::vector<Written> also_written_;  // counts of other databases, and of deletes by stamp; rarely used
  std::size_t longest_key_ = 0;
  std::size_t command_end_ = 0;  ///< offset in rep_ of the end of the command's operations; 0: end_command() was not called
  Millis relied_expiry_ = 0;
  TreeId relied_tree_ = kNoTree;
  bool adds_data_ = false;
};

}  // namespace ebbtide
