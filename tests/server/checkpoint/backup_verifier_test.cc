// Tests that older backups are removed only after a newer backup was read, and only if no damage is known.
#include "checkpoint/backup_verifier.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "checkpoint/backups.h"

namespace TEST_FILE {

using namespace ebbtide;

struct Checks {
  BackupVerifier::Env env() {
    BackupVerifier::Env env;
    env.verify = [this](const std::string& path, const std::function<bool(std::uint64_t)>& go_on) -> Result<VerifyReport> {
      verified.push_back(path);
      if (!go_on(1)) return Status::aborted("stopped");
      if (!fault.is_ok()) return fault;
      return report;
    };
    env.damage = [this] { return damage; };
    env.prune = [this](const std::string& path) {
      pruned.push_back(path);
      return Status::ok();
    };
    env.log = [this](bool error, const std::string& text) {
      if (error) errors.push_back(text);
    };
    env.unix_seconds = [] { return 77; };
    return env;
  }
  VerifyReport report;
  Status fault;
  std::string damage;
  std::vector<std::string> verified, pruned, errors;
};

void make_backup(const std::filesystem::path& dir, const std::string& name, bool finished) {
  std::filesystem::create_directories(dir / name);
  if (finished) std::ofstream(dir / name / "CURRENT") << "x";
}

TEST_CASE("new backup passes its verification: older backups are removed") {
  Checks checks;
  BackupVerifier verifier(checks.env());
  CHECK(verifier.state().result == BackupCheck::kNone);
  verifier.check("b/1");
  verifier.wait();
  CHECK(checks.pruned == std::vector<std::string>{"b/1"});
  CHECK(verifier.state().result == BackupCheck::kOk);
  CHECK(verifier.state().last_ok_unix_seconds == 77);
  CHECK(verifier.state().pruning_held.empty());
}

TEST_CASE("new backup is damaged or unreadable: no backup is removed, and the log has the reason") {
  Checks checks;
  SECTION("new backup is damaged") { checks.report.errors = {"000007.data: page at 4096: checksum mismatch"}; }
  SECTION("new backup is unreadable") { checks.fault = Status::io_error("000007.data: cannot be read"); }
  BackupVerifier verifier(checks.env());
  verifier.check("b/1");
  verifier.wait();
  CHECK(checks.pruned.empty());
  CHECK(verifier.state().result == BackupCheck::kDamaged);
  CHECK(verifier.state().last_ok_unix_seconds == 0);
  REQUIRE(checks.errors.size() == 1);
  CHECK(checks.errors.front().find("000007.data") != std::string::npos);
}

TEST_CASE("database is damaged: no backup is removed, even if the new backup is good") {
  Checks checks;
  checks.damage = "3 errors";
  BackupVerifier verifier(checks.env());
  verifier.check("b/1");
  verifier.wait();
  CHECK(checks.pruned.empty());
  CHECK(verifier.state().result == BackupCheck::kOk);
  CHECK(verifier.state().pruning_held.find("3 errors") != std::string::npos);
}

TEST_CASE("server stops during a slow verification of a backup: the verification is aborted") {
  Checks checks;
  auto env = checks.env();
  env.bytes_per_second = 1;
  env.verify = [](const std::string&, const std::function<bool(std::uint64_t)>& go_on) -> Result<VerifyReport> {
    if (!go_on(1'000'000'000)) return Status::aborted("stopped");
    return VerifyReport{};
  };
  {
    BackupVerifier verifier(std::move(env));
    verifier.check("b/1");
  }
  CHECK(checks.pruned.empty());
}

TEST_CASE("older backups are removed: the configured number of finished ones is kept, and so are backups after the new one") {
  char name[] = "/tmp/ebbtide-backups-XXXXXX";
  REQUIRE(::mkdtemp(name) != nullptr);
  const std::filesystem::path dir = name;
  const auto at = [](int second) {
    return backup_name(1'795'296'000'000'000ull + 1'000'000ull * static_cast<unsigned>(second), "0badcafe");
  };
  for (const int second : {0, 1, 2, 3, 4}) make_backup(dir, at(second), second != 1);
  make_backup(dir, at(5), false);  // an unfinished backup
  make_backup(dir, "mine", false);
  make_backup(dir, backup_name(1, "0badcaff"), true);  // a backup of another database
  REQUIRE(remove_older_backups((dir / at(3)).string(), "0badcafe", 2).is_ok());
  std::vector<std::string> left;
  for (const int second : {0, 1, 2, 3, 4, 5}) {
    if (std::filesystem::exists(dir / at(second))) left.push_back(at(second));
  }
  CHECK(left == std::vector<std::string>{at(2), at(3), at(4), at(5)});
  CHECK(std::filesystem::exists(dir / "mine"));
  CHECK(std::filesystem::exists(dir / backup_name(1, "0badcaff")));
  std::filesystem::remove_all(dir);
}

}  // namespace TEST_FILE
