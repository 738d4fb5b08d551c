// The reply of a range delete: a ticket, which PURGE.STATUS and PURGE.WAIT take.
#pragma once

namespace ebbtide {

struct Ctx;

/// Replies purge-<n>-<tree>: n is the time at which the delete was born, tree the tree that it belongs to. For Ctx::after_commit.
void reply_ticket(Ctx& ctx);

}  // namespace ebbtide
