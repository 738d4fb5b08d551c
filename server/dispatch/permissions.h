// The rights of a user, for dispatch: applies the rules of users (acl/) to commands and sessions.
//
// A session whose user may do everything is not in mode Session::kChecked, so its commands are not checked at all. Every other
// session is in that mode. A new session is in it until its first command, which looks up the rights of its user. When a user is
// changed, its sessions go back to that state, each on its own loop (ServerControl::set_user).
//
// A check whose comparisons would keep the loop busy is made on another thread (rights_check.h).
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

/// Returns the commands of a table in the form that the rules of users need.
AclCatalog acl_catalog(const CommandTable& table);

/// Checks if the user may run a command with these arguments, whose number must be right. nullopt: the budget does not suffice.
std::optional<AclVerdict> check_permission(const User& user, const Command& command, std::span<const Bytes> arguments,
                                           AclBudget& budget);

/// Returns the first option, BY or GET, by which SORT would read keys that are not among its arguments, if the user lacks the
/// right to read all keys; otherwise "". nullopt: the budget does not suffice. As in Redis, SORT itself checks this when it runs.
std::optional<Bytes> denied_pattern_option(const User& user, const Command& command, std::span<const Bytes> arguments,
                                           AclBudget& budget);
/// Returns the budget of a check that a handler or EXEC makes: the work that the run may still do (Ctx::work).
AclBudget check_budget(const Ctx& ctx);
/// Takes the work of a check with check_budget() from what the run may still do. Fails like Ctx::work() if it used up the budget.
Status note_check(Ctx& ctx, const AclBudget& budget, bool complete);
/// Returns Redis's text for a denied `option` of SORT (BY or GET), without a code.
std::string denied_pattern_text(Bytes option);

/// Returns the session's user, and looks it up if need be. A user that was removed meanwhile may do nothing. The result is valid
/// until the session changes. Loop thread only.
const User& rights_of(Session& session, const ServerControl& control);
/// Makes the session act as this user from now on.
void act_as(Session& session, std::shared_ptr<const User> user);
/// Makes the session look up its rights again before its next command.
void forget_rights(Session& session);

/// Returns Redis's text for a denied command, without a code. `shows_object`: include the name of the key or channel.
std::string denial_text(const AclVerdict& verdict, Bytes user, const Command& command, std::span<const Bytes> arguments,
                        bool shows_object);
/// Counts and logs a denied command of a client whose user was `user`.
void note_denial(CommandEnv& env, Client& client, const AclVerdict& verdict, Bytes user, const Command& command,
                 std::span<const Bytes> arguments, bool in_transaction);

}  // namespace ebbtide
