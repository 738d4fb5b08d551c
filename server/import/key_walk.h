// Walks over all keys of a server: SCAN, and for each key DUMP and its expiry.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "import/connection.h"
#include "import/rdb_reader.h"

namespace ebbtide {

/// A key of a server, as DUMP returns it, and the RDB version of its payload. The entry's `offset` is unused.
struct DumpedKey {
  RdbEntry entry;
  unsigned version = 0;
};

/// The databases of a server that have keys, with their numbers of keys.
struct DatabaseSize {
  std::uint64_t database = 0, keys = 0;
};
Result<std::vector<DatabaseSize>> databases_of(Connection& source);
/// Returns true if the list has the database, or is empty, which means all databases.
[[nodiscard]] bool is_wanted(const std::vector<std::uint64_t>& databases, std::uint64_t database);

/// Calls `visit` for each key of a database that exists during the whole walk, at least once; a key may come twice. Keys that are
/// created or deleted meanwhile may be missing. An error of `visit` ends the walk. kIoError: the server does not reply, or
/// replies with an error.
Status walk_keys(Connection& source, std::uint64_t database, const std::function<Status(DumpedKey&&)>& visit);

/// Like walk_keys(), but calls `visit` with the names of keys only.
Status walk_names(Connection& source, std::uint64_t database, const std::function<Status(const std::string&)>& visit);

}  // namespace ebbtide
