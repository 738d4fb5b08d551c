// Users and their passwords.
//
// A file of users has Redis's form, a user a line; empty lines and lines that begin with # are skipped:
//
//     user default off
//     user alice on >a-password ~* &* +@all
//     user bob on #9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 ~* &* +@all
//
// A user with `on` may log in, one with `off` may not. >TEXT and #SHA256 (64 hex digits) are passwords, each of which is
// accepted; `nopass` accepts any password. All users have the same rights. A user that is on must have all keys (~*), all
// channels (&*) and all commands (+@all), so that a file that restricts a user is refused instead of misread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <engine/result.h>
#include "acl/sha256.h"

namespace ebbtide {

struct User {
  bool on = false;
  bool any_password = false;
  std::vector<Sha256> passwords;
  friend bool operator==(const User&, const User&) = default;
};

/// A value; const members are thread-safe.
class Users {
 public:
  /// Only "default", which accepts any password, so that no client has to authenticate.
  Users();
  /// kInvalidArgument names file, line, and what is allowed. A file that does not name "default" leaves that user as above.
  static Result<Users> parse(const std::string& text, const std::string& file);

  /// A copy in which "default" needs this password, unless it is empty. kInvalidArgument if a file defines "default" too.
  [[nodiscard]] Result<Users> with_default_password(Bytes password) const;

  /// Takes the same time for unknown users, and for any position of a difference in the password.
  [[nodiscard]] bool check(Bytes name, Bytes password) const;
  /// True if a new connection must authenticate.
  [[nodiscard]] bool password_required() const;
  /// A line for each user, as in the file, with passwords as their hashes; by name.
  [[nodiscard]] std::vector<std::string> lines() const;
  /// Names of users of this set that `other` does not have, or that differ there.
  [[nodiscard]] std::vector<std::string> names_changed_in(const Users& other) const;

 private:
  std::map<std::string, User, std::less<>> users_;  ///< always has "default"
  std::string default_from_;                        ///< the file that defines "default"; "" = none
};

}  // namespace ebbtide
