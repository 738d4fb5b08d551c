// Tests the conditions of a full page drop with a truth table: every combination, and its verdict. page_drops_test.cc tests the
// same conditions with real tables.
#include "compaction/page_conditions.h"

#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "table/metadata.h"

namespace ebbtide {
namespace TEST_FILE {

// The columns are the fields of PageConditions, in their order; * is any value. Several rows may apply to a combination; all must
// agree.
constexpr const char* kTruthTable = R"(
  death    plain  tile  final  first  older  debts   verdict
  none     *      *     *      *      *      *       stays    1: an entry is alive, or a reader needs one
  *        no     *     *      *      *      *       stays    2: a tombstone, a header or a large value
  *        *      no    *      *      *      *       stays    3: another tile may have an older version
  expired  yes    yes   yes    *      *      *       goes     3: no older run overlaps the tile; debts end here
  covered  yes    yes   yes    *      *      *       goes
  *        yes    yes   no     *      *      yes     stays    4: debts move down with merges
  expired  yes    yes   no     yes    *      no      goes     3: each entry is its key's oldest version
  covered  yes    yes   no     yes    *      no      goes
  covered  yes    yes   no     no     yes    no      goes     3: the records that cover the page cover all that is older
  covered  yes    yes   no     no     no     no      stays    3: an older run may have an older version
  expired  yes    yes   no     no     *      no      stays    3: a passed expiry says nothing of older versions
)";

using Values = std::vector<std::string>;

struct Row {
  Values conditions;
  bool goes = false;

  [[nodiscard]] bool matches(const Values& values) const {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (conditions[i] != "*" && conditions[i] != values[i]) return false;
    }
    return true;
  }
};

std::vector<Row> rows() {
  std::istringstream table(kTruthTable);
  std::string line, word;
  std::getline(table, line);
  std::getline(table, line);  // the line with the names
  std::vector<Row> rows;
  while (std::getline(table, line)) {
    std::istringstream words(line);
    Row row;
    for (int i = 0; i < 7 && words >> word; ++i) row.conditions.push_back(word);
    REQUIRE(row.conditions.size() == 7);
    REQUIRE(words >> word);
    REQUIRE((word == "goes" || word == "stays"));
    row.goes = word == "goes";
    rows.push_back(row);
  }
  return rows;
}

std::vector<Values> all_combinations() {
  std::vector<Values> all{{"none"}, {"expired"}, {"covered"}};
  for (int condition = 1; condition < 7; ++condition) {
    std::vector<Values> longer;
    for (Values values : all) {
      for (const char* value : {"yes", "no"}) {
        longer.push_back(values);
        longer.back().emplace_back(value);
      }
    }
    all = std::move(longer);
  }
  return all;
}

constexpr Millis kNow = 1000;

// Returns a page with stamps 100 to 120 and seqs 10 to 20.
PageFence stamped_page() {
  PageFence page;
  page.entries = 3;
  page.flags = kPagePlainOnly;
  page.unique_keys = page.single_versions = true;
  page.min_delete_key = 100, page.max_delete_key = 120;
  page.min_seq = 10, page.max_seq = 20;
  return page;
}

// A page, older runs and deletes that meet exactly the given conditions.
struct Setting {
  PageFence page = stamped_page();
  TileBelow below;
  std::vector<Record> deletes;

  explicit Setting(const Values& values) {
    const auto yes = [&](std::size_t i) { return values[i] == "yes"; };
    if (values[0] == "none") page.flags |= kPageHasUnstamped;
    if (values[0] == "expired") page.flags |= kPageAllExpire, page.min_expiry = page.max_expiry = kNow;
    if (!yes(1)) page.flags |= kPageHasLarge;
    page.unique_keys = yes(2);
    below.final = yes(3);
    if (yes(4)) page.flags |= kPageAllFirst;
    below.smallest_stamp = 60;
    deletes.push_back({yes(5) ? DeleteKey{60} : DeleteKey{61}, 121, 50, 500});
    if (yes(6)) page.flags |= kPageHasDebts;
  }
};

bool all_covered_by(const std::vector<Record>& deletes, const PageFence& page, SeqNum visible = 1000) {
  const RecordSet records(deletes);
  return all_covered(page, {&records, visible, kNow});
}

TEST_CASE("page meets any combination of conditions: may_go_whole() decides as the truth table says", "[drops]") {
  const std::vector<Row> table = rows();
  const std::vector<Values> combinations = all_combinations();
  REQUIRE(combinations.size() == 192);
  for (const Values& values : combinations) {
    std::string text;
    for (const std::string& value : values) text += value + " ";
    INFO(text);
    const Setting setting(values);
    const RecordSet records(setting.deletes);
    const bool goes = may_go_whole(conditions_of(setting.page, setting.below, {&records, 1000, kNow}));
    int matches = 0;
    for (const Row& row : table) {
      if (!row.matches(values)) continue;
      ++matches;
      CHECK(row.goes == goes);
    }
    CHECK(matches > 0);
  }
}

TEST_CASE("page meets any combination of conditions: conditions_of() finds exactly these from the page's fence", "[drops]") {
  for (const Values& values : all_combinations()) {
    const Setting setting(values);
    const RecordSet records(setting.deletes);
    const PageConditions c = conditions_of(setting.page, setting.below, {&records, 1000, kNow});
    const auto yes = [&](std::size_t i) { return values[i] == "yes"; };
    const auto death = values[0] == "none"      ? PageDeath::kNone
                       : values[0] == "expired" ? PageDeath::kExpired
                                                : PageDeath::kCovered;
    CHECK(c.death == death);
    CHECK(c.plain == yes(1));
    CHECK(c.tile_has_all_versions == yes(2));
    CHECK(c.final == yes(3));
    CHECK(c.all_first == yes(4));
    CHECK(c.older_are_covered == (yes(5) && death == PageDeath::kCovered));
    CHECK(c.debts == yes(6));
  }
  PageFence page = stamped_page();
  const RecordSet none;
  page.flags = 0;
  CHECK_FALSE(conditions_of(page, {}, {&none, 1000, kNow}).plain);
}

TEST_CASE("last expiry has not passed, or an entry has none: the page is not expired", "[drops]") {
  const RecordSet none;
  PageFence page = stamped_page();
  const auto death = [&](Millis now) { return conditions_of(page, {}, {&none, 1000, now}).death; };
  page.min_expiry = 900, page.max_expiry = 950;
  CHECK(death(950) == PageDeath::kNone);
  page.flags |= kPageAllExpire;
  CHECK(death(950) == PageDeath::kExpired);
  CHECK(death(949) == PageDeath::kNone);
  CHECK(some_expired(page, 900));
  CHECK_FALSE(some_expired(page, 899));
}

TEST_CASE("deletes by stamp cover all stamps of a page: the page is covered if readers see them and its entries are older",
          "[drops]") {
  PageFence page = stamped_page();
  CHECK(all_covered_by({{100, 121, 21, 5}}, page));
  CHECK(all_covered_by({{100, 110, 21, 5}, {110, 121, 22, 5}}, page));
  CHECK_FALSE(all_covered_by({{101, 121, 21, 5}}, page));
  CHECK_FALSE(all_covered_by({{100, 120, 21, 5}}, page));
  CHECK_FALSE(all_covered_by({{100, 121, 20, 5}}, page));      // the record is not newer than the newest entry
  CHECK_FALSE(all_covered_by({{100, 121, 30, 5}}, page, 29));  // readers do not see the record yet
  page.min_delete_key = 1, page.max_delete_key = 0;
  CHECK_FALSE(all_covered_by({{0, kDeleteKeyEnd, 30, 5}}, page));
}

TEST_CASE("stamps of older entries are unknown: deletes by stamp do not count as covering these entries", "[drops]") {
  const RecordSet records(std::vector<Record>{{0, kDeleteKeyEnd, 50, 5}});
  const PageFence page = stamped_page();
  const DropJudge judge{&records, 1000, kNow};
  CHECK(may_go_whole(conditions_of(page, {false, 0}, judge)));
  CHECK_FALSE(may_go_whole(conditions_of(page, {false, std::nullopt}, judge)));
}

TEST_CASE("page is kept: so are, directly or indirectly, the tile's pages with possibly newer versions of its keys", "[drops]") {
  const auto page = [](SeqNum min_seq, SeqNum max_seq, bool goes, std::uint32_t flags = 0) {
    TilePage page;
    page.fence.min_seq = min_seq, page.fence.max_seq = max_seq;
    page.fence.flags = flags;
    page.goes = goes;
    return page;
  };
  const auto left = [](std::vector<TilePage> pages) {
    keep_pages_that_hide(pages);
    std::string text;
    for (const TilePage& p : pages) text += p.goes ? 'g' : 's';
    return text;
  };
  CHECK(left({page(50, 60, false), page(10, 49, true)}) == "sg");
  CHECK(left({page(50, 60, false), page(10, 50, true)}) == "ss");
  CHECK(left({page(1, 9, true), page(5, 40, true), page(30, 50, true), page(50, 60, false)}) == "ssss");
  CHECK(left({page(1, 4, true), page(5, 40, true), page(30, 50, true), page(50, 60, false)}) == "gsss");
  CHECK(left({page(50, 60, false), page(10, 70, true, kPageAllFirst)}) == "sg");
  TilePage single = page(10, 70, true);
  single.fence.single_versions = true;
  CHECK(left({page(50, 60, false), single}) == "sg");
  CHECK(left({page(1, 70, true), page(1, 70, true)}) == "gg");
}

}  // namespace TEST_FILE
}  // namespace ebbtide
