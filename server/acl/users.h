// Users: their passwords, and their rights.
//
// A file of users has Redis's form, a user a line; empty lines and lines that begin with # are skipped:
//
//     user default off
//     user alice on >a-password ~alice:* &* +@all -@dangerous
//     user bob on #9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 %R~* resetchannels +@read (~bob:* +set)
//
// `on` lets a user log in, `off` does not. >TEXT and #SHA256 (64 hex digits) add a password; a user may have several. <TEXT and
// !SHA256 remove one; `nopass` accepts any password, `resetpass` none. Rules outside of parentheses belong to the user's first
// selector (selector.h); each pair of parentheses is one more selector. `clearselectors` removes the selectors in parentheses,
// `reset` removes everything. Rules apply in order. A new user is off, has no password and may do nothing.
//
// Payloads of RESTORE are always checked, so `sanitize-payload` and `skip-sanitize-payload` are stored but have no effect.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <engine/result.h>
#include "acl/selector.h"
#include "acl/sha256.h"

namespace ebbtide {

/// One user. A value type; const members are thread-safe.
struct User {
  std::string name;
  bool on = false;
  bool any_password = false;
  bool skips_sanitizing = false;
  std::vector<Sha256> passwords;  ///< hashes of the passwords, in the order in which they were added
  /// The first selector belongs to the user itself (no parentheses); never empty.
  std::vector<AclSelector> selectors{AclSelector()};
  friend bool operator==(const User&, const User&) = default;

  /// Applies one rule. Returns "" on success. Otherwise returns Redis's text for the error, which never has a password, and
  /// changes nothing.
  std::string apply(const AclCatalog& commands, Bytes rule);
  /// Returns whether a selector allows the command. If none does, the verdict has the most specific right that is lacking.
  /// nullopt: the budget is used up.
  [[nodiscard]] std::optional<AclVerdict> check(const AclRequest& request, AclBudget& budget) const;
  /// Returns true if a selector allows a subscription; nullopt if the budget is used up.
  [[nodiscard]] std::optional<bool> allows_channel(Bytes channel, bool is_pattern, AclBudget& budget) const;
  /// Returns true if a selector allows all channels.
  [[nodiscard]] bool all_channels() const;
  /// Returns true if a selector allows everything, so that no check can fail.
  [[nodiscard]] bool unrestricted() const;
  /// Returns true if a check needs the keys of commands.
  [[nodiscard]] bool limits_keys() const;
  /// Returns the rules in one line, as in the file, with passwords as their hashes.
  [[nodiscard]] std::string text() const;
  /// Returns the estimated memory of the user and its rules, in bytes.
  [[nodiscard]] std::uint64_t memory_bytes() const;
  static constexpr std::size_t kMostPasswords = 4096;  ///< limited since each AUTH compares its password with all of them
};

/// Returns the hex digits of a hash, in lower case.
std::string shown_hash(const Sha256& hash);

/// All users. A value type; const members are thread-safe.
class Users {
 public:
  /// Makes only the user "default", which accepts any password and may do everything. So no client has to authenticate.
  Users();
  /// All users together take at most 1 / kBudgetPart of the memory budget.
  static constexpr std::uint64_t kBudgetPart = 8;

  /// Parses a file of users, which may take `most_bytes` of memory. If the file does not define "default", that user is as in
  /// Users(). kInvalidArgument names the file, the line, and what is allowed.
  static Result<Users> parse(const std::string& text, const std::string& file, const AclCatalog& commands,
                             std::uint64_t most_bytes = ~std::uint64_t{0});

  /// Returns a copy in which "default" has this password only; an unchanged copy if `password` is empty. kInvalidArgument if the
  /// users file gives "default" another password.
  [[nodiscard]] Result<Users> with_default_password(Bytes password) const;
  /// Like with_default_password(), after the configured password has changed; "" removes the password. "default" keeps its
  /// rights.
  [[nodiscard]] Result<Users> with_changed_password(Bytes password) const;
  /// Returns a copy in which a user has further rules; creates the user if it is missing. kInvalidArgument: a rule or the name is
  /// invalid; the message is Redis's reply to ACL SETUSER.
  [[nodiscard]] Result<Users> with_rules(Bytes name, std::span<const Bytes> rules, const AclCatalog& commands) const;
  /// Returns an upper bound of the memory that these rules take, while they are applied and afterwards.
  static std::uint64_t most_memory_of(std::span<const Bytes> rules);
  /// Returns a copy without these users, and sets `removed` to how many of them existed. kInvalidArgument: "default" cannot be
  /// removed.
  [[nodiscard]] Result<Users> without(std::span<const Bytes> names, std::uint64_t* removed) const;

  /// Returns the user; null if no user has this name.
  [[nodiscard]] std::shared_ptr<const User> find(Bytes name) const;
  /// Returns true if the user may log in with the password. The time taken does not reveal if the user exists, or how much of the
  /// password is right.
  [[nodiscard]] bool check(Bytes name, Bytes password) const;
  /// Returns the estimated memory of all users, in bytes.
  [[nodiscard]] std::uint64_t memory_bytes() const { return bytes_; }
  /// Returns the number of users.
  [[nodiscard]] std::size_t size() const { return users_.size(); }
  /// Calls `f` for each user, ordered by name. Stops at the first error of `f`, and returns it.
  Status for_each(const std::function<Status(const User& user)>& f) const;
  /// Returns true if a new connection must authenticate.
  [[nodiscard]] bool password_required() const;
  /// Returns the names, in order.
  [[nodiscard]] std::vector<std::string> names() const;
  /// Returns a line for each user, as in the file, with passwords as their hashes; ordered by name.
  [[nodiscard]] std::vector<std::string> lines() const;
  /// Returns the line of one user, as lines() has it.
  [[nodiscard]] static std::string line_of(const User& user) { return "user " + user.name + " " + user.text(); }
  /// Returns the text of a users file. parse() and the configured password restore these users from it. It has no line for
  /// "default" if that user has nothing but the configured password. kInvalidArgument: "default" has another password.
  [[nodiscard]] Result<std::string> file_text(Bytes configured_password) const;
  /// Returns the names of users that `other` does not have, or has with other rules or passwords.
  [[nodiscard]] std::vector<std::string> names_changed_in(const Users& other) const;

 private:
  void put(User user);
  std::uint64_t remove(Bytes name);
  [[nodiscard]] const User& default_user() const;

  std::map<std::string, std::shared_ptr<const User>, std::less<>> users_;  ///< always has "default"
  std::uint64_t bytes_ = 0;                                                ///< memory of users_
  std::string default_from_;                                               ///< the file that defines "default"; "" = none
};

}  // namespace ebbtide
