// Tests of the slice: which runs and targets take part, and how far it grows.
#include "engine/policy/fade_bed.h"

namespace TEST_FILE {

using namespace ebbtide;
using ebbtide::testing::FadeBed;

TEST_CASE("file has expired: its slice takes its run and all older runs down to the oldest that overlaps the file") {
  CHECK(FadeBed("L0 r9: 9[a..z 20M]\n"
                "L0 r8: 8[a..z 20M 3t born=1 deadline=1001]\n"
                "L1 r7: 7[a..z 20M]\n"
                "L1 r6: 5[a..m 1M] 6[n..z 1M]\n",
                {.policy = "tiering"})
            .slice(8) == "slice r8{8} r7{7} r6{5} a..\"m\\x00\" -> r6 L1");
  CHECK(FadeBed("L0 r8: 8[a..c 1M 3t born=1 deadline=1001]\n"
                "L1 r7: 7[b..f 9M]\n"
                "L1 r6: 5[g..m 9M] 6[n..z 1M]\n",
                {.policy = "tiering"})
            .slice(8) == "slice r8{8} r7{7} b..\"f\\x00\" -> r7 L1");
}

TEST_CASE("newer run has an expired file in the range: the slice takes it, too, so that the target is written once") {
  const std::string older =
      "L0 r8: 8[a..z 20M 3t born=1 deadline=1000]\n"
      "L1 r7: 7[a..z 20M]\n"
      "L1 r6: 5[a..m 1M] 6[n..z 1M]\n";
  CHECK(FadeBed("L0 r9: 9[a..z 20M 1t born=2 deadline=1001]\n" + older, {.policy = "tiering"}).slice(8) ==
        "slice r9{9} r8{8} r7{7} r6{5} a..\"m\\x00\" -> r6 L1");
  CHECK(FadeBed("L0 r9: 9[a..z 20M 1t born=2 deadline=1002]\n" + older, {.policy = "tiering"}).slice(8) ==
        "slice r8{8} r7{7} r6{5} a..\"m\\x00\" -> r6 L1");
}

TEST_CASE("file has no upper bound: its slice ends where the target ends") {
  CHECK(FadeBed("L0 r8: 8[a..* 9M 1rt born=1 deadline=1001]\n"
                "L1 r7: 7[b..<f 9M]\n"
                "L1 r6: 5[g..m 9M] 6[n..z 1M]\n",
                {.policy = "tiering"})
            .slice(8) == "slice r8{8} r6{5} g..\"m\\x00\" -> r6 L1");
}

TEST_CASE("files are small: the slice grows over whole files, up to eight times the target size") {
  CHECK(FadeBed("L0 r8: 8[a..p 1M 3t born=1 deadline=1001] 9[q..z 1M]\n"
                "L1 r7: 7[c..f 1M]\n"
                "L1 r6: 5[a..m 1M] 6[n..o 1M] 10[p..t 1M]\n",
                {.policy = "tiering"})
            .slice(8) == "slice r8{8 9} r7{7} r6{5 6 10} a..\"z\\x00\" -> r6 L1");
  const auto with = [](const std::string& last) {
    return FadeBed(
               "L0 r8: 8[a..z 1M 3t born=1 deadline=1001]\n"
               "L1 r6: 5[a..c 1M] 6[d..m 1M] 7[n..z " +
                   last + "]\n",
               {.policy = "tiering"})
        .slice(8);
  };
  CHECK(with("5M") == "slice r8{8} r6{5 6 7} a..\"z\\x00\" -> r6 L1");
  CHECK(with("6M") == "slice r8{8} r6{5} a..\"c\\x00\" -> r6 L1");
}

TEST_CASE("little data arrives: the slice takes all levels below level 0, and grows up to 16 times the target size") {
  CHECK(FadeBed("L1 r3: 3[a..z 1M 3t born=1 deadline=1001]\n"
                "L2 r2: 2[a..z 2M]\n"
                "L3 r1: 11[a..b 3M] 12[c..d 3M] 13[e..f 3M] 14[g..h 3M] 15[i..j 3M] 16[k..l 3M]\n",
                {.arriving = 34'000'000})
            .slice(3) == "slice r3{3} r2{2} r1{11 12 13 14} a..\"h\\x00\" -> r1 L3");
  CHECK(FadeBed("L1 r3: 3[a..z 1M 3t born=1 deadline=1001]\n"
                "L2 r2: 2[a..z 2M]\n"
                "L3 r1: 11[a..b 3M] 12[c..d 3M]\n",
                {.arriving = 34'000'000})
            .slice(3) == "slice r3{3} r2{2} r1{11 12} a..\"z\\x00\" -> r1 L3");
}

TEST_CASE("neighbour of a target is damaged: the slice does not grow over it") {
  CHECK(FadeBed("L1 r3: 3[a..b 1M 3t born=1 deadline=1001]\n"
                "L3 r1: 11[a..b 3M] 12[c..d 3M quarantined] 13[e..f 3M]\n",
                {.arriving = 34'000'000})
            .slice(3) == "slice r3{3} r1{11} a..\"b\\x00\" -> r1 L3");
  CHECK(FadeBed("L1 r3: 3[a..b 1M 3t born=1 deadline=1001]\n"
                "L3 r1: 11[a..b 3M] 12[c..d 3M] 13[e..f 3M]\n",
                {.arriving = 34'000'000})
            .slice(3) == "slice r3{3} r1{11 12 13} a..\"f\\x00\" -> r1 L3");
}

TEST_CASE("disk has little space: the slice takes the target for which it is smallest, a busy one only if all are busy") {
  const auto with = [](const std::string& targets) {
    return FadeBed("L0 r8: 8[a..z 1M 3t born=1 deadline=1001]\nL1 r6: " + targets + "\n",
                   {.policy = "tiering", .room_is_short = true})
        .slice(8);
  };
  CHECK(with("5[a..f 2M] 6[g..m 1M] 7[n..z 3M]") == "slice r8{8} r6{6} g..\"m\\x00\" -> r6 L1");
  CHECK(with("5[a..f 2M] 6[g..m 1M busy] 7[n..z 3M]") == "slice r8{8} r6{5} a..\"f\\x00\" -> r6 L1");
  CHECK(with("5[a..f 2M busy] 6[g..m 1M busy]") == "slice r8{8} r6{6} g..\"m\\x00\" -> r6 L1 busy");
}

TEST_CASE("slice is proposed for a merge: it reserves the bytes of all its inputs, an upper bound of its output") {
  CHECK(FadeBed("L0 r8: 8[a..z 20M 3t born=1 deadline=1001]\n"
                "L1 r6: 5[a..m 1M] 6[n..z 1M]\n",
                {.policy = "tiering"})
            .bytes_of_slice(8) == std::uint64_t{21} << 20);
}

}  // namespace TEST_FILE
