// The reply of a range delete: a ticket, which PURGE.STATUS and PURGE.WAIT take.
#pragma once

namespace ebbtide {

struct Ctx;

/// Replies purge-<n>-<tree>: n is the time of the delete, tree is the tree that the delete belongs to. For Ctx::after_commit.
void reply_ticket(Ctx& ctx);

}  // namespace ebbtide
