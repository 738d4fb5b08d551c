// Tests of the oldest pending birth of the deletes of a key.
#include <catch2/catch.hpp>

#include "compaction/name_debts.h"

namespace ebbtide {
namespace TEST_FILE {

TEST_CASE("key is in files with pending deletes: birth_at() returns the oldest birth in the same and older runs") {
  Version version;
  const auto add_run = [&](const char* smallest, const char* largest) {
    auto file = std::make_shared<FileMeta>();
    file->stats.entries = 1;
    file->stats.smallest = smallest;
    file->stats.largest = largest;
    version.runs.push_back({version.next_run++, 0, {file}});
    return file;
  };
  const auto tombstones = add_run("a", "f"), expired = add_run("c", "h"), names = add_run("g", "k"), nothing = add_run("a", "z");
  tombstones->stats.oldest_tombstone = 500;
  expired->stats.min_expiry = 300;
  expired->stats.max_expiry = 900;
  names->lingering_birth = 700;
  const NameDebts at_600(version, 0, 600), at_200(version, 0, 200), older_runs(version, 1, 600);
  CHECK(at_600.birth_at("b") == 500);
  CHECK(at_600.birth_at("d") == 300);
  CHECK(at_600.birth_at(std::string("h\0", 2)) == 300);  // a range that has h as its last key ends here
  CHECK(at_600.birth_at("i") == 700);
  CHECK(at_600.birth_at("x") == 0);
  CHECK(at_200.birth_at("d") == 500);  // the expiry of d is later
  CHECK(older_runs.birth_at("b") == 0);
  CHECK(older_runs.birth_at("d") == 300);
  CHECK(NameDebts().birth_at("d") == 0);
  nothing->stats.min_seq = 10;
  nothing->stats.min_delete_key = 5, nothing->stats.max_delete_key = 9;
  version.records = std::make_shared<const RecordSet>(std::vector<Record>{{9, 20, 60, 100}});
  CHECK(at_600.birth_at("x") == 100);
  CHECK(at_600.birth_at("zz") == 0);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
