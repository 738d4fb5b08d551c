// Advice for a running server: `ebbtide-tune advise --server` reads the reply to TUNE.WORKLOAD, and computes the same advice as
// the server's TUNE.ADVISE.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <engine/result.h>
#include <engine/tuner.h>

namespace ebbtide {

/// A running server, and the user to log in as.
struct TuneServer {
  std::string host = "127.0.0.1";
  int port = 6379;
  std::string user;  ///< "" with a password: the default user
  std::string password;
  DatabaseId database = 0;

  /// Returns "127.0.0.1:6379".
  [[nodiscard]] std::string name() const;
};
/// Sets host and port from "HOST:PORT", "[ADDRESS]:PORT" or "HOST". kInvalidArgument: another form.
Status parse_server(const std::string& text, TuneServer* server);

/// A reply of a server in RESP2: a text, or an array. An integer is a text of its digits; a map is an array of names and values.
struct ServedValue {
  bool is_array = false;
  std::string text;
  std::vector<ServedValue> items;
};
/// Returns the workload that a reply to TUNE.WORKLOAD describes. kCorruption: a field is missing or wrong; the message names it.
Result<Workload> workload_of(const ServedValue& reply);

/// Asks the server for the workload of a database. kIoError: no connection. kInvalidArgument: the server refuses the password or
/// the command; the message has its error.
Result<Workload> fetch_workload(const TuneServer& server);

/// Returns the advice as tables and sentences. Settings that are not worth a change are left out.
std::string recommendation_text(const Workload& workload, const Recommendation& advice);
/// Returns the advice as JSON, with the fields of TUNE.ADVISE.
std::string recommendation_json(const Workload& workload, const Recommendation& advice);

}  // namespace ebbtide
