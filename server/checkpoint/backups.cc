#include "checkpoint/backups.h"

#include <engine/side_file.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <vector>

namespace ebbtide {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMicros = 1'000'000;
constexpr std::size_t kIdDigits = 8;
constexpr const char* kIdFile = "DATABASE_ID";
constexpr std::uint64_t kMostIdFileBytes = 4096;  // enough for a file to which an administrator has added lines

bool finished(const fs::path& backup) {
  std::error_code error;
  return fs::exists(backup / "CURRENT", error);
}

/// Returns the database's backups in `dir`, oldest first. Ignores symbolic links.
std::vector<fs::path> backups_in(const std::string& dir, const std::string& id) {
  std::vector<fs::path> found;
  std::error_code error, of_entry;
  for (auto at = fs::directory_iterator(dir, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    const bool is_directory = fs::is_directory(at->symlink_status(of_entry));
    if (backup_unix_seconds(at->path().filename(), id) != 0 && is_directory) found.push_back(at->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Creates the directory if it is missing. Does not create its parents, since a missing parent may be a typing error.
Status provide(std::string dir) {
  while (dir.size() > 1 && dir.back() == '/') dir.pop_back();  // with a final '/', a symbolic link would be followed
  std::error_code error;
  const fs::file_status there = fs::symlink_status(dir, error);
  if (fs::is_symlink(there)) {
    return Status::invalid_argument("storage.backup_dir (" + dir + ") is a symbolic link; name the directory itself");
  }
  if (fs::is_directory(there)) return Status::ok();
  if (fs::exists(there)) return Status::invalid_argument("storage.backup_dir (" + dir + ") is not a directory");
  fs::create_directory(dir, error);
  if (!error) fs::permissions(dir, fs::perms::owner_all, error);
  if (error) return Status::io_error("cannot create storage.backup_dir (" + dir + "): " + error.message());
  return Status::ok();
}

bool is_id(const std::string& text) {
  return text.size() == kIdDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

struct Made {
  std::string path;
  std::uint64_t damaged;
};

Result<Made> make(Db& db, const BackupSettings& settings, std::uint64_t now) {
  std::error_code error;
  const fs::path dir = fs::weakly_canonical(settings.dir, error), data = fs::weakly_canonical(settings.data_dir, error);
  if (std::mismatch(data.begin(), data.end(), dir.begin(), dir.end()).first == data.end()) {
    return Status::invalid_argument("storage.backup_dir (" + settings.dir + ") is inside the data directory " +
                                    settings.data_dir + "; backups keep deleted data and must be outside it");
  }
  if (!is_id(settings.id)) return Status::io_error("the data directory has no DATABASE_ID, and it cannot be written");
  TRY(provide(settings.dir));
  std::string path = (dir / backup_name(now, settings.id)).string();
  while (fs::exists(path, error)) path = (dir / backup_name(now += 1000, settings.id)).string();  // names differ by milliseconds
  TRY_ASSIGN(report, db.checkpoint(path));
  return Made{std::move(path), report.damaged};
}

}  // namespace

Result<std::string> database_id(const std::string& data_dir, std::uint64_t random) {
  if (const auto found = read_side_file(data_dir, kIdFile, kMostIdFileBytes); found.is_ok()) {
    if (std::string id = found->substr(0, found->find('\n')); is_id(id)) return id;
  }
  char text[kIdDigits + 2];
  std::snprintf(text, sizeof(text), "%08x\n", static_cast<unsigned>(random & 0xffffffff));
  TRY(write_side_file(data_dir, kIdFile, text));
  return std::string(text, kIdDigits);
}

Result<bool> keep_database_id(const std::string& data_dir, const std::string& id) {
  const auto found = read_side_file(data_dir, kIdFile, kMostIdFileBytes);
  if (found.is_ok() && found->substr(0, found->find('\n')) == id) return false;
  TRY(write_side_file(data_dir, kIdFile, id + "\n"));
  return true;
}

Status remove_older_backups(const std::string& verified, const std::string& id, std::uint64_t keep) {
  std::vector<fs::path> found = backups_in(fs::path(verified).parent_path(), id);
  std::reverse(found.begin(), found.end());
  std::uint64_t kept = 0;
  for (const fs::path& backup : found) {
    // This backup is newer, was not verified, and may be unfinished.
    if (backup.filename() > fs::path(verified).filename()) continue;
    if (finished(backup) && kept++ < keep) continue;
    std::error_code error;
    fs::remove(backup / "CURRENT", error);  // removed first: without CURRENT, a partly removed backup cannot be opened
    fs::remove_all(backup, error);
    if (error) return Status::io_error("cannot remove the old backup " + backup.string() + ": " + error.message());
  }
  return Status::ok();
}

std::string backup_name(std::uint64_t unix_micros, const std::string& id) {
  const auto seconds = static_cast<std::time_t>(unix_micros / kMicros);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char date[32], text[48];
  std::strftime(date, sizeof(date), "%Y-%m-%dT%H-%M-%S", &utc);
  std::snprintf(text, sizeof(text), "%s.%03uZ-", date, static_cast<unsigned>(unix_micros / 1000 % 1000));
  return text + id;
}

std::uint64_t backup_unix_seconds(const std::string& name, const std::string& id) {
  std::tm utc{};
  unsigned millis = 0;
  if (std::sscanf(name.c_str(), "%4d-%2d-%2dT%2d-%2d-%2d.%3uZ", &utc.tm_year, &utc.tm_mon, &utc.tm_mday, &utc.tm_hour,
                  &utc.tm_min, &utc.tm_sec, &millis) != 7) {
    return 0;
  }
  utc.tm_year -= 1900;
  utc.tm_mon -= 1;
  const std::time_t seconds = timegm(&utc);
  if (seconds <= 0 || backup_name(static_cast<std::uint64_t>(seconds) * kMicros + millis * 1000ull, id) != name) return 0;
  return static_cast<std::uint64_t>(seconds);
}

std::uint64_t Backups::newest(const std::string& dir, const std::string& id, std::uint64_t otherwise) {
  for (const fs::path& backup : backups_in(dir, id)) {
    if (finished(backup)) otherwise = backup_unix_seconds(backup.filename(), id);
  }
  return otherwise;
}

Backups::Backups(std::uint64_t last_unix_seconds) { state_.last_unix_seconds = last_unix_seconds; }

bool Backups::begin(std::uint64_t unix_micros) {
  std::lock_guard lock(mutex_);
  if (state_.running_since_micros != 0) return false;
  state_.running_since_micros = unix_micros;
  return true;
}

Result<std::string> Backups::run(Db& db, const BackupSettings& settings, const ServerControl& clock) {
  const std::uint64_t began = clock.unix_micros();
  Result<Made> made = make(db, settings, began);
  std::lock_guard lock(mutex_);
  state_.last_ok = made.is_ok();
  state_.last_took_seconds = static_cast<std::int64_t>((clock.unix_micros() - began) / kMicros);
  state_.running_since_micros = 0;
  if (!made.is_ok()) return made.status();
  state_.last_unix_seconds = began / kMicros;
  state_.last_damaged = made->damaged;
  return std::move(made->path);
}

SaveState Backups::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

}  // namespace ebbtide
