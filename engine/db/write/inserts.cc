#include "db/write/inserts.h"

#include "base/hash.h"
#include "db/write/staging.h"

namespace ebbtide {

void insert_operation(MemTable& memtable, const WriteBatch::Op& op, SeqNum seq, Millis time, StampMode stamp) {
  if (op.kind == OpKind::kRangeTombstone) {
    memtable.insert_range({op.key, op.end, seq, birth_of(op, time)});
    return;
  }
  if (op.kind == OpKind::kSecondaryDelete) {
    memtable.insert_record({op.lo, op.hi, seq, time});
    return;
  }
  Entry entry;
  if (!operation_entry(op, seq, &entry)) return;
  EntryPlace{.first_seq = 0, .time = time, .stamp = stamp}.settle(&entry);
  SharedValue copy;
  if (entry.value.size() > kLargeValueBytes && entry.shared == nullptr) {  // the operation was read from the log
    copy = std::make_shared<const std::string>(entry.value);
    entry.value = *copy;
    entry.shared = &copy;
  }
  memtable.insert({op.key, hash_key(op.key)}, entry);
}

}  // namespace ebbtide
