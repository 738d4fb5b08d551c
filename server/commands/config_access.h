// The tuner's access to the configuration of the running server.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dispatch/server_control.h"
#include "tuning/apply_advice.h"

namespace ebbtide {

/// Returns functions that read and change settings like CONFIG GET and CONFIG SET. `server` must outlive them.
inline ConfigAccess config_access(ServerControl& server) {
  return {[&server](const std::string& key) {
            const Bytes pattern = key;
            std::vector<std::pair<std::string, std::string>> found;
            server.config_get(std::span(&pattern, 1), &found);
            return found.empty() ? std::string() : found.front().second;
          },
          [&server](std::span<const std::pair<std::string, std::string>> items) {
            const std::vector<std::pair<Bytes, Bytes>> views(items.begin(), items.end());
            return server.config_set(views);
          }};
}

}  // namespace ebbtide
