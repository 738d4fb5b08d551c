#include "acl/catalog.h"

#include <utility>

#include "store/numbers.h"

namespace ebbtide {

std::optional<std::size_t> acl_category(Bytes name) {
  for (std::size_t i = 0; i < kAclCategories.size(); ++i) {
    if (equal_ignoring_case(kAclCategories[i], name)) return i;
  }
  return std::nullopt;
}

AclCatalog::AclCatalog(std::vector<Command> commands) : commands_(std::move(commands)) {
  for (std::size_t i = 0; i < commands_.size(); ++i) by_name_.emplace(commands_[i].name, static_cast<std::uint32_t>(i));
}

std::optional<std::uint32_t> AclCatalog::find(Bytes name) const {
  const auto found = by_name_.find(to_lower(name));
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace ebbtide
