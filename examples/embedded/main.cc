// The engine inside your own program: write, read, scan, and purge.
#include <cstdio>
#include <cstdlib>

#include <engine/db.h>

using namespace ebbtide;

static void check(const Status& status) {
  if (status.is_ok()) return;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  std::exit(1);
}

int main(int argc, char** argv) {
  Settings settings;
  settings.dir = argc > 1 ? argv[1] : "./embedded-data";
  settings.memory_budget = std::uint64_t{64} << 20;
  settings.tree.memtable_size = std::uint64_t{4} << 20;
  settings.tree.delete_deadline = 60'000;  // a minute after a delete, no file has the key or its value
  auto db = Db::open(settings, Components{});
  check(db.status());

  WriteBatch batch;
  batch.put(0, "user:1:name", "Ada");
  batch.put(0, "user:2:name", "Grace");
  check(db.value()->commit(batch));                           // readers see it from here on
  check(db.value()->wait_synced(db.value()->visible_seq()));  // it survives a power loss from here on

  Found found;
  const ReadView view = db.value()->lease(0);
  check(view.get({"user:1:name", hash_key("user:1:name")}, &found));
  std::printf("user:1:name is %.*s\n", static_cast<int>(found.value.size()), found.value.data());
  const auto walk = db.value()->iterate(view, {.bounds = {"user:", "user;"}});
  for (walk->seek_to_first(); walk->valid(); walk->next()) {
    std::printf("%.*s\n", static_cast<int>(walk->key().size()), walk->key().data());
  }
  check(walk->status());

  batch.clear();
  batch.delete_range(0, "user:1:", "user:1;");  // all of user 1, in one operation
  check(db.value()->commit(batch));
  SeqNum synced = 0;
  const PurgeTicket ticket = db.value()->purge_ticket(&synced);
  check(db.value()->wait_synced(synced));
  std::printf("deleted; its purge ticket is %s\n", format_ticket(ticket).c_str());
  check(db.value()->close());
}
