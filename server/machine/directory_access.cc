#include "machine/directory_access.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

namespace ebbtide {
namespace {

std::string user_text(uid_t user) {
  char buffer[4096];
  passwd entry{};
  passwd* found = nullptr;
  const std::string number = "user " + std::to_string(user);
  if (::getpwuid_r(user, &entry, buffer, sizeof(buffer), &found) != 0 || found == nullptr) return number;
  return number + " (" + found->pw_name + ")";
}

bool usable(const std::string& path) { return ::faccessat(AT_FDCWD, path.c_str(), R_OK | W_OK | X_OK, AT_EACCESS) == 0; }

std::string parent_of(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// Returns the directory that decides if the process can use `directory`, and sets `status` to its owner and mode. It is
/// `directory` itself, or its parent if `directory` is missing. If a directory on the path cannot be entered, sets `hidden`, and
/// returns the last one that can be examined. Returns "" in all other cases.
std::string nearest(const std::string& directory, struct stat* status, bool* hidden) {
  std::string place = directory;
  while (::stat(place.c_str(), status) != 0) {
    const bool missing = errno == ENOENT && place == directory;
    if ((!missing && errno != EACCES) || place == "/" || place == ".") return {};
    *hidden |= errno == EACCES;
    place = parent_of(place);
  }
  return place;
}

std::string own_user_and_group() { return std::to_string(::geteuid()) + ":" + std::to_string(::getegid()); }

std::string octal(mode_t mode) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "%04o", static_cast<unsigned>(mode) & 07777);
  return text.data();
}

/// Returns the reason and the remedy if a file attribute forbids changes even to root; otherwise "".
std::string protection_of(const std::string& path) {
  struct statx info {};
  if (::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &info) != 0) return {};
  if ((info.stx_attributes & STATX_ATTR_IMMUTABLE) != 0) return path + " has the attribute immutable: chattr -i " + path;
  if ((info.stx_attributes & STATX_ATTR_APPEND) != 0) return path + " has the attribute append-only: chattr -a " + path;
  return {};
}

/// Returns "" if this process may read and write the file; otherwise the reason and the remedy.
std::string why_file_unusable(const std::string& path) {
  if (std::string why = protection_of(path); !why.empty()) return why;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || ::faccessat(AT_FDCWD, path.c_str(), R_OK | W_OK, AT_EACCESS) == 0) return {};
  if (status.st_uid == ::geteuid()) {
    return path + " belongs to this process's " + user_text(status.st_uid) + ", but its mode " + octal(status.st_mode) +
           " lacks rights: chmod u+rw " + path;
  }
  return path + " belongs to " + user_text(status.st_uid) + ", its mode is " + octal(status.st_mode) + ", and this process is " +
         user_text(::geteuid()) + ": chown " + own_user_and_group() + " " + path;
}

/// Returns the reason and the remedy for the file in `directory` that `text` names, or for `directory` itself; "" if this process
/// may use both.
std::string why_named_file_unusable(const std::string& text, const std::string& directory) {
  std::error_code error;
  for (auto at = std::filesystem::directory_iterator(directory, error); !error && at != std::filesystem::directory_iterator();
       at.increment(error)) {
    const std::string path = at->path().string();
    const std::size_t found = text.find(path);
    if (found == std::string::npos || text.substr(found + path.size(), 1).find_first_of(": ") != 0) continue;
    if (std::string why = why_file_unusable(path); !why.empty()) return why;
  }
  const std::string why = protection_of(directory);
  return why.empty() ? why_unusable(directory) : why;
}

}  // namespace

std::string remedy_for(const std::string& error, const std::string& directory, std::uint64_t file_limit) {
  const auto has = [&](int number) { return error.find(": " + std::generic_category().message(number)) != std::string::npos; };
  if (has(EACCES) || has(EPERM)) return why_named_file_unusable(error, directory);
  if (has(ENFILE)) return "the machine's limit of open files is reached: raise it (sysctl fs.file-max)";
  if (has(EMFILE)) {
    return "this process may open " + std::to_string(file_limit) +
           " files: raise the limit (LimitNOFILE of the service, or ulimit -n)";
  }
  if (has(ENOMEM)) return "the machine, or the control group of this process, has no memory left: give it more";
  if (has(EROFS)) return directory + " is on a file system that is mounted read-only: mount it writable";
  if (has(ENOSPC) || has(EDQUOT)) return "free space on the file system of " + directory + ", or raise the quota";
  if (has(EIO) || has(EUCLEAN) || has(EBADMSG)) {
    return "the drive or its file system fails: see the kernel's log (dmesg), and check the file system. If the file stays "
           "unreadable, restore a backup, or save the rest of the data: ebbtide-inspect salvage " +
           directory + " NEW-DIRECTORY";
  }
  return {};
}

std::string exposed_directory(const std::string& directory) {
  struct stat status {};
  if (::stat(directory.c_str(), &status) != 0 || (status.st_mode & (S_IWOTH | S_ISVTX)) != S_IWOTH) return {};
  return directory + " has the mode " + octal(status.st_mode) +
         ": every user of this machine may remove and replace the database's files. chmod 700 " + directory;
}

std::string why_unusable(const std::string& directory) {
  struct stat status {};
  bool hidden = false;
  const std::string place = nearest(directory, &status, &hidden);
  if (place.empty() || usable(place)) return {};
  const int error = errno;
  if (std::string protection = protection_of(place); error == EPERM && !protection.empty()) return protection;
  if (error == EROFS) {
    return place + " is on a file system that is mounted read-only: mount it writable, or set storage.dir to another directory";
  }
  if (error != EACCES || !S_ISDIR(status.st_mode)) return {};
  const std::string own = own_user_and_group();
  if (status.st_uid == ::geteuid()) {
    return place + " belongs to this process's " + user_text(status.st_uid) + ", but its mode lacks rights: chmod u+rwx " + place;
  }
  const std::string users = place + " belongs to " + user_text(status.st_uid) + ", and this process is " + user_text(::geteuid());
  if (hidden) return users + ", which may not enter it: set storage.dir to a directory that it may use";
  if (place == directory) return users + ", which may not write to it: chown -R " + own + " " + place;
  return users + ", which may not create " + directory + " in it: chown " + own + " " + place +
         " if it is a volume of this server, or set storage.dir to a directory that it may use";
}

}  // namespace ebbtide
