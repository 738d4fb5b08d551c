// The environment of an ObsoleteFileRemover without a database, for tests of components around it.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "db/background/obsolete_files.h"

namespace ebbtide::testing {

/// Returns the environment of a database in the directory "db". No file has pages in a cache, and no submitted task ever runs.
inline ObsoleteFileRemover::Env remover_env(const Clock& clock, RemovalsFileSystem& fs, std::function<void()> collect) {
  return {.clock = &clock,
          .fs = &fs,
          .dir = "db",
          .collect = std::move(collect),
          .forget = [](FileNum) {},
          .submit = [](const std::function<void()>&) {},
          .warn = [](const std::string&) {}};
}

}  // namespace ebbtide::testing
