#include "db/background/progress.h"

#include <chrono>

namespace ebbtide {

Status Progress::wait_until(const std::function<bool()>& done) {
  for (;;) {
    {
      MutexLock lock(*env_.state_mutex);
      if (done()) return Status::ok();
      if (Status error = env_.error(); !error.is_ok()) return error;
      if (env_.closing()) return Status::aborted("the database is closing");
      if (env_.threads) moved_.wait_for(*env_.state_mutex, std::chrono::milliseconds(50));
    }
    if (!env_.threads && !env_.run_task()) {
      MutexLock lock(*env_.state_mutex);
      return done() ? Status::ok() : Status::aborted("no background work is left that could end the wait");
    }
  }
}

}  // namespace ebbtide
