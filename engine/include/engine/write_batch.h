// The writes of one command, or of one EXEC, as one contiguous value.
//
// A batch is the payload of a WAL record, the input of the memtable and, later, the unit of replication: it is encoded once,
// while the command runs, and never re-encoded. Committing it patches fixed-width fields in place (first seq, time, physical
// trees). Values above kLargeValueBytes are not copied in: the batch holds a reference to them and the log writes them from
// where they are, at their place in the payload.
//
// Layout of the payload (little endian; engine/docs/formats.md has the grammar):
//   header : first_seq u64, time u64, replication_id u64, count u32, reserved u32     (kHeaderBytes)
//   op     : op kind u8, flags u8, tree u32, then by kind    (flags: what a put carries; of flush and create, the stamp mode)
//            put/header : key (varint length, bytes), [stamp u64], [expiry u64], value (varint length, bytes)
//            tombstone  : key
//            range      : start, end ("" = no upper bound)
//            secondary  : lo u64, hi u64 (of delete keys; lo < hi <= 2^63)
//            flush      : database u32, old tree u32      (tree = the new, empty tree)
//            create     : database u32                    (tree = the new tree)
//            swap       : database a u32, database b u32  (tree = 0)
// Operation i has seq first_seq + i. Before commit `tree` holds the database number; commit replaces it by the physical tree.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <engine/result.h>
#include <engine/types.h>

namespace ebbtide {

/// Numbers are part of the file formats.
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
  static constexpr std::uint8_t kHasStamp = 1;   ///< an explicit stamp follows the key
  static constexpr std::uint8_t kHasExpiry = 2;  ///< an absolute expiry follows

  /// What a put carries beside key and value.
  struct PutOptions {
    DeleteKey stamp = kNoStamp;  ///< kept only where the tree's stamp mode is explicit; other modes derive their own
    Millis expiry = 0;           ///< absolute; 0 = never
  };

  /// One decoded operation. Views point into the batch (or its shared values) and live as long as it does, unchanged.
  struct Op {
    OpKind kind{};
    std::uint32_t tree = 0;  ///< database number before commit, physical tree after
    Bytes key;               ///< key, or start of the range
    Bytes end;               ///< end of the range
    Bytes value;
    const SharedValue* shared = nullptr;  ///< owner of `value`, if that is outside the batch; otherwise null
    DeleteKey stamp = kNoStamp;
    Millis expiry = 0;
    std::uint64_t lo = 0, hi = 0;  ///< secondary delete: delete-key range; else database numbers or the old tree
    StampMode mode{};              ///< flush, create: of the new tree
  };

  WriteBatch();

  /// Removes all operations; keeps the memory unless it is large. Costs nothing for an empty batch: commands that only read have
  /// a batch, too.
  void clear() {
    if (count_ != 0 || relied_expiry_ != 0) forget();
  }

  void put(DatabaseId database, Bytes key, Bytes value, const PutOptions& options);
  void put(DatabaseId database, Bytes key, Bytes value) { put(database, key, value, PutOptions{}); }
  /// As put, without copying a large value.
  void put_shared(DatabaseId database, Bytes key, SharedValue value, const PutOptions& options);
  /// Adds a point tombstone. Look up the key first: a tree gets no blind deletes.
  void del(DatabaseId database, Bytes key);
  /// Deletes every key in [start, end); an empty end has no upper bound. An empty range adds nothing.
  void delete_range(DatabaseId database, Bytes start, Bytes end);
  /// Deletes every key whose current entry has lo <= stamp < hi; hi = kDeleteKeyEnd means no upper end. Entries without a stamp
  /// stay. An empty range adds nothing.
  void delete_stamps(DatabaseId database, DeleteKey lo, DeleteKey hi);
  /// Empties a database: it maps to a new tree from this operation's seq on.
  void flush_database(DatabaseId database);
  void swap_databases(DatabaseId a, DatabaseId b);
  /// Engine only: creates a tree, before its first write.
  void create_tree(DatabaseId database, TreeId tree, StampMode mode);

  /// Makes the commit fail with kRetry if engine time has reached `expiry` by then. Call it for each expiry that the handler
  /// assumed to be in the future.
  void rely_on_expiry(Millis expiry) {
    if (expiry != 0 && (relied_expiry_ == 0 || expiry < relied_expiry_)) relied_expiry_ = expiry;
  }
  [[nodiscard]] Millis relied_expiry() const { return relied_expiry_; }

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::uint32_t count() const { return count_; }
  /// Bytes of the WAL payload, shared values included.
  [[nodiscard]] std::size_t payload_bytes() const { return rep_.size() + shared_bytes_; }
  /// kInvalidArgument if payload_bytes() exceeds kMaxPayloadBytes: a commit would fail.
  [[nodiscard]] Status check_length() const;
  static constexpr std::size_t kMaxPayloadBytes = std::size_t{1} << 30;  ///< a log record holds less than 2 GiB
  /// The part of payload_bytes() that is in shared values.
  [[nodiscard]] std::size_t shared_bytes() const { return shared_bytes_; }
  /// Bytes of the longest key or range start among the operations.
  [[nodiscard]] std::size_t longest_key() const { return longest_key_; }
  /// Number of operations that empty a database.
  [[nodiscard]] std::uint32_t flushes() const { return flushes_; }
  /// Number of secondary range deletes.
  [[nodiscard]] std::uint32_t secondary_deletes() const { return secondary_deletes_; }

  // --- set by commit, or read from the log
  [[nodiscard]] SeqNum first_seq() const;
  [[nodiscard]] SeqNum last_seq() const { return first_seq() + count_ - 1; }
  /// Engine time of the commit: the birth of its deletes, and D under `write_time`.
  [[nodiscard]] Millis time() const;
  [[nodiscard]] std::uint64_t replication_id() const;
  void set_header(SeqNum first_seq, Millis time, std::uint64_t replication_id);

  /// Walks the operations. `cursor` starts at 0; false at the end. The batch must be well formed (built here or parsed).
  bool next_op(std::size_t* cursor, Op* op) const;
  /// Replaces the tree of the operation that next_op just returned, in place.
  void set_op_tree(std::size_t op_cursor_before, TreeId tree);
  /// The same for a flush operation: sets its new tree, that tree's stamp mode, and the old tree.
  void set_flush_trees(std::size_t op_cursor_before, TreeId tree, StampMode mode, TreeId old_tree);

  /// Appends the payload as pieces in order; they point into the batch.
  void append_payload(std::vector<Bytes>* pieces) const;
  /// Takes over a payload that was read from the log. Checks the whole grammar; kCorruption names the byte that is wrong.
  static Result<WriteBatch> parse(std::string payload);

 private:
  struct Shared {
    std::size_t offset;  ///< into rep_, where the value's bytes belong
    SharedValue value;
  };
  void forget();
  void begin_op(OpKind kind, std::uint8_t flags, std::uint32_t tree);
  void put_key(Bytes key);
  /// A put up to its value.
  void put_head(DatabaseId database, Bytes key, const PutOptions& options, std::size_t value_bytes);

  std::string rep_;  ///< header and operations, without the shared values' bytes
  std::vector<Shared> shared_;
  std::size_t shared_bytes_ = 0;
  std::uint32_t count_ = 0, flushes_ = 0, secondary_deletes_ = 0;
  std::size_t longest_key_ = 0;
  Millis relied_expiry_ = 0;
};

}  // namespace ebbtide
