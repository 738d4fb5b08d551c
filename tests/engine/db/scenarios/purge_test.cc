// Tests that deletes are purged from the log, the manifest, views and removed files. Tickets are done then, and never too early.
#include <optional>

#include "engine/db/harness.h"
#include "support/long_run.h"
#include "version/version_set.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr Millis kHour = 3'600'000, kDeadline = 8 * kHour;
const std::string kMarker = "marker-0123456789";      // part of values
const std::string kName = "name-of-the-deleted-key";  // part of keys

Settings with_deadline(Millis deadline = kDeadline) {
  Settings s = Harness::small();
  s.tree.delete_deadline = deadline;
  return s;
}

// Returns the names of the files that have `text`.
std::vector<std::string> files_with(MemoryFileSystem& files, const std::string& text) {
  std::vector<std::string> out;
  for (const std::string& path : files.tree()) {
    if (path.back() == '/') continue;
    auto content = read_file(files, path);
    REQUIRE(content.is_ok());
    if (content->find(text) != std::string::npos) out.push_back(path);
  }
  return out;
}

// Returns the manifests among the files that have `text`.
std::vector<std::string> manifests_with(MemoryFileSystem& files, const std::string& text) {
  std::vector<std::string> out = files_with(files, text);
  std::erase_if(out, [](const std::string& path) { return path.find("MANIFEST-") == std::string::npos; });
  return out;
}

// Advances time in small steps and runs all background work.
void pass(Harness& h, Millis ms, Millis step = 5 * 60'000) {
  for (Millis done = 0; done < ms; done += step) {
    h.advance(std::min(step, ms - done));
    h.settle();
    h.db->write_log();
  }
}

PurgeTicket ticket_of(Harness& h) {
  SeqNum up_to = 0;
  const PurgeTicket ticket = h.db->purge_ticket(&up_to);
  REQUIRE(h.db->wait_synced(up_to).is_ok());
  h.clock.advance(2);
  return ticket;
}

bool is_done(Harness& h, const PurgeTicket& ticket) {
  auto status = h.db->purge_status(ticket);
  INFO(status.status().to_string());
  REQUIRE(status.is_ok());
  CHECK((status->completed_at != 0) == status->done);
  return status->done;
}

// Writes keys around the key to be deleted, so that tables have other keys, too.
void put_some(Harness& h, int n = 50) {
  for (int i = 0; i < n; ++i) h.put(0, "a" + std::to_string(i), std::string(100, 'x'));
  h.put(0, kName, kMarker);
  for (int i = 0; i < n; ++i) h.put(0, "z" + std::to_string(i), std::string(100, 'x'));
}

void empty(Harness& h, DatabaseId d) {
  WriteBatch batch;
  batch.flush_database(d);
  h.write(batch);
}

// Deletes a key that is in a table. Returns the delete's ticket.
PurgeTicket delete_from_table(Harness& h) {
  put_some(h);
  REQUIRE(h.db->flush(0).is_ok());
  h.del(0, kName);
  return ticket_of(h);
}

TEST_CASE("key is deleted: its value leaves log and manifest in time, and then its ticket is done") {
  Harness h(with_deadline());
  h.open();
  put_some(h);
  REQUIRE(h.db->flush(0).is_ok());
  h.del(0, kName);
  const bool rewritten = GENERATE(false, true);
  if (rewritten) h.put(0, kName, "new");
  CHECK_FALSE(files_with(*h.files, kMarker).empty());
  const PurgeTicket ticket = ticket_of(h);
  const PurgeTicket of_tree{ticket.born_by, h.db->tree_info(0)->tree};
  CHECK_FALSE(is_done(h, ticket));
  auto status = h.db->purge_status(ticket);
  CHECK(status->promised == true);
  CHECK(status->deadline == ticket.born_by + kDeadline);
  CHECK(status->left[static_cast<std::size_t>(PurgePlace::kLog)].files >= 1);

  REQUIRE(h.db->compact(0, {}).is_ok());
  CHECK_FALSE(is_done(h, ticket));  // the log still has the key
  pass(h, kDeadline / 2);
  CHECK(is_done(h, ticket));
  CHECK(is_done(h, of_tree));
  CHECK(files_with(*h.files, kMarker).empty());
  if (!rewritten) CHECK(files_with(*h.files, kName).empty());
  CHECK(h.get(0, "a7") == std::string(100, 'x'));
  CHECK(h.get(0, kName) == (rewritten ? "new" : "(absent)"));
  CHECK(h.db->stats().deadlines_missed_load == 0);
}

TEST_CASE("manifest has deleted keys as bounds of removed tables: it is rolled within a quarter of the deadline") {
  const bool emptied = GENERATE(false, true);
  Harness h(with_deadline());
  h.open();
  put_some(h);
  const std::string last = "~" + kName;  // it is the first of all keys, so it is a bound of its table
  h.put(0, last, kMarker);
  REQUIRE(h.db->flush(0).is_ok());
  if (!emptied) h.del(0, last);
  pass(h, kHour);  // the quarter begins with the edit that removes the table
  const std::vector<std::string> old = manifests_with(*h.files, last);
  REQUIRE(old.size() == 1);
  if (emptied) {
    WriteBatch batch;
    batch.flush_database(0);
    h.write(batch);
    h.settle();
  } else {
    REQUIRE(h.db->compact(0, {}).is_ok());
  }
  REQUIRE(manifests_with(*h.files, last) == old);
  pass(h, kDeadline / 4);
  CHECK_FALSE(h.files->exists(old.front()));
  CHECK(manifests_with(*h.files, "").size() == 1);
  CHECK(manifests_with(*h.files, last).empty());
  h.crash(CrashMode::kNothing, 1);  // a power loss must not restore it
  CHECK(manifests_with(*h.files, last).empty());
  h.open();
  CHECK(h.get(0, "a7") == (emptied ? "(absent)" : std::string(100, 'x')));
  CHECK(h.get(0, last) == "(absent)");
}

TEST_CASE("ticket is checked in the millisecond of its delete: its status says that memtable and log still have the delete") {
  Harness h(with_deadline());
  h.open();
  put_some(h);
  REQUIRE(h.db->flush(0).is_ok());
  h.clock.advance(1);
  h.del(0, kName);
  SeqNum up_to = 0;
  const PurgeTicket ticket = h.db->purge_ticket(&up_to);
  const auto status = h.db->purge_status(ticket);
  REQUIRE(status.is_ok());
  CHECK_FALSE(status->done);
  CHECK(status->left[static_cast<std::size_t>(PurgePlace::kMemTable)].files == 1);
  CHECK(status->left[static_cast<std::size_t>(PurgePlace::kLog)].files == 1);
}

TEST_CASE("tree without deletes has writes in a segment: the segment is removed in time for another tree's delete") {
  Harness h(with_deadline());
  h.open();
  h.put(1, "quiet", "v");
  put_some(h, 5);
  h.del(0, kName);
  h.put(2, "quiet", "v");
  REQUIRE(h.db->flush(0).is_ok());
  REQUIRE(h.db->compact(0, {}).is_ok());
  CHECK_FALSE(files_with(*h.files, kMarker).empty());
  pass(h, kDeadline / 2);
  CHECK(files_with(*h.files, kMarker).empty());
  CHECK(h.get(1, "quiet") == "v");
  h.crash(CrashMode::kNothing, 1);
  h.open();
  CHECK(h.get(1, "quiet") == "v");
  CHECK(h.get(2, "quiet") == "v");
}

TEST_CASE("values expire: they are purged from the log, too") {
  Harness h(with_deadline());
  h.open();
  h.put(0, kName, kMarker, h.db->now() + kHour);
  h.put(0, "other", "v");
  pass(h, kHour / 2);
  const PurgeTicket before = ticket_of(h);
  CHECK(is_done(h, before));  // nothing has expired yet
  pass(h, kHour);
  const PurgeTicket after = ticket_of(h);
  CHECK_FALSE(is_done(h, after));
  CHECK(is_done(h, before));
  REQUIRE(h.db->compact(0, {}).is_ok());
  pass(h, kDeadline / 2);
  REQUIRE(h.db->compact(0, {}).is_ok());
  pass(h, kHour);
  CHECK(files_with(*h.files, kMarker).empty());
  CHECK(is_done(h, after));
}

TEST_CASE("value is written after its expiry: it counts as deleted at the moment of the write") {
  Harness h(with_deadline());
  h.open();
  h.put(0, "k", "v");
  pass(h, kHour);
  const PurgeTicket ticket = ticket_of(h);
  CHECK(is_done(h, ticket));
  h.put(0, kName, kMarker, ticket.born_by - 1000);
  CHECK(is_done(h, ticket));
  CHECK(h.get(0, kName) == "(absent)");
  const PurgeTicket later = ticket_of(h);
  CHECK_FALSE(is_done(h, later));
  h.crash(CrashMode::kEverything, 1);
  h.open();
  h.clock.advance(2);
  CHECK(is_done(h, ticket));
  CHECK_FALSE(is_done(h, later));
  CHECK(h.get(0, kName) == "(absent)");
}

TEST_CASE("view keeps deleted data: the view is revoked before the deadline, and reads of it say why") {
  Harness h(with_deadline());
  h.open();
  put_some(h);
  REQUIRE(h.db->flush(0).is_ok());
  auto view = std::make_unique<ReadView>(h.db->lease(0));
  auto walk = h.db->iterate(*view, {});
  walk->seek_to_first();
  REQUIRE(walk->valid());
  h.del(0, kName);
  const PurgeTicket ticket = ticket_of(h);
  REQUIRE(h.db->compact(0, {}).is_ok());
  pass(h, kDeadline * 3 / 4);
  walk->next();
  CHECK(walk->valid());  // there is still time
  CHECK_FALSE(is_done(h, ticket));
  CHECK(h.db->purge_status(ticket)->left[static_cast<std::size_t>(PurgePlace::kLeaving)].files >= 2);
  CHECK_FALSE(files_with(*h.files, kMarker).empty());
  pass(h, kDeadline / 8 + kHour / 4);
  CHECK(h.db->stats().leases_revoked == 1);
  walk->next();
  CHECK_FALSE(walk->valid());
  CHECK(walk->status().code() == Code::kRevoked);
  Found found;
  CHECK(view->get({"a1", hash_key("a1")}, &found).code() == Code::kRevoked);
  CHECK_FALSE(is_done(h, ticket));  // the view is not released yet
  walk.reset();
  view.reset();
  pass(h, 60'000, 10'000);
  CHECK(is_done(h, ticket));
  CHECK(files_with(*h.files, kMarker).empty());
  CHECK(h.db->stats().deadlines_missed_load == 0);
  // A view that is taken now delays no delete.
  const ReadView fresh = h.db->lease(0);
  pass(h, kDeadline);
  CHECK(fresh.get({"a1", hash_key("a1")}, &found).is_ok());
}

// The merge for the deadline ends a tenth of the deadline before it. Then views are revoked, files removed and the directory
// synced.
TEST_CASE("view has files open when the last merge replaces them: even short deadlines are met") {
  const Millis deadline = GENERATE(5'000, 10'000, 20'000, 30'000);
  const Millis phase = GENERATE(range(0, 1000, 100));  // the time of the delete between two surveys
  INFO("deadline " << deadline << " ms, delete " << phase << " ms later");
  Harness h(with_deadline(deadline));
  h.open();
  put_some(h);
  REQUIRE(h.db->flush(0).is_ok());
  pass(h, 1000 + phase, 100);
  h.del(0, kName);
  std::optional<ReadView> view;
  Found found;
  for (Millis passed = 0; passed <= deadline + 1000; passed += 100) {
    if (passed == deadline / 2) view.emplace(h.db->lease(0));
    pass(h, 100, 100);
    if (view && view->get({"a1", hash_key("a1")}, &found).code() == Code::kRevoked) view.reset();
  }
  CHECK_FALSE(view);
  CHECK(h.db->stats().deadlines_missed_load == 0);
  CHECK(files_with(*h.files, kMarker).empty());
}

TEST_CASE("PURGE.NOW is called, with or without a deadline: it revokes views, and waits for no deadline") {
  Harness h(with_deadline(GENERATE(Millis{0}, kDeadline)));
  h.open();
  put_some(h);
  REQUIRE(h.db->flush(0).is_ok());
  const ReadView view = h.db->lease(0);
  h.del(0, kName);
  const PurgeTicket ticket{ticket_of(h).born_by, h.db->tree_info(0)->tree};
  pass(h, 60'000, 10'000);
  CHECK_FALSE(is_done(h, ticket));
  REQUIRE(h.db->purge_now(ticket).is_ok());
  pass(h, 5'000, 1000);
  REQUIRE(h.db->compact(0, {}).is_ok());
  pass(h, 20'000, 1000);
  Found found;
  CHECK(view.get({"a1", hash_key("a1")}, &found).code() == Code::kRevoked);
  CHECK_FALSE(is_done(h, ticket));
  const_cast<ReadView&>(view) = ReadView();
  pass(h, 20'000, 1000);
  CHECK(is_done(h, ticket));
  CHECK(files_with(*h.files, kMarker).empty());
  CHECK(files_with(*h.files, kName).empty());
}

TEST_CASE("PURGE.NOW is called for a ticket: each tick surveys until the ticket is done") {
  Harness h(with_deadline(0));
  h.open();
  const PurgeTicket ticket{delete_from_table(h).born_by, h.db->tree_info(0)->tree};
  pass(h, 10'000, 1000);
  REQUIRE(h.db->purge_now(ticket).is_ok());
  Millis passed = 0;
  for (; passed < 10'000 && !is_done(h, ticket); passed += 100) {
    h.settle();
    h.db->write_log();
    h.clock.advance(100);
    h.db->tick();
  }
  CHECK(passed <= 1000);
  CHECK(files_with(*h.files, kMarker).empty());
}

TEST_CASE("deletes of one database are due: views of another database are not revoked") {
  Harness h(with_deadline());
  h.open();
  for (const DatabaseId d : {0u, 1u}) {
    for (int i = 0; i < 50; ++i) h.put(d, key_of(i), "old");
    REQUIRE(h.db->flush(d).is_ok());
  }
  const ReadView first = h.db->lease(0), second = h.db->lease(1);
  for (const DatabaseId d : {0u, 1u}) {
    h.del(d, key_of(0));
    REQUIRE(h.db->compact(d, {}).is_ok());
  }
  const PurgeTicket ticket{ticket_of(h).born_by, h.db->tree_info(0)->tree};
  REQUIRE(h.db->purge_now(ticket).is_ok());
  pass(h, 20'000, 1000);
  Found found;
  CHECK(first.get({key_of(1), hash_key(key_of(1))}, &found).code() == Code::kRevoked);
  CHECK(second.get({key_of(1), hash_key(key_of(1))}, &found).is_ok());
  CHECK(h.db->stats().leases_revoked == 1);
}

TEST_CASE("manifest is rolled by an edit that names removed files: the ticket stays pending until the next roll") {
  Harness h(with_deadline());
  h.open();
  h.put(0, kName, kMarker);
  REQUIRE(h.db->flush(0).is_ok());
  h.del(0, kName);
  const PurgeTicket ticket = ticket_of(h);
  REQUIRE(h.db->flush(0).is_ok());
  // The seal after the next record fails: the record is durable, and the edit after it begins a new manifest.
  h.faults->inject({.ops = ops_of(FileOp::kWrite), .nth = 2, .path_has = "MANIFEST"});
  const std::string before = manifests_with(*h.files, kName).front();
  h.advance(9000);
  REQUIRE(h.faults->failures() == 1);
  REQUIRE(h.db->compact(0, {}).is_ok());
  REQUIRE(manifests_with(*h.files, kName).size() == 1);
  REQUIRE(manifests_with(*h.files, kName).front() != before);
  bool done = false;
  for (Millis passed = 0; passed < kDeadline / 2 && !done; passed += 60'000) {
    pass(h, 60'000, 60'000);
    done = is_done(h, ticket);
    if (done) CHECK(files_with(*h.files, kName).empty());
  }
  CHECK(done);
}

TEST_CASE("database is emptied: its ticket is done once no reader, log segment or manifest has its data") {
  Harness h(with_deadline());
  h.open();
  put_some(h);
  REQUIRE(h.db->flush(0).is_ok());
  put_some(h);  // these keys are again in the log only
  h.del(0, "a1");
  const PurgeTicket earlier = ticket_of(h);  // the ticket of a delete that was waiting already
  pass(h, 60'000, 10'000);
  const TreeId old = h.db->tree_info(0)->tree;
  WriteBatch batch;
  batch.flush_database(0);
  h.write(batch);
  const PurgeTicket ticket = ticket_of(h);
  CHECK_FALSE(is_done(h, ticket));
  Millis found = 0;  // the last time at which a file had the marker
  for (Millis passed = 0; passed < kDeadline / 2; passed += 60'000) {
    if (!files_with(*h.files, kMarker).empty()) found = h.db->now();
    pass(h, 60'000, 60'000);
  }
  CHECK(files_with(*h.files, kMarker).empty());
  CHECK(files_with(*h.files, kName).empty());
  REQUIRE(found > ticket.born_by + kHour);
  for (const PurgeTicket& asked : {earlier, ticket, PurgeTicket{earlier.born_by, old}, PurgeTicket{ticket.born_by, old}}) {
    INFO(format_ticket(asked));
    const auto status = h.db->purge_status(asked);
    REQUIRE(status.is_ok());
    CHECK(status->done);
    CHECK(status->completed_at >= found);
    CHECK(status->completed_at <= found + kHour);
    CHECK(status->promised == true);
    CHECK(status->deadline == asked.born_by + kDeadline);
    CHECK(status->in_time == true);
  }
  CHECK(is_done(h, {h.db->now() - 100, old}));  // the delete was purged by then
}

TEST_CASE("very many databases are emptied: the history merges the oldest, and no ticket is done too early") {
  Harness h(with_deadline());
  h.open();
  std::vector<std::pair<PurgeTicket, Millis>> gone;  // each ticket, and when its data was purged
  for (int i = 0; i < 300; ++i) {
    h.put(0, kName, kMarker);
    const TreeId tree = h.db->tree_info(0)->tree;
    WriteBatch batch;
    batch.flush_database(0);
    h.write(batch);
    const PurgeTicket ticket{ticket_of(h).born_by, tree};
    CHECK_FALSE(is_done(h, ticket));
    if (i == 0) pass(h, kHour, 10'000);  // most are purged together
    REQUIRE(h.db->purge_now(ticket).is_ok());
    for (int wait = 0; wait < 60 && !is_done(h, ticket); ++wait) pass(h, 1000, 1000);
    REQUIRE(is_done(h, ticket));
    gone.emplace_back(ticket, h.db->purge_status(ticket)->completed_at);
  }
  for (const auto& [ticket, at] : gone) {
    INFO(format_ticket(ticket));
    REQUIRE(is_done(h, ticket));
    CHECK(h.db->purge_status(ticket)->completed_at >= at);
  }
  CHECK(h.db->purge_status(gone.back().first)->completed_at == gone.back().second);
  CHECK(h.db->purge_status({gone.front().first.born_by, {}})->completed_at >= gone.front().second);
  CHECK(h.db->purge_status({gone.back().first.born_by, {}})->completed_at == gone.back().second);
  CHECK_FALSE(h.db->purge_status(gone.front().first)->in_time.has_value());
}

TEST_CASE("ticket is checked, also after restarts: `in_time` has a value only if it is known") {
  Harness h(with_deadline());
  h.open();
  const PurgeTicket ticket = delete_from_table(h);
  const auto in_time = [&] {
    h.clock.advance(100);  // results may be up to 20 ms old
    return h.db->purge_status(ticket)->in_time;
  };
  const auto restart = [&] {
    h.reopen();
    h.clock.advance(100);
    h.db->tick();
  };
  CHECK_FALSE(in_time().has_value());
  const bool late = GENERATE(false, true);
  if (late) {
    h.db->pause_compactions();
    h.faults->inject({.ops = ops_of(FileOp::kCreate), .sticky = true, .path_has = ".data"});
    pass(h, kDeadline + kHour);
    CHECK_FALSE(is_done(h, ticket));
    CHECK(in_time() == false);
    h.faults->clear_faults();
    if (GENERATE(false, true)) {
      h.drop();
      h.open();
      CHECK_FALSE(is_done(h, ticket));
      CHECK(in_time() == false);  // the data is still there
    }
    h.heal();
  }
  REQUIRE(h.db->compact(0, {}).is_ok());
  pass(h, kDeadline / 2);
  REQUIRE(is_done(h, ticket));
  CHECK(in_time() == !late);
  if (!late) {
    restart();
    CHECK(in_time() == true);  // the deadline is in the future
    pass(h, kDeadline);
  }
  WriteBatch batch;
  batch.flush_database(1);  // a tree that is created later does not count
  h.write(batch);
  h.put(1, "k", "v");
  pass(h, kHour);
  CHECK(in_time() == !late);
  restart();
  CHECK(is_done(h, ticket));
  CHECK_FALSE(in_time().has_value());
}

TEST_CASE("file cannot be unlinked, or its removal cannot be synced: its deletes stay pending") {
  Harness h(with_deadline());
  h.open();
  const PurgeTicket ticket = delete_from_table(h);
  const bool unlink_fails = GENERATE(true, false);
  h.faults->inject({.ops = ops_of(unlink_fails ? FileOp::kUnlink : FileOp::kSyncDir),
                    .sticky = true,
                    .path_has = unlink_fails ? ".data" : ""});
  (void)!h.db->compact(0, {}).is_ok();
  pass(h, kDeadline / 2);
  CHECK_FALSE(is_done(h, ticket));
  h.faults->clear_faults();
  pass(h, kDeadline / 4);
  (void)!h.db->compact(0, {}).is_ok();
  pass(h, kDeadline / 4);
  CHECK(is_done(h, ticket));
  CHECK(files_with(*h.files, kMarker).empty());
}

TEST_CASE("unneeded log segment cannot be unlinked: its deletes stay pending") {
  Harness h(with_deadline());
  h.open();
  const PurgeTicket ticket = delete_from_table(h);
  h.faults->inject({.ops = ops_of(FileOp::kUnlink), .sticky = true, .path_has = ".wal"});
  REQUIRE(h.db->compact(0, {}).is_ok());
  pass(h, kDeadline / 2);
  REQUIRE_FALSE(files_with(*h.files, kMarker).empty());
  CHECK_FALSE(is_done(h, ticket));
  h.faults->clear_faults();
  pass(h, kDeadline / 4);
  CHECK(is_done(h, ticket));
  CHECK(files_with(*h.files, kMarker).empty());
}

TEST_CASE("log segment has failed: it is removed by the deadline like any other segment") {
  Harness h(with_deadline());
  h.open();
  put_some(h);
  h.del(0, kName);
  h.faults->inject({.ops = ops_of(FileOp::kSync), .sticky = true, .path_has = ".wal"});
  (void)!h.db->wait_synced(h.db->visible_seq()).is_ok();
  h.faults->clear_faults();
  pass(h, 60'000, 1000);
  CHECK(h.db->write_status().is_ok());
  CHECK(h.get(0, "a7") == std::string(100, 'x'));
  const PurgeTicket ticket = ticket_of(h);
  pass(h, kDeadline / 2);
  REQUIRE(h.db->compact(0, {}).is_ok());
  pass(h, kDeadline / 4);
  CHECK(is_done(h, ticket));
  CHECK(files_with(*h.files, kMarker).empty());
}

TEST_CASE("ticket was never issued: it is refused, and an old ticket stays valid after restarts") {
  Harness h(with_deadline());
  h.open();
  put_some(h);
  h.del(0, kName);
  const PurgeTicket ticket = ticket_of(h);
  const TreeId tree = h.db->tree_info(0)->tree;
  CHECK(h.db->purge_status({ticket.born_by + kDeadline, {}}).status().code() == Code::kInvalidArgument);
  CHECK(h.db->purge_status({0, {}}).status().code() == Code::kInvalidArgument);
  CHECK(h.db->purge_status({ticket.born_by, tree + 1}).status().code() == Code::kInvalidArgument);
  CHECK(h.db->purge_now({ticket.born_by + kDeadline, {}}).code() == Code::kInvalidArgument);
  const bool crashes = GENERATE(true, false);
  const auto restart = [&] {
    if (crashes) {
      h.crash(CrashMode::kEverything, 1);
      h.open();
    } else {
      h.reopen();
    }
    h.clock.advance(2);
    h.db->tick();
  };
  h.db->note_ticket(ticket);
  CHECK(h.db->open_tickets() == std::vector{ticket});
  restart();
  CHECK_FALSE(is_done(h, ticket));
  CHECK(h.db->open_tickets().empty());  // the list belongs to this process; the ticket itself is valid without it
  for (const PurgeTicket& asked : {ticket, PurgeTicket{ticket.born_by, tree}}) {
    const PurgeStatus status = h.db->purge_status(asked).value();
    CHECK(status.promised == true);
    CHECK(status.deadline == ticket.born_by + kDeadline);
    CHECK_FALSE(status.in_time.has_value());
    CHECK(status.files() + status.left[static_cast<std::size_t>(PurgePlace::kMemTable)].files > 0);
  }
  REQUIRE(h.db->compact(0, {}).is_ok());
  pass(h, kDeadline / 2);
  CHECK(is_done(h, ticket));
  restart();
  CHECK(is_done(h, ticket));
  CHECK(h.db->purge_status(ticket)->promised == true);
  CHECK(h.db->purge_status(ticket)->deadline == ticket.born_by + kDeadline);
}

TEST_CASE("tree was dropped before the start: its ticket is done, and its deadline is unknown") {
  Harness h(with_deadline());
  h.open();
  put_some(h);
  const TreeId old = h.db->tree_info(0)->tree;
  WriteBatch batch;
  batch.flush_database(0);
  h.write(batch);
  h.put(0, "another", "1");
  const PurgeTicket ticket{ticket_of(h).born_by, old}, all{ticket.born_by, {}};
  SECTION("tree is removed before the restart") {
    pass(h, kDeadline / 2);
    REQUIRE(is_done(h, ticket));
    CHECK(h.db->purge_status(ticket)->promised == true);
    CHECK(h.db->purge_status(ticket)->in_time == true);
    h.reopen();
    h.clock.advance(2);
    h.db->tick();
    const PurgeStatus status = h.db->purge_status(ticket).value();
    CHECK(status.done);
    CHECK_FALSE(status.promised.has_value());
    CHECK(status.deadline == 0);
    CHECK_FALSE(status.in_time.has_value());
    // For existing trees the deadline is known, even if it is unknown for others.
    CHECK(h.db->purge_status(all)->promised == true);
    CHECK(h.db->purge_status(all)->done);
  }
  SECTION("tree is not removed yet") {
    h.reopen();
    h.clock.advance(2);
    h.db->tick();
    pass(h, kDeadline / 2);
    CHECK(is_done(h, ticket));
    CHECK(is_done(h, all));
    CHECK(files_with(*h.files, kMarker).empty());
  }
}

TEST_CASE("ticket for all trees is from before a restart: its deadline is unknown") {
  Harness h(with_deadline());
  h.open();
  const PurgeTicket ticket = delete_from_table(h);
  Settings changed = h.settings;
  changed.tree.delete_deadline = 0;
  REQUIRE(h.db->reconfigure(changed).is_ok());
  WriteBatch batch;
  batch.flush_database(0);
  h.write(batch);
  h.put(0, "another", "1");
  pass(h, 2 * kDeadline);
  CHECK(h.db->purge_status(ticket)->promised == true);
  h.settings = changed;
  h.reopen();
  h.clock.advance(2);
  h.db->tick();
  CHECK_FALSE(h.db->purge_status(ticket)->promised.has_value());
  CHECK(h.db->purge_status(ticket_of(h))->promised == false);
}

TEST_CASE("database has no deadline: a ticket for all trees names the database and does not wait for its deletes") {
  Settings s = with_deadline();
  s.overrides[1] = s.tree;
  s.overrides[1].delete_deadline = 0;
  Harness h(s);
  h.open();
  h.put(1, kName, kMarker);
  h.del(1, kName);
  h.put(0, "k", "v");
  pass(h, kHour);
  const PurgeTicket ticket = ticket_of(h);
  CHECK(is_done(h, ticket));
  CHECK(h.db->purge_status(ticket)->not_promised == std::vector<DatabaseId>{1});
  const PurgeTicket own{ticket.born_by, h.db->tree_info(1)->tree};
  CHECK_FALSE(is_done(h, own));
  CHECK(h.db->purge_status(own)->promised == false);
}

TEST_CASE("deadline is made longer or removed: earlier deletes leave log and manifest by the old deadline") {
  Harness h(with_deadline());
  h.open();
  const PurgeTicket ticket = delete_from_table(h);
  Settings changed = h.settings;
  changed.tree.delete_deadline = GENERATE(100 * kDeadline, Millis{0});
  REQUIRE(h.db->reconfigure(changed).is_ok());
  CHECK(h.db->purge_status(ticket)->promised == true);
  CHECK(h.db->purge_status(ticket)->deadline == ticket.born_by + kDeadline);
  pass(h, kDeadline);
  CHECK(is_done(h, ticket));
  CHECK(files_with(*h.files, kMarker).empty());
  CHECK(files_with(*h.files, kName).empty());
  CHECK(h.db->stats().deadlines_missed_load == 0);
}

TEST_CASE("key is deleted and purged: statistics count its purge time, and until then its bytes as garbage") {
  Harness h(with_deadline());
  h.open();
  put_some(h);
  const Millis logged = h.db->stats().wal_oldest_record;
  CHECK(logged != 0);
  REQUIRE(h.db->flush(0).is_ok());
  const auto count = [&h] {
    std::uint64_t sum = 0;
    for (const std::uint64_t n : h.db->stats().delete_persist_seconds.buckets) sum += n;
    return sum;
  };
  pass(h, 60'000, 60'000);
  CHECK(count() == 0);
  h.del(0, kName);
  const Millis birth = h.db->now();
  REQUIRE(h.db->flush(0).is_ok());
  CHECK(h.db->stats().garbage_deleted > 0);
  h.advance(2000);
  std::optional<ReadView> view = h.db->lease(0);
  h.advance(3000);
  CHECK(h.db->stats().oldest_snapshot == birth + 2000);
  CHECK(count() == 0);
  CHECK(h.db->stats().garbage_leaving == 0);
  REQUIRE(h.db->compact(0, {}).is_ok());
  CHECK(h.db->stats().garbage_deleted == 0);
  CHECK(h.db->stats().garbage_leaving > 1000);  // files that the view reads
  CHECK(count() == 0);
  view.reset();
  pass(h, kDeadline);
  CHECK(h.db->stats().oldest_snapshot == 0);
  CHECK(h.db->stats().garbage_leaving == 0);
  CHECK(count() == 1);
  const double took = h.db->stats().delete_persist_seconds.sum;
  CHECK(took > 5);
  CHECK(took * 1000 <= kDeadline);
  CHECK(h.db->stats().wal_oldest_record == 0);  // the segment was removed, and the one after it is empty
  h.put(0, "k", "v");
  const Millis written = h.db->now();
  CHECK(h.db->stats().wal_oldest_record == written);
  h.clock.advance(5000);
  h.crash(CrashMode::kEverything, 1);
  h.open();
  CHECK(h.db->stats().wal_oldest_record == written);
}

TEST_CASE("deadline changes: earlier deletes keep the old deadline, also after restarts and crashes") {
  Harness h(with_deadline());
  h.open();
  put_some(h);
  const bool while_running = GENERATE(true, false), crashes = GENERATE(true, false);
  if (GENERATE(false, true)) REQUIRE(h.db->flush(0).is_ok());
  if (!while_running) h.settle();  // the manifest has the tree
  h.del(0, kName);
  const PurgeTicket ticket = ticket_of(h);
  Settings changed = h.settings;
  changed.tree.delete_deadline = GENERATE(100 * kDeadline, Millis{0});
  if (while_running) REQUIRE(h.db->reconfigure(changed).is_ok());
  h.settings = changed;
  const auto restart = [&](CrashMode mode) {
    if (crashes) {
      h.crash(mode, 1);
      h.open();
    } else {
      h.reopen();
    }
    h.clock.advance(100);
  };
  restart(CrashMode::kNothing);  // only the durable state is left after this crash
  CHECK(h.db->tree_info(0)->oldest_obligation_deadline == h.db->tree_info(0)->oldest_obligation + kDeadline);
  pass(h, kHour);
  restart(CrashMode::kEverything);  // the state in the second manifest
  CHECK(h.db->purge_status(ticket)->promised == true);
  CHECK(h.db->purge_status(ticket)->deadline == ticket.born_by + kDeadline);
  pass(h, kDeadline - kHour);
  CHECK(is_done(h, ticket));
  CHECK(files_with(*h.files, kMarker).empty());
  CHECK(files_with(*h.files, kName).empty());
  CHECK(h.db->stats().deadlines_missed_load + h.db->stats().deadlines_missed_down == 0);
  // No earlier delete is pending, so its deadline is dropped: new deletes have only the new deadline.
  restart(CrashMode::kEverything);
  const TreeId tree = h.db->tree_info(0)->tree;
  auto versions = VersionSet::open(*h.files, h.settings.dir);
  REQUIRE(versions.is_ok());
  CHECK((*versions)->tree(tree)->deadlines == DeadlineRule(changed.tree.delete_deadline));
}

TEST_CASE("shorter deadline is set only by CONFIG SET: a later delete has the shorter deadline even after a restart") {
  Harness h(with_deadline());
  h.open();
  put_some(h);
  REQUIRE(h.db->flush(0).is_ok());
  Settings changed = h.settings;
  changed.tree.delete_deadline = kHour;
  REQUIRE(h.db->reconfigure(changed).is_ok());
  h.clock.advance(10);
  h.del(0, kName);
  const PurgeTicket ticket = ticket_of(h);
  h.crash(CrashMode::kNothing, 1);  // the configuration file has the old deadline
  h.open();
  h.clock.advance(100);
  CHECK(h.db->purge_status(ticket)->deadline == ticket.born_by + kHour);
  pass(h, kHour, 60'000);
  CHECK(is_done(h, ticket));
  CHECK(files_with(*h.files, kMarker).empty());
  CHECK(h.db->stats().deadlines_missed_load == 0);
}

// The manifest has no deadline for a removed tree. Only the log still has the tree's values.
TEST_CASE("database was emptied before a restart: its log is purged at once, since its deadline may have been shorter") {
  Harness h(with_deadline());
  h.open();
  put_some(h);
  const bool in_tables = GENERATE(false, true), crash = GENERATE(false, true);
  if (in_tables) REQUIRE(h.db->flush(0).is_ok());
  Settings changed = h.settings;
  changed.tree.delete_deadline = 60'000;
  REQUIRE(h.db->reconfigure(changed).is_ok());
  h.settle();
  put_some(h);  // these keys are in the log only
  empty(h, 0);
  h.put(1, "another", "1");
  const PurgeTicket ticket = ticket_of(h);
  REQUIRE_FALSE(files_with(*h.files, kMarker).empty());
  if (crash) {
    h.crash(CrashMode::kEverything, 1);  // the configuration file has the old deadline
    h.open();
  } else {
    h.reopen();
  }
  pass(h, 20'000, 1000);
  CHECK(files_with(*h.files, kMarker).empty());
  CHECK(h.get(1, "another") == "1");
  pass(h, 40'000, 1000);
  CHECK(is_done(h, ticket));
}

TEST_CASE("database was emptied before the start: its data counts as late after the longest deadline of all databases") {
  Settings s = with_deadline();
  s.overrides[1] = s.tree;
  s.overrides[1].delete_deadline = 60'000;
  Harness h(s);
  h.open();
  put_some(h);
  h.put(1, "another", "1");
  empty(h, 0);
  pass(h, kHour / 2);
  REQUIRE_FALSE(files_with(*h.files, kMarker).empty());
  REQUIRE(h.db->close().is_ok());
  h.drop();
  const bool late = GENERATE(false, true);
  h.clock.advance(late ? kDeadline : kHour);
  h.open();
  pass(h, 20'000, 1000);
  CHECK(files_with(*h.files, kMarker).empty());
  CHECK(h.db->stats().deadlines_missed_down == (late ? 1 : 0));
  CHECK(h.db->stats().deadlines_missed_load == 0);
}

TEST_CASE("crash at any file operation of a change of deadline: the old deadline or the stricter one applies") {
  for (std::uint64_t k = 1;; ++k) {
    INFO("crash before operation " << k);
    Harness h(with_deadline());
    h.open();
    put_some(h);
    REQUIRE(h.db->flush(0).is_ok());
    h.del(0, kName);
    const PurgeTicket ticket = ticket_of(h);
    std::unique_ptr<MemoryFileSystem> left;
    h.faults->before_nth(k, kMutatingOps, [&] {
      if (left == nullptr) left = h.files->crash_clone(first_seed() + k, CrashMode::kRandom);
    });
    Settings changed = h.settings;
    changed.tree.delete_deadline = kHour;
    const Millis change = h.db->now();
    REQUIRE(h.db->reconfigure(changed).is_ok());
    const bool whole = left == nullptr;
    if (whole) left = h.files->crash_clone(k, CrashMode::kNothing);
    h.abandon(std::move(left));
    h.open();
    h.clock.advance(100);
    const Millis due = h.db->purge_status(ticket)->deadline;
    CHECK((due == change + kHour || (!whole && due == ticket.born_by + kDeadline)));
    h.verify(0);
    if (whole) break;
    REQUIRE(k < 100);
  }
}

TEST_CASE("change of a deadline cannot be written: it is written once the disk works again") {
  Harness h(with_deadline());
  h.open();
  put_some(h);
  REQUIRE(h.db->flush(0).is_ok());
  h.faults->inject({.ops = ops_of(FileOp::kWrite), .path_has = "MANIFEST"});
  Settings changed = h.settings;
  changed.tree.delete_deadline = kHour;
  REQUIRE(h.db->reconfigure(changed).is_ok());
  h.advance(100);
  h.settle();
  h.heal();
  h.advance(100);
  h.settle();
  h.crash(CrashMode::kNothing, 1);
  h.open();
  auto versions = VersionSet::open(*h.files, h.settings.dir);
  REQUIRE(versions.is_ok());
  const auto rule = (*versions)->tree(h.db->tree_info(0)->tree)->deadlines;
  REQUIRE(rule.has_value());
  CHECK(rule->shortest() == kHour);
}

TEST_CASE("deadline is made shorter: pending deletes have the new time from the change on, so none is late at once") {
  Harness h(with_deadline());
  h.open();
  put_some(h);
  REQUIRE(h.db->flush(0).is_ok());
  const ReadView view = h.db->lease(0);
  h.del(0, kName);
  const PurgeTicket ticket = ticket_of(h);
  REQUIRE(h.db->compact(0, {}).is_ok());
  pass(h, kDeadline / 4);
  Settings changed = h.settings;
  changed.tree.delete_deadline = kHour;
  const Millis change = h.db->now();
  REQUIRE(h.db->reconfigure(changed).is_ok());
  h.clock.advance(100);  // results may be up to 20 ms old
  CHECK(h.db->purge_status(ticket)->deadline == change + kHour);
  pass(h, kHour / 6);
  CHECK(h.db->stats().deadlines_missed_load == 0);
  CHECK(h.db->stats().leases_revoked == 0);
  pass(h, kHour);
  CHECK(h.db->stats().leases_revoked == 1);
  CHECK(h.db->stats().deadlines_missed_load == 1);  // the view, which is still open, is the reason
}

TEST_CASE("only a delete by stamp covers entries: the delete's ticket is pending until the entries are purged") {
  Harness h(with_deadline(0));
  h.open();
  put_some(h, 5);
  REQUIRE(h.db->flush(0).is_ok());
  h.clock.advance(1000);
  WriteBatch batch;
  batch.delete_stamps(0, 0, h.db->now() + 1);
  h.write(batch);
  const PurgeTicket ticket{ticket_of(h).born_by, h.db->tree_info(0)->tree};
  REQUIRE(h.db->flush(0).is_ok());
  CHECK(h.get(0, kName) == "(absent)");
  CHECK_FALSE(is_done(h, ticket));
  const std::vector<RunInfo> runs = h.db->tree_info(0)->runs;
  CHECK(std::any_of(runs.begin(), runs.end(), [&](const RunInfo& run) { return run.oldest_tombstone_birth == ticket.born_by; }));
  // These files stay as they were written.
  CHECK(h.db->purge_status(ticket)->left[static_cast<std::size_t>(PurgePlace::kTable)].files >= 1);
  CHECK_FALSE(files_with(*h.files, kMarker).empty());
}

TEST_CASE("deadline is missed: the miss is counted once, under its reason") {
  Harness h(with_deadline());
  h.open();
  put_some(h);
  REQUIRE(h.db->flush(0).is_ok());
  h.del(0, kName);
  REQUIRE(h.db->flush(0).is_ok());
  h.db->pause_compactions();
  const std::string reason = GENERATE("down", "clock", "disk", "disk early", "load");
  if (reason == "down") {
    h.drop();
    h.clock.advance(kDeadline + kHour);
    h.open();
    h.db->pause_compactions();
    pass(h, kHour / 2);
  } else if (reason == "clock") {
    pass(h, kHour);
    h.clock.set_wall(h.clock.wall_ms() + kDeadline);
    pass(h, kHour);
  } else if (reason == "load") {
    h.clock.advance(kDeadline + kHour);  // no merge runs meanwhile
    h.db->tick();
  } else {
    h.faults->inject({.ops = ops_of(FileOp::kCreate), .sticky = true, .path_has = ".data"});
    pass(h, reason == "disk" ? kDeadline + kHour : kDeadline / 4);
    h.faults->clear_faults();
    if (reason == "disk early") {
      h.clock.advance(kDeadline);
      h.db->tick();
    }
  }
  const Stats stats = h.db->stats();
  CHECK(stats.deadlines_missed_down == (reason == "down" ? 1 : 0));
  CHECK(stats.deadlines_missed_clock == (reason == "clock" ? 1 : 0));
  // A write that was refused while more than half of the time was left is not the reason of the miss.
  const bool load = reason == "load" || reason == "disk early";
  CHECK(stats.deadlines_missed_disk == (reason == "disk" ? 1 : 0));
  CHECK(stats.deadlines_missed_load == (load ? 1 : 0));
  CHECK(h.events.heard("reason: " + (load ? "load" : reason)));
}

// After a power loss at any moment, data reported as purged must still be purged, and tickets must still be done.
TEST_CASE("ticket is done: it stays done after a crash") {
  const int rounds = 60;
  int done_before = 0;  // the tickets that were done before the crash
  for (int round = 0; round < rounds; ++round) {
    Harness h(with_deadline());
    h.open();
    put_some(h, 10);
    if (round % 3 == 0) REQUIRE(h.db->flush(0).is_ok());
    if (round % 5 == 4) {
      WriteBatch batch;
      batch.flush_database(0);
      h.write(batch);
      h.put(0, "a1", "v");
    } else if (round % 2 == 0) {
      h.del(0, kName);
    } else {
      h.del_range(0, "n", "o");
    }
    const PurgeTicket ticket = ticket_of(h);
    REQUIRE(h.db->purge_now(ticket).is_ok());
    std::unique_ptr<MemoryFileSystem> left;
    bool done_at_crash = false, done = false;
    int calls = 0;
    const int crash_at = 7 + round * 3;
    h.watch->on_call = [&](const FileCall& call) {
      if ((ops_of(call.op) & kMutatingOps) == 0 || ++calls != crash_at) return;
      left = h.files->crash_clone(static_cast<std::uint64_t>(round), CrashMode::kRandom);
      done_at_crash = done;
    };
    for (int i = 0; i < 30 && left == nullptr; ++i) {
      pass(h, 2000, 1000);
      if (i == 4) (void)!h.db->compact(0, {}).is_ok();
      if (left == nullptr) done = is_done(h, ticket);
    }
    h.watch->on_call = nullptr;
    done_before += done_at_crash ? 1 : 0;
    if (left == nullptr) {
      CHECK(done);
      left = h.files->crash_clone(static_cast<std::uint64_t>(round), CrashMode::kRandom);
      done_at_crash = done;
    }
    INFO("round " << round << " done " << done_at_crash);
    if (done_at_crash) CHECK(files_with(*left, kMarker).empty());
    h.abandon(std::move(left));
    h.open();
    h.clock.advance(10);
    if (done_at_crash) CHECK(is_done(h, ticket));
    REQUIRE(h.db->purge_now(ticket).is_ok());
    pass(h, 10'000, 1000);
    REQUIRE(h.db->compact(0, {}).is_ok());
    pass(h, 30'000, 1000);
    CHECK(is_done(h, ticket));
    CHECK(files_with(*h.files, kMarker).empty());
    if (round % 5 != 4) CHECK(files_with(*h.files, kName).empty());
  }
  CHECK(done_before > 5);
}

}  // namespace TEST_FILE
