#include <engine/write_batch.h>

#include <algorithm>
#include <utility>

#include "base/coding.h"
#include "base/invariant.h"
#include "base/write_batch_head.h"

namespace ebbtide {
namespace {

constexpr std::size_t kTimeAt = 8, kReplicationAt = 16, kCountAt = 24;
constexpr std::size_t kOpHeaderBytes = 6;  // bytes of kind, flags and tree
constexpr std::size_t kKeptBytes = 1 << 20;

bool has_value(OpKind kind) { return kind == OpKind::kPut || kind == OpKind::kHeader; }
bool makes_tree(OpKind kind) { return kind == OpKind::kCreateTree || kind == OpKind::kFlushDatabase; }

}  // namespace

WriteBatch::WriteBatch() : rep_(kHeaderBytes, '\0') {}

void WriteBatch::forget() {
  if (rep_.capacity() > kKeptBytes) std::string().swap(rep_);
  rep_.assign(kHeaderBytes, '\0');
  shared_.clear();
  shared_bytes_ = 0;
  count_ = flushes_ = secondary_deletes_ = 0;
  written_ = {};
  also_written_.clear();
  longest_key_ = 0;
  command_end_ = 0;
  relied_expiry_ = 0;
  relied_tree_ = kNoTree;
  adds_data_ = false;
}

// Every write command calls begin_op() and put_head(). For speed, each of them appends one prepared buffer instead of single
// fields.
void WriteBatch::begin_op(OpKind kind, std::uint8_t flags, std::uint32_t tree) {
  char head[kOpHeaderBytes] = {static_cast<char>(kind), static_cast<char>(flags)};
  store_fixed(head + 2, tree);
  rep_.append(head, sizeof head);
  store_fixed<std::uint32_t>(rep_.data() + kCountAt, ++count_);
  if (kind <= OpKind::kRangeTombstone) note_written(tree, !has_value(kind) || (flags & kHasDebt) != 0);
}

void WriteBatch::note_written(DatabaseId database, bool deletes) {
  if (written_.operations == 0 || written_.database == database) [[likely]] {
    written_.database = database;
    ++written_.operations;
    written_.deletes += deletes ? 1 : 0;
    return;
  }
  Written& other = also_written(database);
  ++other.operations;
  other.deletes += deletes ? 1 : 0;
}

WriteBatch::Written& WriteBatch::also_written(DatabaseId database) {
  for (Written& other : also_written_) {
    if (other.database == database) return other;
  }
  also_written_.push_back({.database = database});
  return also_written_.back();
}

void WriteBatch::put_key(Bytes key) {
  longest_key_ = std::max(longest_key_, key.size());
  put_bytes(&rep_, key);
}

void WriteBatch::put_head(DatabaseId database, Bytes key, const PutOptions& options, std::size_t value_bytes) {
  const bool stamped = options.stamp != kNoStamp, expires = options.expiry != 0;
  DEBUG_ASSERT(options.kind != EntryKind::kTombstone);
  const bool header = options.kind == EntryKind::kHeader;
  if (header) rely_on_expiry(options.expiry);
  const unsigned flags = (stamped ? kHasStamp : 0U) | (expires ? kHasExpiry : 0U) | (options.debt ? kHasDebt : 0U) |
                         (options.kind == EntryKind::kCompact ? kIsCompact : 0U) | (options.element ? kIsElement : 0U);
  begin_op(header ? OpKind::kHeader : OpKind::kPut, static_cast<std::uint8_t>(flags), database);
  put_key(key);
  adds_data_ |= !options.shrinks;
  char fields[2 * sizeof(std::uint64_t) + kMaxVarintBytes];
  char* end = fields;
  if (stamped) store_fixed(std::exchange(end, end + sizeof options.stamp), options.stamp);
  if (expires) store_fixed(std::exchange(end, end + sizeof options.expiry), options.expiry);
  end = encode_varint(end, value_bytes);
  rep_.append(fields, static_cast<std::size_t>(end - fields));
}

void WriteBatch::put(DatabaseId database, Bytes key, Bytes value, const PutOptions& options) {
  if (value.size() > kLargeValueBytes) {
    put_shared(database, key, std::make_shared<const std::string>(value), options);
    return;
  }
  put_head(database, key, options, value.size());
  rep_.append(value);
}

void WriteBatch::put_shared(DatabaseId database, Bytes key, SharedValue value, const PutOptions& options) {
  if (value->size() <= kLargeValueBytes) {
    put(database, key, *value, options);
    return;
  }
  put_head(database, key, options, value->size());
  shared_bytes_ += value->size();
  shared_.push_back({rep_.size(), std::move(value)});
}

Status WriteBatch::check_length() const {
  if (payload_bytes() <= kMaxPayloadBytes) return Status::ok();
  return Status::invalid_argument("a batch has " + std::to_string(payload_bytes()) + " bytes; at most " +
                                  std::to_string(kMaxPayloadBytes) + " can be written at once");
}

void WriteBatch::del(DatabaseId database, Bytes key, bool element) {
  begin_op(OpKind::kTombstone, element ? kIsElement : 0, database);
  put_key(key);
}

void WriteBatch::delete_range(DatabaseId database, Bytes start, Bytes end, Millis birth) {
  if (!end.empty() && start >= end) return;
  begin_op(OpKind::kRangeTombstone, birth == 0 ? 0 : kHasBirth, database);
  put_key(start);
  put_bytes(&rep_, end);
  if (birth != 0) put_u64(&rep_, birth);
}

void WriteBatch::delete_stamps(DatabaseId database, DeleteKey lo, DeleteKey hi) {
  ASSERT(hi <= kDeleteKeyEnd);
  if (lo >= hi) return;
  ++secondary_deletes_;
  ++also_written(database).stamp_deletes;
  begin_op(OpKind::kSecondaryDelete, 0, database);
  put_u64(&rep_, lo);
  put_u64(&rep_, hi);
}

void WriteBatch::flush_database(DatabaseId database) {
  ++flushes_;
  begin_op(OpKind::kFlushDatabase, 0, database);
  put_u32(&rep_, database);
  put_u32(&rep_, kNoTree);
}

void WriteBatch::swap_databases(DatabaseId a, DatabaseId b) {
  begin_op(OpKind::kSwapDatabases, 0, kNoTree);
  put_u32(&rep_, a);
  put_u32(&rep_, b);
}

void WriteBatch::create_tree(DatabaseId database, TreeId tree, StampMode mode) {
  begin_op(OpKind::kCreateTree, static_cast<std::uint8_t>(mode), tree);
  put_u32(&rep_, database);
}

SeqNum WriteBatch::first_seq() const { return load_fixed<SeqNum>(rep_.data()); }
Millis WriteBatch::time() const { return load_fixed<Millis>(rep_.data() + kTimeAt); }
std::uint64_t WriteBatch::replication_id() const { return load_fixed<std::uint64_t>(rep_.data() + kReplicationAt); }

void WriteBatch::set_header(SeqNum first_seq, Millis time, std::uint64_t replication_id) {
  store_fixed(rep_.data(), first_seq);
  store_fixed(rep_.data() + kTimeAt, time);
  store_fixed(rep_.data() + kReplicationAt, replication_id);
}

namespace {

struct Shape {
  std::uint8_t flags = 0;
  std::uint64_t value_length = 0;
};

/// Returns the flags that an operation of this kind may have.
unsigned flags_of(OpKind kind) {
  constexpr unsigned kOfValues = WriteBatch::kHasStamp | WriteBatch::kHasExpiry | WriteBatch::kHasDebt;
  switch (kind) {
    case OpKind::kPut:
      return kOfValues | WriteBatch::kIsCompact | WriteBatch::kIsElement;
    case OpKind::kHeader:
      return kOfValues;
    case OpKind::kTombstone:
      return WriteBatch::kIsElement;
    case OpKind::kRangeTombstone:
      return WriteBatch::kHasBirth;
    default:
      return 0;
  }
}

// Decodes an operation up to, but not including, its value. Returns false if the bytes are too short or not an operation.
bool decode_op(Bytes* in, WriteBatch::Op* op, Shape* shape) {
  std::uint8_t kind = 0;
  std::uint32_t a = 0, b = 0;
  if (!get_u8(in, &kind) || !get_u8(in, &shape->flags) || !get_u32(in, &op->tree)) return false;
  op->kind = static_cast<OpKind>(kind);
  if (makes_tree(op->kind)) {
    if (shape->flags > static_cast<std::uint8_t>(kLastStampMode)) return false;
    op->mode = static_cast<StampMode>(shape->flags);
  } else if ((shape->flags & ~flags_of(op->kind)) != 0) {
    return false;
  }
  op->element = !makes_tree(op->kind) && (shape->flags & WriteBatch::kIsElement) != 0;
  switch (op->kind) {
    case OpKind::kPut:
    case OpKind::kHeader:
      if (!get_bytes(in, &op->key)) return false;
      op->value_kind = op->kind == OpKind::kHeader                    ? EntryKind::kHeader
                       : (shape->flags & WriteBatch::kIsCompact) != 0 ? EntryKind::kCompact
                                                                      : EntryKind::kValue;
      op->debt = (shape->flags & WriteBatch::kHasDebt) != 0;
      if ((shape->flags & WriteBatch::kHasStamp) != 0 && (!get_u64(in, &op->stamp) || op->stamp > kMaxDeleteKey)) return false;
      if ((shape->flags & WriteBatch::kHasExpiry) != 0 && !get_u64(in, &op->expiry)) return false;
      return get_varint(in, &shape->value_length);
    case OpKind::kTombstone:
      return get_bytes(in, &op->key);
    case OpKind::kRangeTombstone:
      if (!get_bytes(in, &op->key) || !get_bytes(in, &op->end)) return false;
      return (shape->flags & WriteBatch::kHasBirth) == 0 || (get_u64(in, &op->birth) && op->birth != 0);
    case OpKind::kSecondaryDelete:
      return get_u64(in, &op->lo) && get_u64(in, &op->hi) && op->lo < op->hi && op->hi <= kDeleteKeyEnd;
    case OpKind::kFlushDatabase:
    case OpKind::kSwapDatabases:
      if (!get_u32(in, &a) || !get_u32(in, &b)) return false;
      op->lo = a;
      op->hi = b;
      return true;
    case OpKind::kCreateTree:
      if (!get_u32(in, &a)) return false;
      op->lo = a;
      return true;
  }
  return false;
}

}  // namespace

bool decode_operation_head(Bytes* in, WriteBatch::Op* op, std::uint64_t* value_length) {
  *op = WriteBatch::Op{};
  Shape shape;
  if (!decode_op(in, op, &shape)) return false;
  *value_length = shape.value_length;
  return true;
}

bool WriteBatch::next_op(std::size_t* cursor, Op* op) const {
  const std::size_t at = *cursor == 0 ? kHeaderBytes : *cursor;
  if (at >= rep_.size()) return false;
  *op = Op{};
  Bytes in = Bytes(rep_).substr(at);
  Shape shape;
  const bool good = decode_op(&in, op, &shape);
  ASSERT_MSG(good, "malformed write batch");
  if (has_value(op->kind)) {
    const std::size_t value_at = rep_.size() - in.size();
    auto it = shared_.empty() ? shared_.end()
                              : std::lower_bound(shared_.begin(), shared_.end(), value_at,
                                                 [](const Shared& s, std::size_t offset) { return s.offset < offset; });
    if (it != shared_.end() && it->offset == value_at) {
      op->shared = &it->value;
      op->value = *it->value;
    } else {
      ASSERT_MSG(shape.value_length <= in.size(), "malformed write batch");
      op->value = in.substr(0, shape.value_length);
      in.remove_prefix(shape.value_length);
    }
  }
  *cursor = rep_.size() - in.size();
  return true;
}

void WriteBatch::set_op_tree(std::size_t op_cursor_before, TreeId tree) {
  const std::size_t at = op_cursor_before == 0 ? kHeaderBytes : op_cursor_before;
  ASSERT(at + kOpHeaderBytes <= rep_.size());
  store_fixed(rep_.data() + at + 2, tree);
}

void WriteBatch::set_flush_trees(std::size_t op_cursor_before, TreeId tree, StampMode mode, TreeId old_tree) {
  const std::size_t at = op_cursor_before == 0 ? kHeaderBytes : op_cursor_before;
  ASSERT(at + kOpHeaderBytes + 8 <= rep_.size() && static_cast<OpKind>(rep_[at]) == OpKind::kFlushDatabase);
  store_fixed(rep_.data() + at + 1, static_cast<std::uint8_t>(mode));
  store_fixed(rep_.data() + at + 2, tree);
  store_fixed(rep_.data() + at + kOpHeaderBytes + 4, old_tree);
}

void WriteBatch::append_payload(std::vector<Bytes>* pieces) const {
  std::size_t at = 0;
  for (const Shared& s : shared_) {
    pieces->push_back(Bytes(rep_).substr(at, s.offset - at));
    pieces->push_back(*s.value);
    at = s.offset;
  }
  if (at < rep_.size()) pieces->push_back(Bytes(rep_).substr(at));
}

Result<WriteBatch> WriteBatch::parse(std::string payload) {
  if (payload.size() < kHeaderBytes) return Status::corruption("write batch: shorter than its header");
  WriteBatch batch;
  batch.rep_ = std::move(payload);
  batch.count_ = load_fixed<std::uint32_t>(batch.rep_.data() + kCountAt);
  if (batch.first_seq() > kMaxSeqNum - batch.count_) {
    return Status::corruption("write batch: first sequence number " + std::to_string(batch.first_seq()) + " exceeds the maximum");
  }
  Bytes in = Bytes(batch.rep_).substr(kHeaderBytes);
  std::uint32_t count = 0;
  while (!in.empty()) {
    const std::size_t at = batch.rep_.size() - in.size();
    Op op;
    Shape shape;
    const bool good =
        decode_op(&in, &op, &shape) && (!has_value(op.kind) || shape.value_length <= in.size()) && op.key.size() <= kMaxKeyBytes;
    if (!good) return Status::corruption("write batch: malformed operation at byte " + std::to_string(at));
    batch.longest_key_ = std::max(batch.longest_key_, op.key.size());
    batch.flushes_ += op.kind == OpKind::kFlushDatabase ? 1 : 0;
    batch.secondary_deletes_ += op.kind == OpKind::kSecondaryDelete ? 1 : 0;
    in.remove_prefix(shape.value_length);
    ++count;
  }
  if (count != batch.count_) {
    return Status::corruption("write batch: " + std::to_string(count) + " operations, but its header says " +
                              std::to_string(batch.count_));
  }
  return batch;
}

}  // namespace ebbtide
