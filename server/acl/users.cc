#include "acl/users.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "store/numbers.h"

namespace ebbtide {
namespace {

constexpr Bytes kDefault = "default";
constexpr Bytes kUserRules = "on, off, nopass, resetpass, >PASSWORD, <PASSWORD, #SHA256, !SHA256, reset, clearselectors, (RULES)";

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool parse_hash(Bytes hex, Sha256* out) {
  if (hex.size() != 2 * out->size()) return false;
  for (std::size_t i = 0; i < out->size(); ++i) {
    const int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    (*out)[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return true;
}

// Returns true if the hashes are equal. The time taken does not show where they differ.
bool same(const Sha256& a, const Sha256& b) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

std::vector<Bytes> words_of(Bytes text) {
  std::vector<Bytes> words;
  while (true) {
    const std::size_t first = text.find_first_not_of(" \t\r");
    if (first == Bytes::npos) return words;
    text.remove_prefix(first);
    const std::size_t end = std::min(text.find_first_of(" \t\r"), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

/// Joins the words of a selector in parentheses. If a parenthesis is not closed, returns nullopt and sets `*open` to the word
/// that opens it.
std::optional<std::vector<std::string>> merged(std::span<const Bytes> words, Bytes* open) {
  std::vector<std::string> out;
  bool inside = false;
  for (const Bytes word : words) {
    if (inside) {
      out.back() += ' ';
      out.back() += word;
      inside = !word.ends_with(')');
      continue;
    }
    out.emplace_back(word);
    inside = word.starts_with('(') && !word.ends_with(')');
    if (inside) *open = word;
  }
  if (inside) return std::nullopt;
  return out;
}

Bytes add_password(const Sha256& hash, User* user) {
  const bool known = std::find(user->passwords.begin(), user->passwords.end(), hash) != user->passwords.end();
  if (!known && user->passwords.size() >= User::kMostPasswords) return "A user can have at most 4096 passwords";
  if (!known) user->passwords.push_back(hash);
  user->any_password = false;
  return {};
}

Bytes remove_password(const Sha256& hash, User* user) {
  if (std::erase(user->passwords, hash) != 0) return {};
  return "The password you are trying to remove from the user does not exist";
}

Bytes apply_password(Bytes rule, User* user) {
  const Bytes rest = rule.substr(1);
  const bool adds = rule[0] == '>' || rule[0] == '#';
  Sha256 hash;
  if (rule[0] == '>' || rule[0] == '<') {
    hash = sha256(rest);
  } else if (!parse_hash(rest, &hash)) {
    return "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters";
  }
  return adds ? add_password(hash, user) : remove_password(hash, user);
}

User full_rights_user(Bytes name) {
  const AclCatalog none;  // the rule allcommands needs no catalog
  User user{.name = std::string(name), .on = true, .any_password = true, .passwords = {}};
  for (const Bytes rule : {"~*", "&*", "+@all"}) (void)user.selectors[0].apply(none, rule);
  return user;
}

}  // namespace

std::string shown_hash(const Sha256& hash) {
  std::string out;
  for (const std::uint8_t byte : hash) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

// --- one user

std::string User::apply(const AclCatalog& commands, Bytes rule) {
  if (rule.empty()) return {};
  if (equal_ignoring_case(rule, "on") || equal_ignoring_case(rule, "off")) {
    on = equal_ignoring_case(rule, "on");
  } else if (equal_ignoring_case(rule, "skip-sanitize-payload") || equal_ignoring_case(rule, "sanitize-payload")) {
    skips_sanitizing = equal_ignoring_case(rule, "skip-sanitize-payload");
  } else if (equal_ignoring_case(rule, "nopass") || equal_ignoring_case(rule, "resetpass")) {
    any_password = equal_ignoring_case(rule, "nopass");
    std::vector<Sha256>().swap(passwords);
  } else if (Bytes("><#!").find(rule[0]) != Bytes::npos) {
    return std::string(apply_password(rule, this));
  } else if (rule[0] == '(' && rule.ends_with(')') && rule.size() > 1) {
    AclSelector selector;
    for (const Bytes word : words_of(rule.substr(1, rule.size() - 2))) {
      if (const Bytes wrong = selector.apply(commands, word); !wrong.empty()) return std::string(wrong);
    }
    selectors.push_back(std::move(selector));
  } else if (equal_ignoring_case(rule, "clearselectors")) {
    selectors.resize(1);
  } else if (equal_ignoring_case(rule, "reset")) {
    *this = User{.name = name, .passwords = {}};
  } else {
    return std::string(selectors[0].apply(commands, rule));
  }
  return {};
}

std::optional<AclVerdict> User::check(const AclRequest& request, AclBudget& budget) const {
  AclVerdict worst{AclDenial::kCommand, 0};
  for (const AclSelector& selector : selectors) {
    const std::optional<AclVerdict> verdict = selector.check(request, budget);
    if (!verdict || verdict->allowed()) return verdict;
    if (verdict->denial > worst.denial || (verdict->denial == worst.denial && verdict->argument > worst.argument))
      worst = *verdict;
  }
  return worst;
}

std::optional<bool> User::allows_channel(Bytes channel, bool is_pattern, AclBudget& budget) const {
  for (const AclSelector& selector : selectors) {
    const std::optional<bool> allowed = selector.allows_channel(channel, is_pattern, budget);
    if (!allowed || *allowed) return allowed;
  }
  return false;
}

bool User::all_channels() const {
  return std::any_of(selectors.begin(), selectors.end(), [](const AclSelector& selector) { return selector.all_channels(); });
}

bool User::unrestricted() const {
  return std::any_of(selectors.begin(), selectors.end(), [](const AclSelector& selector) { return selector.unrestricted(); });
}

bool User::limits_keys() const {
  return std::any_of(selectors.begin(), selectors.end(), [](const AclSelector& selector) { return !selector.all_keys(); });
}

std::string User::text() const {
  std::string text = on ? "on" : "off";
  if (any_password) text += " nopass";
  text += skips_sanitizing ? " skip-sanitize-payload" : " sanitize-payload";
  for (const Sha256& hash : passwords) text += " #" + shown_hash(hash);
  for (std::size_t i = 0; i < selectors.size(); ++i)
    text += i == 0 ? " " + selectors[i].text() : " (" + selectors[i].text() + ")";
  return text;
}

std::uint64_t User::memory_bytes() const {
  constexpr std::uint64_t kNodeBytes = 128;  // estimated memory of a node of the map of users, and of the shared pointer
  std::uint64_t bytes = kNodeBytes + sizeof(*this) + 2 * name.size() + passwords.capacity() * sizeof(Sha256);
  for (const AclSelector& selector : selectors) bytes += selector.memory_bytes();
  return bytes;
}

// --- all users

Users::Users() { put(full_rights_user(kDefault)); }

void Users::put(User user) {
  (void)remove(user.name);
  bytes_ += user.memory_bytes();
  std::string name = user.name;
  users_[std::move(name)] = std::make_shared<const User>(std::move(user));
}

/// Returns the number of removed users, 0 or 1.
std::uint64_t Users::remove(Bytes name) {
  const auto found = users_.find(name);
  if (found == users_.end()) return 0;
  bytes_ -= found->second->memory_bytes();
  users_.erase(found);
  return 1;
}

std::uint64_t Users::most_memory_of(std::span<const Bytes> rules) {
  // Upper bound per rule: a copied string, and a pattern's entries in vectors, with their spare capacity.
  constexpr std::uint64_t kRuleBytes = 3 * sizeof(std::string) + 80;
  std::uint64_t bytes = 0;
  for (const Bytes rule : rules) bytes += kRuleBytes + 2 * rule.size();
  return bytes;
}

const User& Users::default_user() const { return *users_.find(kDefault)->second; }

Result<Users> Users::parse(const std::string& text, const std::string& file, const AclCatalog& commands,
                           std::uint64_t most_bytes) {
  Users out;
  std::map<std::string, int> lines;
  int number = 0;
  for (Bytes rest = text; !rest.empty();) {
    ++number;
    const Bytes row = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(row.size() + 1, rest.size()));
    const auto wrong = [&](const std::string& why) {
      return Status::invalid_argument(file + ":" + std::to_string(number) + ": " + why);
    };
    const std::vector<Bytes> words = words_of(row);
    if (words.empty() || words[0].starts_with('#')) continue;
    if (words[0] != "user" || words.size() < 2) return wrong("expected 'user NAME RULE ...'");
    User user{.name = std::string(words[1]), .passwords = {}};
    if (user.name.find('\0') != std::string::npos) return wrong("the name of a user has a zero byte");
    if (const auto [known, added] = lines.emplace(user.name, number); !added) {
      return wrong("user " + user.name + " is in line " + std::to_string(known->second) + " already");
    }
    Bytes open;
    const auto rules = merged(std::span(words).subspan(2), &open);
    if (!rules) return wrong("the parenthesis of '" + std::string(open) + "' is not closed");
    for (const std::string& rule : *rules) {
      const std::string why = user.apply(commands, rule);
      if (why.empty()) continue;
      const bool secret = Bytes("><#!").find(rule[0]) != Bytes::npos;
      return wrong("the rule " + (secret ? rule.substr(0, 1) : "'" + rule + "'") + ": " + why + "; allowed are " +
                   std::string(kUserRules) + ", " + std::string(AclSelector::kAllowed));
    }
    if (user.name == kDefault) out.default_from_ = file;
    out.put(std::move(user));
    if (out.bytes_ > most_bytes) {
      return wrong("the users up to this line take " + std::to_string(out.bytes_) + " bytes of memory, and " +
                   std::to_string(most_bytes) + " are allowed; raise storage.memory_budget, or remove users or rules");
    }
  }
  return out;
}

Result<Users> Users::with_default_password(Bytes password) const {
  Users out = *this;
  if (password.empty()) return out;
  if (default_from_.empty()) {
    User user = full_rights_user(kDefault);
    (void)add_password(sha256(password), &user);
    out.put(std::move(user));
    return out;
  }
  const User& user = default_user();
  if (user.on && user.passwords == std::vector{sha256(password)}) return out;
  return Status::invalid_argument("a password and the user default in " + default_from_ +
                                  " are both set; only one of them is allowed");
}

Result<Users> Users::with_changed_password(Bytes password) const {
  if (!default_from_.empty()) return with_default_password(password);
  Users out = *this;
  User user = default_user();
  user.passwords.clear();
  user.any_password = true;
  if (!password.empty()) (void)add_password(sha256(password), &user);
  out.put(std::move(user));
  return out;
}

Result<Users> Users::with_rules(Bytes name, std::span<const Bytes> rules, const AclCatalog& commands) const {
  if (name.find_first_of(Bytes(" \t\n\v\f\r\0", 7)) != Bytes::npos) {
    return Status::invalid_argument("ERR Usernames can't contain spaces or null characters");
  }
  Bytes open;
  const auto all = merged(rules, &open);
  if (!all) return Status::invalid_argument("ERR Unmatched parenthesis in acl selector starting at '" + std::string(open) + "'.");
  const auto known = users_.find(name);
  User user = known == users_.end() ? User{.name = std::string(name), .passwords = {}} : *known->second;
  for (const std::string& rule : *all) {
    const std::string why = user.apply(commands, rule);
    if (!why.empty()) return Status::invalid_argument("ERR Error in ACL SETUSER modifier '" + rule + "': " + why);
  }
  Users out = *this;
  out.put(std::move(user));
  return out;
}

Result<Users> Users::without(std::span<const Bytes> names, std::uint64_t* removed) const {
  *removed = 0;
  Users out = *this;
  for (const Bytes name : names) {
    if (name == kDefault) return Status::invalid_argument("ERR The 'default' user cannot be removed");
  }
  for (const Bytes name : names) *removed += out.remove(name);
  return out;
}

std::shared_ptr<const User> Users::find(Bytes name) const {
  const auto found = users_.find(name);
  return found == users_.end() ? nullptr : found->second;
}

bool Users::check(Bytes name, Bytes password) const {
  static const User kNobody{.name = "", .passwords = {Sha256{}}};
  const auto found = users_.find(name);
  const User& user = found == users_.end() ? kNobody : *found->second;
  const Sha256 hash = sha256(password);
  bool right = user.any_password;
  for (const Sha256& each : user.passwords) right |= same(each, hash);
  return user.on && right;
}

bool Users::password_required() const { return !default_user().on || !default_user().any_password; }

Status Users::for_each(const std::function<Status(const User&)>& f) const {
  for (const auto& [name, user] : users_) TRY(f(*user));
  return Status::ok();
}

std::vector<std::string> Users::names() const {
  std::vector<std::string> out;
  for (const auto& [name, user] : users_) out.push_back(name);
  return out;
}

std::vector<std::string> Users::lines() const {
  std::vector<std::string> out;
  for (const auto& [name, user] : users_) out.push_back(line_of(*user));
  return out;
}

Result<std::string> Users::file_text(Bytes configured_password) const {
  bool skips_default = false;
  if (!configured_password.empty()) {
    User plain = full_rights_user(kDefault);
    (void)add_password(sha256(configured_password), &plain);
    if (!default_user().on || default_user().passwords != plain.passwords) {
      return Status::invalid_argument(
          "the user default has a password other than the configured one (server.password), so the next start would refuse the "
          "file; remove one of them");
    }
    skips_default = default_user().text() == plain.text();
  }
  std::string text;
  for (const auto& [name, user] : users_) {
    if (name != kDefault || !skips_default) text += "user " + name + " " + user->text() + "\n";
  }
  return text;
}

std::vector<std::string> Users::names_changed_in(const Users& other) const {
  std::vector<std::string> out;
  for (const auto& [name, user] : users_) {
    const auto found = other.users_.find(name);
    if (found == other.users_.end() || !(*found->second == *user)) out.push_back(name);
  }
  return out;
}

}  // namespace ebbtide
