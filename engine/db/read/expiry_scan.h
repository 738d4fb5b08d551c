// Finds keys that expire soon, so that the server can notify clients.
#pragma once

#include <vector>

#include <engine/db.h>

namespace ebbtide {

/// Like Db::expiring_keys(), for the database of `view`, which must be leased and have a tree.
Result<Millis> expiring_keys(const ReadView& view, Millis after, Millis until, std::size_t limit, std::vector<ExpiringKey>* out);

}  // namespace ebbtide
