#include "version/record_needs.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <set>

#include "base/random.h"

namespace ebbtide {
namespace TEST_FILE {

FileMeta file_with(FileNum num, DeleteKey min, DeleteKey max, SeqNum min_seq, SeqNum applied_seq) {
  FileMeta file;
  file.data_file = file.metadata_file = num;
  file.data_bytes = file.metadata_bytes = 1;
  file.stats.smallest = "k" + std::to_string(10'000'000 + num);
  file.stats.largest = file.stats.smallest;
  file.stats.entries = 1;
  file.stats.min_seq = min_seq;
  file.stats.max_seq = min_seq + 1;
  file.stats.min_delete_key = min;
  file.stats.max_delete_key = max;
  file.stats.applied_seq = applied_seq;
  return file;
}

bool needs_by_hand(const FileMeta& file, const Record& r) {
  const TableStats& s = file.stats;
  return s.min_delete_key <= s.max_delete_key && r.lo <= s.max_delete_key && s.min_delete_key < r.hi &&
         r.seq > std::max(s.min_seq, s.applied_seq);
}
bool needed_by_hand(const Version& version, const Record& r) {
  for (const Run& run : version.runs) {
    for (const FileMetaPtr& file : run.files) {
      if (needs_by_hand(*file, r)) return true;
    }
  }
  return false;
}
bool contains(const Record& by, const Record& r) { return by.lo <= r.lo && r.hi <= by.hi && r.seq < by.seq; }

/// A tree whose files and records change at random. The code under test adds the changes of records to each edit.
class Bed {
 public:
  explicit Bed(std::uint64_t seed) : random_(seed), wide_(seed % 3 == 0), disjoint_(seed % 2 == 0) {
    auto tree = std::make_shared<Version>();
    tree->tree = 1;
    tree->runs = {{1, 0, {}}, {2, 1, {}}};
    tree->next_run = 3;
    trees_[1] = std::move(tree);
  }

  void step() {
    TreeEdit edit;
    edit.tree = 1;
    change_files(&edit);
    if (random_.one_in(3)) add_records(random_.one_in(4) ? 80 : 4, &edit);
    edit.flushed_seq = seq_;
    const VersionPtr untidied = *apply(*trees_[1], edit);
    std::vector<TreeEdit> edits{edit};
    std::map<TreeId, VersionPtr> after{{1, untidied}};
    keeper_.plan(trees_, after, &edits);
    if (random_.one_in(8)) return;  // simulates a failed write of the manifest
    auto tidied = apply(*trees_[1], edits.front());
    REQUIRE(tidied.is_ok());
    trees_[1] = *tidied;
    keeper_.note_committed();
    check(*untidied, **tidied);
  }
  [[nodiscard]] std::size_t records() const { return trees_.at(1)->records->size(); }

 private:
  DeleteKey any_key() { return random_.uniform(20'000); }

  void change_files(TreeEdit* edit) {
    for (std::size_t run = 0; run < 2; ++run) {
      for (const FileMetaPtr& file : trees_[1]->runs[run].files) {
        if (!random_.one_in(12)) continue;
        edit->removed_files.emplace_back(run + 1, file->data_file);
        FileMeta changed = *file;
        switch (random_.uniform(4)) {
          case 0:  // the file is moved
            edit->added_files.emplace_back(2 - run, changed);
            break;
          case 1:  // the file is merged
            changed.data_file = changed.metadata_file = ++number_;
            changed.stats.applied_seq = seq_;
            edit->added_files.emplace_back(run + 1, changed);
            break;
          case 2:  // the same data with pages dropped
            changed.metadata_file = ++number_;
            changed.stats.max_delete_key = (changed.stats.min_delete_key + changed.stats.max_delete_key) / 2;
            edit->added_files.emplace_back(run + 1, changed);
            break;
          default:
            break;
        }
      }
    }
    for (std::uint64_t n = random_.uniform(3); n > 0; --n) {
      const DeleteKey min = wide_ ? random_.uniform(50) : any_key();
      const DeleteKey max = random_.one_in(9) ? 0 : wide_ ? 19'000 : min + random_.uniform(400);
      edit->added_files.emplace_back(1, file_with(++number_, min, max, seq_ / 2 + random_.uniform(seq_ / 2 + 1), 0));
    }
  }

  void add_records(std::uint64_t most, TreeEdit* edit) {
    for (std::uint64_t n = random_.uniform(most); n > 0; --n) {
      const DeleteKey lo = disjoint_ ? 10 * random_.uniform(2000) : any_key();
      const DeleteKey width = disjoint_ ? 10 : 1 + random_.uniform(random_.one_in(10) ? 5000 : 200);
      now_ += random_.one_in(5) ? 100'000 : random_.uniform(50);
      edit->added_records.push_back({lo, lo + width, seq_ += 1 + random_.uniform(3), now_});
    }
  }

  void check(const Version& was, const Version& is) const {
    const auto all = was.records->records(), kept = is.records->records();
    std::map<SeqNum, Record> by_seq;
    for (const Record& r : kept) by_seq[r.seq] = r;
    for (const Record& r : all) {
      CAPTURE(to_text(r));
      const auto at = by_seq.find(r.seq);
      const bool needed = needed_by_hand(is, r);
      if (at != by_seq.end()) {
        REQUIRE(needed);
        REQUIRE(at->second.lo == r.lo);
        REQUIRE(at->second.hi == r.hi);
        REQUIRE(at->second.birth <= r.birth);
      } else if (needed) {
        // The record was merged, and its birth passed on.
        REQUIRE(std::any_of(kept.begin(), kept.end(), [&](const Record& by) { return contains(by, r) && by.birth <= r.birth; }));
      }
    }
    for (const Record& r : kept) {
      CAPTURE(to_text(r));
      const auto same = std::find_if(all.begin(), all.end(), [&](const Record& a) { return a.seq == r.seq; });
      REQUIRE(same != all.end());
      // A changed birth comes from a record that was merged into this one.
      if (r.birth != same->birth) {
        REQUIRE(std::any_of(all.begin(), all.end(),
                            [&](const Record& a) { return contains(r, a) && a.birth == r.birth && by_seq.count(a.seq) == 0; }));
      }
      if (kept.size() <= 64) continue;
      REQUIRE(std::none_of(kept.begin(), kept.end(), [&](const Record& by) { return contains(by, r); }));
    }
  }

  Random random_;
  const bool wide_, disjoint_;
  std::map<TreeId, VersionPtr> trees_;
  RecordKeeper keeper_;
  FileNum number_ = 0;
  SeqNum seq_ = 10;
  Millis now_ = 1000;
};

TEST_CASE("random edits are applied: the version has exactly the deletes by stamp that some file needs, or merged ones") {
  std::size_t most = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    Bed bed(seed);
    for (int i = 0; i < 120; ++i) {
      bed.step();
      most = std::max(most, bed.records());
    }
  }
  CHECK(most > 200);
}

TEST_CASE("no file needs a delete by stamp: the manifest does not store it, and the tree's next edit removes it") {
  auto tree = std::make_shared<Version>();
  tree->tree = 1;
  tree->flushed_seq = 50;
  tree->runs = {{1, 0, {std::make_shared<const FileMeta>(file_with(9, 100, 199, 5, 0))}}};
  tree->next_run = 2;
  tree->records = std::make_shared<const RecordSet>(std::vector<Record>{{150, 160, 20, 1}});
  std::map<TreeId, VersionPtr> before{{1, tree}};
  RecordKeeper keeper;
  std::vector<TreeEdit> edits(1);
  edits[0].tree = 1;
  edits[0].added_records = {{300, 310, 30, 1}, {199, 200, 31, 1}};
  keeper.plan(before, {{1, *apply(*tree, edits[0])}}, &edits);
  CHECK(edits[0].added_records == std::vector<Record>{{199, 200, 31, 1}});
  CHECK(edits[0].removed_records.empty());
  const VersionPtr with = *apply(*tree, edits[0]);
  keeper.note_committed();
  std::vector<TreeEdit> last(1);
  last[0].tree = 1;
  last[0].removed_files = {{1, 9}};
  last[0].removed_runs = {1};
  keeper.plan({{1, with}}, {{1, *apply(*with, last[0])}}, &last);
  CHECK(last[0].removed_records == std::vector<SeqNum>{20, 31});
}

}  // namespace TEST_FILE
}  // namespace ebbtide
