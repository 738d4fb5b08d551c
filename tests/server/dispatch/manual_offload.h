// Offload threads that run when the test says so, and a client's command step by step.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/dispatch/harness.h"

namespace ebbtide::test {

/// Keeps work until run_one().
class ManualOffload final : public Offload {
 public:
  void submit(OffloadClass kind, std::shared_ptr<OffloadWork> work) override {
    last_ = kind;
    work_.push_back(std::move(work));
  }
  /// Of the newest piece.
  [[nodiscard]] OffloadClass last() const { return last_; }
  /// The oldest piece; dropped without running if it is not wanted. False if there is none.
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

/// One command of one client, handed in when the test says so.
class Asked {
 public:
  Asked(Dispatcher& dispatcher, Client& client, std::vector<std::string> words)
      : dispatcher_(dispatcher), words_(std::move(words)) {
    list_.assign(words_.begin(), words_.end());
    pending_.client = &client;
    pending_.args.list = list_;
  }
  /// Hands it in, for the first time or again. True once it is done.
  bool step() {
    pending_.client->waiting = false;
    pending_.state = PendingCommand::State::kNotRun;
    pending_.retry_ms = 0;
    dispatcher_.run_pass(std::span(&pending_, 1));
    return done();
  }
  [[nodiscard]] bool done() const { return pending_.state == PendingCommand::State::kDone; }
  [[nodiscard]] std::uint32_t retry_ms() const { return pending_.retry_ms; }
  /// The client goes.
  void close() { dispatcher_.client_closed(*pending_.client, &pending_); }
  /// What it has replied so far.
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
