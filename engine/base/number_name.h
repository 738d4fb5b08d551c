// The name of a database or an index tree in messages.
#pragma once

#include <string>

#include <engine/types.h>

namespace ebbtide {

/// Returns "database 3", or "index tree 2 of database 3".
[[nodiscard]] inline std::string number_name(DatabaseId number) {
  const std::string database = "database " + std::to_string(owner_of(number));
  return is_index_tree(number) ? "index tree " + std::to_string(index_number(number)) + " of " + database : database;
}

}  // namespace ebbtide
