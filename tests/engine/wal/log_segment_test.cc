// Tests of which segments are needed, and of the pending deletes in them.
#include "wal/log_segment.h"

#include <catch2/catch.hpp>

namespace TEST_FILE {

using namespace ebbtide;

/// Makes segments 3, 5 and 9 with operations up to 10, 20 and 30; the last segment is the current one.
LogSegments three() {
  LogSegments segments;
  segments.add({.file = 3, .last_seq = 10, .bytes = 100});
  segments.add({.file = 5, .last_seq = 20, .bytes = 200, .since = 7});
  segments.add({.file = 9, .last_seq = 30, .bytes = 300, .since = 8});
  return segments;
}
bool none(FileNum) { return false; }

std::vector<FileNum> files_of(const std::vector<LogSegment>& segments) {
  std::vector<FileNum> files;
  for (const LogSegment& s : segments) files.push_back(s.file);
  return files;
}

TEST_CASE("oldest segment needed for a seq is searched: it is the one with that operation, or the current one") {
  const LogSegments segments = three();
  CHECK(segments.oldest_needed(1, none) == 3);
  CHECK(segments.oldest_needed(10, none) == 3);
  CHECK(segments.oldest_needed(11, none) == 5);
  CHECK(segments.oldest_needed(21, none) == 9);
  CHECK(segments.oldest_needed(31, none) == 9);
}

TEST_CASE("segments have pieces of a batch: they are needed as long as the batch's operations are") {
  LogSegments segments = three();
  segments.note_pieces(5, 9, 25);
  CHECK(segments.oldest_needed(25, none) == 5);
  CHECK(segments.oldest_needed(26, none) == 9);
  CHECK(segments.oldest_needed(31, [](FileNum file) { return file <= 3; }) == 3);
}

TEST_CASE("segments are removed from the list: the current one always stays") {
  LogSegments segments = three();
  CHECK(files_of(segments.below(5)) == std::vector<FileNum>{3});
  CHECK(files_of(segments.below(100)) == std::vector<FileNum>{3, 5});
  CHECK(segments.take_below(5) == std::vector<FileNum>{3});
  CHECK(segments.bytes() == 500);
  CHECK(segments.take_below(100) == std::vector<FileNum>{5});
  CHECK(files_of(segments.all()) == std::vector<FileNum>{9});
}

TEST_CASE("some segments have no batch: the log's oldest batch is that of the first segment that has one") {
  LogSegments segments = three();
  CHECK(segments.oldest_batch() == 7);
  (void)segments.take_below(9);
  CHECK(segments.oldest_batch() == 8);
  CHECK(LogSegments().oldest_batch() == 0);
}

TEST_CASE("several notes of deletes are added for one tree: they become one note with the oldest times") {
  LogNotes notes;
  add_note(&notes, {1, 0, 500});
  add_note(&notes, {2, 70, 0});
  add_note(&notes, {1, 90, 600});
  add_note(&notes, {1, 80, 0});
  REQUIRE(notes.size() == 2);
  CHECK(notes[0].oldest_delete == 80);
  CHECK(notes[0].min_expiry == 500);
}

TEST_CASE("later segments have deletes: they count as pending in each earlier segment that has operations of the same trees") {
  std::vector<LogSegment> segments(3);
  segments[0].notes = {{1, 0, 500}, {2, 70, 0}};
  segments[1].notes = {{2, 60, 0}, {3, 0, 90}};
  segments[2].notes = {{3, 0, 0}, {1, 80, 0}};
  CHECK(log_debts(segments, 100) == std::vector<std::vector<Millis>>{{80, 60}, {60, 90}, {0, 80}});
  CHECK(log_debts(segments, 85) == std::vector<std::vector<Millis>>{{80, 60}, {60, 0}, {0, 80}});
  CHECK(log_debts(segments, 600)[0][0] == 80);
  CHECK(log_debts({}, 100).empty());
}

}  // namespace TEST_FILE
