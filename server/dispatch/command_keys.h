// Collects the keys of a command as engine keys.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include <engine/status.h>
#include <engine/types.h>

#include "dispatch/spec.h"
#include "resp/args.h"

namespace ebbtide {

/// Appends the keys as engine keys with hashes, in the order of the arguments. Keys that must be escaped are put into `escaped`,
/// whose strings stay in place while it grows; `escaped_used` of them are in use. Fails if a key is too long.
Status collect_keys(const KeySpec& spec, const Args& args, std::vector<LookupKey>* keys, std::deque<std::string>* escaped,
                    std::size_t* escaped_used);

/// The user key of an engine key; the engine key itself if it is not a user's key.
std::string user_key(Bytes engine_key);

/// The database that COPY or MOVE writes its last key to. `selected` for other commands, and if they name none.
DatabaseId target_database(const CommandSpec& spec, const Args& args, DatabaseId selected);

}  // namespace ebbtide
