// Tests of the encoding of edits and file descriptions, and of versions after edits.
#include <catch2/catch.hpp>

#include "base/coding.h"
#include "version/record_needs.h"
#include "version_samples.h"

namespace ebbtide {
namespace TEST_FILE {

using test::any_number;
using test::plain_file;

std::string encoded(const VersionEdit& edit) {
  std::string out;
  edit.encode(&out);
  return out;
}

TEST_CASE("edits are encoded: decoding returns the same edits", "[version]") {
  Random random(1);
  for (int i = 0; i < 3000; ++i) {
    INFO("round " << i << " of seed 1");
    const VersionEdit edit = test::random_edit(random);
    const auto decoded = VersionEdit::decode(encoded(edit));
    if (!decoded.is_ok()) FAIL(decoded.status().to_string());
    if (!(*decoded == edit)) FAIL(edit.to_text() << "became\n" << decoded->to_text());
  }
}

TEST_CASE("file descriptions are encoded one after the other: decoding returns the same descriptions", "[version]") {
  Random random(2);
  for (int i = 0; i < 1000; ++i) {
    const FileMeta a = test::random_file_meta(random), b = test::random_file_meta(random);
    std::string out;
    a.encode(&out);
    b.encode(&out);
    Bytes in = out;
    const auto a_back = FileMeta::decode(&in);
    REQUIRE(a_back.is_ok());
    const auto b_back = FileMeta::decode(&in);
    REQUIRE(b_back.is_ok());
    CHECK((*a_back == a && *b_back == b && in.empty()));
  }
}

TEST_CASE("encoded edit is truncated: decoding fails, or returns an edit with fewer changes", "[version]") {
  Random random(3);
  for (int i = 0; i < 200; ++i) {
    const std::string whole = encoded(test::random_edit(random));
    for (std::size_t n = 0; n < whole.size(); ++n) {
      const auto decoded = VersionEdit::decode(Bytes(whole).substr(0, n));
      // An edit that is cut between two fields has fewer changes.
      if (decoded.is_ok()) CHECK(encoded(*decoded) == whole.substr(0, n));
    }
  }
}

TEST_CASE("bytes of an encoded edit are damaged: decoding fails or returns another edit, without a crash", "[version]") {
  Random random(4);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = encoded(test::random_edit(random));
    if (bytes.empty()) continue;
    for (int n = 0; n < 3; ++n) bytes[random.uniform(bytes.size())] = static_cast<char>(random.uniform(256));
    const auto decoded = VersionEdit::decode(bytes);
    if (!decoded.is_ok()) {
      CHECK((decoded.status().code() == Code::kCorruption || decoded.status().code() == Code::kUnsupported));
      CHECK(!decoded.status().message().empty());
      continue;
    }
    (void)decoded->to_text();
    (void)apply(VersionState{}, *decoded);
  }
}

TEST_CASE("edit has a field of a newer version: decoding fails, unless the field's tag allows to skip it", "[version]") {
  VersionEdit edit;
  edit.next_file = 9;
  const auto with_field = [&](std::uint32_t tag) {
    std::string bytes = encoded(edit);
    put_varint(&bytes, tag);
    put_bytes(&bytes, "new");
    return VersionEdit::decode(bytes);
  };
  REQUIRE(with_field(0x40 | 33).is_ok());
  CHECK(*with_field(0x40 | 33) == edit);
  const auto refused = with_field(33);
  REQUIRE(!refused.is_ok());
  CHECK(refused.status().to_string() == "unsupported: edit: field at byte 3 has tag 33, which this version does not know");
}

TEST_CASE("edit has a field twice, too many numbers, or too large a value: decoding returns kCorruption", "[version]") {
  const auto field = [](std::uint32_t tag, std::initializer_list<std::uint64_t> numbers) {
    std::string payload, out;
    for (const auto n : numbers) put_varint(&payload, n);
    put_varint(&out, tag);
    put_bytes(&out, payload);
    return out;
  };
  const auto tree = [&](const std::string& fields) {
    std::string out;
    put_varint(&out, 1);
    put_bytes(&out, fields);
    return out;
  };
  CHECK(VersionEdit::decode(field(3, {5})).is_ok());
  CHECK(VersionEdit::decode(tree(field(1, {5}) + field(8, {1, kMaxLevel}))).is_ok());
  CHECK(VersionEdit::decode(tree(field(1, {5}) + field(66, {7, 8, 1, 8, 0}))).is_ok());
  const std::initializer_list<std::uint64_t> seventeen = {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                                          1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  static_assert(2 * (DeadlineRule::kMostChanges + 1) + 1 == 35);
  REQUIRE(seventeen.size() == 35);
  for (const std::string& bad : {field(3, {5}) + field(3, {5}),
                                 field(3, {5, 6}),
                                 field(3, {}),
                                 tree(field(1, {5}) + field(1, {5})),
                                 tree(field(1, {0})),
                                 tree(field(8, {1, 2})),
                                 tree(field(1, {5}) + field(8, {1, kMaxLevel + 1})),
                                 tree(field(1, {5}) + field(2, {4})),
                                 tree(field(1, {5}) + field(9, {kMaxSeqNum + 1})),
                                 tree(field(1, {5}) + field(15, {7, 7, 1, 1})),
                                 tree(field(1, {5}) + field(15, {7, kDeleteKeyEnd + 1, 1, 1})),
                                 tree(field(1, {5}) + field(15, {7, 8, 1})),
                                 tree(field(1, {5}) + field(14, {kMaxSeqNum + 1})),
                                 tree(field(1, {5}) + field(66, {})),
                                 tree(field(1, {5}) + field(66, {7, 8})),
                                 tree(field(1, {5}) + field(66, {7, 8, 1, 7, 1})),
                                 tree(field(1, {5}) + field(66, {7}) + field(66, {7})),
                                 tree(field(1, {5}) + field(66, seventeen)),
                                 tree(field(1, {5}) + field(67, {2, 'a'})),
                                 tree(field(1, {5}) + field(67, {1, 'a'}) + field(67, {1, 'a'}))}) {
    const auto decoded = VersionEdit::decode(bad);
    REQUIRE(!decoded.is_ok());
    CHECK(decoded.status().code() == Code::kCorruption);
  }
}

TEST_CASE("edit is printed: the text has a line for each change", "[version]") {
  VersionEdit edit;
  TreeEdit& tree = edit.trees.emplace_back();
  tree.tree = 3;
  tree.create = true;
  tree.stamp = StampMode::kExplicit;
  tree.added_runs = {{1, 0, 0}, {2, 1, 5}, {3, 0, 0, true}};
  tree.removed_files = {{7, 8}};
  tree.added_files.emplace_back(1, plain_file(4, "a\xff", "b\"", 3, 5));
  tree.removed_runs = {9};
  tree.relabeled = {{2, 4}};
  tree.removed_records = {70};
  tree.added_records = {{5, 9, 75, 1000}, {5, kDeleteKeyEnd, 76, 1001}};
  tree.flushed_seq = 77;
  tree.cursors = {{1, "k"}};
  tree.deadlines = DeadlineRule(5000, {{100, 7000}, {200, 0}});
  tree.key_space = "user\xff";
  tree.next_run = 10;
  edit.databases = {{0, 3}, {1, kNoTree}};
  edit.next_file = 12;
  edit.time_mark = 1000;
  CHECK(edit.to_text() ==
        "tree 3: create, stamp explicit\n"
        "tree 3: add run 1 level 0 as oldest\n"
        "tree 3: add run 2 level 1 before run 5\n"
        "tree 3: add run 3 level 0 as newest\n"
        "tree 3: remove file 8 from run 7\n"
        "tree 3: add file 4 (metadata 5) \"a\\xff\"..\"b\\x22\" 1000+100 bytes, 2 entries, 0 tombstones, 0 range tombstones, seq "
        "3..5 "
        "to run 1\n"
        "tree 3: run 2 to level 4\n"
        "tree 3: remove run 9\n"
        "tree 3: remove record 70\n"
        "tree 3: add record 75 on stamps 5..<9, born 1000\n"
        "tree 3: add record 76 on stamps 5..*, born 1001\n"
        "tree 3: flushed seq 77\n"
        "tree 3: cursor of level 1 at \"k\"\n"
        "tree 3: deadline 5000 ms, until 200 no promise, until 100 7000 ms\n"
        "tree 3: key space: keys that begin with \"user\\xff\"\n"
        "tree 3: next run 10\n"
        "database 0 is tree 3\n"
        "database 1 is no tree\n"
        "next file 12\n"
        "time mark 1000\n");
}

// --- apply

Version two_levels() {
  Version version;
  version.tree = 1;
  const auto file = [](FileNum num, const char* a, const char* b, SeqNum lo, SeqNum hi) {
    return std::make_shared<const FileMeta>(plain_file(num, a, b, lo, hi));
  };
  version.runs = {{5, 0, {file(50, "a", "m", 90, 99)}},
                  {4, 0, {file(40, "c", "z", 80, 89)}},
                  {1, 1, {file(10, "a", "f", 1, 50), file(12, "g", "k", 2, 60)}}};
  version.next_run = 6;
  return version;
}

std::string layout(const Version& version) {
  std::string out;
  for (const Run& run : version.runs) {
    out += "L" + std::to_string(run.level) + " r" + std::to_string(run.id) + ":";
    for (const FileMetaPtr& file : run.files) out += " " + std::to_string(file->data_file);
    out += "\n";
  }
  return out;
}

std::string apply_error(const TreeEdit& edit) {
  const auto applied = apply(two_levels(), edit);
  if (applied.is_ok()) return "fits";
  CHECK(applied.status().code() == Code::kCorruption);
  return std::string(applied.status().message());
}

TEST_CASE("edit merges level 0 into level 1: the version has the new files and runs", "[version]") {
  TreeEdit edit;
  edit.tree = 1;
  edit.removed_files = {{5, 50}, {4, 40}, {1, 12}};
  edit.added_files = {{1, plain_file(62, "n", "z", 3, 99)}, {1, plain_file(60, "g", "m", 2, 98)}};
  edit.removed_runs = {5, 4};
  edit.cursors = {{1, "h"}, {3, "x"}};
  edit.flushed_seq = 99;
  const auto applied = apply(two_levels(), edit);
  REQUIRE(applied.is_ok());
  CHECK(layout(**applied) == "L1 r1: 10 60 62\n");
  // A cursor is kept only where a file begins, so that this key is purged with the file.
  CHECK((*applied)->cursors == std::vector<std::string>{"", "n"});
  CHECK((*applied)->flushed_seq == 99);
  TreeEdit forget;
  forget.cursors = {{1, ""}};
  CHECK((*apply(**applied, forget))->cursors.empty());
  TreeEdit gone;
  gone.tree = 1;
  gone.removed_files = {{1, 62}};
  CHECK((*apply(**applied, gone))->cursors.empty());
}

TEST_CASE("edits add and remove deletes by stamp: the version has the remaining ones", "[version]") {
  TreeEdit edit;
  edit.tree = 1;
  edit.flushed_seq = 100;
  edit.added_records = {{5, 9, 99, 1000}, {1, 3, 98, 900}};
  const auto with = *apply(two_levels(), edit);
  CHECK(with->records->records() == std::vector<Record>{{1, 3, 98, 900}, {5, 9, 99, 1000}});
  TreeEdit change;
  change.removed_records = {98, 99};
  change.added_records = {{5, 9, 99, 900}};
  const auto changed = *apply(*with, change);
  CHECK(changed->records->records() == std::vector<Record>{{5, 9, 99, 900}});
  change.added_records.clear();
  change.removed_records = {99};
  CHECK((*apply(*changed, change))->records->empty());
  CHECK(apply(*with, edit).status().message() == "tree 1: record 99 is added, but is already in the tree");
  change.removed_records = {97};
  CHECK(apply(*with, change).status().message() == "tree 0: record 97 is not in the tree");
  // The record is of an operation that may be only in the log.
  edit.flushed_seq = 98;
  CHECK(apply_error(edit) == "tree 1: record 99 is newer than the flushed seq 98");
}

TEST_CASE("delete by stamp covers no entry any more, or a newer one contains its range: it is removed", "[version]") {
  const auto stamped = [](FileNum num, const char* a, const char* b, SeqNum lo, SeqNum hi, DeleteKey min, DeleteKey max) {
    FileMeta file = plain_file(num, a, b, lo, hi);
    file.stats.min_delete_key = min;
    file.stats.max_delete_key = max;
    return file;
  };
  Version version;
  version.tree = 1;
  version.flushed_seq = 200;
  version.next_run = 2;
  FileMeta applied = stamped(11, "g", "k", 10, 60, 40, 49);
  applied.stats.applied_seq = 150;
  version.runs = {
      {1,
       1,
       {std::make_shared<const FileMeta>(stamped(10, "a", "f", 10, 50, 20, 29)), std::make_shared<const FileMeta>(applied)}}};
  const auto tidied = [&](std::vector<Record> records) {
    version.records = std::make_shared<const RecordSet>(records);
    const RecordChanges changes = tidy_records(version);
    TreeEdit edit;
    edit.tree = 1;
    edit.removed_records = changes.removed;
    edit.added_records = changes.added;
    return (*apply(version, edit))->records->records();
  };
  const Record used{25, 26, 100, 7};
  CHECK(tidied({used}) == std::vector<Record>{used});
  CHECK(tidied({{25, 26, 11, 7}}).size() == 1);
  CHECK(tidied({{25, 26, 10, 7}}).empty());   // no entry there is older
  CHECK(tidied({{15, 20, 100, 7}}).empty());  // no file has these stamps
  CHECK(tidied({{29, 30, 100, 7}}).size() == 1);
  CHECK(tidied({{30, 31, 100, 7}}).empty());
  CHECK(tidied({{40, 50, 150, 7}}).empty());  // the record was applied already
  CHECK(tidied({{40, 50, 151, 7}}).size() == 1);
  CHECK(tidied({used, {20, 30, 120, 9}}) == std::vector<Record>{{20, 30, 120, 7}});
  CHECK(tidied({{15, 20, 99, 3}, used}) == std::vector<Record>{used});
}

TEST_CASE("last bound with the common key prefix is removed: the version has no common prefix any more", "[version]") {
  Version base;
  base.tree = 1;
  base.next_run = 2;
  base.runs = {{1,
                1,
                {std::make_shared<const FileMeta>(plain_file(10, "user:1", "user:19")),
                 std::make_shared<const FileMeta>(plain_file(12, "user:2", "user:25"))}}};
  TreeEdit edit;
  edit.tree = 1;
  CHECK_FALSE((*apply(base, edit))->key_space);
  edit.key_space = "user:";
  const VersionPtr named = *apply(base, edit);
  CHECK(named->key_space == "user:");
  VersionState state;
  state.trees[1] = named;
  CHECK(snapshot(state).trees.front().key_space == "user:");
  edit.key_space = "user:2";  // the edit of a job that began before the other one ended
  CHECK((*apply(*named, edit))->key_space == "user:");
  edit.key_space = "us1";
  CHECK((*apply(*named, edit))->key_space == "us");
  edit.key_space = "x";
  CHECK((*apply(*named, edit))->key_space == "");
  // In the manifest only bounds of files may have keys, so the prefix goes with the last bound that has it.
  TreeEdit remove;
  remove.tree = 1;
  remove.removed_files = {{1, 10}};
  const VersionPtr less = *apply(*named, remove);
  CHECK(less->key_space == "user:");
  remove.removed_files = {{1, 12}};
  remove.added_files = {{1, plain_file(14, "a", "use")}};
  CHECK_FALSE((*apply(*less, remove))->key_space);
  remove.added_files = {{1, plain_file(14, "a", "user:")}};
  CHECK((*apply(*less, remove))->key_space == "user:");
}

TEST_CASE("edit adds runs: each is placed before the named run, or as the newest of its level", "[version]") {
  const auto with = [](TreeEdit::AddedRun run) {
    TreeEdit edit;
    edit.added_runs = {run};
    return layout(**apply(two_levels(), edit));
  };
  CHECK(with({9, 0, 5}) == "L0 r9:\nL0 r5: 50\nL0 r4: 40\nL1 r1: 10 12\n");
  CHECK(with({9, 0, 4}) == "L0 r5: 50\nL0 r9:\nL0 r4: 40\nL1 r1: 10 12\n");
  CHECK(with({9, 2, 0}) == "L0 r5: 50\nL0 r4: 40\nL1 r1: 10 12\nL2 r9:\n");
  // If the named neighbour was removed, or none was named, the added run becomes the newest of its level.
  CHECK(with({9, 0, 77}) == "L0 r9:\nL0 r5: 50\nL0 r4: 40\nL1 r1: 10 12\n");
  CHECK(with({9, 1, 77}) == "L0 r5: 50\nL0 r4: 40\nL1 r9:\nL1 r1: 10 12\n");
  CHECK(with({9, 2, 77}) == "L0 r5: 50\nL0 r4: 40\nL1 r1: 10 12\nL2 r9:\n");
  CHECK(with({9, 0, 1, true}) == "L0 r9:\nL0 r5: 50\nL0 r4: 40\nL1 r1: 10 12\n");
}

TEST_CASE("edit does not fit the version: the error names the mismatch", "[version]") {
  TreeEdit edit;
  edit.tree = 1;
  CHECK(apply_error(edit) == "fits");
  const auto error_of = [](auto change) {
    TreeEdit bad;
    bad.tree = 1;
    change(&bad);
    return apply_error(bad);
  };
  CHECK(error_of([](TreeEdit* e) { e->added_runs = {{4, 0, 0}}; }) == "tree 1: run 4 is added, but is already in the tree");
  CHECK(error_of([](TreeEdit* e) { e->added_runs = {{9, 0, 0}}; }) == "tree 1: run 9 of level 0 comes after a run of level 1");
  CHECK(error_of([](TreeEdit* e) { e->removed_files = {{4, 50}}; }) == "tree 1: file 50 is not in run 4");
  CHECK(error_of([](TreeEdit* e) { e->removed_files = {{3, 50}}; }) == "tree 1: run 3 is not in the tree");
  CHECK(error_of([](TreeEdit* e) { e->added_files = {{3, plain_file(70, "a", "b")}}; }) == "tree 1: run 3 is not in the tree");
  CHECK(error_of([](TreeEdit* e) { e->removed_runs = {4}; }) == "tree 1: run 4 is removed but has files");
  CHECK(error_of([](TreeEdit* e) { e->removed_runs = {3}; }) == "tree 1: run 3 is not in the tree");
  CHECK(error_of([](TreeEdit* e) { e->relabeled = {{3, 1}}; }) == "tree 1: run 3 is not in the tree");
  CHECK(error_of([](TreeEdit* e) { e->relabeled = {{5, 1}}; }) == "tree 1: run 4 of level 0 comes after a run of level 1");
  CHECK(error_of([](TreeEdit* e) {
          e->added_files = {{1, plain_file(70, "f", "f2", 1, 1)}};
        }) == "tree 1: run 1: file 10 and file 70 overlap or are out of order");
  CHECK(error_of([](TreeEdit* e) {
          e->added_files = {{1, plain_file(40, "x", "y", 1, 1)}};
        }) == "tree 1: run 1: file 40 occurs twice");
  CHECK(error_of([](TreeEdit* e) {
          e->added_files = {{1, plain_file(70, "x", "y", 9, 1)}};
          e->added_files[0].second.stats.min_seq = 10;
        }) == "tree 1: run 1: file 70 has a smallest seq above its largest seq");
  CHECK(error_of([](TreeEdit* e) {
          e->added_files = {{1, plain_file(70, "x", "y")}};
          e->added_files[0].second.stats.largest = "w";
        }) == "tree 1: run 1: file 70 ends before it starts");
  // A slice has moved entries down from run 9. They may be newer than the entries of run 9 that a later merge puts above them.
  CHECK(error_of([](TreeEdit* e) {
          e->added_runs = {{9, 0, 5}};
          e->added_files = {{9, plain_file(70, "b", "b", 95, 100)}};
        }) == "fits");
}

TEST_CASE("dead bytes of a file are punched: the file keeps their birth until all of them are punched", "[version]") {
  FileMeta file = plain_file(10, "a", "b");
  file.dead_bytes = 300;
  file.dead_birth = 40;
  TreeEdit edit;
  edit.tree = 1;
  edit.added_runs = {{1, 0, 0, true}};
  edit.added_files = {{1, file}};
  Version empty;
  empty.tree = 1;
  VersionPtr version = *apply(empty, edit);
  const auto punch = [&version](std::uint64_t bytes) {
    TreeEdit punched;
    punched.tree = 1;
    punched.punched = {{10, bytes}};
    version = *apply(*version, punched);
    return *version->runs[0].files[0];
  };
  const FileMeta part = punch(200);  // the other bytes were dropped while the holes were punched
  CHECK((part.punched_bytes == 200 && part.dead_birth == 40 && part.oldest_obligation() == 40));
  const FileMeta all = punch(300);
  CHECK((all.punched_bytes == 300 && all.dead_birth == 0 && all.oldest_obligation() == 0));
}

TEST_CASE("ids of added runs were taken meanwhile: the runs get new ids", "[version]") {
  Version base = two_levels();  // the next run is 6
  TreeEdit edit;                // made when the next run was 4: runs 4 and 5 are its own, run 1 is an old run
  edit.added_runs = {{4, 0, 1}, {5, 0, 4}};
  edit.added_files = {{4, plain_file(70, "a", "b")}, {5, plain_file(72, "a", "b")}, {1, plain_file(74, "x", "y")}};
  edit.removed_files = {{1, 10}};
  edit.next_run = 6;
  renumber_added_runs(base, &edit);
  CHECK(edit.added_runs == std::vector<TreeEdit::AddedRun>{{6, 0, 1}, {7, 0, 6}});
  CHECK(edit.added_files[0].first == 6);
  CHECK(edit.added_files[1].first == 7);
  CHECK(edit.added_files[2].first == 1);
  CHECK(edit.removed_files == std::vector<std::pair<RunId, FileNum>>{{1, 10}});
  CHECK(edit.next_run == 8);
  const TreeEdit before = edit;
  renumber_added_runs(base, &edit);
  CHECK(edit == before);
}

TEST_CASE("file's shape is made for merge policies: it has the births and the number of dead entries", "[version]") {
  FileMeta file = plain_file(4, "a", "b", 3, 5);
  FileShape shape = file.shape(1000, 50);
  CHECK(shape.num == 4);
  CHECK(shape.bytes == 1100);
  CHECK((shape.oldest_birth == 0 && shape.deadline == 0 && shape.dead == 0));
  Entry entry;
  entry.key = "c";
  entry.kind = EntryKind::kTombstone;
  entry.delete_key = 40;
  entry.seq = 6;
  file.stats.add_entry(entry);
  shape = file.shape(1000, 50);
  CHECK((shape.tombstones == 1 && shape.invalidated == 1 && shape.oldest_birth == 40 && shape.deadline == 1040));
  CHECK(file.shape(0, 50).deadline == 0);
  entry.kind = EntryKind::kValue;
  entry.expiry = 30;
  file.stats.add_entry(entry);
  CHECK(file.shape(1000, 29).oldest_birth == 40);
  shape = file.shape(1000, 30);
  CHECK((shape.dead == 1 && shape.oldest_birth == 30 && shape.deadline == 1030));
  CHECK(file.shape(~Millis{0}, 30).deadline == ~Millis{0});
  entry.debt = 20;
  file.stats.add_entry(entry);
  shape = file.shape(1000, 29);
  CHECK((shape.tombstones == 1 && shape.oldest_birth == 20 && shape.deadline == 1020));
}

TEST_CASE("file is quarantined: snapshots keep the quarantine until an edit ends it") {
  FileMeta file;
  file.data_file = 7;
  file.metadata_file = 8;
  file.stats.smallest = "a";
  file.stats.largest = "b";
  TreeEdit first;
  first.tree = 1;
  first.added_runs.push_back({1, 0, 0, false});
  first.added_files.emplace_back(1, file);
  first.quarantined.emplace_back(7, "corruption: 000007.data: page at 4096");
  VersionEdit edit;
  edit.trees.push_back(first);
  std::string bytes;
  edit.encode(&bytes);
  const auto decoded = VersionEdit::decode(bytes);
  REQUIRE(decoded.is_ok());
  CHECK(*decoded == edit);
  CHECK(edit.to_text().find("file 7 is quarantined: corruption: 000007.data: page at 4096") != std::string::npos);
  Version empty;
  empty.tree = 1;
  const auto version = apply(empty, first);
  REQUIRE(version.is_ok());
  CHECK((*version)->runs[0].files[0]->quarantined());
  CHECK((*version)->shape().runs[0].files[0].quarantined);
  TreeEdit second;
  second.tree = 1;
  second.quarantined.emplace_back(7, "");
  CHECK_FALSE((*apply(**version, second))->runs[0].files[0]->quarantined());
  second.quarantined = {{9, "what"}};
  CHECK(apply(**version, second).status().code() == Code::kCorruption);
}

TEST_CASE("edit names the version that wrote the manifest: decoding keeps the name, and older readers skip the field",
          "[version]") {
  VersionEdit edit;
  edit.next_file = 5;
  edit.writer = "0.1.0";
  std::string bytes;
  edit.encode(&bytes);
  CHECK(*VersionEdit::decode(bytes) == edit);
  CHECK(edit.to_text().find("written by \"0.1.0\"\n") != std::string::npos);
  const std::size_t tag = bytes.size() - 8;  // tag, length of the payload, length of the text, text
  REQUIRE(bytes[tag] == 0x44);
  bytes[tag] = 0x7e;  // an unknown tag with the bit that allows to skip it
  edit.writer.reset();
  CHECK(*VersionEdit::decode(bytes) == edit);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
