#include "dispatch/table.h"

#include <algorithm>

#include "dispatch/arg_cursor.h"
#include "store/numbers.h"

namespace ebbtide {

CommandTable::CommandTable(std::span<const std::span<const CommandSpec>> families) {
  std::size_t count = 0;
  for (const auto& family : families) {
    for (const CommandSpec& spec : family) count += 1 + spec.subcommands.size();
  }
  commands_.reserve(count);  // commands_ must not move: top_level_ and slots_ point into it
  for (const auto& family : families) {
    for (const CommandSpec& spec : family) {
      const auto index = static_cast<std::uint32_t>(commands_.size());
      commands_.push_back({&spec, index, index + 1, std::string(spec.name), spec.may_leave_loop()});
      top_level_.push_back(&commands_.back());
      longest_ = std::max(longest_, spec.name.size());
      for (const CommandSpec& sub : spec.subcommands) {
        const auto sub_index = static_cast<std::uint32_t>(commands_.size());
        commands_.push_back({&sub, sub_index, 0, std::string(spec.name) + "|" + std::string(sub.name), sub.may_leave_loop()});
      }
    }
  }
  std::size_t capacity = 16;
  while (capacity < top_level_.size() * 4) capacity *= 2;
  slots_.resize(capacity);
  mask_ = static_cast<std::uint32_t>(capacity - 1);
  for (const Command* command : top_level_) {
    std::uint32_t slot = hash(command->spec->name) & mask_;
    while (slots_[slot] != nullptr) slot = (slot + 1) & mask_;
    slots_[slot] = command;
  }
}

std::uint32_t CommandTable::hash(Bytes name) {
  std::uint32_t h = 2166136261u;
  for (const char c : name) h = (h ^ (static_cast<unsigned char>(c) | 0x20u)) * 16777619u;
  return h ^ (h >> 15);
}

namespace {

/// Like equal_ignoring_case, for a `lower` that is already in lower case. Every command needs it, so it is fast.
inline bool equals_lower(Bytes lower, Bytes name) {
  if (lower.size() != name.size()) return false;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const unsigned c = static_cast<unsigned char>(name[i]);
    if ((c + (c - 'A' < 26 ? 32 : 0)) != static_cast<unsigned char>(lower[i])) return false;
  }
  return true;
}

}  // namespace

const Command* CommandTable::find(Bytes name) const {
  if (name.size() > longest_) return nullptr;  // hashing megabytes would keep the loop busy
  for (std::uint32_t slot = hash(name) & mask_; slots_[slot] != nullptr; slot = (slot + 1) & mask_) {
    if (equals_lower(slots_[slot]->spec->name, name)) return slots_[slot];
  }
  return nullptr;
}

const Command* CommandTable::find_subcommand(const Command& container, Bytes name) const {
  const auto& subcommands = container.spec->subcommands;
  for (std::size_t i = 0; i < subcommands.size(); ++i) {
    if (equal_ignoring_case(subcommands[i].name, name)) return &commands_[container.first_subcommand + i];
  }
  return nullptr;
}

const Command* CommandTable::find_full(Bytes name) const {
  const std::size_t bar = name.find('|');
  const Command* command = find(name.substr(0, bar));
  if (command == nullptr || bar == Bytes::npos) return command;
  return find_subcommand(*command, name.substr(bar + 1));
}

Status unknown_command(const Args& args) {
  constexpr std::size_t kShown = 128;
  std::string list;
  for (std::size_t i = 1; i < args.size() && list.size() < kShown; ++i) {
    const Bytes text = shown(args[i], kShown - list.size());
    list += '\'';
    list += text;
    list += "' ";
  }
  return reply_error("ERR unknown command '" + std::string(shown(args[0])) + "', with args beginning with: " + list);
}

Status unknown_subcommand(const Command& container, Bytes name) {
  return reply_error("ERR unknown subcommand '" + std::string(shown(name)) + "'. Try " + to_upper(container.spec->name) +
                     " HELP.");
}

Status wrong_subcommand_arguments(const Command& command, const Args& args) {
  return reply_error("ERR unknown subcommand or wrong number of arguments for '" + std::string(shown(args[1])) + "'. Try " +
                     to_upper(command.spec->container) + " HELP.");
}

Status wrong_arity(const Command& command) {
  return reply_error("ERR wrong number of arguments for '" + command.full_name + "' command");
}

std::string_view group_name(Group group) {
  switch (group) {
    case Group::kConnection:
      return "connection";
    case Group::kString:
      return "string";
    case Group::kGeneric:
      return "generic";
    case Group::kServer:
      return "server";
    case Group::kExtension:
      return "ebbtide";
    case Group::kBitmap:
      return "bitmap";
    case Group::kHyperLogLog:
      return "hyperloglog";
    case Group::kTransactions:
      return "transactions";
    case Group::kPubSub:
      return "pubsub";
    case Group::kHash:
      return "hash";
    case Group::kSet:
      return "set";
    case Group::kSortedSet:
      return "sorted-set";
    case Group::kList:
      return "list";
    case Group::kGeo:
      return "geo";
    case Group::kScripting:
      return "scripting";
  }
  return "";
}

std::vector<std::string_view> acl_categories(const CommandSpec& spec) {
  std::vector<std::string_view> out;
  if (spec.has(kWrite)) out.push_back("@write");
  if (spec.has(kReadOnly) && !spec.has(kRunsScript)) out.push_back("@read");
  if (spec.group == Group::kString) out.push_back("@string");
  if (spec.group == Group::kBitmap) out.push_back("@bitmap");
  if (spec.group == Group::kHyperLogLog) out.push_back("@hyperloglog");
  if (spec.group == Group::kHash) out.push_back("@hash");
  if (spec.group == Group::kSet) out.push_back("@set");
  if (spec.group == Group::kSortedSet) out.push_back("@sortedset");
  if (spec.group == Group::kList) out.push_back("@list");
  if (spec.group == Group::kGeo) out.push_back("@geo");
  if (spec.group == Group::kGeneric && spec.run != nullptr && spec.extra_acl.empty()) out.push_back("@keyspace");
  if (spec.has(kAdmin)) out.push_back("@admin");
  if (spec.has(kAdmin | kDangerous)) out.push_back("@dangerous");
  if (spec.group == Group::kConnection && spec.run != nullptr) out.push_back("@connection");
  if (spec.has(kPubSub)) out.push_back("@pubsub");
  out.push_back(spec.has(kFast) ? "@fast" : "@slow");
  if (spec.has(kBlocking)) out.push_back("@blocking");
  if (spec.group == Group::kTransactions) out.push_back("@transaction");
  for (Bytes rest = spec.extra_acl; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    out.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

bool in_category(const Command& command, Bytes category) {
  const auto categories = acl_categories(*command.spec);
  return std::any_of(categories.begin(), categories.end(),
                     [category](Bytes c) { return equal_ignoring_case(c.substr(1), category); });
}

}  // namespace ebbtide
