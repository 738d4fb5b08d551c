#include "dispatch/permissions.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "dispatch/command_env.h"
#include "dispatch/command_keys.h"
#include "dispatch/context.h"
#include "resp/disposal.h"

namespace ebbtide {
namespace {

const std::shared_ptr<const User>& nobody() {
  static const auto kNobody = std::make_shared<const User>();
  return kNobody;
}

AclRequest::Channels channels_of(const CommandSpec& spec, std::size_t argc) {
  if (!spec.has(kPubSub) || !spec.container.empty()) return {};
  if (spec.name == "publish" || spec.name == "spublish") return {1, 2, false};
  if (spec.name == "subscribe" || spec.name == "ssubscribe") return {1, argc, false};
  if (spec.name == "psubscribe") return {1, argc, true};
  return {};
}

std::uint8_t acl_access(std::uint16_t access) {
  const bool reads = (access & KeySpec::kAccess) != 0;
  const bool writes = (access & (KeySpec::kInsert | KeySpec::kUpdate | KeySpec::kDelete)) != 0;
  return static_cast<std::uint8_t>((reads ? kAclRead : 0) | (writes ? kAclWrite : 0));
}

void collect_keys_of(const CommandSpec& spec, std::span<const Bytes> arguments, std::vector<AclRequest::Key>* keys) {
  const int last = last_key(spec.keys, arguments);
  for (int i = spec.keys.first; i != 0 && i <= last; i = next_key(spec.keys, i, last)) {
    keys->push_back({static_cast<std::size_t>(i), acl_access(key_access(spec, arguments, i))});
  }
}

AclRequest::Range range_of(const CommandSpec& spec, std::span<const Bytes> arguments) {
  AclRequest::Range range;
  range.access = spec.has(kWrite) ? kAclWrite : kAclRead;
  range.argument = 1;
  if (spec.scope == KeyScope::kPrefix) {
    range.keys = {.start = arguments[1], .is_prefix = true};
  } else if (spec.scope == KeyScope::kRange) {
    const auto open = [](Bytes bound) { return bound == "-" || bound == "+"; };
    if (!open(arguments[1])) range.keys.start = arguments[1];
    if (!open(arguments[2])) range.keys.end = arguments[2];
  }
  return range;
}

/// Checks a command. `range`: keys that the command uses without naming each; may be null.
std::optional<AclVerdict> check_request(const User& user, const Command& command, std::span<const Bytes> arguments,
                                        const AclRequest::Range* range, AclBudget& budget) {
  constexpr std::size_t kKeptKeys = 4096;  // the most keys for which a thread keeps its buffer after a check
  thread_local std::vector<AclRequest::Key> keys;
  const CommandSpec& spec = *command.spec;
  AclRequest request;
  request.command = command.index;
  request.always_allowed = spec.has(kNoAuth);
  request.arguments = arguments;
  request.channels = channels_of(spec, arguments.size());
  if (user.limits_keys()) {
    keys.clear();
    collect_keys_of(spec, arguments, &keys);
    request.keys = keys;
    request.range = range;
  }
  const std::optional<AclVerdict> verdict = user.check(request, budget);
  if (keys.size() > kKeptKeys) std::vector<AclRequest::Key>().swap(keys);
  return verdict;
}

}  // namespace

AclCatalog acl_catalog(const CommandTable& table) {
  std::vector<AclCatalog::Command> commands;
  for (const Command& command : table.all()) {
    AclCatalog::Command& named = commands.emplace_back();
    named.name = command.full_name;
    for (const Bytes category : acl_categories(*command.spec)) {
      if (const auto bit = acl_category(category.substr(1))) named.categories |= 1u << *bit;
    }
    for (std::size_t i = 0; i < command.spec->subcommands.size(); ++i) {
      named.subcommands.push_back(command.first_subcommand + static_cast<std::uint32_t>(i));
    }
  }
  for (std::size_t i = 0; i < commands.size(); ++i) {
    for (const std::uint32_t subcommand : commands[i].subcommands) commands[subcommand].container = static_cast<std::uint32_t>(i);
  }
  return AclCatalog(std::move(commands));
}

std::optional<AclVerdict> check_permission(const User& user, const Command& command, std::span<const Bytes> arguments,
                                           AclBudget& budget) {
  const KeyScope scope = command.spec->scope;
  if (scope == KeyScope::kNone || scope == KeyScope::kPatterns || !user.limits_keys()) {
    return check_request(user, command, arguments, nullptr, budget);
  }
  const AclRequest::Range range = range_of(*command.spec, arguments);
  return check_request(user, command, arguments, &range, budget);
}

std::optional<Bytes> denied_pattern_option(const User& user, const Command& command, std::span<const Bytes> arguments,
                                           AclBudget& budget) {
  if (!user.limits_keys()) return Bytes();
  const Bytes option = pattern_option(*command.spec, arguments);
  if (option.empty()) return Bytes();
  const AclRequest::Range all{.keys = {}, .access = kAclRead};
  const std::optional<AclVerdict> verdict = check_request(user, command, arguments, &all, budget);
  if (!verdict) return std::nullopt;
  return verdict->allowed() ? Bytes() : option;
}

AclBudget check_budget(const Ctx& ctx) {
  return AclBudget(ctx.work_left, ctx.off_loop == nullptr ? nullptr : ctx.off_loop->cancelled);
}

Status note_check(Ctx& ctx, const AclBudget& budget, bool complete) {
  ctx.work_left = budget.left();
  if (complete) return Status::ok();
  if (ctx.is_cancelled()) return Status::aborted("the client has disconnected");
  ctx.too_long = true;
  return Status::not_resident();
}

std::string denied_pattern_text(Bytes option) {
  return std::string(option) + " option of SORT denied due to insufficient ACL permissions.";
}

namespace {

/// If this session is the last owner of a user with many patterns, frees the user on another thread.
void let_rights_go(Session& session) {
  if (session.rights == nullptr || session.rights.use_count() > 1) return session.rights.reset();
  const bool is_long = session.rights->memory_bytes() > kDisposedBytes;
  let_go(std::exchange(session.rights, nullptr), is_long);
}

}  // namespace

const User& rights_of(Session& session, const ServerControl& control) {
  if (session.rights == nullptr) {
    auto user = control.users()->find(user_of(session));
    act_as(session, user == nullptr ? nobody() : std::move(user));
  }
  return *session.rights;
}

void act_as(Session& session, std::shared_ptr<const User> user) {
  session.modes &= static_cast<std::uint8_t>(~Session::kChecked);
  if (!user->unrestricted()) session.modes |= Session::kChecked;
  let_rights_go(session);
  session.rights = std::move(user);
}

void forget_rights(Session& session) {
  let_rights_go(session);
  session.modes |= Session::kChecked;
}

std::string denial_text(const AclVerdict& verdict, Bytes user, const Command& command, std::span<const Bytes> arguments,
                        bool shows_object) {
  const std::string begin = "User " + std::string(user) + " has no permissions to ";
  if (verdict.denial == AclDenial::kCommand) return begin + "run the '" + command.full_name + "' command";
  const std::string kind = verdict.denial == AclDenial::kKey ? "key" : "channel";
  if (!shows_object) return "No permissions to access a " + kind;
  return begin + "access the '" + std::string(arguments[verdict.argument]) + "' " + kind;
}

void note_denial(CommandEnv& env, Client& client, const AclVerdict& verdict, Bytes user, const Command& command,
                 std::span<const Bytes> arguments, bool in_transaction) {
  const auto now_ms = static_cast<std::int64_t>(env.control->unix_micros() / 1000);
  const bool is_command = verdict.denial == AclDenial::kCommand;
  env.observers->acl_log.add({.reason = verdict.denial,
                              .context = in_transaction ? "multi" : "toplevel",
                              .object = is_command ? command.full_name : std::string(arguments[verdict.argument]),
                              .user = std::string(user),
                              .client = describe_client(client, now_ms, false),
                              .updated_ms = now_ms});
  env.control->access_denied(verdict.denial, client.address, user, command.full_name);
}

}  // namespace ebbtide
