// The log lines that a start writes: which ports, memory and threads the server uses, and why.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <engine/options.h>

#include "config/config.h"

namespace ebbtide {

/// Facts about the start that are not in the configuration.
struct StartFacts {
  std::string version;
  unsigned port = 0, tls_port = 0, admin_port = 0;  ///< 0: the server does not listen on this port
  int pid = 0;
  std::size_t loops = 0;           ///< event loops
  std::uint64_t memory_bytes = 0;  ///< memory of the machine or the control group
  std::string memory_source;       ///< where memory_bytes comes from, for people
  std::string cores_source;        ///< what determines the number of processors, for people
  bool password_required = false;
};

struct StartLine {
  bool warning = false;
  std::string text;
};

/// Returns the lines, without line feeds. `engine`: the settings in effect. A pure function.
std::vector<StartLine> start_report(const Config& config, const Settings& engine, const StartFacts& facts);

}  // namespace ebbtide
