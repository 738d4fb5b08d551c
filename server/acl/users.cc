#include "acl/users.h"

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <utility>

namespace ebbtide {
namespace {

constexpr Bytes kDefault = "default";
constexpr Bytes kRules = "on, off, nopass, >PASSWORD, #SHA256, ~*, &*, +@all";

/// The parsed line of a user.
struct Line {
  std::string name;
  User user;
  bool all_keys = false, all_channels = false, all_commands = false;
};

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

std::string shown_hash(const Sha256& hash) {
  std::string out;
  for (const std::uint8_t byte : hash) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

// Takes the same time for any position of a difference.
bool same(const Sha256& a, const Sha256& b) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

/// Returns "" or the fault of the rule. Never contains a password.
std::string apply_rule(const std::string& rule, Line* line) {
  const Bytes rest = Bytes(rule).substr(1);
  if (rule == "on" || rule == "off") {
    line->user.on = rule == "on";
  } else if (rule == "nopass") {
    line->user.any_password = true;
  } else if (rule[0] == '>' && !rest.empty()) {
    line->user.passwords.push_back(sha256(rest));
  } else if (rule[0] == '#') {
    Sha256 hash;
    if (!parse_hash(rest, &hash)) return "# is followed by a SHA-256, 64 hex digits in lower case";
    line->user.passwords.push_back(hash);
  } else if (rule == "~*" || rule == "allkeys") {
    line->all_keys = true;
  } else if (rule == "&*" || rule == "allchannels") {
    line->all_channels = true;
  } else if (rule == "+@all" || rule == "allcommands") {
    line->all_commands = true;
  } else if (rule != "sanitize-payload" && rule != "skip-sanitize-payload") {  // Redis writes them; payloads are always checked
    return (rule[0] == '>' || rule[0] == '<' ? "the rule " + rule.substr(0, 1) : "the rule '" + rule + "'") +
           " is not known; allowed are " + std::string(kRules);
  }
  return {};
}

/// Returns "" or the fault of the line.
std::string parse_line(const std::string& text, Line* line) {
  std::istringstream words(text);
  std::string word;
  words >> word;
  if (word != "user" || !(words >> line->name)) return "expected 'user NAME RULE ...'";
  while (words >> word) {
    if (std::string wrong = apply_rule(word, line); !wrong.empty()) return wrong;
  }
  const User& user = line->user;
  const auto of_user = [line](const char* what) { return "user " + line->name + what; };
  if (user.any_password && !user.passwords.empty()) return of_user(" has nopass and a password; only one of them is allowed");
  if (!user.on) return {};
  if (!user.any_password && user.passwords.empty()) return of_user(" is on and has no password: >PASSWORD, #SHA256 or nopass");
  if (!line->all_keys || !line->all_channels || !line->all_commands) {
    return of_user(" is on and needs ~* &* +@all: all users have the same rights");
  }
  return {};
}

}  // namespace

Users::Users() { users_[std::string(kDefault)] = {.on = true, .any_password = true, .passwords = {}}; }

Result<Users> Users::parse(const std::string& text, const std::string& file) {
  Users out;
  std::map<std::string, int> lines;
  std::istringstream in(text);
  int number = 0;
  for (std::string row; std::getline(in, row);) {
    ++number;
    const std::size_t first = row.find_first_not_of(" \t\r");
    if (first == std::string::npos || row[first] == '#') continue;
    Line line;
    std::string wrong = parse_line(row, &line);
    if (wrong.empty() && !lines.emplace(line.name, number).second) {
      wrong = "user " + line.name + " is in line " + std::to_string(lines[line.name]) + " already";
    }
    if (!wrong.empty()) return Status::invalid_argument(file + ":" + std::to_string(number) + ": " + wrong);
    if (line.name == kDefault) out.default_from_ = file;
    out.users_[line.name] = std::move(line.user);
  }
  return out;
}

Result<Users> Users::with_default_password(Bytes password) const {
  Users out = *this;
  if (password.empty()) return out;
  if (!default_from_.empty()) {
    return Status::invalid_argument("a password and the user default in " + default_from_ +
                                    " are both set; only one of them is allowed");
  }
  out.users_[std::string(kDefault)] = {.on = true, .any_password = false, .passwords = {sha256(password)}};
  return out;
}

bool Users::check(Bytes name, Bytes password) const {
  static const User kNobody{.on = false, .any_password = false, .passwords = {Sha256{}}};
  const auto found = users_.find(name);
  const User& user = found == users_.end() ? kNobody : found->second;
  const Sha256 hash = sha256(password);
  bool right = user.any_password;
  for (const Sha256& each : user.passwords) right |= same(each, hash);
  return user.on && right;
}

bool Users::password_required() const {
  const User& user = users_.find(kDefault)->second;
  return !user.on || !user.any_password;
}

std::vector<std::string> Users::lines() const {
  std::vector<std::string> out;
  for (const auto& [name, user] : users_) {
    std::string line = "user " + name + (user.on ? " on" : " off") + (user.any_password ? " nopass" : "") + " sanitize-payload";
    for (const Sha256& hash : user.passwords) line += " #" + shown_hash(hash);
    out.push_back(line + " ~* &* +@all");
  }
  return out;
}

std::vector<std::string> Users::names_changed_in(const Users& other) const {
  std::vector<std::string> out;
  for (const auto& [name, user] : users_) {
    const auto found = other.users_.find(name);
    if (found == other.users_.end() || !(found->second == user)) out.push_back(name);
  }
  return out;
}

}  // namespace ebbtide
