// A flush that a caller waits for, and how callers wait for background work.
#include <chrono>

#include "db/db_impl.h"

namespace ebbtide {

Status DbImpl::wait_for(const std::function<bool()>& done) {
  for (;;) {
    {
      MutexLock lock(trees_.state_mutex);
      if (done()) return Status::ok();
      if (Status error = health_.error(); !error.is_ok()) return error;
      if (closing_) return Status::aborted("the database is closing");
      if (threads_) progress_.wait_for(trees_.state_mutex, std::chrono::milliseconds(50));
    }
    if (!threads_ && !pool_->run_one()) {
      MutexLock lock(trees_.state_mutex);
      return done() ? Status::ok() : Status::aborted("background work is stuck");
    }
  }
}

Status DbImpl::flush(DatabaseId database) {
  TreePtr tree;
  SeqNum up_to = 0;
  {
    MutexLock lock(trees_.commit_mutex);
    if (database < trees_.databases()) tree = trees_.mapped(database);
    if (tree == nullptr) return Status::ok();
    trees_.freeze(*tree);
    up_to = pipeline_.last_seq();
  }
  return wait_for([&] { return tree->dropped || tree->frozen.empty() || tree->frozen.front().first_seq > up_to; });
}

}  // namespace ebbtide
