#include "machine/directory_access.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

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

/// Returns the nearest directory that exists and that the process may look at: `directory`, its parent if it is missing, or an
/// ancestor if a directory in between cannot be entered (then `hidden` is set); "" if there is none. Sets `status` to its owner
/// and mode.
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

}  // namespace

std::string why_unusable(const std::string& directory) {
  struct stat status {};
  bool hidden = false;
  const std::string place = nearest(directory, &status, &hidden);
  if (place.empty() || usable(place)) return {};
  const int error = errno;
  if (error == EROFS) {
    return place + " is on a file system that is mounted read-only: mount it writable, or set storage.dir to another directory";
  }
  if (error != EACCES || !S_ISDIR(status.st_mode)) return {};
  const std::string own = std::to_string(::geteuid()) + ":" + std::to_string(::getegid());
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
