#include "db/trees/tree.h"

namespace ebbtide {

std::uint64_t TreeLoad::memtable_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& memtable : view->memtables) bytes += memtable->memory_bytes();
  return bytes;
}

std::uint64_t TreeLoad::uncharged_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& memtable : view->memtables) {
    const std::uint64_t charged = memtable->charged_bytes();  // before memory_bytes(): both may grow in between
    bytes += memtable->memory_bytes() - charged;
  }
  return bytes;
}

std::uint64_t TreeLoad::frozen_bytes() const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 1; i < view->memtables.size(); ++i) bytes += view->memtables[i]->memory_bytes();
  return bytes;
}

}  // namespace ebbtide
