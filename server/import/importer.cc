#include "import/importer.h"

#include <array>
#include <charconv>
#include <utility>

namespace ebbtide {
namespace {

// A batch is sent as a whole. The next batch is prepared while the server works on this one.
constexpr std::size_t kBatchBytes = std::size_t{512} << 10, kBatchCommands = 512;

constexpr std::size_t kMostPayload = (std::size_t{512} << 20) - 64;  // the protocol allows arguments of at most 512 MiB

std::int64_t number_of(const std::string& text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

Status Importer::begin() {
  TRY_ASSIGN(time, target_.require(std::array<Bytes, 1>{"TIME"}));
  if (time.array.size() != 2)
    return Status::io_error("unexpected reply to TIME from " + target_.name() + ": not seconds and microseconds");
  time_ms_ = number_of(time.array[0].text) * 1000 + number_of(time.array[1].text) / 1000;
  return Status::ok();
}

Status Importer::select(std::uint64_t database) {
  if (selected_ && database_ == database) return Status::ok();
  selected_ = true;
  database_ = database;
  const std::string number = std::to_string(database);
  target_.send(std::array<Bytes, 2>{"SELECT", number});
  return sent({.database = database, .type = {}, .name = {}, .kind = Sent::Kind::kSelect}, number.size());
}

Status Importer::add(RdbEntry&& entry, unsigned version) {
  const bool in_doubt = in_doubt_ != 0;
  if (in_doubt) --in_doubt_;
  const std::string type = rdb_type_name(entry.type);
  if (!rdb_type_is_supported(entry.type)) {
    report_.add_lost(entry.database, type, Fate::kUnsupported, entry.key, "the server does not have this type");
    return Status::ok();
  }
  if (entry.expiry_ms && *entry.expiry_ms <= time_ms_) {
    report_.add(entry.database, type, Fate::kExpired);
    return Status::ok();
  }
  if (entry.value.size() >= kMostPayload) {
    report_.add_lost(entry.database, type, Fate::kRefused, entry.key,
                     "the value has " + std::to_string(entry.value.size()) + " bytes");
    return Status::ok();
  }
  TRY(select(entry.database));
  const std::string payload = rdb_payload(entry, version), expiry = std::to_string(entry.expiry_ms.value_or(0));
  std::vector<Bytes> arguments = {"RESTORE", entry.key, expiry, payload, "ABSTTL"};
  if (replace_) arguments.emplace_back("REPLACE");
  target_.send(arguments);
  return sent(
      {.database = entry.database, .type = type, .name = std::move(entry.key), .kind = Sent::Kind::kKey, .in_doubt = in_doubt},
      payload.size());
}

Status Importer::add_command(const std::vector<std::string>& arguments, std::string name) {
  std::vector<Bytes> views(arguments.begin(), arguments.end());
  std::size_t bytes = 0;
  for (const Bytes view : views) bytes += view.size();
  target_.send(views);
  selected_ = false;  // the command may be a SELECT, so the selected database is unknown
  return sent({.database = 0, .type = {}, .name = std::move(name), .kind = Sent::Kind::kCommand}, bytes);
}

Status Importer::remove(std::uint64_t database, const std::string& key) {
  TRY(select(database));
  target_.send(std::array<Bytes, 2>{"UNLINK", key});
  return sent({.database = database, .type = {}, .name = key, .kind = Sent::Kind::kRemoval}, key.size());
}

Status Importer::sent(Sent what, std::size_t bytes) {
  what.batch = batch_;
  sent_.push_back(std::move(what));
  batch_bytes_ += bytes;
  if (batch_bytes_ < kBatchBytes && ++batch_commands_ < kBatchCommands) return Status::ok();
  TRY(target_.flush());
  const std::uint64_t flushed = batch_++;
  batch_bytes_ = batch_commands_ = 0;
  while (!sent_.empty() && sent_.front().batch < flushed) TRY(receive_one());
  return Status::ok();
}

Status Importer::receive_one() {
  TRY_ASSIGN(reply, target_.receive());
  const Sent what = std::move(sent_.front());
  sent_.pop_front();
  return note(what, reply);
}

Status Importer::note(const Sent& what, const ServerReply& reply) {
  switch (what.kind) {
    case Sent::Kind::kSelect:
      if (reply.is_error()) {
        return Status::invalid_argument("database " + std::to_string(what.database) + " cannot be selected at " + target_.name() +
                                        ": " + reply.text + ". If " + target_.name() + " is Ebbtide, raise `server.databases`.");
      }
      break;
    case Sent::Kind::kKey:
      if (what.in_doubt && reply.is_error() && reply.text.starts_with("BUSYKEY")) {
        report_.add_in_doubt(what.database, what.type, what.name);
      } else if (reply.is_error()) {
        report_.add_lost(what.database, what.type, Fate::kRefused, what.name, reply.text);
      } else {
        report_.add(what.database, what.type, Fate::kTaken);
      }
      break;
    case Sent::Kind::kRemoval:
      if (reply.is_error())
        return Status::io_error(target_.name() + " refuses to remove " + printable(what.name) + ": " + reply.text);
      break;
    case Sent::Kind::kCommand:
      TRY(note_command(what.name, reply));
      break;
  }
  return Status::ok();
}

Status Importer::note_command(const std::string& place, const ServerReply& reply) {
  if (!reply.is_error()) return Status::ok();
  // After a failed SELECT, all later commands would change another database.
  if (reply.text.find("DB index is out of range") != std::string::npos) {
    return Status::invalid_argument(place + ": " + reply.text + " at " + target_.name() + ". If " + target_.name() +
                                    " is Ebbtide, raise `server.databases`.");
  }
  report_.add_other(place, reply.text);
  return Status::ok();
}

Status Importer::drain() {
  TRY(target_.flush());
  while (!sent_.empty()) TRY(receive_one());
  ++batch_;
  batch_bytes_ = batch_commands_ = 0;
  return Status::ok();
}

}  // namespace ebbtide
