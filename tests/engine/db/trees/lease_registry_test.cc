// Tests that leases are counted, found and revoked, and that the registry keeps none alive.
#include <catch2/catch.hpp>

#include "db/trees/lease_registry.h"
#include "db/trees/tree_view.h"

namespace TEST_FILE {

using namespace ebbtide;

std::shared_ptr<const TreeView> view_of(TreeId tree) {
  auto view = std::make_shared<TreeView>();
  view->tree = tree;
  return view;
}

TEST_CASE("lease has ended: count() leaves it out, and its view is freed") {
  LeaseRegistry registry;
  std::shared_ptr<const TreeView> view = view_of(1);
  const std::weak_ptr<const TreeView> watch = view;
  auto lease = registry.lease(std::move(view), 7, 1000);
  CHECK(lease->seq() == 7);
  CHECK(registry.count() == 1);
  CHECK_FALSE(watch.expired());
  lease.reset();
  CHECK(registry.count() == 0);
  CHECK(watch.expired());
}

TEST_CASE("oldest lease ends: oldest_taken() returns the time of the next oldest lease") {
  LeaseRegistry registry;
  CHECK(registry.oldest_taken() == 0);
  auto first = registry.lease(view_of(1), 1, 100);
  const auto second = registry.lease(view_of(1), 1, 200);
  CHECK(registry.oldest_taken() == 100);
  first.reset();
  CHECK(registry.oldest_taken() == 200);
}

TEST_CASE("view of a lease keeps files with a due delete: only this lease is revoked, and is counted once") {
  LeaseRegistry registry;
  const auto hindering = registry.lease(view_of(1), 1, 100), harmless = registry.lease(view_of(2), 1, 100);
  auto ended = registry.lease(view_of(1), 1, 100);
  ended.reset();
  const auto hinders = [](const TreeView& view) { return view.tree == 1; };
  registry.revoke_if(hinders);
  registry.revoke_if(hinders);
  CHECK(hindering->revoked());
  CHECK_FALSE(harmless->revoked());
  CHECK(registry.revoked() == 1);
}

TEST_CASE("very many leases have ended: the registry still counts and revokes the living ones") {
  LeaseRegistry registry;
  const auto old = registry.lease(view_of(1), 1, 50);
  for (int i = 0; i < 10'000; ++i) (void)registry.lease(view_of(2), 1, 100);
  CHECK(registry.count() == 1);
  CHECK(registry.oldest_taken() == 50);
  registry.revoke_if([](const TreeView&) { return true; });
  CHECK(registry.revoked() == 1);
}

}  // namespace TEST_FILE
