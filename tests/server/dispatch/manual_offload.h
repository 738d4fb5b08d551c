// Offload work that runs when the test calls run_one(), and a client's command that runs step by step.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/dispatch/harness.h"

namespace ebbtide::test {

/// Keeps the submitted work until run_one().
class ManualOffload final : public Offload {
 public:
  void submit(OffloadClass kind, std::shared_ptr<OffloadWork> work) override {
    last_ = kind;
    work_.push_back(std::move(work));
  }
  /// Returns the class of the newest work item.
  [[nodiscard]] OffloadClass last() const { return last_; }
  /// Runs the oldest work item, or drops it if it is unwanted. Returns false if there is none.
  bool run_one() {
    if (work_.empty()) return false;
    const std::shared_ptr<OffloadWork> work = std::move(work_.front());
    work_.pop_front();
    if (work->wanted()) work->run();
    return true;
  }
  [[nodiscard]] std::size_t queued() const { return work_.size(); }

 private:
  std::deque<std::shared_ptr<OffloadWork>> work_;
  OffloadClass last_{};
};

/// One command of one client. It runs when the test calls step().
class Asked {
 public:
  Asked(Dispatcher& dispatcher, Client& client, std::vector<std::string> words)
      : dispatcher_(dispatcher), words_(std::move(words)) {
    list_.assign(words_.begin(), words_.end());
    pending_.client = &client;
    pending_.args.list = list_;
  }
  /// Runs the command, for the first time or again. Returns true once it is done.
  bool step() {
    pending_.client->waiting = false;
    pending_.state = PendingCommand::State::kNotRun;
    pending_.retry_ms = 0;
    dispatcher_.run_pass(std::span(&pending_, 1));
    return done();
  }
  [[nodiscard]] bool done() const { return pending_.state == PendingCommand::State::kDone; }
  [[nodiscard]] std::uint32_t retry_ms() const { return pending_.retry_ms; }
  /// Closes the client.
  void close() {
    dispatcher_.client_closed(*pending_.client, &pending_);
    pending_.continuation.reset();  // the event loop frees it with the client
  }
  /// Returns the replies so far.
  std::string reply() {
    OutputBuffer& out = pending_.client->out;
    std::string text = show(out.to_string());
    out.consume(out.size());
    return text;
  }

 private:
  Dispatcher& dispatcher_;
  std::vector<std::string> words_;
  std::vector<Bytes> list_;
  PendingCommand pending_;
};

}  // namespace ebbtide::test
