// Tests that callers which wait for background work return when it is done, when it has stopped, and when no task is left.
#include <catch2/catch.hpp>

#include <atomic>
#include <string>
#include <thread>

#include "db/background/progress.h"

namespace TEST_FILE {

using namespace ebbtide;

struct Bed {
  Mutex mutex;
  Status error;
  bool closing = false;
  int tasks = 0;  // queued tasks
  int run = 0;
  Progress progress;

  explicit Bed(bool threads)
      : progress({.state_mutex = &mutex,
                  .threads = threads,
                  .error = [this] { return error; },
                  .closing = [this] { return closing; },
                  .run_task =
                      [this] {
                        if (tasks == 0) return false;
                        --tasks;
                        ++run;
                        return true;
                      }}) {}
};

TEST_CASE("awaited work is already done: the caller does not wait, even if background work has stopped") {
  Bed bed(true);
  bed.error = Status::io_error("disk");
  bed.closing = true;
  CHECK(bed.progress.wait_until([] { return true; }).is_ok());
}

TEST_CASE("background work stops with an error, or the database closes: a waiting caller gets that error, or kAborted") {
  Bed bed(true);
  bed.closing = true;
  CHECK(bed.progress.wait_until([] { return false; }).code() == Code::kAborted);
  bed.error = Status::io_error("disk");
  CHECK(bed.progress.wait_until([] { return false; }).to_string() == bed.error.to_string());
}

TEST_CASE("database has no threads: a waiting caller runs tasks until the awaited work is done") {
  Bed bed(false);
  bed.tasks = 5;
  CHECK(bed.progress.wait_until([&] { return bed.run == 3; }).is_ok());
  CHECK(bed.tasks == 2);
}

TEST_CASE("database has no threads and no task is left: a waiting caller checks once more, and returns kAborted") {
  Bed bed(false);
  bed.tasks = 1;
  CHECK(bed.progress.wait_until([] { return false; }).code() == Code::kAborted);
  CHECK(bed.run == 1);
  int looks = 0;
  CHECK(bed.progress.wait_until([&] { return ++looks == 2; }).is_ok());
}

TEST_CASE("waiting caller is notified: it checks its condition again") {
  Bed bed(true);
  std::atomic<int> looks{0};
  bool done = false;  // guarded by the mutex
  std::thread waiting([&] {
    CHECK(bed.progress
              .wait_until([&] {
                ++looks;
                return done;
              })
              .is_ok());
  });
  while (looks == 0) std::this_thread::yield();
  {
    MutexLock lock(bed.mutex);
    done = true;
    bed.progress.notify_locked();
  }
  bed.progress.notify();  // there is no waiting caller
  waiting.join();
  CHECK(looks >= 2);
}

}  // namespace TEST_FILE
