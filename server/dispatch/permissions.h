// The rights of users, for dispatch: applies the rules in acl/ to commands and sessions.
//
// A session whose user may do everything is not in mode Session::kChecked, and its commands are not checked. Every other session
// is in that mode. So is a new session until its first command, which looks up the user's rights. When a user changes, its
// sessions return to that mode, each on its own loop (ServerControl::set_user).
//
// A check that would keep the loop busy runs on another thread (rights_check.h).
//
// If a command uses keys without naming each (CommandSpec::scope), the user needs the right to all keys of the range. SCAN, KEYS
// and RANDOMKEY are as in Redis: a user who may run them sees the names of all keys.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "acl/users.h"
#include "dispatch/server_control.h"
#include "dispatch/session.h"
#include "dispatch/table.h"

namespace ebbtide {

struct CommandEnv;
struct Ctx;

/// Returns the commands of a table in the form that acl/ reads.
AclCatalog acl_catalog(const CommandTable& table);

/// Checks if the user may run a command with these arguments, whose number must be valid. nullopt: the budget is used up before
/// the check ends.
std::optional<AclVerdict> check_permission(const User& user, const Command& command, std::span<const Bytes> arguments,
                                           AclBudget& budget);

/// If the user may not read all keys: returns the first option, BY or GET, by which SORT would read keys that are not among its
/// arguments. Otherwise returns "". nullopt: the budget is used up. As in Redis, SORT itself calls this when it runs.
std::optional<Bytes> denied_pattern_option(const User& user, const Command& command, std::span<const Bytes> arguments,
                                           AclBudget& budget);
/// Returns the budget of a check during an attempt of a handler or EXEC: the work that the attempt may still do (Ctx::work).
AclBudget check_budget(const Ctx& ctx);
/// Takes the work of a check with check_budget() from the work that the attempt may still do. Fails like Ctx::work() if the check
/// used up its budget.
Status note_check(Ctx& ctx, const AclBudget& budget, bool complete);
/// Returns Redis's text for a denied `option` of SORT (BY or GET), without a code.
std::string denied_pattern_text(Bytes option);

/// Returns the session's user, with its current rights. A user that was removed meanwhile may do nothing. The result is valid
/// until the session changes. Loop thread only.
const User& rights_of(Session& session, const ServerControl& control);
/// Makes the session act as this user from now on.
void act_as(Session& session, std::shared_ptr<const User> user);
/// Makes the session look up its rights again before its next command.
void forget_rights(Session& session);

/// Returns Redis's text for a denied command, without an error code. `shows_object`: the text includes the name of the key or
/// channel.
std::string denial_text(const AclVerdict& verdict, Bytes user, const Command& command, std::span<const Bytes> arguments,
                        bool shows_object);
/// Counts and logs a denied command of a client whose user was `user`.
void note_denial(CommandEnv& env, Client& client, const AclVerdict& verdict, Bytes user, const Command& command,
                 std::span<const Bytes> arguments, bool in_transaction);

}  // namespace ebbtide
