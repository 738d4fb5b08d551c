// Sends keys and commands to a server in a pipeline, and reports the outcome of each.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "import/connection.h"
#include "import/rdb_reader.h"
#include "import/report.h"

namespace ebbtide {

/// Sends to one server. Not thread-safe.
class Importer {
 public:
  /// `replace`: keys that the server already has are replaced, otherwise refused. The arguments must outlive this object.
  Importer(Connection& target, TransferReport& report, bool replace) : target_(target), report_(report), replace_(replace) {}

  /// Says that an interrupted import may have sent the next `entries` keys. If the server has one of them, its outcome is in
  /// doubt, not refused.
  void doubt(std::uint64_t entries) { in_doubt_ = entries; }
  /// Reads the server's time, which decides if a key has expired. Call it first.
  Status begin();
  /// Sends a key. Reports its outcome now, or when the reply arrives.
  Status add(RdbEntry&& entry, unsigned version);
  /// Sends a command unchanged. Reports an error of the server under `name`, the command's position in the file.
  /// kInvalidArgument: an earlier SELECT named a database that the server does not have.
  Status add_command(const std::vector<std::string>& arguments, std::string name);
  /// Removes a key.
  Status remove(std::uint64_t database, const std::string& key);
  /// Returns when all replies have arrived.
  Status drain();

 private:
  struct Sent {
    std::uint64_t database = 0;
    std::string type, name;  // `name` is a key, or the position of a command in the file
    enum class Kind : std::uint8_t { kKey, kCommand, kSelect, kRemoval } kind = Kind::kKey;
    std::uint64_t batch = 0;
    bool in_doubt = false;
  };
  Status select(std::uint64_t database);
  Status sent(Sent what, std::size_t bytes);
  Status receive_one();
  Status note(const Sent& what, const ServerReply& reply);
  Status note_command(const std::string& place, const ServerReply& reply);

  Connection& target_;
  TransferReport& report_;
  const bool replace_;
  std::int64_t time_ms_ = 0;
  std::uint64_t database_ = 0;
  bool selected_ = false;
  std::deque<Sent> sent_;  // sent, and waiting for a reply
  std::uint64_t in_doubt_ = 0;
  std::uint64_t batch_ = 0;
  std::size_t batch_bytes_ = 0, batch_commands_ = 0;
};

}  // namespace ebbtide
