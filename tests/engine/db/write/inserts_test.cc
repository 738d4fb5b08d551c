// Tests of the log's notes: which operations are pending deletes in a segment of the log.
#include "db/write/inserts.h"

#include <utility>
#include <vector>

#include <catch2/catch.hpp>

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE(
    "batch has a delete, an expired value or a put with a delete debt: the segment's note has a delete at the batch's time") {
  constexpr Millis kNow = 1000, kLater = 5000;
  WriteBatch batch;
  batch.put(0, "a", "v");
  batch.put(0, "a", "v", {.expiry = kLater});
  batch.put(0, "a", "v", {.expiry = kNow});
  batch.put(0, "a", "v", {.debt = true});
  batch.put(0, "a", "items", {.expiry = kLater, .kind = EntryKind::kCompact, .debt = true});
  batch.del(0, "a");
  batch.delete_range(0, "a", "b");
  batch.delete_stamps(0, 5, 10);
  batch.flush_database(0);  // the new tree has no deletes; the caller adds the note of the old tree
  std::vector<std::pair<Millis, Millis>> notes;
  std::size_t cursor = 0;
  for (WriteBatch::Op op; batch.next_op(&cursor, &op);) {
    const LogNote note = log_note(op, 7, kNow);
    CHECK(note.tree == 7);
    notes.emplace_back(note.oldest_delete, note.min_expiry);
  }
  CHECK(notes == std::vector<std::pair<Millis, Millis>>{
                     {0, 0}, {0, kLater}, {kNow, 0}, {kNow, 0}, {kNow, kLater}, {kNow, 0}, {kNow, 0}, {kNow, 0}, {0, 0}});
}

}  // namespace TEST_FILE
