// The reply to a range delete: a purge ticket, the argument of PURGE.STATUS and PURGE.WAIT.
#pragma once

namespace ebbtide {

struct Ctx;

/// Replies purge-<n>-<tree>. n is the time of the delete, and tree the number of the tree from which it deletes. For
/// Ctx::after_commit.
void reply_ticket(Ctx& ctx);

}  // namespace ebbtide
