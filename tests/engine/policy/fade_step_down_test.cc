// Tests of the step down: which files go, where they rest, and when a slice is needed instead.
#include "engine/policy/fade_bed.h"

namespace TEST_FILE {

using namespace ebbtide;
using ebbtide::testing::FadeBed;

TEST_CASE("file of level 0 has expired: all files of level 0 that overlap, also indirectly, go down to level 1") {
  CHECK(FadeBed("L0 r7: 7[a..z 1M]\n"
                "L0 r6: 6[c..e 1M 3t born=1 deadline=1001]\n"
                "L0 r5: 5[d..g 1M]\n"
                "L0 r4: 4[x..y 1M]\n"
                "L1 r3: 2[a..b 1M] 3[f..i 1M] 8[j..z 1M]\n")
            .step(6) == "merge r7{7} r6{6} r5{5} r4{4} r3{2 3 8} -> r3 L1");
  CHECK(FadeBed("L0 r7: 7[a..b 1M] 10[d..e 1M]\n"
                "L0 r6: 6[c..e 1M 3t born=1 deadline=1001]\n"
                "L0 r5: 5[x..y 1M]\n"
                "L1 r3: 2[a..b 1M] 3[c..i 1M] 8[j..z 1M]\n")
            .step(6) == "merge r7{10} r6{6} r3{3} -> r3 L1");
}

TEST_CASE("file of a deeper level has expired: only this file goes down one level") {
  CHECK(FadeBed("L1 r3: 3[a..c 1M 3t born=1 deadline=1001] 4[e..f 1M]\n"
                "L2 r2: 5[b..d 1M] 6[e..g 1M] 7[h..z 1M]\n"
                "L3 r1: 1[a..z 1M]\n")
            .step(3) == "merge r3{3} r2{5} -> r2 L2");
}

TEST_CASE("next level has no file in the range: the file rests there until that level's time is over, then passes it") {
  const std::string deep =
      "L1 r3: 3[a..c 1M 3t born=1 deadline=1001] 4[e..f 1M]\n"
      "L2 r2: 6[e..g 1M] 7[h..z 1M]\n"
      "L3 r1: 1[a..d 1M] 8[e..z 1M]\n";
  CHECK(FadeBed(deep, {.now = 500}).step(3) == "merge r3{3} -> r2 L2");
  CHECK(FadeBed(deep, {.now = 1001}).step(3) == "merge r3{3} r1{1} -> r1 L3");
  const std::string level0 =
      "L0 r5: 5[a..z 1M]\n"
      "L0 r4: 4[a..z 1M 3t born=1 deadline=1001]\n"
      "L1 r3:\n"
      "L2 r2: 6[a..g 1M] 7[h..z 1M]\n";
  CHECK(FadeBed(level0, {.now = 500}).step(4) == "merge r5{5} r4{4} -> r3 L1");
  CHECK(FadeBed(level0, {.now = 1001}).step(4) == "merge r5{5} r4{4} r2{6 7} -> r2 L2");
}

TEST_CASE("level has several runs: a file may rest only in the oldest, and only if no run overlaps the file") {
  const auto with = [](const std::string& oldest) {
    return FadeBed(
               "L1 r6: 6[a..f 1M 1t born=1 deadline=1001]\n"
               "L2 r5: 5[g..k 1M]\n"
               "L2 r4: 4[" +
                   oldest +
                   " 1M]\n"
                   "L3 r3: 3[a..z 1M]\n",
               {.now = 500})
        .step(6);
  };
  CHECK(with("a..c") == "merge r6{6} r4{4} -> r4 L2");
  CHECK(with("l..m") == "merge r6{6} -> r4 L2");
}

TEST_CASE("file is just above the final run: files over the same targets with the same or an older due delete go down, too") {
  CHECK(FadeBed("L1 r3: 3[a..c 1M 3t born=50 deadline=1000] 4[d..f 1M 3t born=10 deadline=990] 9[g..k 1M]\n"
                "L2 r2: 5[a..b 1M] 6[c..e 1M] 7[f..h 1M] 8[i..z 1M]\n")
            .step(3) == "merge r3{3 4} r2{5 6 7} -> r2 L2");
}

TEST_CASE("step would not be enough, so that a slice is needed: no step is proposed") {
  SECTION("range of the step, grown, meets a file of a level between") {
    CHECK(FadeBed("L1 r3: 3[a..c 1M 3t born=1 deadline=1001] 4[e..f 1M]\n"
                  "L2 r2: 6[e..g 1M] 7[h..z 1M]\n"
                  "L3 r1: 1[a..g 1M] 8[h..z 1M]\n")
              .step(3) == "none");
  }
  SECTION("level of the file has another, older run") {
    CHECK(FadeBed("L1 r6: 6[a..f 1M 1t born=1 deadline=1001]\n"
                  "L1 r5: 5[g..k 1M]\n"
                  "L2 r3: 3[a..c 1M] 4[d..z 1M]\n")
              .step(6) == "none");
  }
  SECTION("only level 0 has older files in the range") {
    CHECK(FadeBed("L0 r5: 5[a..f 1M 1t born=1 deadline=1001]\n"
                  "L0 r4: 4[c..d 1M]\n"
                  "L1 r3: 3[x..z 1M]\n")
              .step(5) == "none");
  }
}

TEST_CASE("step would merge more than 32 times the target size: no step is proposed, so that slices do the work") {
  const auto with = [](const std::string& bytes) {
    return FadeBed("L1 r3: 3[a..z " + bytes + " 3t born=50 deadline=1000]\nL2 r2: 5[b..b 1M] 6[c..e 1M]\n").step(3);
  };
  CHECK(with("30M") == "merge r3{3} r2{5 6} -> r2 L2");
  CHECK(with("31M") == "none");
}

TEST_CASE("running job has a file of the step: the proposed step is marked as busy") {
  CHECK(FadeBed("L1 r3: 3[a..c 1M 3t born=1 deadline=1001]\n"
                "L2 r2: 5[b..d 1M busy]\n"
                "L3 r1: 1[a..z 1M]\n")
            .step(3) == "merge r3{3} r2{5} -> r2 L2 busy");
}

}  // namespace TEST_FILE
