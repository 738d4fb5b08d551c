// Tests of range partitioning: positions of keys, histograms, and where output files end. testdata/partitions.txt has the figures
// of Mao's thesis, chapter 5.
#include "compaction/partitions.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "base/random.h"
#include "compaction/subranges.h"
#include "support/datadriven.h"

namespace ebbtide {
namespace TEST_FILE {

/// Returns up to 20 bytes of a small alphabet, so that many keys have a common prefix; with the bytes 0x00 and 0xff.
std::string random_string(Random& random) {
  static const char kBytes[] = {'\0', '\1', 'a', 'b', '\x7f', '\x80', '\xfe', '\xff'};
  std::string out;
  for (std::uint64_t n = random.uniform(21); n > 0; --n) out += kBytes[random.uniform(sizeof kBytes)];
  return out;
}

/// Returns a position as a fraction of the whole line, 0 to 1.
double share(KeyPosition position) { return static_cast<double>(position) / static_cast<double>(kLastPosition); }

TEST_CASE("position of a key is computed: it equals lambda of Mao's thesis, exact up to the key's fifteenth byte") {
  const KeySpace space;
  CHECK(space.position("") == 0);
  for (const std::string& key : {std::string(1, '\0'), std::string("a"), std::string("zz\xff"), std::string(15, '\xff')}) {
    double lambda = 0, weight = 1;
    for (const char c : key) lambda += (static_cast<double>(static_cast<unsigned char>(c)) + 1) * (weight /= 257);
    CHECK(share(space.position(key)) == Approx(lambda).epsilon(1e-12));
  }
  CHECK(space.position(std::string(1000, '\xff')) < kLastPosition);
  // Fifteen bytes distinguish these keys; with a long double all bytes from the seventh on are lost (table 5.1).
  std::set<std::string> keys;
  Random random(1);
  while (keys.size() < 2000) keys.insert("prefix-1" + std::to_string(random.uniform(10'000'000)));
  std::set<KeyPosition> positions;
  for (const std::string& key : keys) positions.insert(space.position(key));
  CHECK(positions.size() == keys.size());
}

TEST_CASE("positions of keys are computed: they keep the keys' order, and differ if 15 bytes after the prefix do") {
  Random random(2);
  for (int i = 0; i < 20000; ++i) {
    const std::string prefix = random.one_in(2) ? "" : random_string(random);
    const KeySpace space(prefix);
    std::string a = random_string(random), b = random_string(random);
    if (random.one_in(2)) a = prefix + a;
    if (random.one_in(2)) b = prefix + b;
    if (b < a) std::swap(a, b);
    const bool within = a.starts_with(prefix) && b.starts_with(prefix);
    const bool differ = within && a.substr(prefix.size(), 15) != b.substr(prefix.size(), 15);
    CAPTURE(prefix, a, b);
    REQUIRE(space.position(a) <= space.position(b));
    REQUIRE((!differ || space.position(a) < space.position(b)));
  }
}

TEST_CASE("first key at a position is computed: exactly the keys before it have smaller positions") {
  Random random(3);
  int none = 0;
  for (int i = 0; i < 20000; ++i) {
    const KeySpace space(random.one_in(2) ? "" : random_string(random));
    KeyPosition position = KeyPosition{random.next()} << 64 | random.next();
    if (random.one_in(3)) position = space.position(space.prefix() + random_string(random)) + random.uniform(3) - 1;
    if (random.one_in(50)) position = kLastPosition - random.uniform(300);
    const auto border = space.first_key_at(position);
    none += border ? 0 : 1;
    CAPTURE(space.prefix(), share(position), border.value_or("(none)"));
    if (border) REQUIRE(space.position(*border) >= position);
    for (int n = 0; n < 3; ++n) {
      std::string key = (random.one_in(2) ? space.prefix() : "") + random_string(random);
      if (border && random.one_in(2)) key = border->substr(0, border->size() - std::min<std::size_t>(border->size(), 1)) + key;
      CAPTURE(key);
      REQUIRE((space.position(key) >= position) == (border && key >= *border));
    }
  }
  CHECK(none > 0);
}

TEST_CASE("keys are added to a tree: the common prefix of all keys becomes shorter, never longer") {
  CHECK(shared_prefix_with(std::nullopt, "user:1", "user:9") == "user:");
  CHECK(shared_prefix_with("user:", "user:11", "user:12") == "user:");
  CHECK(shared_prefix_with("user:", "under", "user:12") == "u");
  CHECK(shared_prefix_with("", "a1", "a2").empty());
}

TEST_CASE("no added file has the common key prefix in its bounds: the edit does not store the prefix") {
  Version version;
  const auto noted = [&](const std::string& prefix, std::vector<std::string> bounds) {
    TreeEdit edit;
    for (const std::string& bound : bounds) {
      FileMeta file;
      file.stats.smallest = file.stats.largest = bound;
      edit.added_files.emplace_back(1, file);
    }
    note_key_space(prefix, version, &edit);
    return edit.key_space;
  };
  CHECK(noted("user:", {"a", "user:7"}) == "user:");
  CHECK(noted("", {"a"}) == "");
  CHECK_FALSE(noted("secret", {}));
  CHECK_FALSE(noted("secret", {"a", "secre"}));
  version.key_space = "user:";
  CHECK_FALSE(noted("user:", {"user:7"}));
  CHECK(noted("us", {"user:7"}) == "us");
}

// --- histograms

/// Returns a random position: spread evenly, in clusters, or nearly always in one millionth of the line.
KeyPosition random_position(Random& random, int kind) {
  const KeyPosition any = KeyPosition{random.next()} << 64 | random.next();
  if (kind == 0) return any;
  if (kind == 1) return (KeyPosition{random.uniform(7)} << 125) + (any >> 6);
  return random.one_in(20) ? any : (KeyPosition{1} << 127) + (any >> 20);
}

TEST_CASE("random points are added to histograms: the estimated weight before any position is right to within a few bins") {
  for (const int kind : {0, 1, 2}) {
    for (const bool in_order : {true, false}) {
      CAPTURE(kind, in_order);
      Random random(static_cast<std::uint64_t>(kind) + 4);
      std::vector<std::pair<KeyPosition, double>> points;
      for (int i = 0; i < 20000; ++i) points.emplace_back(random_position(random, kind), 1 + random.uniform(100));
      if (in_order) std::sort(points.begin(), points.end());
      // As in a merge, each table has a histogram, and they are added up.
      StreamingHistogram sum(128), table(128);
      double total = 0;
      for (std::size_t i = 0; i < points.size(); ++i) {
        table.add(points[i].first, points[i].second);
        total += points[i].second;
        REQUIRE(table.bins() < 256);
        if (i % 5000 == 4999) sum.merge(std::exchange(table, StreamingHistogram(128)));
      }
      REQUIRE(sum.total() == Approx(total));
      std::sort(points.begin(), points.end());
      CHECK(sum.smallest() == points.front().first);
      CHECK(sum.largest() == points.back().first);
      CHECK(sum.sum(points.front().first - 1) == 0);
      CHECK(sum.sum(points.back().first) == sum.total());
      double before = 0, last = 0, worst = 0;
      for (const auto& [at, weight] : points) {
        before += weight;
        const double said = sum.sum(at);
        REQUIRE(said >= last - 1e-9 * total);
        last = said;
        worst = std::max(worst, std::abs(said - before));
      }
      CHECK(sum.bins() <= 128);
      CHECK(worst < 6.0 / 128 * total);  // one and a half of the largest bins
    }
  }
}

TEST_CASE("histogram has no point, or few different points: its estimates are exact") {
  StreamingHistogram histogram(4);
  CHECK(histogram.sum(kLastPosition) == 0);
  CHECK(histogram.smallest() > histogram.largest());
  histogram.add(7, 0);
  CHECK(histogram.total() == 0);
  for (int i = 0; i < 1000; ++i) histogram.add(7, 2);
  CHECK(histogram.bins() == 1);
  CHECK(histogram.sum(6) == 0);
  CHECK(histogram.sum(7) == 2000);
  for (int i = 0; i < 100; ++i) {  // alternates between two points: neither may absorb the other
    histogram.add(7, 1);
    histogram.add(1000, 1);
  }
  CHECK(histogram.sum(6) == 0);
  CHECK(histogram.sum(500) == Approx(1846.1).epsilon(0.001));  // half of the bin at 7, and a part of the weight between the bins
  CHECK(histogram.sum(1000) == 2200);
}

// --- partitions

TEST_CASE("key space is halved from its root, or from the smallest node with all keys: the parts are the same") {
  Random random(5);
  for (int i = 0; i < 200; ++i) {
    std::vector<KeyPosition> points;
    for (int n = 0; n < 60; ++n) points.push_back(random_position(random, i % 3));
    std::sort(points.begin(), points.end());
    const auto within = [&](const PositionRange& range) {
      return static_cast<double>(std::upper_bound(points.begin(), points.end(), range.last) -
                                 std::lower_bound(points.begin(), points.end(), range.first));
    };
    const PositionRange node = smallest_node({points.front(), points.back()});
    const auto all = halve({0, kLastPosition}, 10, within);
    REQUIRE(halve(node, 10, within) == all);
    double sum = 0;
    for (std::size_t p = 0; p < all.size(); ++p) {
      REQUIRE(within(all[p]) <= 10);
      REQUIRE((p == 0 || all[p - 1].last < all[p].first));
      sum += within(all[p]);
    }
    REQUIRE(sum == 60);
  }
}

TEST_CASE("all keys have the same position: they are one partition, whose files end at their size limit") {
  const std::string prefix(20, 'p');
  StreamingHistogram bytes;
  for (int i = 0; i < 100; ++i) bytes.add(KeySpace().position(prefix + std::to_string(i)), 1000);
  PartitionRequest request{Partitioning::kGlobalRange, 1000, {prefix + "0", prefix + "99x"}, ""};
  CHECK(partitions_of(request, &bytes).size() == 1);
  // Without their common prefix the keys have different positions.
  request.prefix = prefix;
  StreamingHistogram apart;
  for (int i = 0; i < 100; ++i) apart.add(KeySpace(prefix).position(prefix + std::to_string(i)), 1000);
  CHECK(partitions_of(request, &apart).size() > 10);
  request.partitioning = Partitioning::kSize;
  CHECK(partitions_of(request, &apart).size() == 1);
}

TEST_CASE("output is larger in files: its histogram has more bins, from 128 to 65536") {
  CHECK(bins_for(0, 1 << 20) == 128);
  CHECK(bins_for(100.0 * (1 << 20), 1 << 20) == 1616);
  CHECK(bins_for(1e30, 1 << 20) == 65536);
}

TEST_CASE("partition begins: the file is closed unless it is too small, and range tombstones are cut there") {
  OutputSplitter splitter({100, 0, 20}, {{"b", "r", 7, 70}}, {}, {"d", "h", "m", "q"});
  CHECK_FALSE(splitter.should_close("a", 0));
  CHECK_FALSE(splitter.should_close("c", 30));
  CHECK_FALSE(splitter.should_close("e", 19));  // e shares the file with the partition that begins at d
  CHECK_FALSE(splitter.should_close("f", 50));
  CHECK(splitter.should_close("f2", 100));  // the file is full
  const auto first = splitter.close_before("f2");
  REQUIRE(first.size() == 1);
  CHECK((first[0].start == "b" && first[0].end == "f2"));
  CHECK(splitter.should_close("o", 20));
  const auto second = splitter.close_before("o");
  REQUIRE(second.size() == 1);
  CHECK((second[0].start == "f2" && second[0].end == "m"));
  CHECK_FALSE(splitter.should_close("p", 90));
  const auto rest = splitter.close_last();
  REQUIRE(rest.size() == 1);
  CHECK((rest[0].start == "m" && rest[0].end == "r"));
}

TEST_CASE("merge is cut at partitions: its parts are whole partitions, of about the same bytes") {
  const std::vector<Partition> partitions = {{"a", 10}, {"d", 10}, {"h", 30}, {"m", 10}};
  const auto cut = [&](std::size_t parts) {
    std::string out;
    for (const KeyRange& range : cut_at_partitions({"a", "z"}, partitions, parts)) out += range.start + ".." + range.end + " ";
    return out;
  };
  CHECK(cut(0) == "a..z ");
  CHECK(cut(1) == "a..z ");
  CHECK(cut(2) == "a..h h..z ");
  CHECK(cut(9) == "a..d d..h h..m m..z ");
}

// --- the figures

using Keys = std::vector<int>;  // keys of one byte

std::string key_of(int byte) { return std::string(1, static_cast<char>(byte)); }

Partitioning partitioning_of(const std::string& name) {
  if (name == "local_range") return Partitioning::kLocalRange;
  if (name == "global_range") return Partitioning::kGlobalRange;
  REQUIRE(name == "size");
  return Partitioning::kSize;
}

std::vector<Keys> read_runs(const std::string& input) {
  std::vector<Keys> runs;
  std::istringstream lines(input);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Keys& keys = runs.emplace_back();
    for (int key = 0; words >> key;) keys.push_back(key);
  }
  return runs;
}

/// Cuts keys into files as a merge does. The size of a file is the number of its keys.
std::vector<Keys> cut(const test::DataCase& data, const Keys& keys) {
  const auto most = static_cast<std::uint64_t>(std::stoul(data.arg("most")));
  const auto least = static_cast<std::uint64_t>(std::stoul(data.arg("share", "1")));
  PartitionRequest request{partitioning_of(data.arg("by")), most, {key_of(keys.front()), key_of(keys.back()) + '\0'}, ""};
  const KeySpace space = key_space_of(request);
  const auto within = [&](const PositionRange& range) {
    return static_cast<double>(std::count_if(keys.begin(), keys.end(), [&](int key) {
      const KeyPosition at = space.position(key_of(key));
      return range.first <= at && at <= range.last;
    }));
  };
  std::vector<std::string> starts;
  for (const Partition& partition : partitions_of(request, within, kLastPosition)) starts.push_back(partition.start);
  const bool by_size = request.partitioning == Partitioning::kSize;
  OutputSplitter splitter({by_size ? most : 2 * most, 0, least}, {}, {}, starts);
  std::vector<Keys> files(1);
  for (const int key : keys) {
    if (splitter.should_close(key_of(key), files.back().size()) && !files.back().empty()) {
      (void)splitter.close_before(key_of(key));
      files.emplace_back();
    }
    files.back().push_back(key);
  }
  return files;
}

std::string to_text(const Keys& file) {
  return std::to_string(file.front()) + ".." + std::to_string(file.back()) + "(" + std::to_string(file.size()) + ")";
}
std::string to_text(const std::vector<Keys>& files) {
  std::string out;
  for (const Keys& file : files) out += (out.empty() ? "" : " ") + to_text(file);
  return out;
}

/// Makes one merge of all runs, each of which was cut with the same partitioning before.
std::string merge(const test::DataCase& data) {
  std::string out;
  std::vector<InputFile> inputs;
  std::map<FileNum, Keys> keys_of;
  std::size_t age = 0;
  for (const Keys& run : read_runs(data.input)) {
    const std::vector<Keys> files = cut(data, run);
    ++age;
    out += "run " + to_text(files) + "\n";
    for (const Keys& keys : files) {
      auto meta = std::make_shared<FileMeta>();
      meta->data_file = keys_of.size() + 1;
      for (const int key : keys) {
        const std::string bytes = key_of(key);
        Entry entry;
        entry.key = bytes;
        meta->stats.add_entry(entry);
      }
      keys_of[meta->data_file] = keys;
      inputs.push_back({age, age, meta, range_of(meta->stats)});
    }
  }
  for (const FileGroup& group : overlapping_groups(inputs)) {
    std::vector<Keys> files;
    std::set<int> all;
    for (const InputFile& file : group.files) {
      files.push_back(keys_of.at(file.meta->data_file));
      all.insert(files.back().begin(), files.back().end());
    }
    out += files.size() == 1 ? "move " + to_text(files)
                             : "sub-merge " + to_text(files) + " -> " + to_text(cut(data, Keys(all.begin(), all.end())));
    out += "\n";
  }
  return out;
}

/// Returns the smallest node of the binary tree over all keys that contains both keys.
std::string node(const test::DataCase& data) {
  const Keys keys = read_runs(data.input).at(0);
  const KeySpace space;
  const PositionRange range = smallest_node({space.position(key_of(keys.front())), space.position(key_of(keys.back()))});
  int first = 0, last = 255;
  while (space.position(key_of(first)) < range.first) ++first;
  while (space.position(key_of(last)) > range.last) --last;
  return std::to_string(first) + ".." + std::to_string(last);
}

TEST_CASE("examples of Mao's thesis are partitioned: the partitions equal those in the thesis' figures") {
  test::run_datadriven_dir(
      std::string(EBBTIDE_TEST_DIR) + "/testdata", [](const std::string&) {},
      [](const test::DataCase& data) -> std::string {
        if (data.command == "cut") return to_text(cut(data, read_runs(data.input).at(0)));
        if (data.command == "merge") return merge(data);
        if (data.command == "node") return node(data);
        FAIL("unknown command " << data.command);
        return "";
      });
}

}  // namespace TEST_FILE
}  // namespace ebbtide
