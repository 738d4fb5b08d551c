#include "store/zsets.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

namespace TEST_FILE {

using namespace ebbtide;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string text(const SortedSet& members) {
  std::string out;
  for (const ScoredMember& each : members)
    out += std::string(each.member) + "=" + std::to_string(static_cast<int>(each.score)) + " ";
  return out;
}

std::string in(const SortedSet& members, const Places& places) {
  std::string out;
  for (std::size_t i = places.begin; i < places.end; ++i) out += members[i].member;
  return out;
}

ScoreBound score(Bytes bound) { return parse_score_bound(bound).value(); }
LexBound lex(Bytes bound) { return parse_lex_bound(bound).value(); }

TEST_CASE("sorted set: members are sorted by score, then by bytes", "[zsets]") {
  for (const std::size_t changes : {1u, 100u}) {  // without and with an index
    SortedSetEditor members({{1, "b"}, {2, "a"}}, changes);
    members.put("c", 1);
    members.put("b", 3);
    members.put("d", -1);
    CHECK(members.score("b") == 3.0);
    CHECK_FALSE(members.score("x"));
    CHECK(members.remove("a"));
    CHECK_FALSE(members.remove("a"));
    CHECK(members.size() == 3);
    CHECK(text(members.take()) == "d=-1 c=1 b=3 ");
  }
}

TEST_CASE("sorted set: random changes with and without an index give the same sorted set", "[zsets]") {
  std::mt19937_64 random(11);
  const std::vector<std::string> names = {"a", "b", "c", "d", "e"};
  for (int round = 0; round < 500; ++round) {
    SortedSetEditor few({}, 1), many({}, 1000);
    for (int i = 0; i < 12; ++i) {
      const std::string& name = names[random() % names.size()];
      if (random() % 3 == 0) {
        CHECK(few.remove(name) == many.remove(name));
      } else {
        const auto value = static_cast<double>(random() % 4);
        few.put(name, value);
        many.put(name, value);
      }
    }
    CHECK(few.size() == many.size());
    CHECK(text(few.take()) == text(many.take()));
  }
}

TEST_CASE("sorted set: member is looked up in the encoded bytes: its rank and score are found", "[zsets]") {
  const std::string bytes = encode(SortedSet{{1, "b"}, {2, "a"}});
  const auto found = find_member(bytes, "a");
  REQUIRE(found.is_ok());
  REQUIRE(found->has_value());
  CHECK((*found)->rank == 1);
  CHECK((*found)->score == 2);
  CHECK_FALSE(find_member(bytes, "c")->has_value());
}

TEST_CASE("sorted set: bound of scores is parsed: the result is that of Redis", "[zsets]") {
  CHECK(score("1.5").score == 1.5);
  CHECK(score("(1").excluded);
  CHECK(score("-inf").score == -kInfinity);
  CHECK(score("(+inf").score == kInfinity);
  CHECK(score("").score == 0);
  CHECK(score(" 1").score == 1);
  CHECK(score(Bytes("1\0x", 3)).score == 1);
  for (const Bytes wrong : {"a", "1 ", "((1", "nan", "1x"}) CHECK_FALSE(parse_score_bound(wrong));
}

TEST_CASE("sorted set: range of scores includes or excludes its ends, as its bounds say", "[zsets]") {
  const SortedSet members = {{1, "a"}, {2, "b"}, {2, "c"}, {3, "d"}};
  CHECK(in(members, places_in(members, ScoreRange{score("1"), score("2")})) == "abc");
  CHECK(in(members, places_in(members, ScoreRange{score("(1"), score("(3")})) == "bc");
  CHECK(in(members, places_in(members, ScoreRange{score("-inf"), score("+inf")})) == "abcd");
  CHECK(places_in(members, ScoreRange{score("3"), score("1")}).empty());
  CHECK(places_in(members, ScoreRange{score("(2"), score("(2")}).empty());
  CHECK(places_in(members, ScoreRange{score("4"), score("5")}).empty());
  CHECK(places_in({}, ScoreRange{score("0"), score("5")}).empty());
}

TEST_CASE("sorted set: bound of members is parsed: only -, + and bounds with [ or ( are accepted", "[zsets]") {
  CHECK(lex("-").kind == LexBound::Kind::kLowest);
  CHECK(lex("+").kind == LexBound::Kind::kHighest);
  CHECK(lex("[abc").member == "abc");
  CHECK(lex("(").excluded);
  for (const Bytes wrong : {"", "a", "--", "+a", "1"}) CHECK_FALSE(parse_lex_bound(wrong));
}

TEST_CASE("sorted set: range of members is searched forward and backward: its members are found", "[zsets]") {
  const SortedSet members = {{0, "a"}, {0, "b"}, {0, "c"}, {0, "d"}};
  const auto range = [&](Bytes min, Bytes max, std::size_t skipped = 0, bool backward = false) {
    return in(members, places_in(members, LexRange{lex(min), lex(max)}, skipped, backward));
  };
  CHECK(range("-", "+") == "abcd");
  CHECK(range("[b", "[c") == "bc");
  CHECK(range("(a", "(d") == "bc");
  CHECK(range("-", "[b") == "ab");
  CHECK(range("-", "+", 1) == "bcd");
  CHECK(range("-", "+", 1, true) == "abc");
  CHECK(range("[x", "+").empty());
  CHECK(range("+", "-").empty());
  CHECK(range("-", "-").empty());
  CHECK(range("(b", "(b").empty());
  CHECK(range("[b", "[b") == "b");
}

const StopCheck kNeverStop = [] { return false; };

TEST_CASE("sorted set: ZUNION, ZINTER or ZDIFF of 1,000 sources is cancelled: the operation ends at its next check", "[zsets]") {
  const SortedSet members = {{1, "a"}, {2, "b"}};
  const std::vector<WeightedSource> sources(1000, WeightedSource{members, 1});
  int asked = 0;
  const StopCheck third = [&asked] { return ++asked == 3; };
  (void)united(sources, Aggregate::kSum, third);
  CHECK(asked == 3);
  asked = 0;
  (void)common(sources, Aggregate::kSum, third);
  CHECK(asked == 3);
  asked = 0;
  (void)without_others(sources, third);
  CHECK(asked == 3);
}

TEST_CASE("sorted set: weighted scores are aggregated: they are sums, minima or maxima, and a sum that is no number is 0",
          "[zsets]") {
  const SortedSet a = {{1, "x"}, {2, "y"}}, b = {{10, "y"}, {20, "z"}};
  CHECK(text(united({{a, 1}, {b, 1}}, Aggregate::kSum, kNeverStop)) == "x=1 y=12 z=20 ");
  CHECK(text(united({{a, 2}, {b, -1}}, Aggregate::kSum, kNeverStop)) == "z=-20 y=-6 x=2 ");
  CHECK(text(united({{a, 1}, {b, 1}}, Aggregate::kMin, kNeverStop)) == "x=1 y=2 z=20 ");
  CHECK(text(united({{a, 1}, {b, 1}}, Aggregate::kMax, kNeverStop)) == "x=1 y=10 z=20 ");
  CHECK(text(common({{a, 1}, {b, 2}}, Aggregate::kSum, kNeverStop)) == "y=22 ");
  CHECK(common({{a, 1}, {{}, 1}}, Aggregate::kSum, kNeverStop).empty());
  CHECK(text(without_others({{a, 1}, {b, 1}}, kNeverStop)) == "x=1 ");
  const SortedSet low = {{-kInfinity, "m"}}, high = {{kInfinity, "m"}};
  CHECK(united({{low, 1}, {high, 1}}, Aggregate::kSum, kNeverStop)[0].score == 0);
  CHECK(united({{high, 0}}, Aggregate::kSum, kNeverStop)[0].score == 0);
}

}  // namespace TEST_FILE
