// Keys that expire soon: the server notifies clients of expirations.
#pragma once

#include <vector>

#include <engine/db.h>

namespace ebbtide {

/// As Db::expiring_keys. `view` is leased and has a tree.
Result<Millis> expiring_keys(const ReadView& view, Millis after, Millis until, std::size_t limit, std::vector<ExpiringKey>* out);

}  // namespace ebbtide
