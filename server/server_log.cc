#include "server_log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/dist_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <mutex>
#include <stdexcept>

namespace ebbtide {
namespace {

spdlog::level::level_enum level_of(const std::string& name) {
  if (name == "debug") return spdlog::level::debug;
  if (name == "warning") return spdlog::level::warn;
  return name == "error" ? spdlog::level::err : spdlog::level::info;
}

}  // namespace

struct ServerLog::Sinks {
  std::shared_ptr<spdlog::sinks::dist_sink_mt> all = std::make_shared<spdlog::sinks::dist_sink_mt>();
  std::mutex mutex;
  spdlog::sink_ptr current;  // guarded by mutex
};

ServerLog::ServerLog(const std::string& level, const std::string& file) : sinks_(std::make_unique<Sinks>()), file_(file) {
  logger_ = std::make_shared<spdlog::logger>("ebbtide", sinks_->all);
  logger_->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %L %v");
  logger_->flush_on(spdlog::level::info);
  set_level(level);
  if (file.empty()) {
    sinks_->current = std::make_shared<spdlog::sinks::stdout_sink_mt>();
    sinks_->current->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %L %v");
    sinks_->all->add_sink(sinks_->current);
  } else if (const std::string why = reopen(); !why.empty()) {
    throw std::runtime_error(why);
  }
}

ServerLog::~ServerLog() { logger_->flush(); }

void ServerLog::write(Level level, const std::string& text) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                                   spdlog::level::err};
  logger_->log(kLevels[static_cast<int>(level)], "{}", text);
}

void ServerLog::set_level(const std::string& level) { logger_->set_level(level_of(level)); }

std::string ServerLog::reopen() {
  if (file_.empty()) return {};
  try {
    auto next = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file_);
    next->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %L %v");
    std::lock_guard lock(sinks_->mutex);
    sinks_->all->add_sink(next);
    if (sinks_->current != nullptr) sinks_->all->remove_sink(sinks_->current);
    sinks_->current = std::move(next);
  } catch (const spdlog::spdlog_ex& e) {
    return "log.file: " + std::string(e.what());
  }
  return {};
}

}  // namespace ebbtide
