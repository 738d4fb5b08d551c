#include "acl/selector.h"

#include <algorithm>
#include <utility>

#include "store/numbers.h"

namespace ebbtide {
namespace {

// Redis's error texts.
constexpr Bytes kUnknown = "Unknown command or category name in ACL";
constexpr Bytes kSyntax = "Syntax error";
constexpr Bytes kKeysAfterAll =
    "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to "
    "start with an empty list of patterns";
constexpr Bytes kChannelsAfterAll =
    "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try "
    "'resetchannels' to start with an empty list of channels";
constexpr Bytes kOfSubcommand = "Allowing first-arg of a subcommand is not supported";

// Error texts of limits that only this server has.
constexpr Bytes kTooManyPatterns = "A selector can have at most 16384 patterns of keys, and as many of channels";
constexpr Bytes kTooManyFirstArguments = "A selector can have at most 4096 allowed first arguments";

// Returns true if a text has whitespace. Rules are separated by it, so a pattern must not have any.
bool has_blanks(Bytes text) { return text.find_first_of(Bytes(" \t\n\v\f\r\0", 7)) != Bytes::npos; }

bool is_one_of(Bytes rule, Bytes a, Bytes b) { return equal_ignoring_case(rule, a) || equal_ignoring_case(rule, b); }

void append_word(std::string* text, const std::string& word) {
  if (!text->empty()) *text += ' ';
  *text += word;
}

/// Returns the heap memory of a string, rounded up as the allocator does.
std::uint64_t heap_bytes(const std::string& text) {
  static const std::size_t inside = std::string().capacity();
  return text.capacity() > inside ? text.capacity() + 16 : 0;
}

}  // namespace

Bytes AclSelector::apply(const AclCatalog& commands, Bytes rule) {
  if (rule.empty()) return {};
  if (is_one_of(rule, "allcommands", "+@all")) return set_all_commands(true), Bytes();
  if (is_one_of(rule, "nocommands", "-@all")) return set_all_commands(false), Bytes();
  if (is_one_of(rule, "allkeys", "~*") || equal_ignoring_case(rule, "resetkeys")) {
    all_keys_ = !equal_ignoring_case(rule, "resetkeys");
    keys_.clear();
    return {};
  }
  if (is_one_of(rule, "allchannels", "&*") || equal_ignoring_case(rule, "resetchannels")) {
    all_channels_ = !equal_ignoring_case(rule, "resetchannels");
    channels_.clear();
    return {};
  }
  const Bytes rest = rule.substr(1);
  switch (rule[0]) {
    case '~':
    case '%':
      return apply_keys(rule);
    case '&':
      return apply_channels(rest);
    case '+':
    case '-':
      return rest.starts_with('@') ? apply_category(commands, rest.substr(1), rule[0] == '+')
                                   : apply_command(commands, rest, rule[0] == '+');
    default:
      return kSyntax;
  }
}

Bytes AclSelector::apply_keys(Bytes rule) {
  if (all_keys_) return kKeysAfterAll;
  std::uint8_t access = rule[0] == '~' ? kAclRead | kAclWrite : 0;
  std::size_t at = 1;
  for (; rule[0] == '%'; ++at) {
    const char c = at < rule.size() ? rule[at] : '\0';
    if (c == '~' && access != 0) break;
    const std::uint8_t bit = c == 'R' || c == 'r' ? kAclRead : c == 'W' || c == 'w' ? kAclWrite : 0;
    if (bit == 0 || (access & bit) != 0) return kSyntax;
    access |= bit;
  }
  const Bytes pattern = rule.substr(rule[0] == '%' ? at + 1 : at);
  if (has_blanks(pattern)) return kSyntax;
  if (keys_.size() >= kMostPatterns && !keys_.contains(pattern)) return kTooManyPatterns;
  keys_.add(pattern, access);
  return {};
}

Bytes AclSelector::apply_channels(Bytes pattern) {
  if (all_channels_) return kChannelsAfterAll;
  if (has_blanks(pattern)) return kSyntax;
  if (channels_.size() >= kMostPatterns && !channels_.contains(pattern)) return kTooManyPatterns;
  channels_.add(pattern, 0);
  return {};
}

Bytes AclSelector::apply_command(const AclCatalog& commands, Bytes name, bool allow) {
  if (const std::size_t bar = name.rfind('|'); allow && bar != Bytes::npos) return apply_first_argument(commands, name, bar);
  const auto command = commands.find(name);
  if (!command) return kUnknown;
  set_command(commands, *command, allow);
  note_rule(commands.commands()[*command].name, allow);
  return {};
}

// Applies a rule with a bar: +config|get allows a subcommand, +select|0 a first argument.
Bytes AclSelector::apply_first_argument(const AclCatalog& commands, Bytes name, std::size_t bar) {
  const auto command = commands.find(name.substr(0, bar));
  if (!command) return kUnknown;
  const AclCatalog::Command& named = commands.commands()[*command];
  if (named.container) return kOfSubcommand;
  if (bar + 1 == name.size()) return kSyntax;
  if (named.subcommands.empty()) {
    if (rules_.size() >= kMostFirstArguments) return kTooManyFirstArguments;
    auto& arguments = first_arguments_[*command];
    std::string argument = to_lower(name.substr(bar + 1));
    if (std::find(arguments.begin(), arguments.end(), argument) == arguments.end()) arguments.push_back(std::move(argument));
  } else {
    const auto subcommand = commands.find(name);
    if (!subcommand) return kUnknown;
    set_command(commands, *subcommand, true);
  }
  note_rule(name, true);
  return {};
}

Bytes AclSelector::apply_category(const AclCatalog& commands, Bytes name, bool allow) {
  const auto category = acl_category(name);
  if (!category) return kUnknown;
  for (std::size_t i = 0; i < commands.commands().size(); ++i) {
    if ((commands.commands()[i].categories >> *category & 1) != 0) set_command(commands, static_cast<std::uint32_t>(i), allow);
  }
  note_rule("@" + std::string(kAclCategories[*category]), allow);
  return {};
}

void AclSelector::set_all_commands(bool allow) {
  all_commands_ = began_with_all_ = allow;
  exceptions_.clear();
  rules_.clear();
  first_arguments_.clear();
}

void AclSelector::set_command(const AclCatalog& commands, std::uint32_t command, bool allow) {
  set_bit(command, allow);
  first_arguments_.erase(command);
  for (const std::uint32_t subcommand : commands.commands()[command].subcommands) set_bit(subcommand, allow);
}

void AclSelector::set_bit(std::uint32_t command, bool allow) {
  if (exceptions_.size() <= command / 64) exceptions_.resize(command / 64 + 1);
  const std::uint64_t bit = std::uint64_t{1} << (command % 64);
  if (allow != began_with_all_) {
    exceptions_[command / 64] |= bit;
  } else {
    exceptions_[command / 64] &= ~bit;
  }
  if (!allow) all_commands_ = false;
}

// Stores a rule. It replaces earlier rules of the same command or category, and those of the command's subcommands and first
// arguments.
void AclSelector::note_rule(Bytes name, bool allow) {
  const std::string lower = to_lower(name);
  std::erase_if(rules_, [&](const std::string& rule) {
    const Bytes earlier = Bytes(rule).substr(1);
    return earlier.starts_with(lower) && (earlier.size() == lower.size() || earlier[lower.size()] == '|');
  });
  rules_.push_back((allow ? "+" : "-") + lower);
}

std::uint64_t AclSelector::memory_bytes() const {
  constexpr std::uint64_t kNodeBytes = 96;  // estimated memory of a node of the map
  std::uint64_t bytes = sizeof(*this) + exceptions_.capacity() * sizeof(exceptions_[0]);
  const auto of_texts = [](const std::vector<std::string>& texts) {
    std::uint64_t sum = texts.capacity() * sizeof(std::string);
    for (const std::string& text : texts) sum += heap_bytes(text);
    return sum;
  };
  bytes += of_texts(rules_);
  for (const AclPatternSet* const set : {&keys_, &channels_}) {
    bytes += set->memory_bytes();
    for (const AclPatternSet::Pattern& pattern : set->all()) bytes += heap_bytes(pattern.text);
  }
  for (const auto& [command, arguments] : first_arguments_) bytes += kNodeBytes + of_texts(arguments);
  return bytes;
}

// --- checks

std::optional<bool> AclSelector::allows_command(const AclRequest& request, AclBudget& budget) const {
  if (all_commands_ || request.always_allowed || has_bit(request.command)) return true;
  const auto found = first_arguments_.find(request.command);
  if (found == first_arguments_.end() || request.arguments.size() < 2) return false;
  const Bytes argument = request.arguments[1];
  for (const std::string& allowed : found->second) {
    if (!budget.take(allowed.size() == argument.size() ? 1 + argument.size() : 1)) return std::nullopt;
    if (equal_ignoring_case(allowed, argument)) return true;
  }
  return false;
}

std::optional<bool> AclSelector::allows_channel(Bytes channel, bool is_pattern, AclBudget& budget) const {
  if (all_channels_) return true;
  if (!is_pattern) return channels_.matches(channel, 0, budget);
  if (!budget.take(channels_.steps_of_contains(channel))) return std::nullopt;
  return channels_.contains(channel);
}

std::optional<AclVerdict> AclSelector::check(const AclRequest& request, AclBudget& budget) const {
  // Returns true if the check ends here. Then sets `*verdict` to the denial, or leaves it empty if the budget is used up.
  const auto ends = [](std::optional<bool> allowed, AclDenial denial, std::size_t argument, std::optional<AclVerdict>* verdict) {
    if (allowed && *allowed) return false;
    if (allowed) *verdict = AclVerdict{denial, argument};
    return true;
  };
  std::optional<AclVerdict> verdict;
  if (!budget.take(1) || ends(allows_command(request, budget), AclDenial::kCommand, 0, &verdict)) return verdict;
  if (!all_keys_) {
    for (const AclRequest::Key& key : request.keys) {
      const auto allowed = keys_.matches(request.arguments[key.argument], key.access, budget);
      if (ends(allowed, AclDenial::kKey, key.argument, &verdict)) return verdict;
    }
    if (const AclRequest::Range* range = request.range; range != nullptr) {
      const auto allowed = keys_.covers(range->keys, range->access, budget);
      if (ends(allowed, AclDenial::kKey, range->argument, &verdict)) return verdict;
    }
  }
  for (std::size_t i = request.channels.first; !all_channels_ && i < request.channels.end; ++i) {
    const auto allowed = allows_channel(request.arguments[i], request.channels.patterns, budget);
    if (ends(allowed, AclDenial::kChannel, i, &verdict)) return verdict;
  }
  return AclVerdict{};
}

// --- texts

std::string AclSelector::commands_text() const {
  std::string text = began_with_all_ ? "+@all" : "-@all";
  for (const std::string& rule : rules_) append_word(&text, rule);
  return text;
}

std::string AclSelector::keys_text() const {
  if (all_keys_) return "~*";
  std::string text;
  for (const AclPatternSet::Pattern& key : keys_.all()) {
    const char* const kind = key.access == (kAclRead | kAclWrite) ? "~" : key.access == kAclRead ? "%R~" : "%W~";
    append_word(&text, kind + key.text);
  }
  return text;
}

std::string AclSelector::channels_text() const {
  if (all_channels_) return "&*";
  std::string text;
  for (const AclPatternSet::Pattern& channel : channels_.all()) append_word(&text, "&" + channel.text);
  return text;
}

std::string AclSelector::text() const {
  std::string text = keys_text();
  if (!all_channels_) append_word(&text, "resetchannels");
  if (const std::string channels = channels_text(); !channels.empty()) append_word(&text, channels);
  append_word(&text, commands_text());
  return text;
}

}  // namespace ebbtide
