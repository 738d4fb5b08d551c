// The reply of a command that deletes a range: what PURGE.STATUS and its kin ask by.
#pragma once

namespace ebbtide {

struct Ctx;

/// purge-<n>-<tree>: n is the time at which the delete was born, tree the physical tree that it concerns. For Ctx::after_commit.
void reply_ticket(Ctx& ctx);

}  // namespace ebbtide
