#include "version/file_list.h"

#include <algorithm>
#include <map>

#include <catch2/catch.hpp>

#include "base/oldest.h"
#include "base/random.h"
#include "engine/version/version_samples.h"
#include "tree/text.h"
#include "version/version_edit.h"

namespace ebbtide {
namespace TEST_FILE {

std::string key(std::uint64_t number) {
  char text[16];
  std::snprintf(text, sizeof text, "k%08llu", static_cast<unsigned long long>(number));
  return text;
}

/// Makes a file over [at, at + 10), with random tombstones, births and dead bytes.
FileMeta make_file(FileNum num, std::uint64_t at, Random& random) {
  FileMeta file = test::plain_file(num, key(at).c_str(), key(at + 9).c_str(), 1, 9);
  file.data_bytes = 1000 + random.uniform(1000);
  file.metadata_bytes = random.uniform(100);
  file.stats.entries = 1 + random.uniform(100);
  if (random.one_in(8)) {
    file.stats.tombstones = 1;
    file.stats.oldest_tombstone = 1 + random.uniform(1000);
  }
  if (random.one_in(8)) file.stats.min_expiry = file.stats.max_expiry = 1 + random.uniform(2000);
  if (random.one_in(8)) {
    file.dead_bytes = 1 + random.uniform(file.data_bytes);
    file.dead_birth = 1 + random.uniform(1000);
  }
  if (random.one_in(16)) file.lingering_birth = 1 + random.uniform(1000);
  if (random.one_in(16)) file.stats.range_tombstones = 1;
  return file;
}

/// A tree of three runs under random edits.
struct Life {
  explicit Life(std::uint64_t seed) : random(seed) {
    auto first = std::make_shared<Version>();
    first->tree = 1;
    first->runs = {{3, 0, {}}, {2, 1, {}}, {1, 2, {}}};
    first->next_run = 4;
    version = first;
  }
  TreeEdit next_edit() {
    TreeEdit edit;
    edit.tree = 1;
    const RunId run = 1 + random.uniform(3);
    const auto at = std::find_if(version->runs.begin(), version->runs.end(), [run](const Run& r) { return r.id == run; });
    const std::size_t files = at->files.size();
    switch (files == 0 ? 0 : random.uniform(4)) {
      case 0:  // adds files that overlap none
        for (std::uint64_t n = 1 + random.uniform(60); n > 0; --n) {
          const std::uint64_t slot = random.uniform(4000) * 10;
          if (taken[run].count(slot) != 0) continue;
          taken[run][slot] = next_file;
          edit.added_files.emplace_back(run, make_file(next_file++, slot, random));
        }
        break;
      case 1: {  // removes files
        const std::size_t first = random.uniform(files), count = std::min<std::size_t>(files - first, random.uniform(50));
        for (std::size_t i = first; i < first + count; ++i) leave(run, *at->files[i], &edit);
        break;
      }
      case 2: {  // moves files down
        const RunId below = run == 1 ? 1 : run - 1;
        const std::size_t first = random.uniform(files), count = std::min<std::size_t>(files - first, random.uniform(50));
        for (std::size_t i = first; i < first + count && below != run; ++i) {
          const FileMetaPtr file = at->files[i];
          const std::uint64_t slot = std::stoull(file->stats.smallest.substr(1));
          if (taken[below].count(slot) != 0) continue;
          leave(run, *file, &edit);
          taken[below][slot] = file->data_file;
          edit.added_files.emplace_back(below, *file);
        }
        break;
      }
      default: {  // changes descriptions
        const FileMetaPtr file = at->files[random.uniform(files)];
        if (file->dead_bytes != 0) edit.punched.emplace_back(file->data_file, file->dead_bytes);
        if (random.one_in(2)) edit.quarantined.emplace_back(file->data_file, random.one_in(2) ? "torn" : "");
      }
    }
    return edit;
  }
  void leave(RunId run, const FileMeta& file, TreeEdit* edit) {
    edit->removed_files.emplace_back(run, file.data_file);
    taken[run].erase(std::stoull(file.stats.smallest.substr(1)));
  }
  void step() {
    auto next = apply(*version, next_edit());
    REQUIRE(next.is_ok());
    version = std::move(next).value();
  }

  Random random;
  VersionPtr version;
  FileNum next_file = 1;
  std::map<RunId, std::map<std::uint64_t, FileNum>> taken;  // the starts of the files of each run
};

/// Checks the sums by walking over all files.
void check_sums(const Version& version) {
  FileSums all;
  for (const Run& run : version.runs) {
    for (const FileMetaPtr& file : run.files) {
      all.entries += file->stats.entries;
      all.file_bytes += file->data_bytes - file->punched_bytes + file->metadata_bytes;
      all.live_bytes += file->live_bytes();
      all.tombstones += file->stats.tombstones + file->stats.range_tombstones;
      all.not_punched += file->dead_bytes - file->punched_bytes;
      all.files_with_dead += file->dead_bytes != 0 ? 1 : 0;
      all.quarantined += file->quarantined() ? 1 : 0;
      all.ranged += file->stats.range_tombstones != 0 ? 1 : 0;
      keep_oldest(&all.oldest_obligation, file->oldest_obligation());
      keep_oldest(&all.lingering_birth, file->lingering_birth);
      keep_oldest(&all.min_expiry, file->stats.min_expiry);
    }
  }
  const FileSums sums = version.sums();
  CHECK(sums.entries == all.entries);
  CHECK(sums.file_bytes == all.file_bytes);
  CHECK(sums.live_bytes == all.live_bytes);
  CHECK(sums.tombstones == all.tombstones);
  CHECK(sums.not_punched == all.not_punched);
  CHECK(sums.files_with_dead == all.files_with_dead);
  CHECK(sums.quarantined == all.quarantined);
  CHECK(sums.ranged == all.ranged);
  CHECK(sums.oldest_obligation == all.oldest_obligation);
  CHECK(sums.lingering_birth == all.lingering_birth);
  CHECK(sums.min_expiry == all.min_expiry);
}

void check_numbers(const Version& version) {
  REQUIRE(version.is_numbered());
  std::size_t count = 0;
  for (const Run& run : version.runs) {
    for (const FileMetaPtr& file : run.files) {
      ++count;
      CHECK(version.find(file->data_file) == file);
      CHECK(version.find(run, file->data_file) == file);
    }
  }
  CHECK(version.by_number.size() == count);
  CHECK(version.find(1'000'000) == nullptr);
}

/// Returns the shape as computed from each file.
TreeShape plain_shape(const Version& version, Millis now, const DeadlineRule* rule) {
  TreeShape shape = version.shape(64, 64, 0, now, [](FileNum) { return false; });
  for (RunShape& run : shape.runs) {
    for (std::size_t i = 0; i < run.files.size(); ++i) {
      const Millis birth = run.files[i].oldest_birth;
      const Millis due = rule == nullptr || birth == 0 ? DeadlineRule::kNever : rule->due(birth);
      if (due != DeadlineRule::kNever) run.files.edit(i).deadline = due;
    }
  }
  return shape;
}

std::size_t new_chunks(const Version& before, const Version& after) {
  std::size_t fresh = 0;
  for (std::size_t r = 0; r < after.runs.size(); ++r) {
    for (std::size_t c = 0; c < after.runs[r].files.chunks(); ++c) {
      bool known = false;
      for (std::size_t d = 0; d < before.runs[r].files.chunks(); ++d) {
        known |= &before.runs[r].files.at_chunk(d) == &after.runs[r].files.at_chunk(c);
      }
      fresh += known ? 0 : 1;
    }
  }
  return fresh;
}

TEST_CASE("many edits are applied: sums, file numbers, shapes and checks equal those computed from all files") {
  Life life(11);
  const DeadlineRule rules[] = {DeadlineRule(500), DeadlineRule(2000)};
  std::vector<VersionPtr> kept;
  std::vector<std::string> texts;
  for (int step = 0; step < 400; ++step) {
    INFO("step " << step);
    life.step();
    const Version& version = *life.version;
    REQUIRE(check(version).empty());
    if (step % 10 != 0) continue;
    check_sums(version);
    check_numbers(version);
    const Millis now = life.random.uniform(2500);
    CHECK(version.shape_at(64, 64, now) == plain_shape(version, now, nullptr));
    for (const DeadlineRule& rule : rules) {
      CHECK(version.shape_at(64, 64, now, &rule) == plain_shape(version, now, &rule));
      CHECK(version.shape_at(64, 64, now / 2, &rule) == plain_shape(version, now / 2, &rule));
    }
    kept.push_back(life.version);
    texts.push_back(to_text(version.shape()));
  }
  for (std::size_t i = 0; i < kept.size(); ++i) CHECK(to_text(kept[i]->shape()) == texts[i]);  // no edit may have changed them
}

TEST_CASE("edit moves a file of a large tree: each of two runs gets one new chunk, and all others are shared") {
  Life life(3);
  std::vector<FileMetaPtr> files;
  for (FileNum num = 1; num <= 20'000; ++num) {
    files.push_back(std::make_shared<const FileMeta>(make_file(num, num * 10, life.random)));
  }
  auto large = std::make_shared<Version>(*life.version);
  large->runs[2].files = files;
  seal(large.get());
  TreeEdit edit;
  edit.tree = 1;
  edit.removed_files.emplace_back(1, 777);
  edit.added_files.emplace_back(2, *files[776]);
  const auto after = apply(*large, edit);
  REQUIRE(after.is_ok());
  CHECK(new_chunks(*large, **after) == 2);
  CHECK(large->runs[2].files.size() == 20'000);
  const TreeShape before = large->shape_at(64, 64, 10);
  const TreeShape later = (*after)->shape_at(64, 64, 11);
  std::size_t shared = 0;
  for (std::size_t c = 0; c < later.runs[2].files.chunks(); ++c) {
    shared += &later.runs[2].files.at_chunk(c) == &before.runs[2].files.at_chunk(c) ? 1 : 0;
  }
  CHECK(shared + 2 >= before.runs[2].files.chunks());
}

TEST_CASE("delete by stamp is added, then removed: files in its range have its birth only until it is removed") {
  FileMeta file;
  file.data_file = 1;
  file.metadata_file = 2;
  Entry entry;
  entry.key = "a";
  entry.seq = 5;
  entry.delete_key = 10;
  file.stats.add_entry(entry);
  TreeEdit edit;
  edit.tree = 1;
  edit.added_runs = {{1, 0, 0, true}};
  edit.added_files = {{1, file}};
  edit.flushed_seq = 100;
  Version empty;
  empty.tree = 1;
  const VersionPtr before = *apply(empty, edit);
  const DeadlineRule rule(2000);
  const auto shape_of = [&rule](const Version& version) { return version.shape_at(64, 64, 1000, &rule).runs[0].files[0]; };
  CHECK(shape_of(*before).oldest_birth == 0);
  TreeEdit change;
  change.tree = 1;
  change.added_records = {{10, 11, 99, 300}};
  const VersionPtr with = *apply(*before, change);
  REQUIRE(new_chunks(*before, *with) == 0);
  CHECK((shape_of(*with).oldest_birth == 300 && shape_of(*with).deadline == 2300 && shape_of(*with).dead == 1));
  CHECK(with->shape_at(64, 64, 1000).runs[0].files[0].oldest_birth == 300);
  change.added_records.clear();
  change.removed_records = {99};
  const VersionPtr after = *apply(*with, change);
  CHECK((shape_of(*after).oldest_birth == 0 && shape_of(*after).deadline == 0 && shape_of(*after).dead == 0));
}

TEST_CASE("added file breaks an invariant: the edit is refused, as a check of all files would refuse it") {
  Life life(5);
  for (int step = 0; step < 60; ++step) life.step();
  const Run& run = *std::max_element(life.version->runs.begin(), life.version->runs.end(),
                                     [](const Run& a, const Run& b) { return a.files.size() < b.files.size(); });
  REQUIRE(run.files.size() > 3);
  const FileMeta there = *run.files[run.files.size() / 2];
  const auto refused = [&](FileMeta file, RunId into) {
    TreeEdit edit;
    edit.tree = 1;
    edit.added_files.emplace_back(into, file);
    Version whole = *life.version;
    REQUIRE(change_in_place(&whole, edit).is_ok());
    const std::string wrong = check(whole);
    CHECK_FALSE(wrong.empty());
    const auto applied = apply(*life.version, edit);
    REQUIRE_FALSE(applied.is_ok());
    CHECK(applied.status().message() == "tree 1: " + wrong);
  };
  FileMeta copy = there;
  copy.data_file = life.next_file++;
  refused(copy, run.id);  // the copy has the same keys
  copy.stats.smallest = there.stats.smallest + "a";
  refused(copy, run.id);  // the copy overlaps its predecessor
  copy.stats.smallest = copy.stats.largest + "a";
  refused(copy, run.id);  // the copy ends before it starts
  copy.stats = there.stats;
  copy.stats.min_seq = 10;
  refused(copy, run.id);  // the copy's seqs are in the wrong order
  FileMeta again = there;
  again.stats.smallest = again.stats.largest = "z";
  refused(again, run.id);  // the file number is taken
}

}  // namespace TEST_FILE
}  // namespace ebbtide
